//! Reads and writes `PJRT_Program`.

use bytes::Bytes;
use pjrt_sys::{AbiStruct, PJRT_Program};

use crate::abi::table::ffi_read;
use crate::{Error, Program, Result};

/// Copies the framework's program. All later uses of the program share this copy.
///
/// # Safety
///
/// V1 (argument structs) and V3 (arrays and text) hold for the program.
pub(crate) unsafe fn read_program(program: *const PJRT_Program) -> Result<Program> {
    // SAFETY: V1 (argument structs) and V3 (arrays and text), which the caller promises.
    let program = unsafe { ffi_read::nested(program, "program") }?;
    // SAFETY: V1 (argument structs) and V3 (arrays and text), which the caller promises.
    let format = unsafe { ffi_read::text(program.format, program.format_size, "program->format") }?;
    // SAFETY: V1 (argument structs) and V3 (arrays and text), which the caller promises.
    let code = unsafe { ffi_read::slice(program.code.cast::<u8>().cast_const(), program.code_size, "program->code") }?;
    Ok(Program::from_bytes(format, Bytes::copy_from_slice(code)))
}

/// Writes a program to the framework's struct. If its code is null, writes only the sizes and the format.
pub(super) fn write_program(to: *mut PJRT_Program, program: &Program) -> Result<()> {
    // SAFETY: V1 (argument structs).
    let given = unsafe { ffi_read::nested(to.cast_const(), "program") }?;
    if given.struct_size < PJRT_Program::STRUCT_SIZE {
        return Err(Error::argument(format!(
            "program->struct_size is {}, which is too small; set it to PJRT_Program_STRUCT_SIZE",
            given.struct_size
        )));
    }
    if !given.code.is_null() {
        if given.code_size < program.code().len() {
            return Err(Error::argument(format!(
                "program->code_size is {}, but the program has {} bytes; ask for the size with a null code first",
                given.code_size,
                program.code().len()
            )));
        }
        // SAFETY: V3 (arrays and text).
        let code = unsafe { ffi_read::slice_mut(given.code.cast::<u8>(), program.code().len(), "program->code") }?;
        code.copy_from_slice(program.code());
    }
    let mut written = given;
    written.code_size = program.code().len();
    written.format = program.format().as_ptr().cast();
    written.format_size = program.format().len();
    // SAFETY: V1 (argument structs): the framework's struct is at least `STRUCT_SIZE` bytes long.
    unsafe {
        to.cast::<u8>().copy_from_nonoverlapping((&raw const written).cast(), PJRT_Program::STRUCT_SIZE);
    }
    Ok(())
}

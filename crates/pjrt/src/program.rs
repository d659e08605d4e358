//! `PJRT_Program`: the input of the compiler.

use std::ffi::c_char;

use pjrt_sys::{AbiStruct, PJRT_Program};
use pjrt_types::Program;

/// Returns the C struct, which points into `program`.
pub(crate) fn raw_program(program: &Program) -> PJRT_Program {
    let (format, code) = (program.format(), program.code());
    let mut raw = PJRT_Program::new();
    raw.code = code.as_ptr().cast_mut().cast::<c_char>();
    raw.code_size = code.len();
    raw.format = format.as_ptr().cast::<c_char>();
    raw.format_size = format.len();
    raw
}

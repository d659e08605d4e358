//! Reads and replaces the program of a call that compiles.

use std::ptr;

use pjrt_sys::{AbiStruct, PJRT_Program};

use super::call::Call;
use crate::core::memory;
use crate::function::{Field, Kind};

/// A copy of the program and the compile options that the framework passed to `PJRT_Client_Compile` or `PJRT_Compile`.
#[derive(Clone, Debug)]
pub struct CompiledProgram {
    /// The program's bytes.
    pub code: Vec<u8>,
    /// The name of the program's format, such as `mlir` or `hlo`.
    pub format: String,
    /// The serialized compile options.
    pub options: Vec<u8>,
}

impl Call {
    /// Copies the program and its options, if this call compiles a program.
    #[must_use]
    pub fn program(&self) -> Option<CompiledProgram> {
        let from = ptr::with_exposed_provenance::<u8>(self.address(self.program_field()?));
        if from.is_null() {
            return None;
        }
        let mut program = PJRT_Program::new();
        // SAFETY: L2 (arguments): the struct begins with its size.
        let announced = unsafe { memory::read::<usize>(from) };
        // SAFETY: L2 (arguments): the struct is readable for this size, and `program` has at least this size.
        unsafe { memory::copy(from, (&raw mut program).cast(), announced.min(PJRT_Program::STRUCT_SIZE)) };
        // SAFETY: L2 (arguments): the code is readable for its length.
        let code = unsafe { memory::bytes(program.code.cast_const().cast(), program.code_size) };
        // SAFETY: L2 (arguments): the format is readable for its length.
        let format = unsafe { memory::text(program.format.cast(), program.format_size) };
        let (at, size) = (self.address_of("compile_options"), self.address_of("compile_options_size"));
        // SAFETY: L2 (arguments): the options are readable for their length.
        let options = unsafe { memory::bytes(ptr::with_exposed_provenance(at), size) };
        Some(CompiledProgram { code, format, options })
    }

    /// Replaces the program for the next layers and the plugin. The copies live until the call returns.
    pub fn replace_program(&mut self, code: &[u8], format: &str) {
        let Some(field) = self.program_field() else { return };
        let from = ptr::with_exposed_provenance::<u8>(self.address(field));
        if from.is_null() {
            return;
        }
        let announced = self.announced();
        // SAFETY: L2 (arguments): the struct begins with its size.
        let size = unsafe { memory::read::<usize>(from) };
        let frame = self.frame_of(announced);
        let (code, length) = (frame.keep(code), code.len());
        let (text, text_length) = (frame.keep(format.as_bytes()), format.len());
        // SAFETY: L2 (arguments): the struct is readable for its size.
        let address = unsafe { frame.add(from, size, size) };
        for (offset, value) in [
            (std::mem::offset_of!(PJRT_Program, code), code),
            (std::mem::offset_of!(PJRT_Program, code_size), length),
            (std::mem::offset_of!(PJRT_Program, format), text),
            (std::mem::offset_of!(PJRT_Program, format_size), text_length),
        ] {
            frame.set_in_newest(offset, value);
        }
        self.replace(field, address);
    }

    /// Replaces the compile options for the next layers and the plugin. The copy lives until the call returns.
    pub fn replace_compile_options(&mut self, options: &[u8]) {
        let (Some(at), Some(size)) =
            (self.function.field("compile_options"), self.function.field("compile_options_size"))
        else {
            return;
        };
        let announced = self.announced();
        let copy = self.frame_of(announced).keep(options);
        self.replace(at, copy);
        self.replace(size, options.len());
    }

    fn program_field(&self) -> Option<&'static Field> {
        // In functions without compile options, `program` is an output.
        self.function.field("compile_options")?;
        let field = self.function.field("program")?;
        matches!(&field.kind, Kind::Struct(layout) if layout.name == PJRT_Program::NAME).then_some(field)
    }
}

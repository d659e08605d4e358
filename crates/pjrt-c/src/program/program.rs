//! `dp_program`: a program in a format of compilers.

use std::ffi::c_void;

use pjrt::Program;
use pjrt_c_macros::c_function;
use plugin_manifest::c_view::capabilities::dp_string;

use crate::border::error::{dp_code, dp_error};
use crate::border::failure::Outcome;
use crate::border::guard::Out;
use crate::border::handle::Owned;
use crate::border::memory::Name;
use crate::border::text::Text;

/// A program in a format of compilers.
pub struct dp_program {
    pub(crate) inner: Program,
    format: Text,
}

impl dp_program {
    pub(crate) fn new(inner: Program) -> Self {
        Self { format: Text::new(inner.format()), inner }
    }
}

/// Creates a program. `format` is a format of `PJRT_Program`: `mlir` for StableHLO as text, bytecode or portable
/// artifact, or `hlo` for a serialized `HloModuleProto`. The bytes are copied. Nothing checks them before they are
/// compiled.
#[c_function]
pub fn dp_program_new(format: Name<'_>, code: &[u8]) -> Outcome<Owned<dp_program>> {
    Ok(Owned(dp_program::new(Program::new(format, code))))
}

/// Returns the format of the program, or a string with null `data` if `program` is not a program.
#[c_function]
pub fn dp_program_format(program: &dp_program) -> dp_string {
    program.format.lend()
}

/// Returns the address of the program's bytes, which belong to the program, and fills `size` with their number. Returns
/// NULL if `program` is not a program.
#[c_function]
pub fn dp_program_code(program: &dp_program, size: Out<usize>) -> *const c_void {
    let code = program.inner.code();
    size.put(code.len());
    code.as_ptr().cast()
}

//! `PJRT_Program`: the input of the compiler.

use std::borrow::Cow;
use std::ffi::c_char;

use pjrt_sys::{AbiStruct, PJRT_Program};

/// A program to compile: its bytes, and the name of their format.
///
/// ```
/// use pjrt::Program;
///
/// let program = Program::mlir("func.func @main() { return }");
/// assert_eq!(program.format(), "mlir");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    format: Cow<'static, str>,
    code: Vec<u8>,
}

impl Program {
    /// Creates an MLIR module, usually StableHLO, as text or bytecode. Other versions of a plugin can read the bytecode
    /// of portable artifacts.
    pub fn mlir(code: impl Into<Vec<u8>>) -> Self {
        Self { format: Cow::Borrowed("mlir"), code: code.into() }
    }

    /// Creates a program from a serialized `HloModuleProto`.
    pub fn hlo(code: impl Into<Vec<u8>>) -> Self {
        Self { format: Cow::Borrowed("hlo"), code: code.into() }
    }

    /// Creates a program in any format that the plugin supports, such as `hlo_with_config`.
    pub fn new(format: impl Into<String>, code: impl Into<Vec<u8>>) -> Self {
        Self { format: Cow::Owned(format.into()), code: code.into() }
    }

    /// Name of the format.
    pub fn format(&self) -> &str {
        &self.format
    }

    /// The program's bytes.
    pub fn code(&self) -> &[u8] {
        &self.code
    }

    /// Returns the C struct, which points into `self`.
    pub(crate) fn raw(&self) -> PJRT_Program {
        let mut raw = PJRT_Program::new();
        raw.code = self.code.as_ptr().cast_mut().cast::<c_char>();
        raw.code_size = self.code.len();
        raw.format = self.format.as_ptr().cast::<c_char>();
        raw.format_size = self.format.len();
        raw
    }
}

//! `PJRT_Program`: the input of the compiler.

use std::borrow::Cow;
use std::ffi::c_char;

use pjrt_sys::{AbiStruct, PJRT_Program};
use pjrt_types::Program;

/// A program that is prepared for the C struct `PJRT_Program`.
///
/// MLIR's text parser reads beyond the end of the source unless a zero byte follows, and XLA passes the caller's memory
/// to the parser. Programs in MLIR's text format are therefore copied, and a zero byte is appended. The program's size
/// does not include the zero byte.
pub(crate) struct PluginProgram<'p> {
    format: &'p str,
    code: Cow<'p, [u8]>,
    size: usize,
}

impl<'p> PluginProgram<'p> {
    pub(crate) fn new(program: &'p Program) -> Self {
        let code = program.code();
        let copied = is_text(program).then(|| [code, &b"\0"[..]].concat());
        Self { format: program.format(), code: copied.map_or(Cow::Borrowed(code), Cow::Owned), size: code.len() }
    }

    /// Returns the program as a C struct. The struct points into `self`.
    pub(crate) fn raw(&self) -> PJRT_Program {
        let mut raw = PJRT_Program::new();
        raw.code = self.code.as_ptr().cast_mut().cast::<c_char>();
        raw.code_size = self.size;
        raw.format = self.format.as_ptr().cast::<c_char>();
        raw.format_size = self.format.len();
        raw
    }
}

/// Returns whether the plugin may pass the program to MLIR's text parser. Parsers of other formats do not read beyond
/// the end of the program.
fn is_text(program: &Program) -> bool {
    program.format() == "mlir" && !program.code().starts_with(b"ML\xefR")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zero_byte_follows_text() {
        for (text, size) in [("module {}", 9), ("", 0), ("hello", 5)] {
            let program = Program::mlir(text);
            let prepared = PluginProgram::new(&program);
            assert_eq!((prepared.raw().code_size, prepared.size), (size, size));
            assert_eq!(prepared.code.get(size), Some(&0));
            assert_eq!(prepared.raw().code.cast_const().cast::<u8>(), prepared.code.as_ptr());
        }
    }

    #[test]
    fn bytecode_is_not_copied() {
        for program in [Program::mlir(&b"ML\xefRrest"[..]), Program::hlo(&b"proto"[..])] {
            let prepared = PluginProgram::new(&program);
            assert_eq!(prepared.code.as_ptr(), program.code().as_ptr());
            assert_eq!(prepared.raw().code_size, program.code().len());
        }
    }
}

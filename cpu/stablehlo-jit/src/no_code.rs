//! The interface of `code.rs` for processors for which no code is generated.

use std::convert::Infallible;
use std::sync::atomic::AtomicBool;

use crate::error::Error;
use crate::ir::{Host, Program};
use crate::verify::verify;

/// A compiled program. This type has no values, because the crate generates no code for the target processor.
#[derive(Debug)]
pub struct Code(Infallible);

impl Code {
    /// Verifies a program, and returns [`Error::Platform`] if it is valid.
    pub fn compile(program: &Program) -> Result<Code, Error> {
        verify(program)?;
        Err(Error::Platform(std::env::consts::ARCH.into()))
    }

    /// Runs the program.
    pub fn run(&self, _: &[&[u8]], _: &mut [&mut [u8]], _: Option<&AtomicBool>, _: &mut dyn Host) -> Result<(), Error> {
        match self.0 {}
    }

    /// Runs a part of the program.
    pub fn run_part(
        &self,
        _: u64,
        _: &[&[u8]],
        _: &mut [&mut [u8]],
        _: Option<&AtomicBool>,
        _: &mut dyn Host,
    ) -> Result<bool, Error> {
        match self.0 {}
    }
}

//! A compiled region of scalars. Straight-line code becomes vector code, and other code becomes steps that run element
//! by element.

use stablehlo::ir::Binary;

use super::dtype::TensorType;
use super::stop::Stop;
use super::tile::TileProgram;
use crate::error::RunError;

/// The function of a region with two arguments, if it is a common one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Combine {
    Op(Binary),
    /// The second argument.
    Second,
}

/// A scalar region, to be run for many elements at once. Inputs are the region's arguments, then `captured` values.
pub(crate) struct ScalarFn {
    code: Code,
    /// The values of the graph that it reads in addition to its arguments.
    pub(crate) captured: Vec<u32>,
    pub(crate) results: Vec<TensorType>,
}

enum Code {
    Vectors(TileProgram),
    Steps(Box<dyn ElementSteps>),
}

/// Steps that compute one element at a time. Kernels call them through this trait, because steps contain kernels.
pub(crate) trait ElementSteps: Send + Sync {
    /// Like [`ScalarFn::run`].
    fn run(
        &self,
        n: usize,
        ins: &[&[u8]],
        outs: &mut [&mut [u8]],
        alias: &[Option<u16>],
        stop: Option<&Stop>,
    ) -> Result<(), RunError>;

    /// Whether the steps have a loop, so that they may take unlimited time.
    fn has_loop(&self) -> bool;
}

impl ScalarFn {
    /// A region compiled to vector code.
    pub(crate) fn vectors(program: TileProgram, captured: Vec<u32>, results: Vec<TensorType>) -> Self {
        Self { code: Code::Vectors(program), captured, results }
    }

    /// A region compiled to steps.
    pub(crate) fn steps(steps: impl ElementSteps + 'static, captured: Vec<u32>, results: Vec<TensorType>) -> Self {
        Self { code: Code::Steps(Box::new(steps)), captured, results }
    }

    /// Runs for `n` elements. `alias[o]` is the argument whose elements output `o` already holds and overwrites. The
    /// slice of that argument is not read. Returns an error after a stop request.
    pub(crate) fn run(
        &self,
        n: usize,
        ins: &[&[u8]],
        outs: &mut [&mut [u8]],
        alias: &[Option<u16>],
        stop: Option<&Stop>,
    ) -> Result<(), RunError> {
        Stop::check(stop)?;
        match &self.code {
            Code::Vectors(program) => {
                program.run(n, ins, outs, alias);
                Ok(())
            }
            Code::Steps(steps) => steps.run(n, ins, outs, alias, stop),
        }
    }

    /// Whether it has a loop, so that it may take unlimited time.
    pub(crate) fn has_loop(&self) -> bool {
        match &self.code {
            Code::Vectors(_) => false,
            Code::Steps(steps) => steps.has_loop(),
        }
    }

    /// The vector code, if the region was compiled to it.
    pub(crate) fn into_vectors(self) -> Option<(TileProgram, Vec<u32>)> {
        match self.code {
            Code::Vectors(program) => Some((program, self.captured)),
            Code::Steps(_) => None,
        }
    }
}

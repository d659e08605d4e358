//! A compiled region of scalars. Straight-line code becomes vector code, and other code becomes steps that run element
//! by element.

use stablehlo::ir::Binary;

use super::dtype::TensorType;
use super::stop::Stop;
use super::tile::TileProgram;
use crate::error::RunError;

/// A function that regions with two arguments often compute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Combine {
    Op(Binary),
    /// The function that returns the second argument.
    Second,
}

/// A compiled region of scalars. It runs for many elements at once. The inputs are the region's arguments, followed by
/// the `captured` values.
pub(crate) struct ScalarFn {
    code: Code,
    /// The graph values that the region reads in addition to its arguments.
    pub(crate) captured: Vec<u32>,
    pub(crate) results: Vec<TensorType>,
}

enum Code {
    Vectors(TileProgram),
    Steps(Box<dyn ElementSteps>),
}

/// Steps that compute one element at a time. This trait lets kernels run steps, although steps themselves contain
/// kernels.
pub(crate) trait ElementSteps: Send + Sync {
    /// Runs the steps for `n` elements, like [`ScalarFn::run`].
    fn run(
        &self,
        n: usize,
        ins: &[&[u8]],
        outs: &mut [&mut [u8]],
        alias: &[Option<u16>],
        stop: Option<&Stop>,
    ) -> Result<(), RunError>;

    /// Returns whether the steps contain a loop. A loop may take unlimited time.
    fn has_loop(&self) -> bool;
}

impl ScalarFn {
    /// Creates a region that was compiled to vector code.
    pub(crate) fn vectors(program: TileProgram, captured: Vec<u32>, results: Vec<TensorType>) -> Self {
        Self { code: Code::Vectors(program), captured, results }
    }

    /// Creates a region that was compiled to steps.
    pub(crate) fn steps(steps: impl ElementSteps + 'static, captured: Vec<u32>, results: Vec<TensorType>) -> Self {
        Self { code: Code::Steps(Box::new(steps)), captured, results }
    }

    /// Runs the region for `n` elements. `alias[o]` is the argument whose elements output `o` already holds and
    /// overwrites. The slice of such an argument is not read. Returns an error after a stop request.
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

    /// Returns whether the region contains a loop. A loop may take unlimited time.
    pub(crate) fn has_loop(&self) -> bool {
        match &self.code {
            Code::Vectors(_) => false,
            Code::Steps(steps) => steps.has_loop(),
        }
    }

    /// Returns the vector code and the captured values, if the region was compiled to vector code.
    pub(crate) fn into_vectors(self) -> Option<(TileProgram, Vec<u32>)> {
        match self.code {
            Code::Vectors(program) => Some((program, self.captured)),
            Code::Steps(_) => None,
        }
    }
}

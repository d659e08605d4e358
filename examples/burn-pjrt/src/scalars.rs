//! Scalars that are arguments of a program, so that a new value does not require a new compilation.
//!
//! The scalar of an addition, subtraction, multiplication or division of floats is an argument, because learning rates
//! and the bias corrections of an optimizer change in each step. Other scalars, such as exponents, bounds and fill
//! values, are constants of the program and part of its key.

use burn_ir::{NumericOperationIr, OperationIr, ScalarIr, ScalarOpIr};

use crate::dtype::Types;
use crate::error::Error;
use stablehlo::ir::ElementType;

/// Returns the operation if its scalar is an argument of the program, and `None` otherwise.
pub(crate) fn argument(op: &OperationIr) -> Option<&ScalarOpIr> {
    match op {
        OperationIr::NumericFloat(
            _,
            NumericOperationIr::AddScalar(op)
            | NumericOperationIr::SubScalar(op)
            | NumericOperationIr::MulScalar(op)
            | NumericOperationIr::DivScalar(op),
        ) => Some(op),
        _ => None,
    }
}

/// The scalars of a graph: one vector for each element type, in the order of the operations.
#[derive(Debug, Default)]
pub(crate) struct Scalars {
    pub(crate) vectors: Vec<(ElementType, Vec<f64>)>,
}

impl Scalars {
    pub(crate) fn collect<'a>(ops: impl Iterator<Item = &'a OperationIr>, types: &Types) -> Result<Self, Error> {
        let mut vectors: Vec<(ElementType, Vec<f64>)> = Vec::new();
        for op in ops.filter_map(argument) {
            let element = types.element(op.out.dtype)?;
            let value = number(op.rhs);
            match vectors.iter_mut().find(|(known, _)| *known == element) {
                Some((_, vector)) => vector.push(value),
                None => vectors.push((element, vec![value])),
            }
        }
        Ok(Self { vectors })
    }
}

/// Returns a scalar as a floating-point number.
pub(crate) fn number(scalar: ScalarIr) -> f64 {
    scalar.elem()
}

//! Reads the shapes of parameters from a program in StableHLO.

use pjrt_types::{Program, Shape};
use stablehlo::VerifyLevel;

use crate::parameter::Parameter;

/// Reads the shapes of the parameters of a program in the format `mlir`. Returns `None` for other programs.
pub(crate) fn read(program: &Program) -> Option<Vec<Option<Shape>>> {
    if program.format() != "mlir" {
        return None;
    }
    let module = stablehlo::parse(program.code().clone(), VerifyLevel::STRUCTURE).ok()?;
    let main = module.entry()?;
    Some(main.args().iter().map(|&argument| Shape::try_from(main.ty(argument)).ok()).collect())
}

/// Adds shapes to parameters of which the plugin reported only the number and the layouts. Returns `None` if it reported
/// another number.
pub(crate) fn with_shapes(known: Option<&[Parameter]>, shapes: Vec<Option<Shape>>) -> Option<Vec<Parameter>> {
    if known.is_some_and(|known| known.len() != shapes.len()) {
        return None;
    }
    let layout = |index: usize| known.and_then(|known| known.get(index)?.layout().cloned());
    Some(shapes.into_iter().enumerate().map(|(index, shape)| Parameter::new(shape, layout(index))).collect())
}

//! Reads the shapes of a program's parameters from StableHLO.

use pjrt_types::{Program, Shape};
use stablehlo::VerifyLevel;

use crate::run::parameter::Parameter;

/// Reads the shapes of the parameters from a program in the format `mlir`. Returns `None` for other formats, and for
/// programs that cannot be parsed or have no entry function. The shape of a parameter is `None` if a [`Shape`] cannot
/// represent the parameter's type.
pub(crate) fn read(program: &Program) -> Option<Vec<Option<Shape>>> {
    if program.format() != "mlir" {
        return None;
    }
    let module = stablehlo::parse(program.code().clone(), VerifyLevel::STRUCTURE).ok()?;
    let main = module.entry()?;
    Some(main.args().iter().map(|&argument| Shape::try_from(main.ty(argument)).ok()).collect())
}

/// Combines the shapes with the layouts that the plugin reported. Returns `None` if the plugin reported another number
/// of parameters.
pub(crate) fn with_shapes(known: Option<&[Parameter]>, shapes: Vec<Option<Shape>>) -> Option<Vec<Parameter>> {
    if known.is_some_and(|known| known.len() != shapes.len()) {
        return None;
    }
    let layout = |index: usize| known.and_then(|known| known.get(index)?.layout().cloned());
    Some(shapes.into_iter().enumerate().map(|(index, shape)| Parameter::new(shape, layout(index))).collect())
}

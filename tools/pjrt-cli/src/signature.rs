//! Reads the signature of a program.

use device_plugin::Program;
use pjrt::{ElementType, Shape};
use stablehlo::ir::{Func, Module, Type};

/// A parsed program, which contains the signature.
pub(crate) struct Signature {
    pub(crate) module: Module,
}

impl Signature {
    /// Parses a program. Returns an error if it has no function `main`.
    pub(crate) fn of(program: &Program) -> Result<Self, String> {
        let code = program.code().clone();
        let module = match program.format() {
            "hlo" => stablehlo::parse_hlo(code, stablehlo::VerifyLevel::FULL),
            "hlo_with_config" => stablehlo::parse_hlo_with_config(code, stablehlo::VerifyLevel::FULL),
            _ => stablehlo::parse(code, stablehlo::VerifyLevel::FULL),
        };
        let module = module.map_err(|error| error.to_string())?;
        let signature = Self { module };
        signature.entry().map(|_| ()).ok_or("the program has no function named main")?;
        Ok(signature)
    }

    /// Returns the function that a device executes, or `None` if the program has none.
    pub(crate) fn entry(&self) -> Option<&Func> {
        self.module.entry()
    }

    /// Returns the types of the inputs in order. Returns an empty list if the program has no entry function.
    pub(crate) fn inputs(&self) -> Vec<&Type> {
        let entry = self.entry();
        entry.map(|entry| entry.args().iter().map(|arg| entry.ty(*arg)).collect()).unwrap_or_default()
    }

    /// Returns the shape of an input. Returns an error if there is no such input, or if it is not a tensor with a
    /// static shape and an element type of PJRT.
    pub(crate) fn input_shape(&self, index: usize) -> Result<Shape, String> {
        let inputs = self.inputs();
        let Some(ty) = inputs.get(index) else {
            return Err(format!("the program has {} inputs", inputs.len()));
        };
        let unusable = || format!("input {index} of the program is a {ty}");
        let Type::Tensor(tensor) = ty else { return Err(unusable()) };
        if tensor.shape.iter().any(|extent| *extent < 0) {
            return Err(unusable());
        }
        let element: ElementType = tensor.element.to_string().parse().map_err(|_| unusable())?;
        Ok(Shape::new(element, tensor.shape.clone()))
    }
}

//! `dp_function`: a function of a program.

use std::sync::{Arc, OnceLock};

use pjrt::Shape;
use pjrt::stablehlo::ir::{Func, Module, Type, ValueId};
use pjrt_c_macros::c_function;
use plugin_manifest::c_view::capabilities::dp_string;

use crate::border::error::{dp_code, dp_error};
use crate::border::failure::{Failure, Outcome};
use crate::border::handle::Owned;
use crate::border::memory;
use crate::border::text::Text;
use crate::buffer::dp_shape;
use crate::stablehlo::op::dp_op;

/// A function of a program.
pub struct dp_function {
    module: Arc<Module>,
    index: usize,
    name: Text,
    shapes: Vec<OnceLock<Option<Shape>>>,
    types: Vec<OnceLock<Text>>,
}

impl dp_function {
    pub(crate) fn new(module: Arc<Module>, index: usize) -> Self {
        let func = &module.funcs[index];
        let values = func.values.len();
        let (name, shapes) = (Text::new(&func.name), (0..values).map(|_| OnceLock::new()).collect());
        Self { name, shapes, types: (0..values).map(|_| OnceLock::new()).collect(), index, module }
    }

    fn func(&self) -> &Func {
        &self.module.funcs[self.index]
    }

    fn ty(&self, value: u32) -> Outcome<&Type> {
        if (value as usize) < self.shapes.len() {
            return Ok(self.func().ty(ValueId(value)));
        }
        Err(Failure::argument(format!("`value` is {value}, but the function has {} values", self.shapes.len())))
    }
}

/// Returns the name of the function, or a string with null `data` if `function` is not a function.
#[c_function]
pub fn dp_function_name(function: &dp_function) -> dp_string {
    function.name.lend()
}

/// Returns the number of arguments.
#[c_function]
pub fn dp_function_argument_count(function: &dp_function) -> usize {
    function.func().args().len()
}

/// Returns the number of the value that is the argument at `index`. The values of a function, which are its arguments
/// and the results of its ops, are numbered from 0.
#[c_function]
pub fn dp_function_argument_at(function: &dp_function, index: usize) -> Outcome<u32> {
    Ok(memory::at(function.func().args(), index)?.0)
}

/// Returns the number of values of the function, including those of regions.
#[c_function]
pub fn dp_function_value_count(function: &dp_function) -> usize {
    function.shapes.len()
}

/// Returns the type of a value as text, such as `tensor<2x3xf32>`. The text belongs to the function.
#[c_function]
pub fn dp_function_value_type(function: &dp_function, value: u32) -> Outcome<dp_string> {
    let ty = function.ty(value)?;
    Ok(function.types[value as usize].get_or_init(|| Text::new(ty.to_string())).lend())
}

/// Returns the shape of a value. The extents belong to the function. Returns `DP_UNIMPLEMENTED` if the value is not a
/// tensor with static extents and an element type of PJRT.
#[c_function]
pub fn dp_function_value_shape(function: &dp_function, value: u32) -> Outcome<dp_shape> {
    let ty = function.ty(value)?;
    let shape = function.shapes[value as usize].get_or_init(|| Shape::try_from(ty).ok());
    let shape = shape.as_ref().ok_or_else(|| {
        Failure::new(pjrt::ErrorCode::UNIMPLEMENTED, format!("{ty} is not a tensor with static extents"))
    })?;
    Ok(dp_shape::lend(shape))
}

/// Returns the number of ops in the function's body, including the return op at its end.
#[c_function]
pub fn dp_function_op_count(function: &dp_function) -> usize {
    function.func().body.ops.len()
}

/// Returns the op at `index` in the function's body, counted from 0.
#[c_function]
pub fn dp_function_op_at(function: &dp_function, index: usize) -> Outcome<Owned<dp_op>> {
    memory::at(&function.func().body.ops, index)?;
    Ok(Owned(dp_op::new(function.module.clone(), function.index, vec![(0, index)])))
}

//! `dp_op`: an op of a program.

use std::ffi::c_void;
use std::sync::{Arc, OnceLock};

use pjrt::stablehlo::ir::{Attribute, Literal, Module, Op, OpKind, Region};
use pjrt_c_macros::c_function;
use plugin_manifest::c_view::capabilities::dp_string;

use crate::border::error::{dp_code, dp_error};
use crate::border::failure::{Failure, Outcome};
use crate::border::guard::Out;
use crate::border::handle::Owned;
use crate::border::memory;
use crate::border::memory::{Fill, Name};
use crate::border::text::{NO_TEXT, Text};

/// An op of a program.
pub struct dp_op {
    module: Arc<Module>,
    function: usize,
    /// For each level, from the function's body inwards: the region in the op of the outer level, and the position in
    /// the region.
    path: Vec<(usize, usize)>,
    name: Text,
    attributes: OnceLock<Vec<(String, Attribute, Text)>>,
}

impl dp_op {
    /// Creates the object for an op that exists.
    pub(crate) fn new(module: Arc<Module>, function: usize, path: Vec<(usize, usize)>) -> Self {
        let mut op = Self { module, function, path, name: Text::new(""), attributes: OnceLock::new() };
        op.name = Text::new(op.get().kind.name());
        op
    }

    fn get(&self) -> &Op {
        let (first, inner) = self.path.split_first().unwrap_or((&(0, 0), &[]));
        let outermost = &self.module.funcs[self.function].body.ops[first.1];
        inner.iter().fold(outermost, |op, (region, position)| &op.regions[*region].ops[*position])
    }

    fn region(&self, index: usize) -> Outcome<&Region> {
        memory::at(&self.get().regions, index)
    }

    fn attributes(&self) -> &[(String, Attribute, Text)] {
        self.attributes.get_or_init(|| {
            let op = self.get();
            let own = op.own_attributes();
            let rest = op.attributes.iter().filter(|(name, _)| !own.iter().any(|(known, _)| known == name)).cloned();
            let named = own.iter().cloned().chain(rest);
            named
                .map(|(name, value)| {
                    let text = Text::new(value.to_string());
                    (name, value, text)
                })
                .collect()
        })
    }

    fn attribute(&self, name: &str) -> Outcome<&Attribute> {
        let found = self.attributes().iter().find(|(known, _, _)| known == name);
        found.map(|(_, value, _)| value).ok_or_else(|| {
            let message =
                format!("{} has no attribute {name:?} here; absent ones have their default", self.get().kind.name());
            Failure::new(pjrt::ErrorCode::NOT_FOUND, message)
        })
    }
}

/// Returns the name of the op, such as `stablehlo.add`, or a string with null `data` if `op` is not an op.
#[c_function]
pub fn dp_op_name(op: &dp_op) -> dp_string {
    op.name.lend()
}

/// Returns the number of operands.
#[c_function]
pub fn dp_op_operand_count(op: &dp_op) -> usize {
    op.get().operands.len()
}

/// Returns the number of the value that is the operand at `index`.
#[c_function]
pub fn dp_op_operand_at(op: &dp_op, index: usize) -> Outcome<u32> {
    Ok(memory::at(&op.get().operands, index)?.0)
}

/// Returns the number of results.
#[c_function]
pub fn dp_op_result_count(op: &dp_op) -> usize {
    op.get().results.len()
}

/// Returns the number of the value that is the result at `index`.
#[c_function]
pub fn dp_op_result_at(op: &dp_op, index: usize) -> Outcome<u32> {
    Ok(memory::at(&op.get().results, index)?.0)
}

/// Returns the number of regions.
#[c_function]
pub fn dp_op_region_count(op: &dp_op) -> usize {
    op.get().regions.len()
}

/// Returns the number of arguments of a region, and fills `ops`, which may be NULL, with its number of ops.
#[c_function]
pub fn dp_op_region_argument_count(op: &dp_op, region: usize, ops: Out<usize>) -> Outcome<usize> {
    let region = op.region(region)?;
    ops.put(region.ops.len());
    Ok(region.args.len())
}

/// Returns the number of the value that is the argument at `index` of a region.
#[c_function]
pub fn dp_op_region_argument_at(op: &dp_op, region: usize, index: usize) -> Outcome<u32> {
    Ok(memory::at(&op.region(region)?.args, index)?.0)
}

/// Returns the op at `index` of a region.
#[c_function]
pub fn dp_op_region_op_at(op: &dp_op, region: usize, index: usize) -> Outcome<Owned<dp_op>> {
    memory::at(&op.region(region)?.ops, index)?;
    let mut path = op.path.clone();
    path.push((region, index));
    Ok(Owned(dp_op::new(op.module.clone(), op.function, path)))
}

/// Returns an attribute as MLIR text, such as `array<i64: 0, 1>`, or a string with null `data` if the op has no such
/// attribute. Attributes that have their default are absent. The text belongs to the op.
#[c_function]
pub fn dp_op_attribute(op: &dp_op, name: Name<'_>) -> Outcome<dp_string> {
    Ok(op.attributes().iter().find(|(known, _, _)| known == name).map_or(NO_TEXT, |(_, _, text)| text.lend()))
}

/// Returns an attribute that is an integer or a boolean. Returns `DP_NOT_FOUND` if the op has no such attribute.
#[c_function]
pub fn dp_op_integer(op: &dp_op, name: Name<'_>) -> Outcome<i64> {
    match op.attribute(name)? {
        Attribute::Integer(value, _) => Ok(*value),
        Attribute::Bool(value) => Ok(i64::from(*value)),
        other => Err(Failure::argument(format!("the attribute {name:?} is {other}, not an integer"))),
    }
}

/// Returns how many integers an attribute holds that is a list or a matrix of integers. Returns `DP_NOT_FOUND` if the
/// op has no such attribute.
#[c_function]
pub fn dp_op_integers_count(op: &dp_op, name: Name<'_>) -> Outcome<usize> {
    Ok(integers(op, name)?.len())
}

/// Fills `integers` with the integers of an attribute. `integers_size` must be what `dp_op_integers_count` returns.
#[c_function]
pub fn dp_op_integers(op: &dp_op, name: Name<'_>, integers: Fill<i64>) -> Outcome<()> {
    integers.all(&self::integers(op, name)?)
}

fn integers(op: &dp_op, name: &str) -> Outcome<Vec<i64>> {
    let attribute = op.attribute(name)?;
    let found = match attribute {
        Attribute::DenseArray(literal) | Attribute::Tensor(literal) => literal.integers(),
        _ => None,
    };
    found.ok_or_else(|| Failure::argument(format!("the attribute {name:?} is {attribute}, not a list of integers")))
}

/// Returns the address of the elements of a `stablehlo.constant`, in row-major order and in the byte order of this
/// machine; elements with fewer than 8 bits have one byte each. Fills `size` with their number of bytes, and `is_splat`
/// with whether there is only one element, to which all elements of the constant are equal. The bytes belong to the op.
/// Returns `DP_INVALID_ARGUMENT` if the op is not a constant.
#[c_function]
pub fn dp_op_constant_data(op: &dp_op, size: Out<usize>, is_splat: Out<bool>) -> Outcome<*const c_void> {
    let OpKind::Constant(Literal { data, splat, .. }) = &op.get().kind else {
        return Err(Failure::argument(format!("{} is not a stablehlo.constant", op.get().kind.name())));
    };
    size.put(data.len());
    is_splat.put(*splat);
    Ok(data.as_ptr().cast())
}

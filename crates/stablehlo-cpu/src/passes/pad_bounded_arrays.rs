//! The pass `pad_bounded_arrays`: replaces arrays of bounded size by arrays of their maximum size, before a program is partitioned or lowered.
//!
//! `set_dimension_size` returns an array in which only the first elements of a dimension are valid. Here the array
//! keeps all its elements, and a separate value holds the number of valid ones. Before an op combines elements, invalid
//! ones are replaced by values that do not change its result.

use std::collections::HashMap;

use stablehlo::ir::{
    Attribute, ComparisonDirection, ComparisonType, Dims, ElementType, Literal, LocationId, Module, Op, OpKind, Region,
    ScatterDimensions, TensorType, Type, ValueId, ValueTypes,
};

use crate::error::CompileError;
use crate::op_names::place;

type Result<T> = std::result::Result<T, CompileError>;

/// The maximum shape of a type such as `tensor<?x2xf32, #stablehlo.bounds<6, ?>>`. Returns `None` for other types.
fn bounded(ty: &Type) -> Option<TensorType> {
    let Type::Other(text) = ty else { return None };
    let (shape, bounds) = text.strip_prefix("tensor<")?.split_once(", #stablehlo.bounds<")?;
    let bounds = bounds.strip_suffix(">>")?.split(',').map(|bound| bound.trim().parse::<i64>().ok());
    let mut element = shape;
    let mut extents = Vec::new();
    for bound in bounds {
        let (extent, rest) = element.split_once('x')?;
        extents.push(if extent == "?" { bound? } else { extent.parse().ok()? });
        element = rest;
    }
    Some(TensorType::new(extents, ElementType::from_name(element)?))
}

/// The program without arrays of bounded size; `None` if it has none. The module has passed the verifier.
pub(crate) fn pad_bounded_arrays(module: &Module) -> Result<Option<Module>> {
    if !module.funcs.iter().any(|func| func.values.iter().any(|ty| bounded(ty).is_some())) {
        return Ok(None);
    }
    let mut new = module.clone();
    for (func, old) in new.funcs.iter_mut().zip(&module.funcs) {
        let mut rewrite =
            Rewrite { values: &mut func.values, types: &old.values, same: HashMap::new(), sizes: HashMap::new() };
        for index in 0..rewrite.values.len() {
            if let Some(ty) = bounded(&rewrite.values[index]) {
                rewrite.values.set(index, Type::Tensor(ty));
            }
        }
        if func.body.args.iter().any(|&arg| bounded(&old.values[arg]).is_some()) {
            return Err(CompileError::unsupported(format!(
                "an argument of bounded size of function `{}`; pass an array of one size, and the number of elements \
                 that count",
                func.name
            )));
        }
        let body = std::mem::take(&mut func.body);
        func.body = rewrite.region(body, &mut |op, error| error.at(|| place(module, old, op)))?;
    }
    Ok(Some(new))
}

struct Rewrite<'f> {
    values: &'f mut ValueTypes,
    /// The types that the program declares.
    types: &'f ValueTypes,
    /// The new value of each replaced value.
    same: HashMap<ValueId, ValueId>,
    /// The dimensions of a value in which only the first elements are valid, with a scalar that holds their number.
    sizes: HashMap<ValueId, Vec<(usize, ValueId)>>,
}

impl Rewrite<'_> {
    fn region(&mut self, region: Region, at: &mut impl FnMut(&Op, CompileError) -> CompileError) -> Result<Region> {
        let mut ops = Vec::with_capacity(region.ops.len());
        for op in region.ops {
            let read = op.clone();
            self.op(op, &mut ops, at).map_err(|error| at(&read, error))?;
        }
        Ok(Region { args: region.args, ops })
    }

    fn op(
        &mut self,
        mut op: Op,
        ops: &mut Vec<Op>,
        at: &mut impl FnMut(&Op, CompileError) -> CompileError,
    ) -> Result<()> {
        let sizes: Vec<Vec<(usize, ValueId)>> =
            op.operands.iter().map(|operand| self.sizes.get(operand).cloned().unwrap_or_default()).collect();
        for operand in &mut op.operands {
            *operand = self.same.get(operand).copied().unwrap_or(*operand);
        }
        let regions = std::mem::take(&mut op.regions).into_iter();
        op.regions = regions.map(|region| self.region(region, at)).collect::<Result<_>>()?;
        if let Some((dimension, is_whole)) = self.sets_size(&op)? {
            if is_whole {
                // If the result has a static type, its size must not change. The lowering checks this.
                ops.push(op);
            } else {
                self.set_size(&op, dimension, sizes)?;
            }
            return Ok(());
        }
        if !sizes.iter().all(Vec::is_empty) {
            self.bounded_op(&mut op, ops, sizes)?;
        }
        ops.push(op);
        Ok(())
    }

    /// Replaces the result of an op that sets the size of one dimension by its operand, and records the size.
    fn set_size(&mut self, op: &Op, dimension: usize, sizes: Vec<Vec<(usize, ValueId)>>) -> Result<()> {
        let (&[x, size], &[result], Some(of)) = (&op.operands[..], &op.results[..], sizes.into_iter().next()) else {
            return Err(CompileError::invalid("set_dimension_size must have an array, a size and one result"));
        };
        let mut of = of;
        of.retain(|&(known, _)| known != dimension);
        of.push((dimension, size));
        self.same.insert(result, x);
        self.sizes.insert(result, of);
        Ok(())
    }

    /// Rewrites an op of which an operand has only some valid elements.
    fn bounded_op(&mut self, op: &mut Op, ops: &mut Vec<Op>, sizes: Vec<Vec<(usize, ValueId)>>) -> Result<()> {
        match &op.kind {
            OpKind::GetDimensionSize { dimension } => {
                if let Some(&(_, size)) = sizes[0].iter().find(|(known, _)| known == dimension) {
                    op.kind = OpKind::Convert;
                    op.operands = [size].into_iter().collect();
                }
            }
            OpKind::Unary(_)
            | OpKind::Binary(_)
            | OpKind::Compare { .. }
            | OpKind::Select
            | OpKind::Clamp
            | OpKind::Convert => {
                // If several operands have sizes, these are the same.
                let of = sizes.into_iter().find(|sizes| !sizes.is_empty()).unwrap_or_default();
                self.sizes.extend(op.results.iter().map(|&result| (result, of.clone())));
            }
            OpKind::Reduce { dimensions } => {
                let dimensions = dimensions.clone();
                self.reduce(op, ops, &dimensions, &sizes)?;
            }
            OpKind::Scatter { dimensions, .. } => {
                let dimensions = dimensions.clone();
                self.scatter(op, ops, &dimensions, &sizes)?;
            }
            OpKind::Return => {
                return Err(CompileError::unsupported(
                    "a result of bounded size; return an array of one size, and the number of elements that count",
                ));
            }
            kind => {
                return Err(CompileError::unsupported(format!(
                    "{} of an array of bounded size; such arrays may be scattered, reduced, converted and used in \
                     elementwise operations",
                    kind.name()
                )));
            }
        }
        Ok(())
    }

    /// The dimension whose size the op sets, and whether the result's type is static. Returns `None` for other ops.
    fn sets_size(&self, op: &Op) -> Result<Option<(usize, bool)>> {
        let OpKind::Other { name, attributes } = &op.kind else { return Ok(None) };
        if name != "stablehlo.set_dimension_size" {
            return Ok(None);
        }
        let dimension = attributes.iter().find(|(name, _)| name == "dimension");
        let dimension = dimension.and_then(|(_, value)| Attribute::as_integer(value));
        let dimension = dimension.and_then(|dimension| usize::try_from(dimension).ok());
        let dimension = dimension.ok_or_else(|| CompileError::invalid("attribute `dimension` is missing"))?;
        Ok(Some((dimension, op.results.iter().all(|&result| bounded(&self.types[result]).is_none()))))
    }

    /// Replaces invalid elements by the initial value.
    fn reduce(
        &mut self,
        op: &mut Op,
        ops: &mut Vec<Op>,
        reduced: &[usize],
        sizes: &[Vec<(usize, ValueId)>],
    ) -> Result<()> {
        let count = op.operands.len() / 2;
        for (i, sizes) in sizes.iter().enumerate().take(count) {
            for &(dimension, size) in sizes.iter().filter(|(dimension, _)| reduced.contains(dimension)) {
                let ty = self.tensor(op.operands[i])?;
                let counts = self.counts(ops, op.location, &ty, dimension, size)?;
                let none = OpKind::BroadcastInDim { broadcast_dimensions: Dims::new() };
                let initial = self.add(ops, op.location, none, &[op.operands[count + i]], ty.clone())?;
                op.operands[i] = self.add(ops, op.location, OpKind::Select, &[counts, op.operands[i], initial], ty)?;
            }
        }
        if sizes.iter().skip(count).any(|sizes| !sizes.is_empty()) {
            return Err(CompileError::invalid("the initial value of a reduction must not have a bounded size"));
        }
        // The remaining dimensions are renumbered without the reduced ones.
        let kept = |&(dimension, size): &(usize, ValueId)| {
            let before = reduced.iter().filter(|&&reduced| reduced < dimension).count();
            (!reduced.contains(&dimension)).then_some((dimension - before, size))
        };
        let of: Vec<(usize, ValueId)> = sizes[..count]
            .iter()
            .map(|sizes| sizes.iter().filter_map(kept).collect::<Vec<_>>())
            .find(|sizes| !sizes.is_empty())
            .unwrap_or_default();
        if !of.is_empty() {
            self.sizes.extend(op.results.iter().map(|&result| (result, of.clone())));
        }
        Ok(())
    }

    /// Gives invalid updates an index outside the array, so that they are skipped.
    fn scatter(
        &mut self,
        op: &mut Op,
        ops: &mut Vec<Op>,
        dimensions: &ScatterDimensions,
        sizes: &[Vec<(usize, ValueId)>],
    ) -> Result<()> {
        let inputs = op.operands.len() / 2;
        let unsupported = |what: &str| CompileError::unsupported(format!("a scatter {what} of bounded size"));
        if sizes[..inputs].iter().any(|sizes| !sizes.is_empty()) {
            return Err(unsupported("into an array"));
        }
        let indices = self.tensor(op.operands[inputs])?;
        let mut all = sizes[inputs].clone();
        // The dimensions of the updates that are not window dimensions are those of the indices, without the index
        // vector.
        let batch: Vec<usize> = (0..indices.rank()).filter(|&d| d != dimensions.index_vector_dim).collect();
        for (i, sizes) in sizes.iter().enumerate().skip(inputs + 1) {
            let rank = self.tensor(op.operands[i])?.rank();
            let own = (0..rank).filter(|d| !dimensions.update_window_dims.contains(d));
            let places: HashMap<usize, usize> = own.zip(batch.iter().copied()).collect();
            for (dimension, size) in sizes {
                let place = places.get(dimension).ok_or_else(|| unsupported("of windows"))?;
                if !all.contains(&(*place, *size)) {
                    all.push((*place, *size));
                }
            }
        }
        for (dimension, size) in all {
            if dimension == dimensions.index_vector_dim {
                return Err(unsupported("by index vectors"));
            }
            let at = op.operands[inputs];
            let counts = self.counts(ops, op.location, &indices, dimension, size)?;
            let outside = self.outside(ops, op.location, &indices)?;
            op.operands[inputs] =
                self.add(ops, op.location, OpKind::Select, &[counts, at, outside], indices.clone())?;
        }
        Ok(())
    }

    fn tensor(&self, value: ValueId) -> Result<TensorType> {
        let ty = self.values.get(value.0 as usize).and_then(Type::as_tensor);
        ty.cloned().ok_or_else(|| CompileError::invalid("an array of bounded size and unknown type"))
    }

    fn add(
        &mut self,
        ops: &mut Vec<Op>,
        location: LocationId,
        kind: OpKind,
        operands: &[ValueId],
        ty: TensorType,
    ) -> Result<ValueId> {
        let id = u32::try_from(self.values.len()).map_err(|_| CompileError::unsupported("more than 2^32 values"))?;
        self.values.push(Type::Tensor(ty));
        let results = [ValueId(id)].into_iter().collect();
        let operands = operands.iter().copied().collect();
        ops.push(Op { kind, operands, results, regions: Vec::new(), attributes: Vec::new(), location });
        Ok(ValueId(id))
    }

    /// A mask of the elements whose index in a dimension is below `size`.
    fn counts(
        &mut self,
        ops: &mut Vec<Op>,
        location: LocationId,
        ty: &TensorType,
        dimension: usize,
        size: ValueId,
    ) -> Result<ValueId> {
        let element = self.tensor(size)?.element;
        let numbers = TensorType { shape: ty.shape.clone(), element };
        let number = self.add(ops, location, OpKind::Iota { iota_dimension: dimension }, &[], numbers.clone())?;
        let everywhere = OpKind::BroadcastInDim { broadcast_dimensions: Dims::new() };
        let size = self.add(ops, location, everywhere, &[size], numbers)?;
        let compare_type =
            if element.is_unsigned_integer() { ComparisonType::Unsigned } else { ComparisonType::Signed };
        let compare = OpKind::Compare { direction: ComparisonDirection::Lt, compare_type };
        let truth = TensorType { shape: ty.shape.clone(), element: ElementType::Bool };
        self.add(ops, location, compare, &[number, size], truth)
    }

    /// Indices outside of every array: -1, or the largest number of an unsigned type.
    fn outside(&mut self, ops: &mut Vec<Op>, location: LocationId, ty: &TensorType) -> Result<ValueId> {
        let scalar = TensorType::new([], ty.element);
        let size = scalar.byte_size().ok_or_else(|| CompileError::unsupported(format!("indices of type {ty}")))?;
        let literal = Literal { ty: scalar.clone(), data: vec![0xff; size].into(), splat: false };
        let outside = self.add(ops, location, OpKind::Constant(literal), &[], scalar)?;
        let everywhere = OpKind::BroadcastInDim { broadcast_dimensions: Dims::new() };
        self.add(ops, location, everywhere, &[outside], ty.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_read() {
        let of = |text: &str| bounded(&Type::Other(text.to_owned()));
        let ty = of("tensor<?x2xi64, #stablehlo.bounds<6, ?>>").unwrap();
        assert_eq!(ty, TensorType::new([6, 2], ElementType::I64));
        let ty = of("tensor<3x?xcomplex<f32>, #stablehlo.bounds<?, 5>>").unwrap();
        assert_eq!(ty, TensorType::new([3, 5], ElementType::ComplexF32));
        for other in ["tensor<?x2xi64, #stablehlo.bounds<?, ?>>", "tensor<?xi64>", "tensor<2x!quant.any>", "x"] {
            assert_eq!(of(other), None, "{other}");
        }
    }
}

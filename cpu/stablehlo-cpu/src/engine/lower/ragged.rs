//! `chlo.ragged_dot`: a contraction whose rows or terms belong to groups of different sizes.

use stablehlo::ir::{Attributes, Binary, ComparisonDirection, ComparisonType, DotDimensions, RaggedDotDimensions};

use super::{LoweringContext, Result, TypedValue};
use crate::engine::dtype::{DType, TensorType};
use crate::engine::kernels::shape::Concatenate;

/// Maximum number of groups. Each group becomes a separate contraction.
const MAX_GROUPS: usize = 1024;

impl LoweringContext<'_, '_> {
    pub(super) fn ragged_dot(&mut self, attributes: &Attributes) -> Result<()> {
        let [a, b, sizes] = self.take()?;
        let numbers = self.ragged_dimensions(attributes, &a.ty, &b.ty)?;
        let RaggedDotDimensions { dot, lhs_ragged: ragged, rhs_group: group } = numbers;
        let dtype = self.result_dtype(0)?;
        if dot.lhs_batching.contains(&ragged) {
            // Groups of whole batches do not change the result.
            let y = self.dot_checked(a, b, &dot, dtype)?;
            return self.finish(vec![y]);
        }
        if sizes.ty.rank() != 1 || sizes.ty.dims[0] > MAX_GROUPS {
            return Err(self.unsupported());
        }
        let contracting = dot.lhs_contracting.contains(&ragged);
        self.ensure(group.len() == usize::from(!contracting), || format!("rhs_group_dimensions = {group:?}"))?;
        let mut parts: Vec<TypedValue> = Vec::with_capacity(sizes.ty.dims[0]);
        for (g, a) in self.masked_to_groups(&a, ragged, sizes)?.into_iter().enumerate() {
            let (b, dot) = match group[..] {
                [of] => self.one_group(&b, of, g, &dot)?,
                _ => (b.clone(), dot.clone()),
            };
            parts.push(self.dot_checked(a, b, &dot, dtype)?);
        }
        let Some(first) = parts.first().cloned() else {
            let ty = self.result_type(0)?;
            let v = self.graph.splat_value(&vec![0; ty.dtype.size()], ty.elements());
            return self.finish_one(v, ty);
        };
        if contracting {
            return self.finish_stacked(&parts);
        }
        let mut sum = first;
        for part in &parts[1..] {
            sum = self.bin(Binary::Add, &sum, part)?;
        }
        self.finish(vec![sum])
    }

    fn ragged_dimensions(
        &self,
        attributes: &Attributes,
        a: &TensorType,
        b: &TensorType,
    ) -> Result<RaggedDotDimensions> {
        let numbers = RaggedDotDimensions::of(attributes).map_err(|error| self.invalid(error))?;
        let RaggedDotDimensions { dot, lhs_ragged, rhs_group } = &numbers;
        self.distinct(&[*lhs_ragged], a.rank(), "lhs_ragged_dimensions")?;
        self.distinct(&[&dot.lhs_batching[..], &dot.lhs_contracting].concat(), a.rank(), "lhs dimensions")?;
        self.distinct(&[&dot.rhs_batching[..], &dot.rhs_contracting, rhs_group].concat(), b.rank(), "rhs dimensions")?;
        Ok(numbers)
    }

    /// Returns, for each group, `a` with zeros outside of the group's positions in the dimension `ragged`.
    fn masked_to_groups(&mut self, a: &TypedValue, ragged: usize, sizes: TypedValue) -> Result<Vec<TypedValue>> {
        let groups = sizes.ty.dims[0];
        let sizes = self.converted(sizes, DType::I64)?;
        let positions = self.counted(TensorType { dtype: DType::I64, dims: a.ty.dims.clone() }, ragged)?;
        let zero = self.graph.splat_value(&vec![0; a.ty.dtype.size()], a.ty.elements());
        let scalar = self.typed(DType::I64, &[])?;
        let mut end = TypedValue { value: self.graph.splat_value(&0i64.to_ne_bytes(), 1), ty: scalar };
        let mut masked = Vec::with_capacity(groups);
        for g in 0..groups {
            let start = end.clone();
            let at = i64::try_from(g).unwrap_or(i64::MAX);
            let size = self.sliced(&sizes, &[at], &[at + 1], &[1])?;
            end = self.bin(Binary::Add, &start, &TypedValue { value: size.value, ty: start.ty.clone() })?;
            let low = self.broadcast(&start, positions.ty.clone(), &[])?;
            let high = self.broadcast(&end, positions.ty.clone(), &[])?;
            let from = self.compared(ComparisonDirection::Ge, ComparisonType::Signed, &positions, &low)?;
            let to = self.compared(ComparisonDirection::Lt, ComparisonType::Signed, &positions, &high)?;
            let mine = self.bin(Binary::And, &from, &to)?;
            let select = crate::engine::elementwise::select(a.ty.dtype.size());
            let value = self.map(select, &[mine.value, a.value, zero], &a.ty);
            masked.push(TypedValue { value, ty: a.ty.clone() });
        }
        Ok(masked)
    }

    /// Stacks `parts` along a new first dimension, and binds the op's result to the stack.
    fn finish_stacked(&mut self, parts: &[TypedValue]) -> Result<()> {
        let part = &parts[0].ty;
        let (chunk, count) = (part.bytes(), parts.len());
        let ty = self.typed(part.dtype, &[&[count], &part.dims[..]].concat())?;
        let ins: Vec<u32> = parts.iter().map(|p| p.value).collect();
        let kernel = Concatenate { chunks: vec![chunk; count], row: chunk * count };
        let v = self.kernel(kernel, &ins, &[], std::slice::from_ref(&ty))[0];
        self.finish_one(v, ty)
    }

    /// Returns the slice of `b` for group `g`, and the dimension numbers of a contraction with this slice. The slice
    /// does not have `of`, the group dimension of `b`.
    fn one_group(
        &mut self,
        b: &TypedValue,
        of: usize,
        g: usize,
        d: &DotDimensions,
    ) -> Result<(TypedValue, DotDimensions)> {
        let extents: Vec<i64> = b.ty.dims.iter().map(|&x| i64::try_from(x).unwrap_or(i64::MAX)).collect();
        let (mut starts, mut limits) = (vec![0; extents.len()], extents);
        starts[of] = i64::try_from(g).unwrap_or(i64::MAX);
        limits[of] = starts[of] + 1;
        let part = self.sliced(b, &starts, &limits, &vec![1; starts.len()])?;
        let mut dims = part.ty.dims.to_vec();
        dims.remove(of);
        let without = |list: &[usize]| list.iter().map(|&x| x - usize::from(x > of)).collect();
        let d = DotDimensions {
            rhs_batching: without(&d.rhs_batching),
            rhs_contracting: without(&d.rhs_contracting),
            ..d.clone()
        };
        Ok((TypedValue { value: part.value, ty: self.typed(part.ty.dtype, &dims)? }, d))
    }
}

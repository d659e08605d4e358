//! Reduces and creates unreduced values. Each device holds a summand of such a value.

use stablehlo::ir::{Binary, ComparisonDirection, ComparisonType, ElementType, Literal, OpKind, TensorType, ValueId};

use super::build::Builder;
use crate::error::CompileError;
use crate::sharding::grid::{Axis, AxisSet, Spec};

type Result<T> = std::result::Result<T, CompileError>;

impl Builder<'_> {
    /// Converts a value from one sharding to another. `from` and `to` each contain a sharding and the axes along which
    /// devices hold summands of the value.
    pub(super) fn convert(
        &mut self,
        mut value: ValueId,
        extents: &[usize],
        from: (&Spec, AxisSet),
        to: (&Spec, AxisSet),
    ) -> Result<ValueId> {
        let ((from, partial), (to, wanted)) = (from, to);
        let mut now = from.clone();
        let reduced = partial.difference(wanted);
        if !reduced.is_empty() {
            value = self.reduce(value, extents, &mut now, to, reduced)?;
        }
        let mut gained = wanted.difference(partial);
        if !gained.is_empty() {
            value = self.spread(value, extents, &mut now, to, &mut gained)?;
        }
        value = self.reshard(value, extents, &now, to)?;
        if gained.is_empty() { Ok(value) } else { self.only_first(value, &gained.axes()) }
    }

    /// Sums a value over the axes. If `to` shards a dimension along some of these axes, one collective reduces and
    /// shards the value. Updates `now`, the current sharding of the value.
    fn reduce(
        &mut self,
        mut value: ValueId,
        extents: &[usize],
        now: &mut Spec,
        to: &Spec,
        mut axes: AxisSet,
    ) -> Result<ValueId> {
        for d in 0..now.len() {
            let Some(rest) = to[d].strip_prefix(&now[d][..]) else { continue };
            let count = rest.iter().take_while(|&&axis| axes.contains(axis)).count();
            let cut = &rest[..count];
            if count > 0 && self.grid.nests(extents[d], &now[d], cut) {
                value = self.reduce_scatter(value, Binary::Add, cut, d)?;
                axes = axes.difference(AxisSet::of(cut));
                now[d].extend(cut);
            }
        }
        if axes.is_empty() { Ok(value) } else { self.all_reduce(value, Binary::Add, &axes.axes()) }
    }

    /// Converts the parts of a dimension to summands if `to` shards the dimension along fewer axes than `now`, and the
    /// other axes are all in `gained`. Does not convert the parts of dimensions with padding. Each summand contains one
    /// part, and zeros elsewhere. Updates `now`, and removes the axes from `gained`.
    fn spread(
        &mut self,
        mut value: ValueId,
        extents: &[usize],
        now: &mut Spec,
        to: &Spec,
        gained: &mut AxisSet,
    ) -> Result<ValueId> {
        for d in 0..now.len() {
            let Some(cut) = now[d].strip_prefix(&to[d][..]).filter(|cut| !cut.is_empty()) else { continue };
            let even = extents[d].is_multiple_of(self.grid.parts(&now[d]));
            if even && cut.iter().all(|&axis| gained.contains(axis)) {
                let cut = cut.to_vec();
                value = self.among_zeros(value, &cut, d)?;
                *gained = gained.difference(AxisSet::of(&cut));
                now[d].truncate(to[d].len());
            }
        }
        Ok(value)
    }

    /// Creates a tensor of zeros.
    pub(super) fn zeros(&mut self, ty: &TensorType) -> Result<ValueId> {
        let one = TensorType { shape: vec![1], element: ty.element };
        let size = one.byte_size().ok_or_else(|| CompileError::unsupported(format!("zeros of type {ty}")))?;
        // The IR does not mark a literal of one element as a splat.
        let splat = ty.num_elements() != Some(1);
        let literal = Literal { ty: ty.clone(), data: vec![0; size].into(), splat };
        self.add(OpKind::Constant(literal), &[], ty.clone())
    }

    /// Creates a tensor of zeros that contains `value` at the position of this partition's part. The parts divide
    /// dimension `d` along `axes`.
    fn among_zeros(&mut self, value: ValueId, axes: &[Axis], d: usize) -> Result<ValueId> {
        let mut ty = self.tensor(value)?.clone();
        let extent = usize::try_from(ty.shape[d]).unwrap_or(0);
        ty.shape[d] *= i64::try_from(self.grid.parts(axes)).unwrap_or(1);
        let zeros = self.zeros(&ty)?;
        let (start, zero) = (self.start(axes, extent)?, self.number(0)?);
        let starts = (0..ty.rank()).map(|at| if at == d { start } else { zero });
        let operands: Vec<ValueId> = [zeros, value].into_iter().chain(starts).collect();
        self.add(OpKind::DynamicUpdateSlice, &operands, ty)
    }

    /// Returns the value on the first of the partitions that differ only along the axes, and zeros on the others.
    fn only_first(&mut self, value: ValueId, axes: &[Axis]) -> Result<ValueId> {
        let ty = self.tensor(value)?.clone();
        let (place, first) = (self.coordinate(axes)?, self.number(0)?);
        let compare = OpKind::Compare { direction: ComparisonDirection::Eq, compare_type: ComparisonType::Unsigned };
        let is_first = self.add(compare, &[place, first], TensorType::new([], ElementType::Bool))?;
        let zeros = self.zeros(&ty)?;
        self.add(OpKind::Select, &[is_first, value, zeros], ty)
    }
}

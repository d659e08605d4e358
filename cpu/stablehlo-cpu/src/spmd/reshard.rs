//! Converts values from one sharding to another.
//!
//! All parts of a dimension have the same extent: the extent of the dimension divided by the number of parts, rounded
//! up. If the division is not exact, the last parts end in padding, whose elements may have any value. Ops may compute
//! with padding, but padding must not affect other elements. [`Builder::masked`] overwrites padding before a reduction.
//! [`Builder::reshard`] removes padding when a dimension becomes unsharded.

use stablehlo::ir::{
    Binary, ComparisonDirection, ComparisonType, Dims, ElementType, Literal, OpKind, TensorType, ValueId,
};

use super::build::{Builder, size};
use crate::error::CompileError;
use crate::sharding::grid::{Axis, Grid, Spec};

type Result<T> = std::result::Result<T, CompileError>;

impl Grid {
    /// Returns whether each part along `outer` consists of whole parts along `outer` and `inner`. Otherwise, a change
    /// between these two shardings moves elements from one `outer` part to another.
    pub(super) fn nests(&self, extent: usize, outer: &[Axis], inner: &[Axis]) -> bool {
        self.local(extent, outer).is_multiple_of(self.parts(inner))
    }
}

impl Builder<'_> {
    /// Converts a value of these global extents from the sharding `from` to `to`.
    pub(super) fn reshard(&mut self, mut value: ValueId, extents: &[usize], from: &Spec, to: &Spec) -> Result<ValueId> {
        let grid = self.grid;
        let mut now = from.clone();
        // If axes move from one dimension to another, one all-to-all exchanges the parts, without gathering the value.
        for i in 0..now.len() {
            let keep = common(&now[i], &to[i]);
            let axes = now[i][keep..].to_vec();
            let takes = |j: &usize| {
                *j != i
                    && to[*j].strip_prefix(&now[*j][..]).is_some_and(|rest| !axes.is_empty() && rest.starts_with(&axes))
                    && grid.nests(extents[*j], &now[*j], &axes)
            };
            if !grid.nests(extents[i], &now[i][..keep], &axes) {
                continue;
            }
            let Some(j) = (0..now.len()).find(takes) else { continue };
            value = self.all_to_all(value, &axes, j, i)?;
            now[i].truncate(keep);
            now[j].extend(axes);
        }
        // Shard the value first, so that less data is sent.
        value = self.cut(value, extents, &mut now, to, false)?;
        for d in 0..now.len() {
            if now[d] == to[d] {
                continue;
            }
            let fits = |keep: &usize| {
                let outer = &now[d][..*keep];
                grid.nests(extents[d], outer, &now[d][*keep..]) && grid.nests(extents[d], outer, &to[d][*keep..])
            };
            let keep = (0..=common(&now[d], &to[d])).rev().find(fits).unwrap_or(0);
            if keep < now[d].len() {
                let axes = now[d].split_off(keep);
                value = self.all_gather(value, &axes, d)?;
                if keep == 0 {
                    value = self.without_padding(value, d, extents[d])?;
                }
            }
        }
        self.cut(value, extents, &mut now, to, true)
    }

    /// Shards the dimensions that `to` shards along more axes than `now`. Unless `all` is set, skips axes along which
    /// another dimension is still sharded.
    fn cut(&mut self, mut value: ValueId, extents: &[usize], now: &mut Spec, to: &Spec, all: bool) -> Result<ValueId> {
        for d in 0..now.len() {
            let Some(axes) = to[d].strip_prefix(&now[d][..]).filter(|axes| !axes.is_empty()) else { continue };
            let fits = now[d].is_empty() || self.grid.nests(extents[d], &now[d], axes);
            if fits && (all || !now.iter().flatten().any(|axis| axes.contains(axis))) {
                value = self.part(value, axes, d)?;
                now[d].extend(axes);
            }
        }
        Ok(value)
    }

    /// Returns the offset of this partition's part along `axes` in a dimension, as a `ui32` scalar. Each part has
    /// `extent` elements.
    pub(super) fn start(&mut self, axes: &[Axis], extent: usize) -> Result<ValueId> {
        let (coordinate, extent) = (self.coordinate(axes)?, self.number(extent)?);
        self.binary(Binary::Multiply, coordinate, extent)
    }

    /// Divides dimension `d` into parts along the axes, and returns this partition's part.
    fn part(&mut self, value: ValueId, axes: &[Axis], d: usize) -> Result<ValueId> {
        let mut ty = self.tensor(value)?.clone();
        let whole = usize::try_from(ty.shape[d]).unwrap_or(0);
        let extent = self.grid.local(whole, axes);
        let value = self.with_padding(value, d, extent.saturating_mul(self.grid.parts(axes)))?;
        ty.shape[d] = size(extent)?;
        let (start, zero) = (self.start(axes, extent)?, self.number(0)?);
        let starts = (0..ty.rank()).map(|at| if at == d { start } else { zero });
        let operands: Vec<ValueId> = std::iter::once(value).chain(starts).collect();
        self.add(OpKind::DynamicSlice { slice_sizes: ty.shape.clone() }, &operands, ty)
    }

    /// Pads the end of dimension `d` with zeros, up to `extent`.
    pub(super) fn with_padding(&mut self, value: ValueId, d: usize, extent: usize) -> Result<ValueId> {
        let mut ty = self.tensor(value)?.clone();
        let padding = size(extent)? - ty.shape[d];
        if padding == 0 {
            return Ok(value);
        }
        let zero = self.zero(ty.element)?;
        ty.shape[d] += padding;
        let none = vec![0; ty.rank()];
        let mut high = none.clone();
        high[d] = padding;
        let kind = OpKind::Pad { edge_padding_low: none.clone(), edge_padding_high: high, interior_padding: none };
        self.add(kind, &[value, zero], ty)
    }

    /// Returns the first `extent` elements of dimension `d`.
    pub(super) fn without_padding(&mut self, value: ValueId, d: usize, extent: usize) -> Result<ValueId> {
        let mut ty = self.tensor(value)?.clone();
        let extent = size(extent)?;
        if ty.shape[d] == extent {
            return Ok(value);
        }
        ty.shape[d] = extent;
        let kind = OpKind::Slice {
            start_indices: vec![0; ty.rank()],
            limit_indices: ty.shape.clone(),
            strides: vec![1; ty.rank()],
        };
        self.add(kind, &[value], ty)
    }

    /// Overwrites the padding of dimension `d` with the scalar `fill`. The unsharded dimension has `extent` elements,
    /// and is sharded along `axes`.
    pub(super) fn masked(
        &mut self,
        value: ValueId,
        d: usize,
        extent: usize,
        axes: &[Axis],
        fill: ValueId,
    ) -> Result<ValueId> {
        let ty = self.tensor(value)?.clone();
        let everywhere = || OpKind::BroadcastInDim { broadcast_dimensions: Dims::new() };
        let line = TensorType::new([ty.shape[d]], ElementType::Ui32);
        let local = self.number(usize::try_from(ty.shape[d]).unwrap_or(0))?;
        let (coordinate, extent) = (self.coordinate(axes)?, self.number(extent)?);
        let start = self.binary(Binary::Multiply, coordinate, local)?;
        let start = self.add(everywhere(), &[start], line.clone())?;
        let end = self.add(everywhere(), &[extent], line.clone())?;
        let numbers = self.add(OpKind::Iota { iota_dimension: 0 }, &[], line.clone())?;
        let numbers = self.add(OpKind::Binary(Binary::Add), &[numbers, start], line.clone())?;
        let compare = OpKind::Compare { direction: ComparisonDirection::Lt, compare_type: ComparisonType::Unsigned };
        let inside = self.add(compare, &[numbers, end], TensorType { element: ElementType::Bool, ..line })?;
        let spread = OpKind::BroadcastInDim { broadcast_dimensions: [d].into_iter().collect() };
        let inside = self.add(spread, &[inside], TensorType { element: ElementType::Bool, ..ty.clone() })?;
        let fill = self.add(everywhere(), &[fill], ty.clone())?;
        self.add(OpKind::Select, &[inside, value, fill], ty)
    }

    /// Creates a scalar whose bytes are all zero.
    pub(super) fn zero(&mut self, element: ElementType) -> Result<ValueId> {
        let ty = TensorType::new([], element);
        let size = ty.byte_size().ok_or_else(|| CompileError::unsupported(format!("the value zero as a {ty}")))?;
        let literal = Literal { ty: ty.clone(), data: vec![0; size].into(), splat: false };
        self.add(OpKind::Constant(literal), &[], ty)
    }
}

/// Returns the length of the common prefix of `a` and `b`.
fn common(a: &[Axis], b: &[Axis]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

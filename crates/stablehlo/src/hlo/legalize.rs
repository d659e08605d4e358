//! Rewrites HLO instructions that StableHLO lacks: asynchronous pairs, start indices in one vector, all-to-all with one
//! array per device, and bitcasts between layouts.

use super::body::{Body, Value, op};
use super::collective;
use super::proto::{Instruction, Shape};
use super::shape;
use crate::error::{Error, ErrorKind, Result};
use crate::ir::*;

/// Returns the instruction and the shape of its result. Replaces the start of an asynchronous operation with the
/// synchronous operation, because no instruction uses the result before the operation ends.
pub(super) fn synchronous(mut i: Box<Instruction>) -> Result<(Box<Instruction>, Shape)> {
    let mut shape = i.shape.take().unwrap_or_default();
    if let Some((opcode, result)) = started(&i.opcode, &shape)? {
        i.opcode = opcode.to_owned();
        shape = result;
    }
    Ok((i, shape))
}

/// Returns the opcode of the operation that an asynchronous opcode starts, and the shape of its result. Returns
/// `Ok(None)` for any other opcode.
fn started(opcode: &str, shape: &Shape) -> Result<Option<(&'static str, Shape)>> {
    let opcode = match opcode {
        // The shape of `all-reduce-start` is the shape of the result. The shapes of the other opcodes are tuples that
        // also contain the operands and data of the backend.
        "all-reduce-start" => return Ok(Some(("all-reduce", shape.clone()))),
        "all-gather-start" => "all-gather",
        "collective-permute-start" => "collective-permute",
        "async-start" => "call",
        _ => return Ok(None),
    };
    match shape.tuple_shapes.get(1) {
        Some(result) => Ok(Some((opcode, result.clone()))),
        None => Err(Error::new(ErrorKind::Encoding, "must be a tuple of operands and results")),
    }
}

/// Returns whether the instruction only passes on the result of an asynchronous operation or a copy.
pub(super) fn passes_on(opcode: &str) -> bool {
    matches!(
        opcode,
        "all-reduce-done"
            | "all-gather-done"
            | "collective-permute-done"
            | "async-update"
            | "async-done"
            | "copy-start"
            | "copy-done"
    )
}

/// Returns the dimensions of an array in memory order, from major to minor. Without a layout, this is the row-major
/// order.
fn memory_order(of: &Shape) -> Result<Vec<usize>> {
    let rank = of.dimensions.len();
    let Some(layout) = &of.layout else { return Ok((0..rank).collect()) };
    let order = layout.minor_to_major.iter().rev();
    let order: Vec<usize> = order.filter_map(|&d| usize::try_from(d).ok().filter(|&d| d < rank)).collect();
    let mut seen = vec![false; rank];
    order.iter().for_each(|&d| seen[d] = true);
    if order.len() != rank || seen.contains(&false) {
        return Err(Error::new(
            ErrorKind::Encoding,
            format_args!("{:?} is not a layout of {rank} dimensions", layout.minor_to_major),
        ));
    }
    Ok(order)
}

impl Body<'_> {
    fn tensor(&self, id: ValueId) -> Result<&TensorType> {
        match &self.values[id.0 as usize] {
            Type::Tensor(ty) => Ok(ty),
            other => Err(Error::new(ErrorKind::Encoding, format_args!("an operand must be an array, not {other}"))),
        }
    }

    /// Adds an op with one array as its result. Returns the result.
    fn emit(&mut self, kind: OpKind, operands: Vec<ValueId>, ty: TensorType, at: LocationId) -> Result<ValueId> {
        let id = u32::try_from(self.values.len())
            .map_err(|_| Error::new(ErrorKind::Limit, "a computation has more than 2^32 values"))?;
        self.values.push(Type::Tensor(ty));
        self.ops.push(Op { location: at, ..op(kind, operands, vec![ValueId(id)]) });
        Ok(ValueId(id))
    }

    /// Returns the operands of a slice op, with one scalar start index for each dimension. The start indices begin at
    /// operand `first`. Older programs store all start indices in one vector, which this method splits into scalars.
    pub(super) fn scalar_indices(
        &mut self,
        mut operands: Vec<ValueId>,
        first: usize,
        at: LocationId,
    ) -> Result<Vec<ValueId>> {
        let (Some(&sliced), Some(&vector)) = (operands.first(), operands.get(first)) else { return Ok(operands) };
        let ty = self.tensor(vector)?.clone();
        if operands.len() != first + 1 || ty.rank() != 1 {
            return Ok(operands);
        }
        let rank = self.tensor(sliced)?.rank();
        let extent = i64::try_from(rank).unwrap_or(i64::MAX);
        if ty.shape[0] != extent {
            return Err(Error::new(
                ErrorKind::Encoding,
                format_args!("the start indices are {ty} but must hold an index for each of {rank} dimensions"),
            ));
        }
        operands.truncate(first);
        for d in 0..extent {
            let cut = OpKind::Slice { start_indices: vec![d], limit_indices: vec![d + 1], strides: vec![1] };
            let one = self.emit(cut, vec![vector], TensorType::new([1], ty.element), at)?;
            operands.push(self.emit(OpKind::Reshape, vec![one], TensorType::new([], ty.element), at)?);
        }
        Ok(operands)
    }

    /// Reinterprets the elements in memory as an array of another shape and layout.
    pub(super) fn bitcast(&mut self, x: ValueId, from: &Shape, to: &Shape, at: LocationId) -> Result<ValueId> {
        let (outer, inner) = (memory_order(from)?, memory_order(to)?);
        let (source, target) = (self.tensor(x)?.clone(), shape::tensor(to)?);
        if source.element.bit_width() != target.element.bit_width() {
            let error = "a bitcast between element types of different widths; only bitcast-convert can be read";
            return Err(Error::new(ErrorKind::Encoding, error));
        }
        if source.num_elements() != target.num_elements() {
            return Err(Error::new(
                ErrorKind::Encoding,
                format_args!("{source} cannot be bitcast to {target}, which has a different number of elements"),
            ));
        }
        let mut x = x;
        if source.element != target.element {
            let ty = TensorType { element: target.element, ..source.clone() };
            x = self.emit(OpKind::BitcastConvert, vec![x], ty, at)?;
        }
        let arranged = |ty: &TensorType, order: &[usize]| {
            TensorType::new(order.iter().map(|&d| ty.shape[d]).collect::<Vec<_>>(), target.element)
        };
        if !outer.is_sorted() {
            let ty = arranged(&source, &outer);
            x = self.emit(OpKind::Transpose { permutation: outer.into() }, vec![x], ty, at)?;
        }
        x = self.emit(OpKind::Reshape, vec![x], arranged(&target, &inner), at)?;
        if !inner.is_sorted() {
            let mut permutation = vec![0; inner.len()];
            inner.iter().enumerate().for_each(|(place, &d)| permutation[d] = place);
            x = self.emit(OpKind::Transpose { permutation: permutation.into() }, vec![x], target, at)?;
        }
        Ok(x)
    }

    /// Converts an all-to-all with one operand per device. Concatenates the operands into one array, which is split
    /// between the devices.
    pub(super) fn exchange(
        &mut self,
        i: &Instruction,
        operands: Vec<ValueId>,
        shape: Shape,
        at: LocationId,
    ) -> Result<Value> {
        let first =
            *operands.first().ok_or_else(|| Error::new(ErrorKind::Encoding, "must have at least one operand"))?;
        let ty = self.tensor(first)?.clone();
        let count = i64::try_from(operands.len()).unwrap_or(i64::MAX);
        let stacked = |n: i64| {
            TensorType::new(std::iter::once(n).chain(ty.shape.iter().copied()).collect::<Vec<_>>(), ty.element)
        };
        let mut rows = Vec::with_capacity(operands.len());
        for operand in operands {
            if *self.tensor(operand)? != ty {
                return Err(Error::new(ErrorKind::Encoding, "operands must have the same type"));
            }
            rows.push(self.emit(OpKind::Reshape, vec![operand], stacked(1), at)?);
        }
        let all = self.emit(OpKind::Concatenate { dimension: 0 }, rows, stacked(count), at)?;
        let all = self.emit(collective::exchange(i, count)?, vec![all], stacked(count), at)?;
        let rank = stacked(1).rank();
        let mut ids = Vec::new();
        for row in 0..count {
            let (mut start, mut limit) = (vec![0; rank], stacked(1).shape.to_vec());
            (start[0], limit[0]) = (row, row + 1);
            let cut = OpKind::Slice { start_indices: start, limit_indices: limit, strides: vec![1; rank] };
            let one = self.emit(cut, vec![all], stacked(1), at)?;
            ids.push(self.emit(OpKind::Reshape, vec![one], ty.clone(), at)?);
        }
        self.alias(ids, shape)
    }
}

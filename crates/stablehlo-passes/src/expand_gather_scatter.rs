//! The pass `expand_gather_scatter`.

use stablehlo::ir::{Binary, ComparisonDirection, ElementType, Module, Op, OpKind, TensorType, ValueId};
use stablehlo::{Patch, Result, rewrite};

use crate::apply::apply;
use crate::build::Build;
use crate::evaluate::{Number, is_integer};
use crate::loops::{digit, elementwise, index, is_elementwise, repeat};

/// Replaces `gather` and `scatter` with loops. Returns `None` if the program has no such op that the pass replaces.
///
/// ```text
/// for i in 0..windows {                                    for i in 0..windows {
///   window = dynamic_slice(operand, indices[i])              window = dynamic_slice(operand, indices[i])
///   result = dynamic_update_slice(result, window, i)         window = body(window, updates[i])
/// }                                                          operand = dynamic_update_slice(operand, window, indices[i])
///                                                          }
/// ```
///
/// The starts of the windows of a `gather` are clamped. A `scatter` skips each window that is not completely inside the
/// operand, as XLA does. It applies the updates in the order of the indices.
///
/// Keeps ops of dynamic shape, and a `scatter` whose body contains other ops than elementwise ones, or converts its
/// operands to another type. The module must be verified.
///
/// # Errors
///
/// Returns no error for a verified module.
pub fn expand_gather_scatter(module: &Module) -> Result<Option<Module>> {
    let is_concerned = |op: &Op| matches!(op.kind, OpKind::Gather { .. } | OpKind::Scatter { .. });
    apply(
        module,
        |func| func.body.all_ops().any(is_concerned),
        |func, locations| {
            let mut changed = false;
            rewrite(func, locations, |op, patch| {
                let values = match &op.kind {
                    OpKind::Gather { .. } => gather(&op, patch)?,
                    OpKind::Scatter { .. } => scatter(&op, patch)?,
                    _ => None,
                };
                match values {
                    Some(values) => {
                        changed = true;
                        patch.replace(&op.results, &values)
                    }
                    None => {
                        patch.push(op);
                        Ok(())
                    }
                }
            })?;
            Ok(changed)
        },
    )
}

/// Returns the type of a tensor of static shape whose extents fit every index type that the pass uses.
fn tensor(patch: &Patch<'_>, value: Option<&ValueId>) -> Option<TensorType> {
    let ty = patch.tensor(*value?).ok()?;
    let is_small = ty.num_elements().is_some_and(|count| i32::try_from(count).is_ok());
    (is_small && ty.shape.iter().all(|&extent| i32::try_from(extent).is_ok())).then(|| ty.clone())
}

/// The windows of a `gather` or `scatter`.
struct Windows<'o> {
    operand: TensorType,
    /// Extents of a window along each dimension of the operand.
    sizes: Vec<i64>,
    /// For each component of an index vector, the dimension of the operand.
    map: &'o [usize],
    /// Batching dimensions of the operand, and those of the indices.
    batching: (&'o [usize], &'o [usize]),
    indices: TensorType,
    vector: usize,
    /// Element type in which the starts are computed.
    element: ElementType,
}

impl Windows<'_> {
    fn is_valid(&self) -> bool {
        let rank = self.operand.rank();
        let components = self.indices.shape.get(self.vector).copied().unwrap_or(1);
        self.sizes.len() == rank
            && self.sizes.iter().zip(&self.operand.shape).all(|(size, extent)| (0..=*extent).contains(size))
            && self.map.iter().chain(self.batching.0).all(|&d| d < rank)
            && self.batching.0.len() == self.batching.1.len()
            && self.batching.1.iter().all(|&d| d < self.indices.rank() && d != self.vector)
            && usize::try_from(components).is_ok_and(|components| components == self.map.len())
            && self.vector <= self.indices.rank()
            && is_integer(self.indices.element)
    }

    /// Returns the dimensions of the indices other than that of the index vectors.
    fn batch(&self) -> Vec<usize> {
        (0..self.indices.rank()).filter(|&d| d != self.vector).collect()
    }

    fn batch_shape(&self) -> Vec<i64> {
        self.batch().into_iter().map(|d| self.indices.shape[d]).collect()
    }

    fn count(&self) -> i64 {
        self.batch_shape().iter().product()
    }

    /// Returns the indices as a matrix with one index vector per row.
    fn table(&self, patch: &mut Patch<'_>, indices: ValueId) -> Result<ValueId> {
        let mut order = self.batch();
        order.extend((self.vector < self.indices.rank()).then_some(self.vector));
        let indices = patch.transpose(indices, &order)?;
        let components = i64::try_from(self.map.len()).unwrap_or(i64::MAX);
        let table = patch.reshape(indices, &[self.count(), components])?;
        patch.convert(table, self.element)
    }

    /// Adds the start of a window along each dimension.
    fn starts(&self, patch: &mut Patch<'_>, table: ValueId, counter: ValueId) -> Result<Vec<ValueId>> {
        let scalar = TensorType::new([], self.element);
        let zero = patch.splat(scalar.clone(), Number::Integer(0))?;
        let mut starts = vec![zero; self.operand.rank()];
        let first = index(patch, 0)?;
        let components = i64::try_from(self.map.len()).unwrap_or(i64::MAX);
        let row = TensorType::new([1, components], self.element);
        let row = patch.add(OpKind::DynamicSlice { slice_sizes: vec![1, components] }, &[table, counter, first], row);
        for (&d, at) in self.map.iter().zip(0..) {
            let kind =
                OpKind::Slice { start_indices: vec![0, at], limit_indices: vec![1, at + 1], strides: vec![1, 1] };
            let component = patch.add(kind, &[row], TensorType::new([1, 1], self.element));
            starts[d] = patch.reshape(component, &[])?;
        }
        let (batch, shape) = (self.batch(), self.batch_shape());
        for (&d, from) in self.batching.0.iter().zip(self.batching.1) {
            let Some(at) = batch.iter().position(|other| other == from) else { continue };
            let place = digit(patch, counter, shape[at + 1..].iter().product(), shape[at])?;
            starts[d] = patch.convert(place, self.element)?;
        }
        Ok(starts)
    }

    fn take(&self, patch: &mut Patch<'_>, x: ValueId, starts: &[ValueId]) -> Result<ValueId> {
        let ty = TensorType::new(self.sizes.clone(), patch.tensor(x)?.element);
        let operands: Vec<ValueId> = [x].into_iter().chain(starts.iter().copied()).collect();
        Ok(patch.add(OpKind::DynamicSlice { slice_sizes: self.sizes.clone() }, &operands, ty))
    }

    /// Adds whether a window is completely inside the operand.
    fn is_inside(&self, patch: &mut Patch<'_>, starts: &[ValueId]) -> Result<ValueId> {
        let truth = TensorType::new([], ElementType::Bool);
        let mut inside = patch.splat(truth, Number::Integer(1))?;
        for &d in self.map {
            let last = i128::from(self.operand.shape[d] - self.sizes[d]);
            for (direction, limit) in [(ComparisonDirection::Ge, 0), (ComparisonDirection::Le, last)] {
                let limit = patch.splat(TensorType::new([], self.element), Number::Integer(limit))?;
                let holds = patch.compare(direction, starts[d], limit)?;
                inside = patch.binary(Binary::And, inside, holds)?;
            }
        }
        Ok(inside)
    }
}

/// Returns the type in which starts are computed. Small types cannot represent all coordinates.
fn start_element(element: ElementType) -> ElementType {
    if element.bit_width() < 32 { ElementType::I64 } else { element }
}

fn gather(op: &Op, patch: &mut Patch<'_>) -> Result<Option<Vec<ValueId>>> {
    let (OpKind::Gather { dimensions: d, slice_sizes, .. }, &[x, indices]) = (&op.kind, &op.operands[..]) else {
        return Ok(None);
    };
    let types = [Some(&x), Some(&indices), op.results.first()].map(|value| tensor(patch, value));
    let [Some(operand), Some(index_ty), Some(result)] = types else { return Ok(None) };
    let element = start_element(index_ty.element);
    let batching = (&d.operand_batching_dims[..], &d.start_indices_batching_dims[..]);
    let (map, vector) = (&d.start_index_map[..], d.index_vector_dim);
    let windows = Windows { operand, sizes: slice_sizes.clone(), map, batching, indices: index_ty, vector, element };
    let dropped = |d_: &usize| d.collapsed_slice_dims.contains(d_) || d.operand_batching_dims.contains(d_);
    let offsets: Vec<i64> = (0..windows.sizes.len()).filter(|at| !dropped(at)).map(|at| windows.sizes[at]).collect();
    let batch = windows.batch_shape();
    if !windows.is_valid()
        || offsets.len() != d.offset_dims.len()
        || d.offset_dims.iter().any(|&d| d >= result.rank())
        || batch.len() + offsets.len() != result.rank()
        || result.element != windows.operand.element
    {
        return Ok(None);
    }
    if result.num_elements() == Some(0) {
        return patch.blank(&result).map(|value| Some(vec![value]));
    }
    let table = windows.table(patch, indices)?;
    let rows: Vec<i64> = [windows.count()].into_iter().chain(offsets.iter().copied()).collect();
    let row: Vec<i64> = [1].into_iter().chain(offsets.iter().copied()).collect();
    let start = patch.blank(&TensorType::new(rows.clone(), result.element))?;
    let gathered = repeat(patch, windows.count(), &[start], |patch, counter, carried| {
        let starts = windows.starts(patch, table, counter)?;
        let window = windows.take(patch, x, &starts)?;
        let window = patch.reshape(window, &row)?;
        let zero = index(patch, 0)?;
        let mut operands = vec![carried[0], window, counter];
        operands.resize(operands.len() + offsets.len(), zero);
        let ty = patch.tensor(carried[0])?.clone();
        Ok(vec![patch.add(OpKind::DynamicUpdateSlice, &operands, ty)])
    })?;
    let straight: Vec<i64> = batch.iter().chain(&offsets).copied().collect();
    let straight = patch.reshape(gathered[0], &straight)?;
    // The result has the offset dimensions at given places, and the batch dimensions at the others.
    let mut next = 0;
    let order = (0..result.rank()).map(|at| match d.offset_dims.iter().position(|&offset| offset == at) {
        Some(offset) => batch.len() + offset,
        None => {
            next += 1;
            next - 1
        }
    });
    let order: Vec<usize> = order.collect();
    patch.transpose(straight, &order).map(|value| Some(vec![value]))
}

fn scatter(op: &Op, patch: &mut Patch<'_>) -> Result<Option<Vec<ValueId>>> {
    let count = op.results.len();
    let (OpKind::Scatter { dimensions: d, .. }, [body], true) =
        (&op.kind, &op.regions[..], op.operands.len() == 2 * count + 1 && count > 0)
    else {
        return Ok(None);
    };
    let (inputs, rest) = op.operands.split_at(count);
    let (indices, updates) = (rest[0], &rest[1..]);
    let types = [inputs.first(), Some(&indices), updates.first()].map(|value| tensor(patch, value));
    let [Some(operand), Some(index_ty), Some(update)] = types else { return Ok(None) };
    // All inputs have one shape, and the body keeps the element types.
    for (at, (input, &from)) in inputs.iter().zip(updates).enumerate() {
        let arg = |at: usize| Some(patch.tensor(*body.args.get(at)?).ok()?.element);
        let (Some(input), Some(from)) = (tensor(patch, Some(input)), tensor(patch, Some(&from))) else {
            return Ok(None);
        };
        let element = Some(input.element);
        if input.shape != operand.shape
            || from.shape != update.shape
            || from.element != input.element
            || arg(at) != element
            || arg(at + count) != element
        {
            return Ok(None);
        }
    }
    let rank = operand.rank();
    let dropped = |at: &usize| d.inserted_window_dims.contains(at) || d.input_batching_dims.contains(at);
    let kept: Vec<usize> = (0..rank).filter(|at| !dropped(at)).collect();
    if kept.len() != d.update_window_dims.len() || d.update_window_dims.iter().any(|&d| d >= update.rank()) {
        return Ok(None);
    }
    let mut sizes = vec![1; rank];
    kept.iter().zip(&d.update_window_dims).for_each(|(&to, &from)| sizes[to] = update.shape[from]);
    let element = start_element(index_ty.element);
    let batching = (&d.input_batching_dims[..], &d.scatter_indices_batching_dims[..]);
    let (map, vector) = (&d.scatter_dims_to_operand_dims[..], d.index_vector_dim);
    let windows = Windows { operand, sizes, map, batching, indices: index_ty, vector, element };
    let batch: Vec<usize> = (0..update.rank()).filter(|at| !d.update_window_dims.contains(at)).collect();
    let batch_shape: Vec<i64> = batch.iter().map(|&at| update.shape[at]).collect();
    if !windows.is_valid() || batch_shape != windows.batch_shape() || !is_elementwise(body, patch) {
        return Ok(None);
    }
    if update.num_elements() == Some(0) || windows.operand.num_elements() == Some(0) {
        return Ok(Some(inputs.to_vec()));
    }
    let table = windows.table(patch, indices)?;
    let order: Vec<usize> = batch.iter().chain(&d.update_window_dims).copied().collect();
    let window: Vec<i64> = d.update_window_dims.iter().map(|&at| update.shape[at]).collect();
    let rows: Vec<i64> = [windows.count()].into_iter().chain(window.iter().copied()).collect();
    let row: Vec<i64> = [1].into_iter().chain(window.iter().copied()).collect();
    let mut lines = Vec::with_capacity(count);
    for &from in updates {
        let straight = patch.transpose(from, &order)?;
        lines.push(patch.reshape(straight, &rows)?);
    }
    let results = repeat(patch, windows.count(), inputs, |patch, counter, carried| {
        let starts = windows.starts(patch, table, counter)?;
        let inside = windows.is_inside(patch, &starts)?;
        let zero = index(patch, 0)?;
        let mut args = Vec::with_capacity(2 * count);
        for &x in carried {
            args.push(windows.take(patch, x, &starts)?);
        }
        for &line in &lines {
            let mut operands = vec![line, counter];
            operands.resize(operands.len() + window.len(), zero);
            let ty = TensorType::new(row.clone(), patch.tensor(line)?.element);
            let part = patch.add(OpKind::DynamicSlice { slice_sizes: row.clone() }, &operands, ty);
            args.push(patch.reshape(part, &windows.sizes)?);
        }
        let combined = elementwise(body, &args, &windows.sizes, patch)?;
        let mut next = Vec::with_capacity(count);
        for ((&x, &old), new) in carried.iter().zip(&args).zip(combined) {
            // The start of a window that is not inside is clamped, so write the old elements there.
            let kept = patch.select(inside, new, old)?;
            let operands: Vec<ValueId> = [x, kept].into_iter().chain(starts.iter().copied()).collect();
            let ty = patch.tensor(x)?.clone();
            next.push(patch.add(OpKind::DynamicUpdateSlice, &operands, ty));
        }
        Ok(next)
    })?;
    Ok(Some(results))
}

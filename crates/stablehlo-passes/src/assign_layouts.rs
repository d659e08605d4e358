//! The pass `assign_layouts`.

use stablehlo::ir::{
    Attribute, ConvDimensions, Dims, DotDimensions, Func, Module, Op, OpKind, Type, ValueId, ValueTypes,
    inverse_permutation, is_sharding,
};
use stablehlo::{Error, ErrorKind, Patch, Result, VerifyLevel, rewrite};

use crate::apply::{apply, apply_all};
use crate::build::Build;
use crate::canonicalize::facts::Known;
use crate::eliminate_dead_code::eliminate_dead_code;

/// The orders in which an op of a device has the dimensions of its operands and results. An order lists the dimensions
/// of the program, the slowest one first, such as `[0, 2, 3, 1]` for an array of shape `NCHW` that is stored as `NHWC`.
/// `None` is the order of the program. Absent elements are `None`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Layouts {
    /// The orders of the operands.
    pub operands: Vec<Option<Vec<usize>>>,
    /// The orders of the results.
    pub results: Vec<Option<Vec<usize>>>,
}

/// Changes ops to the layouts that a device wants for them. `layouts` returns the layouts for an op, or `None` if the
/// op may stay as it is. Returns `None` if nothing changes.
///
/// ```text
/// %0 = convolution(%x, %k) dims = NCHW      %1 = transpose %x, dims = [0, 2, 3, 1]
/// %1 = maximum %0, 0                    =>  %2 = convolution(%1, %k) dims = NHWC
/// %2 = convolution(%1, %k) dims = NCHW      %3 = maximum %2, 0
///                                           %4 = convolution(%3, %k) dims = NHWC
///                                           %5 = transpose %4, dims = [0, 3, 1, 2]
/// ```
///
/// Changes the dimension numbers of `convolution`, `dot_general` and `reduce`, and transposes their operands and
/// results. Then moves each transpose down through elementwise ops and reductions, if one transpose of the op's
/// operands is not needed afterwards, and joins transposes that follow each other. Constants of equal elements and
/// broadcasts adapt to the order of the other operands. The order of a `dot_general` result is that of its operands.
/// The sharding of an op moves to the transpose of its result. Transposes do not move through ops with a sharding.
///
/// # Errors
///
/// Returns an error if an order does not list the dimensions of its value, if the layouts of another op or of a sharded
/// op with several results are to be changed, or if a value has no rank. The module must be verified.
pub fn assign_layouts(
    module: &Module,
    layouts: impl Fn(&Op, &ValueTypes) -> Option<Layouts>,
) -> Result<Option<Module>> {
    stablehlo::verify(module, VerifyLevel::STRUCTURE)?;
    let is_concerned = |func: &Func| func.body.all_ops().any(|op| layouts(op, &func.values).is_some());
    let changed = apply_all(module, is_concerned, |func, locations| {
        rewrite(func, locations, |op, patch| match layouts(&op, patch.types()) {
            Some(layouts) => transposed(op, &layouts, patch),
            None => {
                patch.push(op);
                Ok(())
            }
        })
    })?;
    let Some(changed) = changed else { return Ok(None) };
    let moved = apply(
        &changed,
        |_| true,
        |func, locations| {
            let mut moves = Moves::new(func);
            rewrite(func, locations, |op, patch| moves.op(op, patch))?;
            Ok(moves.changed)
        },
    )?;
    let changed = moved.unwrap_or(changed);
    Ok(Some(eliminate_dead_code(&changed).unwrap_or(changed)))
}

/// Returns the order of a value of this rank, and an error if it does not list the dimensions.
fn checked(order: Option<&Option<Vec<usize>>>, rank: usize) -> Result<Vec<usize>> {
    let Some(Some(order)) = order else { return Ok((0..rank).collect()) };
    let mut sorted = order.clone();
    sorted.sort_unstable();
    if sorted.iter().copied().eq(0..rank) {
        return Ok(order.clone());
    }
    let message = format_args!("the layout {order:?} does not list the {rank} dimensions of its value, each once");
    Err(Error::new(ErrorKind::Attribute, message))
}

/// Adds an op on transposed operands, and the transposes.
fn transposed(mut op: Op, layouts: &Layouts, patch: &mut Patch<'_>) -> Result<()> {
    let order = |values: &[ValueId], orders: &[Option<Vec<usize>>], patch: &Patch<'_>| -> Result<Vec<Vec<usize>>> {
        let each = values.iter().enumerate();
        each.map(|(at, &value)| checked(orders.get(at), patch.tensor(value)?.rank())).collect()
    };
    let operands = order(&op.operands, &layouts.operands, patch)?;
    let mut results = order(&op.results, &layouts.results, patch)?;
    if operands.iter().chain(&results).all(|order| order.is_sorted()) {
        patch.push(op);
        return Ok(());
    }
    match (&mut op.kind, &operands[..]) {
        (OpKind::Convolution { dimensions, .. }, [input, kernel]) => {
            let [input, kernel, output] = [input, kernel, &results[0]].map(|order| inverse_permutation(order));
            **dimensions = convolution(dimensions, &input, &kernel, &output);
        }
        (OpKind::DotGeneral { dimensions, .. }, [left, right]) => {
            results = vec![product(dimensions, left, right)];
        }
        (OpKind::Reduce { dimensions }, [first, ..]) => {
            let inputs = op.results.len();
            if operands[..inputs].iter().any(|order| order != first) {
                return Err(Error::new(ErrorKind::Unsupported, "the operands of a reduction need the same layout"));
            }
            let kept = kept(first, dimensions);
            let places = inverse_permutation(first);
            *dimensions = dimensions.iter().map(|&d| places[d]).collect();
            dimensions.sort_unstable();
            results = vec![kept; inputs];
        }
        (kind, _) => {
            let message = format_args!("the layouts of {} cannot be changed; use those of the program", kind.name());
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
    }
    for (operand, order) in op.operands.iter_mut().zip(&operands) {
        *operand = patch.transpose(*operand, order)?;
    }
    let outer = op.results.clone();
    for (result, order) in op.results.iter_mut().zip(&results).filter(|(_, order)| !order.is_sorted()) {
        let ty = patch.tensor(*result)?.permuted(order)?;
        *result = patch.value(Type::Tensor(ty));
    }
    let inner = op.results.clone();
    let mut shardings: Vec<(String, Attribute)> = Vec::new();
    if inner != outer && has_sharding(&op) {
        if outer.len() > 1 {
            let message = "the layouts of a sharded op with several results cannot be changed; remove the sharding";
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        shardings = op.attributes.extract_if(.., |(name, _)| is_sharding(name)).collect();
    }
    patch.push(op);
    for ((&inner, &outer), order) in inner.iter().zip(&outer).zip(&results).filter(|((inner, outer), _)| inner != outer)
    {
        let kind = OpKind::Transpose { permutation: inverse_permutation(order).into() };
        patch.define(kind, &[inner], &[outer]).attributes = std::mem::take(&mut shardings);
    }
    Ok(())
}

fn has_sharding(op: &Op) -> bool {
    op.attributes.iter().any(|(name, _)| is_sharding(name))
}

/// Returns the dimension numbers for operands and results with their dimensions at other positions.
fn convolution(from: &ConvDimensions, input: &[usize], kernel: &[usize], output: &[usize]) -> ConvDimensions {
    let all = |dimensions: &[usize], positions: &[usize]| dimensions.iter().map(|&d| positions[d]).collect();
    ConvDimensions {
        input_batch: input[from.input_batch],
        input_feature: input[from.input_feature],
        input_spatial: all(&from.input_spatial, input),
        kernel_input_feature: kernel[from.kernel_input_feature],
        kernel_output_feature: kernel[from.kernel_output_feature],
        kernel_spatial: all(&from.kernel_spatial, kernel),
        output_batch: output[from.output_batch],
        output_feature: output[from.output_feature],
        output_spatial: all(&from.output_spatial, output),
    }
}

/// Changes the dimension numbers of a product to operands of these orders. Returns the order of the result.
fn product(dimensions: &mut DotDimensions, left: &[usize], right: &[usize]) -> Vec<usize> {
    let batches = dimensions.lhs_batching.len();
    let mut order: Vec<usize> = (0..batches).collect();
    for (operand, batching, contracting) in [
        (left, &mut dimensions.lhs_batching, &mut dimensions.lhs_contracting),
        (right, &mut dimensions.rhs_batching, &mut dimensions.rhs_contracting),
    ] {
        let is_free = |d: &usize| !batching.contains(d) && !contracting.contains(d);
        let free: Vec<usize> = operand.iter().copied().filter(is_free).collect();
        let first = order.len();
        order.extend(free.iter().map(|d| first + free.iter().filter(|other| *other < d).count()));
        let positions = inverse_permutation(operand);
        batching.iter_mut().chain(contracting.iter_mut()).for_each(|d| *d = positions[*d]);
    }
    order
}

/// Returns the order of the dimensions that a reduction keeps.
fn kept(order: &[usize], reduced: &[usize]) -> Vec<usize> {
    let kept: Vec<usize> = order.iter().copied().filter(|d| !reduced.contains(d)).collect();
    kept.iter().map(|d| kept.iter().filter(|other| *other < d).count()).collect()
}

/// Moves transposes down.
struct Moves {
    /// Transposes, constants of equal elements, and broadcasts, without a sharding.
    known: Known,
    /// The number of uses of each value.
    uses: Vec<usize>,
    /// The region that defines each value. A transpose must not move into a loop.
    regions: Vec<usize>,
    changed: bool,
}

impl Moves {
    fn new(func: &Func) -> Self {
        let mut uses = vec![0; func.values.len()];
        let operands = func.body.all_ops().flat_map(|op| &op.operands);
        operands.filter_map(|value| uses.get_mut(value.0 as usize).map(|uses| *uses += 1)).for_each(drop);
        let mut regions = vec![0; func.values.len()];
        let inner = func.body.all_ops().flat_map(|op| &op.regions);
        for (number, region) in std::iter::once(&func.body).chain(inner).enumerate() {
            for result in region.ops.iter().flat_map(|op| &op.results) {
                if let Some(region) = regions.get_mut(result.0 as usize) {
                    *region = number;
                }
            }
        }
        Self { known: Known::default(), uses, regions, changed: false }
    }

    fn op(&mut self, op: Op, patch: &mut Patch<'_>) -> Result<()> {
        match (&op.kind, &op.operands[..], &op.results[..]) {
            _ if has_sharding(&op) => {}
            (OpKind::Transpose { permutation }, &[x], &[y]) => {
                let permutation = permutation.clone();
                return self.transpose(x, &permutation, y, patch);
            }
            (OpKind::BroadcastInDim { .. }, ..) => self.known.add(&op),
            (OpKind::Constant(literal), ..) if literal.splat => self.known.add(&op),
            (kind, _, &[_]) if is_elementwise(kind) && self.below(&op, patch)? => return Ok(()),
            (OpKind::Reduce { .. }, ..) if self.below_reduction(&op, patch)? => return Ok(()),
            _ => {}
        }
        patch.push(op);
        Ok(())
    }

    /// Returns the operand and the permutation of a transpose.
    fn transposed(&self, value: ValueId) -> Option<(ValueId, &Dims)> {
        match self.known.definition(value)? {
            (OpKind::Transpose { permutation }, &[from]) => Some((from, permutation)),
            _ => None,
        }
    }

    /// Adds a transpose of a value, which may itself be a transpose.
    fn transpose(&mut self, x: ValueId, permutation: &Dims, y: ValueId, patch: &mut Patch<'_>) -> Result<()> {
        let (from, permutation) = match self.transposed(x) {
            Some((from, inner)) => {
                let joined = permutation.iter().map(|&d| inner[d]).collect();
                self.changed = true;
                (from, joined)
            }
            None => (x, permutation.clone()),
        };
        if permutation.is_sorted() && patch.types().get(from.0 as usize) == patch.types().get(y.0 as usize) {
            self.changed = true;
            patch.replace_uses(y, from);
            return Ok(());
        }
        self.known.add(patch.define(OpKind::Transpose { permutation }, &[from], &[y]));
        Ok(())
    }

    /// Returns the permutation of transposes among the operands, if moving them down leaves one fewer above.
    fn permutation(&self, op: &Op, values: &[ValueId]) -> Option<Dims> {
        let region = |value: &ValueId| self.regions.get(value.0 as usize);
        let is_outer = |value: &&ValueId| region(value) != op.results.first().and_then(region);
        if values.iter().filter(|value| self.transposed(**value).is_some()).any(|value| is_outer(&value)) {
            return None;
        }
        let (_, permutation) = values.iter().find_map(|&value| self.transposed(value))?;
        let is_last = |value: &&ValueId| {
            let uses = values.iter().filter(|other| other == value).count();
            self.transposed(**value).is_some() && self.uses.get(value.0 as usize).is_none_or(|&all| all <= uses)
        };
        values.iter().any(|value| is_last(&value)).then(|| permutation.clone())
    }

    /// Returns the operand whose transpose the value is. Adds it if the value adapts to any order.
    fn above(&self, value: ValueId, permutation: &Dims, patch: &mut Patch<'_>) -> Result<Option<ValueId>> {
        let ty = patch.tensor(value)?;
        if ty.rank() == 0 {
            return Ok(Some(value));
        }
        let permuted = ty.permuted(&inverse_permutation(permutation))?;
        Ok(match self.known.definition(value) {
            Some((OpKind::Transpose { permutation: other }, &[from])) => (other == permutation).then_some(from),
            Some((OpKind::Constant(literal), _)) => Some(patch.constant(permuted, literal.data.clone())?),
            Some((OpKind::BroadcastInDim { broadcast_dimensions }, operands)) => {
                let dimensions: Dims = broadcast_dimensions.iter().map(|&d| permutation[d]).collect();
                // The dimensions of the operand must stay in their order.
                let kind = OpKind::BroadcastInDim { broadcast_dimensions: dimensions.clone() };
                dimensions.is_sorted().then(|| patch.add(kind, operands, permuted))
            }
            _ => None,
        })
    }

    /// Returns the values whose transposes the operands are.
    fn all_above(&self, values: &[ValueId], permutation: &Dims, patch: &mut Patch<'_>) -> Result<Option<Vec<ValueId>>> {
        let fits = |value: &ValueId| {
            let is_scalar = patch.tensor(*value).is_ok_and(|ty| ty.rank() == 0);
            let adapts = |(kind, _): (&OpKind, _)| match kind {
                OpKind::Transpose { permutation: other } => other == permutation,
                _ => true,
            };
            is_scalar || self.known.definition(*value).is_some_and(adapts)
        };
        if !values.iter().all(fits) {
            return Ok(None);
        }
        values.iter().map(|&value| self.above(value, permutation, patch)).collect()
    }

    /// Adds an elementwise op before the transposes of its operands, and one transpose of its result.
    fn below(&mut self, op: &Op, patch: &mut Patch<'_>) -> Result<bool> {
        let Some(permutation) = self.permutation(op, &op.operands) else { return Ok(false) };
        let Some(operands) = self.all_above(&op.operands, &permutation, patch)? else { return Ok(false) };
        let result = op.results[0];
        let ty = patch.tensor(result)?.permuted(&inverse_permutation(&permutation))?;
        let value = patch.value(Type::Tensor(ty));
        patch.push(op.copied(operands.into(), [value][..].into(), Vec::new()));
        self.changed = true;
        self.transpose(value, &permutation, result, patch)?;
        Ok(true)
    }

    fn below_reduction(&mut self, op: &Op, patch: &mut Patch<'_>) -> Result<bool> {
        let OpKind::Reduce { dimensions } = &op.kind else { return Ok(false) };
        let (inputs, inits) = op.operands.split_at(op.results.len().min(op.operands.len()));
        let Some(permutation) = self.permutation(op, inputs) else { return Ok(false) };
        let Some(mut operands) = self.all_above(inputs, &permutation, patch)? else { return Ok(false) };
        operands.extend(inits);
        let mut reduced: Dims = dimensions.iter().map(|&d| permutation[d]).collect();
        reduced.sort_unstable();
        // For each dimension of the results, the one of the reduction before the transpose.
        let order: Dims = kept(&permutation, &reduced).into();
        let mut results = Vec::with_capacity(op.results.len());
        for &result in &op.results {
            let ty = patch.tensor(result)?.permuted(&inverse_permutation(&order))?;
            results.push(patch.value(Type::Tensor(ty)));
        }
        let mut reduction = op.copied(operands.into(), results[..].into(), op.regions.clone());
        reduction.kind = OpKind::Reduce { dimensions: reduced };
        patch.push(reduction);
        self.changed = true;
        for (&value, &result) in results.iter().zip(&op.results) {
            self.transpose(value, &order, result, patch)?;
        }
        Ok(true)
    }
}

fn is_elementwise(kind: &OpKind) -> bool {
    matches!(
        kind,
        OpKind::Unary(_)
            | OpKind::Binary(_)
            | OpKind::Clamp
            | OpKind::Compare { .. }
            | OpKind::Convert
            | OpKind::Fma
            | OpKind::ReducePrecision { .. }
            | OpKind::Select
    )
}

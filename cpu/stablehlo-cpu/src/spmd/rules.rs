//! Rules that determine which dimensions of an op's operands and results may be sharded together.
//!
//! As in Shardy, factors describe an op. A factor is an independent loop of the op's computation. Each dimension
//! consists of factors, major first. A dimension without factors must not be sharded. Results are reduced over a factor
//! that occurs in no result. A factor may be divided unevenly if it is the only factor in each of its dimensions. The
//! last parts are then padded.

use stablehlo::ir::{
    Attribute, Binary, ConvDimensions, DotDimensions, Func, GatherDimensions, Literal, Op, OpKind, ScatterDimensions,
    TensorType, Type, ValueId, Window,
};

use crate::sharding::attributes::{find, text};
use crate::sharding::grid::{Axis, AxisSet};

/// The factors of each dimension of a tensor, major first. Factors are indices into [`Rule::sizes`].
pub(super) type Mapping = Vec<Vec<usize>>;

#[derive(Debug, Default)]
pub(super) struct Rule {
    /// Extent of each factor.
    pub(super) sizes: Vec<usize>,
    /// For each factor, whether the results are reduced over it.
    pub(super) reduced: Vec<bool>,
    /// For each factor, whether it alone covers every dimension that contains it, and whether these dimensions may be
    /// padded.
    pub(super) alone: Vec<bool>,
    pub(super) operands: Vec<Mapping>,
    pub(super) results: Vec<Mapping>,
}

/// Returns the shape of a value, or an empty shape if the value is not a tensor.
pub(super) fn shape(func: &Func, value: ValueId) -> &[i64] {
    match func.values.get(value.0 as usize) {
        Some(Type::Tensor(ty)) => &ty.shape,
        _ => &[],
    }
}

fn tensor(func: &Func, value: ValueId) -> Option<&TensorType> {
    func.values.get(value.0 as usize).and_then(Type::as_tensor)
}

fn extent(size: i64) -> usize {
    usize::try_from(size).unwrap_or(0)
}

impl Rule {
    /// Creates a rule that allows no dimension to be sharded.
    pub(super) fn whole(func: &Func, op: &Op) -> Self {
        let of = |values: &[ValueId]| values.iter().map(|&v| vec![Vec::new(); shape(func, v).len()]).collect();
        Self { operands: of(&op.operands), results: of(&op.results), ..Self::default() }
    }

    /// Adds a factor of extent `size` to dimensions of operands and results. Each pair contains the index of an operand
    /// or a result, and a dimension.
    fn join(&mut self, size: i64, operands: &[(usize, usize)], results: &[(usize, usize)]) {
        self.join_as(false, size, operands, results);
    }

    fn join_as(&mut self, reduced: bool, size: i64, operands: &[(usize, usize)], results: &[(usize, usize)]) {
        let factor = self.sizes.len();
        self.sizes.push(extent(size));
        self.reduced.push(reduced);
        for (places, tensors) in [(operands, &mut self.operands), (results, &mut self.results)] {
            for &(tensor, dim) in places {
                if let Some(dim) = tensors.get_mut(tensor).and_then(|t| t.get_mut(dim)) {
                    dim.push(factor);
                }
            }
        }
    }

    /// For each dimension that `fits` accepts, adds a factor for this dimension of all operands and results whose rank
    /// is the length of `sizes`.
    fn alike(&mut self, sizes: &[i64], fits: impl Fn(usize) -> bool) {
        let rank = sizes.len();
        for (d, &size) in sizes.iter().enumerate().filter(|(d, _)| fits(*d)) {
            let at = |tensors: &[Mapping]| -> Vec<(usize, usize)> {
                (0..tensors.len()).filter(|&t| tensors[t].len() == rank).map(|t| (t, d)).collect()
            };
            let (operands, results) = (at(&self.operands), at(&self.results));
            self.join(size, &operands, &results);
        }
    }

    /// Returns the axes along which results must be reduced if the factors are sharded along the axes `cut`.
    pub(super) fn reduced_axes(&self, cut: &[Vec<Axis>]) -> Vec<Axis> {
        (0..cut.len()).filter(|&f| self.reduced[f]).flat_map(|f| cut[f].iter().copied()).collect()
    }

    fn find_alone(&mut self, func: &Func, op: &Op) {
        self.alone = vec![true; self.sizes.len()];
        for (mappings, values) in [(&self.operands, &op.operands), (&self.results, &op.results)] {
            for (mapping, &value) in mappings.iter().zip(values) {
                for (factors, &size) in mapping.iter().zip(shape(func, value)) {
                    let covers = |factor: usize| factors.len() == 1 && self.sizes[factor] == extent(size);
                    for &factor in factors.iter().filter(|&&factor| !covers(factor)) {
                        self.alone[factor] = false;
                    }
                }
            }
        }
    }

    /// Returns the factor sizes and the mapping of a rule for several values that must have the same sharding.
    pub(super) fn link(func: &Func, values: &[ValueId]) -> (Vec<usize>, Mapping) {
        let sizes: Vec<usize> =
            values.first().map_or(&[][..], |&v| shape(func, v)).iter().map(|&s| extent(s)).collect();
        let mapping = (0..sizes.len()).map(|d| vec![d]).collect();
        (sizes, mapping)
    }
}

/// Facts about values that rules need.
pub(super) trait Constants {
    /// Returns the literal if the value is a constant.
    fn constant(&self, value: ValueId) -> Option<&Literal>;

    /// Returns the axes along which the value should remain unreduced.
    fn wanted_sums(&self, value: ValueId) -> AxisSet;
}

/// An op and the shapes of its operands and results.
#[derive(Clone, Copy)]
struct Shapes<'f> {
    func: &'f Func,
    op: &'f Op,
}

impl<'f> Shapes<'f> {
    /// Returns the shape of an operand, or an empty shape if there is no such operand.
    fn operand(self, index: usize) -> &'f [i64] {
        self.op.operands.get(index).map_or(&[][..], |&value| shape(self.func, value))
    }

    /// Returns the shape of the first result.
    fn result(self) -> &'f [i64] {
        self.op.results.first().map_or(&[][..], |&value| shape(self.func, value))
    }
}

/// Returns the rule of an op. The operands and results of an op without a rule must not be sharded.
pub(super) fn rule(func: &Func, op: &Op, constants: &impl Constants) -> Rule {
    let mut rule = Rule::whole(func, op);
    let shapes = Shapes { func, op };
    let (operand, result) = (shapes.operand(0), shapes.result());
    match &op.kind {
        OpKind::Constant(literal) if !literal.splat && !result.is_empty() => {}
        // A reversed dimension may be sharded, because partitions exchange their parts.
        OpKind::Constant(_)
        | OpKind::Iota { .. }
        | OpKind::Unary(_)
        | OpKind::Binary(_)
        | OpKind::Compare { .. }
        | OpKind::Select
        | OpKind::Clamp
        | OpKind::Fma
        | OpKind::Convert
        | OpKind::ReducePrecision { .. }
        | OpKind::Reverse { .. } => rule.alike(result, |_| true),
        OpKind::Concatenate { dimension } | OpKind::Sort { dimension, .. } => rule.alike(result, |d| d != *dimension),
        OpKind::BitcastConvert => leading(&mut rule, result, operand.len().min(result.len())),
        OpKind::Fft { fft_length, .. } => leading(&mut rule, result, result.len().saturating_sub(fft_length.len())),
        OpKind::Cholesky { .. } => rule.alike(result, |d| d + 2 < result.len()),
        OpKind::TriangularSolve { left_side, .. } => triangular_solve(&mut rule, shapes, *left_side),
        OpKind::BroadcastInDim { broadcast_dimensions } => broadcast(&mut rule, shapes, broadcast_dimensions),
        OpKind::Reshape => reshape(&mut rule, operand, result),
        OpKind::Transpose { permutation } => transpose(&mut rule, shapes, permutation),
        OpKind::Slice { .. } | OpKind::DynamicSlice { .. } => slice(&mut rule, shapes),
        OpKind::DynamicUpdateSlice => update_slice(&mut rule, shapes),
        OpKind::Pad { edge_padding_low, edge_padding_high, interior_padding } => {
            let paddings = [edge_padding_low, edge_padding_high, interior_padding];
            rule.alike(result, |d| paddings.iter().all(|list| list.get(d) == Some(&0)));
        }
        OpKind::Gather { dimensions, slice_sizes, .. } => gather(&mut rule, shapes, dimensions, slice_sizes),
        OpKind::Scatter { dimensions, .. } => scatter(&mut rule, shapes, dimensions, constants),
        OpKind::DotGeneral { dimensions, .. } => dot_general(&mut rule, shapes, dimensions),
        OpKind::Convolution { dimensions, feature_group_count, batch_group_count, .. } => {
            convolution(&mut rule, shapes, dimensions, (*feature_group_count, *batch_group_count));
        }
        OpKind::Reduce { dimensions } => reduce(&mut rule, shapes, dimensions, reducible(func, op, constants)),
        OpKind::ReduceWindow { window } | OpKind::SelectAndScatter { window } => windowed(&mut rule, operand, window),
        OpKind::CustomCall { call_target_name, .. } => batched_call(&mut rule, shapes, call_target_name),
        kind => collective(&mut rule, func, op, kind),
    }
    // Empty dimensions need not be sharded.
    for (factor, _) in rule.sizes.clone().iter().enumerate().filter(|(_, size)| **size == 0) {
        rule.operands.iter_mut().chain(&mut rule.results).flatten().for_each(|dim| dim.retain(|&f| f != factor));
    }
    rule.find_alone(func, op);
    if let (OpKind::Reverse { dimensions }, Some(mapping)) = (&op.kind, rule.results.first()) {
        // Reversing moves padding from the end of a dimension to its beginning, so the dimension must not be padded.
        for &factor in dimensions.iter().filter_map(|&d| mapping.get(d)).flatten() {
            rule.alone[factor] = false;
        }
    }
    rule
}

/// Adds factors for the first `count` dimensions. These dimensions are the same in the operand and in the result.
fn leading(rule: &mut Rule, result: &[i64], count: usize) {
    for (d, &size) in result.iter().enumerate().take(count) {
        rule.join(size, &[(0, d)], &[(0, d)]);
    }
}

/// Returns the number of leading dimensions of a custom call that are batch dimensions. JAX's linear algebra calls
/// declare this number, except for those to the targets in the `match`.
fn batch_dimensions(shapes: Shapes<'_>, target: &str) -> Option<usize> {
    if let Some(Attribute::Dictionary(entries)) = find(&shapes.op.attributes, "mhlo.frontend_attributes")
        && let Some(count) = find(entries, "num_batch_dims").and_then(text)
    {
        return count.parse().ok();
    }
    match target {
        "Qr" | "Eigh" | "LuDecomposition" | "ProductOfElementaryHouseholderReflectors" => {
            shapes.operand(0).len().checked_sub(2)
        }
        _ => None,
    }
}

/// Adds factors for the batch dimensions of a custom call. An operand of smaller rank belongs to every element of the
/// batch.
fn batched_call(rule: &mut Rule, shapes: Shapes<'_>, target: &str) {
    let Some(count) = batch_dimensions(shapes, target) else { return };
    let Some(batch) = shapes.result().get(..count) else { return };
    let operands: Vec<usize> = (0..shapes.op.operands.len()).filter(|&i| shapes.operand(i).len() >= count).collect();
    let results = &shapes.op.results;
    if !results.iter().all(|&value| shape(shapes.func, value).starts_with(batch))
        || !operands.iter().all(|&i| shapes.operand(i).starts_with(batch))
    {
        return;
    }
    for (d, &size) in batch.iter().enumerate() {
        let operands: Vec<_> = operands.iter().map(|&i| (i, d)).collect();
        let results: Vec<_> = (0..results.len()).map(|i| (i, d)).collect();
        rule.join(size, &operands, &results);
    }
}

fn triangular_solve(rule: &mut Rule, shapes: Shapes<'_>, left_side: bool) {
    let result = shapes.result();
    rule.alike(result, |d| d + 2 < result.len());
    // The right-hand sides are independent of each other.
    if let Some(d) = result.len().checked_sub(if left_side { 1 } else { 2 }) {
        rule.join(result[d], &[(1, d)], &[(0, d)]);
    }
}

fn broadcast(rule: &mut Rule, shapes: Shapes<'_>, broadcast_dimensions: &[usize]) {
    for (d, &size) in shapes.result().iter().enumerate() {
        let from = broadcast_dimensions.iter().position(|&to| to == d);
        match from.filter(|&from| shapes.operand(0).get(from) == Some(&size)) {
            Some(from) => rule.join(size, &[(0, from)], &[(0, d)]),
            None => rule.join(size, &[], &[(0, d)]),
        }
    }
}

fn transpose(rule: &mut Rule, shapes: Shapes<'_>, permutation: &[usize]) {
    for (to, &from) in permutation.iter().enumerate() {
        rule.join(shapes.result()[to], &[(0, from)], &[(0, to)]);
    }
}

/// Adds factors for the dimensions that are not sliced.
fn slice(rule: &mut Rule, shapes: Shapes<'_>) {
    let whole = |&(d, size): &(usize, &i64)| shapes.operand(0).get(d) == Some(size);
    for (d, &size) in shapes.result().iter().enumerate().filter(whole) {
        rule.join(size, &[(0, d)], &[(0, d)]);
    }
}

/// Adds factors for the dimensions that the update covers completely.
fn update_slice(rule: &mut Rule, shapes: Shapes<'_>) {
    let whole = |&(d, size): &(usize, &i64)| shapes.operand(1).get(d) == Some(size);
    for (d, &size) in shapes.result().iter().enumerate().filter(whole) {
        rule.join(size, &[(0, d), (1, d)], &[(0, d)]);
    }
}

fn gather(rule: &mut Rule, shapes: Shapes<'_>, dimensions: &GatherDimensions, slice_sizes: &[i64]) {
    let (x, indices) = (shapes.operand(0), shapes.operand(1));
    let whole =
        |d: &usize| !dimensions.collapsed_slice_dims.contains(d) && !dimensions.operand_batching_dims.contains(d);
    for (from, &to) in (0..x.len()).filter(whole).zip(&dimensions.offset_dims) {
        if slice_sizes.get(from) == x.get(from) {
            rule.join(x[from], &[(0, from)], &[(0, to)]);
        }
    }
    let batch = (0..shapes.result().len()).filter(|d| !dimensions.offset_dims.contains(d));
    for (from, to) in (0..indices.len()).filter(|&d| d != dimensions.index_vector_dim).zip(batch) {
        let shared = dimensions.start_indices_batching_dims.iter().position(|&d| d == from);
        match shared.and_then(|at| dimensions.operand_batching_dims.get(at)) {
            Some(&also) => rule.join(indices[from], &[(1, from), (0, also)], &[(0, to)]),
            None => rule.join(indices[from], &[(1, from)], &[(0, to)]),
        }
    }
}

fn scatter(rule: &mut Rule, shapes: Shapes<'_>, dimensions: &ScatterDimensions, constants: &impl Constants) {
    let count = shapes.op.results.len();
    let (x, indices, updates) = (shapes.operand(0), shapes.operand(count), shapes.operand(count + 1));
    // Each device may add its own updates if the result may remain unreduced. Otherwise, exchanging the updates is
    // cheaper.
    let adds = is_scatter_add(shapes.op) && !constants.wanted_sums(shapes.op.results[0]).is_empty();
    let window =
        |d: &usize| !dimensions.inserted_window_dims.contains(d) && !dimensions.input_batching_dims.contains(d);
    let everywhere = |rule: &mut Rule, size, d: usize, update: usize, index: Option<usize>| {
        let mut places: Vec<(usize, usize)> = (0..count).map(|i| (i, d)).collect();
        places.extend((0..count).map(|i| (count + 1 + i, update)));
        places.extend(index.map(|index| (count, index)));
        rule.join(size, &places, &(0..count).map(|i| (i, d)).collect::<Vec<_>>());
    };
    for (d, &update) in (0..x.len()).filter(window).zip(&dimensions.update_window_dims) {
        if updates.get(update) == x.get(d) {
            everywhere(rule, x[d], d, update, None);
        }
    }
    let batch = (0..updates.len()).filter(|d| !dimensions.update_window_dims.contains(d));
    for (index, update) in (0..indices.len()).filter(|&d| d != dimensions.index_vector_dim).zip(batch) {
        let shared = dimensions.scatter_indices_batching_dims.iter().position(|&d| d == index);
        if let Some(&d) = shared.and_then(|at| dimensions.input_batching_dims.get(at)) {
            everywhere(rule, x[d], d, update, Some(index));
        } else if adds {
            rule.join_as(true, indices[index], &[(1, index), (2, update)], &[]);
        }
    }
}

fn dot_general(rule: &mut Rule, shapes: Shapes<'_>, dimensions: &DotDimensions) {
    let (lhs, rhs) = (shapes.operand(0), shapes.operand(1));
    for (at, (&l, &r)) in dimensions.lhs_batching.iter().zip(&dimensions.rhs_batching).enumerate() {
        rule.join(lhs[l], &[(0, l), (1, r)], &[(0, at)]);
    }
    let mut at = dimensions.lhs_batching.len();
    for l in (0..lhs.len()).filter(|l| !dimensions.lhs_batching.contains(l) && !dimensions.lhs_contracting.contains(l))
    {
        rule.join(lhs[l], &[(0, l)], &[(0, at)]);
        at += 1;
    }
    for r in (0..rhs.len()).filter(|r| !dimensions.rhs_batching.contains(r) && !dimensions.rhs_contracting.contains(r))
    {
        rule.join(rhs[r], &[(1, r)], &[(0, at)]);
        at += 1;
    }
    for (&l, &r) in dimensions.lhs_contracting.iter().zip(&dimensions.rhs_contracting) {
        rule.join_as(true, lhs[l], &[(0, l), (1, r)], &[]);
    }
}

/// Adds factors for the batch and the feature dimensions. `features` and `batches` are the numbers of feature groups
/// and batch groups. With several batch groups, no dimension may be sharded. With several feature groups, only the
/// batch dimension may be sharded. Spatial dimensions must not be sharded.
fn convolution(rule: &mut Rule, shapes: Shapes<'_>, dimensions: &ConvDimensions, (features, batches): (i64, i64)) {
    let x = shapes.operand(0);
    if batches == 1 {
        rule.join(x[dimensions.input_batch], &[(0, dimensions.input_batch)], &[(0, dimensions.output_batch)]);
    }
    if batches == 1 && features == 1 {
        let (out, kernel) = (dimensions.output_feature, dimensions.kernel_output_feature);
        rule.join(shapes.result()[out], &[(1, kernel)], &[(0, out)]);
        rule.join_as(
            true,
            x[dimensions.input_feature],
            &[(0, dimensions.input_feature), (1, dimensions.kernel_input_feature)],
            &[],
        );
    }
}

fn reduce(rule: &mut Rule, shapes: Shapes<'_>, dimensions: &[usize], reducible: bool) {
    let count = shapes.op.operands.len() / 2;
    let all = |d: usize| (0..count).map(|i| (i, d)).collect::<Vec<_>>();
    let mut to = 0;
    for (d, &size) in shapes.operand(0).iter().enumerate() {
        if !dimensions.contains(&d) {
            rule.join(size, &all(d), &all(to));
            to += 1;
        } else if reducible {
            rule.join_as(true, size, &all(d), &[]);
        }
    }
}

/// Adds factors for the dimensions along which the window has one element and moves by one, without dilation or
/// padding.
fn windowed(rule: &mut Rule, operand: &[i64], window: &Window) {
    let one = |list: &[i64], d: usize| list.get(d).is_none_or(|&v| v == 1);
    rule.alike(operand, |d| {
        one(&window.dimensions, d)
            && one(&window.strides, d)
            && one(&window.base_dilations, d)
            && one(&window.window_dilations, d)
            && window.padding.get(d).is_none_or(|&p| p == (0, 0))
    });
}

/// Adds factors for the dimensions that a collective neither gathers nor splits. Along the axes that are not manual, a
/// collective in a manual computation is elementwise in these dimensions.
fn collective(rule: &mut Rule, func: &Func, op: &Op, kind: &OpKind) {
    let taken: &[usize] = match kind {
        OpKind::AllReduce { .. } | OpKind::CollectivePermute { .. } | OpKind::CollectiveBroadcast { .. } => &[],
        OpKind::AllGather { all_gather_dim, .. } => &[*all_gather_dim],
        OpKind::ReduceScatter { scatter_dimension, .. } => &[*scatter_dimension],
        OpKind::AllToAll { split_dimension, concat_dimension, .. } => &[*split_dimension, *concat_dimension],
        _ => return,
    };
    for (i, &value) in op.results.iter().enumerate() {
        for (d, &size) in shape(func, value).iter().enumerate().filter(|(d, _)| !taken.contains(d)) {
            rule.join(size, &[(i, d)], &[(i, d)]);
        }
    }
}

/// Adds the factors of a reshape. A reshape splits and merges dimensions in row-major order.
fn reshape(rule: &mut Rule, from: &[i64], to: &[i64]) {
    if from.contains(&0) || to.contains(&0) {
        return;
    }
    let (mut i, mut j) = (0, 0);
    let (mut a, mut b) = (1, 1);
    loop {
        while a == 1 && i < from.len() {
            a = from[i];
            i += 1;
        }
        while b == 1 && j < to.len() {
            b = to[j];
            j += 1;
        }
        if a == 1 || b == 1 {
            return;
        }
        let common = gcd(a, b);
        if common > 1 {
            rule.join(common, &[(0, i - 1)], &[(0, j - 1)]);
        }
        (a, b) = (a / common, b / common);
        if a == 1 || b == 1 {
            continue;
        }
        // There is no common boundary here. The following dimensions must not be sharded until the products are equal
        // again.
        let (mut left, mut right) = (a, b);
        while left != right {
            if left < right {
                let Some(&size) = from.get(i) else { return };
                left *= size;
                i += 1;
            } else {
                let Some(&size) = to.get(j) else { return };
                right *= size;
                j += 1;
            }
        }
        (a, b) = (1, 1);
    }
}

fn gcd(a: i64, b: i64) -> i64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// Returns the only op of a reducer of one value, if the reducer returns `op(a, b)` or `op(b, a)`.
pub(super) fn reducer(op: &Op) -> Option<Binary> {
    let region = op.regions.first()?;
    let &[a, b] = &region.args[..] else { return None };
    match &region.ops[..] {
        [body, ret] if ret.operands == body.results && (body.operands[..] == [a, b] || body.operands[..] == [b, a]) => {
            match body.kind {
                OpKind::Binary(binary) => Some(binary),
                _ => None,
            }
        }
        _ => None,
    }
}

/// Returns whether the op is a scatter that adds its updates to one operand.
pub(super) fn is_scatter_add(op: &Op) -> bool {
    matches!(op.kind, OpKind::Scatter { .. }) && op.operands.len() == 3 && reducer(op) == Some(Binary::Add)
}

/// Returns whether parts of a `reduce` may be reduced separately and then combined, because counting the initial value
/// more than once does not change the result.
fn reducible(func: &Func, op: &Op, constants: &impl Constants) -> bool {
    let (Some(binary), [_, init]) = (reducer(op), &op.operands[..]) else { return false };
    let literal = || constants.constant(*init);
    match binary {
        Binary::Maximum | Binary::Minimum | Binary::And | Binary::Or => true,
        Binary::Add | Binary::Xor => literal().is_some_and(|l| l.data.iter().all(|&byte| byte == 0)),
        Binary::Multiply => {
            let element = tensor(func, *init).map(|ty| ty.element);
            literal().zip(element).is_some_and(|(l, element)| one(element).is_some_and(|one| l.data[..] == one[..]))
        }
        _ => false,
    }
}

fn one(element: stablehlo::ir::ElementType) -> Option<Vec<u8>> {
    use stablehlo::ir::ElementType;
    Some(match element {
        ElementType::F32 => 1f32.to_le_bytes().to_vec(),
        ElementType::F64 => 1f64.to_le_bytes().to_vec(),
        ElementType::F16 => vec![0x00, 0x3c],
        ElementType::Bf16 => vec![0x80, 0x3f],
        integer if integer.is_integer() => {
            let mut bytes = vec![0; integer.byte_size()];
            bytes[0] = 1;
            bytes
        }
        _ => return None,
    })
}

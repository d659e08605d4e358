//! Index maps: which element of which operand an element of a shape op's result is.

use stablehlo::ir::{Op, OpKind, TensorType, Type, ValueId, ValueTypes};

/// One operand of a shape op, as a source of elements of the result.
///
/// [`index_map`] returns the sources of an op. An element of the result at the coordinates `out` is the element of the
/// first source that contains it. The last source contains every element.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// Index of the operand.
    pub operand: usize,
    /// For each dimension of the operand, the coordinate of the element.
    pub coordinates: Vec<Coordinate>,
}

/// A coordinate of an element in an operand: `(out[dimension] * stride + offset - start) / divisor`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Coordinate {
    /// Dimension of the result. `None` stands for a coordinate 0 in place of `out[dimension]`.
    pub dimension: Option<usize>,
    /// Factor of the coordinate in the result.
    pub stride: i64,
    /// Number to add.
    pub offset: i64,
    /// Positive divisor.
    pub divisor: i64,
    /// A number that the program computes, and that is subtracted (`dynamic_update_slice`) or added
    /// (`dynamic_slice`).
    pub start: Option<Start>,
    /// Extent of the operand, if the source contains the element only if the coordinate is at least 0 and less than the
    /// extent, and the division has no remainder. `None` if this is true for all elements of the result.
    pub within: Option<i64>,
}

/// A start index that the program computes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Start {
    /// Index of the operand that holds the start index, a scalar.
    pub operand: usize,
    /// Largest valid start. The program's number is clamped to the range from 0 to this number.
    pub last: i64,
    /// Whether the start is subtracted instead of added.
    pub subtracts: bool,
}

impl Coordinate {
    fn new(dimension: Option<usize>) -> Self {
        Self { dimension, stride: 1, offset: 0, divisor: 1, start: None, within: None }
    }

    fn at(dimension: usize) -> Self {
        Self::new(Some(dimension))
    }
}

impl Source {
    fn whole(operand: usize, rank: usize) -> Self {
        Self { operand, coordinates: (0..rank).map(Coordinate::at).collect() }
    }
}

/// Returns the sources of a shape op's result: of `broadcast_in_dim`, `transpose`, `slice`, `reverse`, `pad`,
/// `concatenate`, `dynamic_slice` and `dynamic_update_slice`. Returns `None` for other ops, and for tensors that have
/// dynamic extents. `reshape` has no map of coordinates, because it keeps the order of the elements.
///
/// ```
/// use stablehlo_passes::index_map::index_map;
///
/// let module = stablehlo::parse("func.func @main(%x: tensor<2x3xf32>) -> tensor<3x2xf32> {
///   %0 = stablehlo.transpose %x, dims = [1, 0] : (tensor<2x3xf32>) -> tensor<3x2xf32>
///   return %0 : tensor<3x2xf32>
/// }", stablehlo::VerifyLevel::FULL)?;
/// let main = module.entry().expect("the module has one");
/// let sources = index_map(&main.body.ops[0], &main.values).expect("a shape op");
/// let dimensions: Vec<_> = sources[0].coordinates.iter().map(|coordinate| coordinate.dimension).collect();
/// assert_eq!(dimensions, [Some(1), Some(0)]);
/// # Ok::<(), stablehlo::Error>(())
/// ```
#[must_use]
pub fn index_map(op: &Op, types: &ValueTypes) -> Option<Vec<Source>> {
    let tensor = |id: Option<&ValueId>| match &types[*id?] {
        Type::Tensor(ty) if ty.is_static() => Some(ty),
        _ => None,
    };
    let (from, to) = (tensor(op.operands.first())?, tensor(op.results.first())?);
    let coordinates = match &op.kind {
        OpKind::BroadcastInDim { broadcast_dimensions } => {
            let pairs = broadcast_dimensions.iter().zip(&from.shape);
            pairs.map(|(&to, &extent)| Coordinate::new((extent != 1).then_some(to))).collect()
        }
        OpKind::Transpose { permutation } => {
            let of = |dimension| permutation.iter().position(|&from| from == dimension);
            (0..from.rank()).map(|dimension| Coordinate::new(of(dimension))).collect()
        }
        OpKind::Slice { start_indices, strides, .. } => {
            let each = (0..from.rank()).map(|d| (d, start_indices[d], strides[d]));
            each.map(|(d, offset, stride)| Coordinate { stride, offset, ..Coordinate::at(d) }).collect()
        }
        OpKind::Reverse { dimensions } => {
            let each = |(d, &extent): (usize, &i64)| match dimensions.contains(&d) {
                true => Coordinate { stride: -1, offset: extent - 1, ..Coordinate::at(d) },
                false => Coordinate::at(d),
            };
            from.shape.iter().enumerate().map(each).collect()
        }
        OpKind::DynamicSlice { slice_sizes } => {
            let start = |d: usize| Start { operand: d + 1, last: from.shape[d] - slice_sizes[d], subtracts: false };
            (0..from.rank()).map(|d| Coordinate { start: Some(start(d)), ..Coordinate::at(d) }).collect()
        }
        OpKind::Pad { .. } => return Some(vec![pad(&op.kind, from)?, Source::whole(1, 0)]),
        OpKind::Concatenate { dimension } => {
            let shapes = (0..op.operands.len()).map(|operand| tensor(op.operands.get(operand)));
            return concatenate(*dimension, &shapes.collect::<Option<Vec<_>>>()?);
        }
        OpKind::DynamicUpdateSlice => {
            let update = tensor(op.operands.get(1))?;
            let coordinate = |(d, &extent): (usize, &i64)| {
                let start = Start { operand: d + 2, last: to.shape[d] - extent, subtracts: true };
                Coordinate { start: Some(start), within: Some(extent), ..Coordinate::at(d) }
            };
            let coordinates = update.shape.iter().enumerate().map(coordinate).collect();
            return Some(vec![Source { operand: 1, coordinates }, Source::whole(0, to.rank())]);
        }
        _ => return None,
    };
    Some(vec![Source { operand: 0, coordinates }])
}

fn pad(kind: &OpKind, from: &TensorType) -> Option<Source> {
    let OpKind::Pad { edge_padding_low, interior_padding, .. } = kind else { return None };
    let coordinate = |d: usize| Coordinate {
        offset: -edge_padding_low[d],
        divisor: interior_padding[d] + 1,
        within: Some(from.shape[d]),
        ..Coordinate::at(d)
    };
    Some(Source { operand: 0, coordinates: (0..from.rank()).map(coordinate).collect() })
}

fn concatenate(dimension: usize, operands: &[&TensorType]) -> Option<Vec<Source>> {
    let mut begin = 0;
    let source = |(operand, ty): (usize, &&TensorType)| {
        let mut source = Source::whole(operand, ty.rank());
        let extent = ty.shape[dimension];
        let along = &mut source.coordinates[dimension];
        along.offset = -begin;
        along.within = (operand + 1 < operands.len()).then_some(extent);
        begin += extent;
        source
    };
    Some(operands.iter().enumerate().map(source).collect())
}

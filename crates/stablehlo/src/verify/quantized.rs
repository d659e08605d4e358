//! Rules of quantized types, and the ops that support them.
//!
//! Quantized types are normalized text, so scales are compared as text.

use super::shapes::extents_agree;
use super::site::{Site, ensure};
use crate::error::{Error, ErrorKind, Result};
use crate::ir::*;

/// A tensor whose stored integers represent the numbers `(integer - zero point) * scale`.
struct Quantized<'t> {
    shape: Vec<i64>,
    /// Storage type, such as `i8` or `u8`.
    storage: &'t str,
    bits: u32,
    expressed: &'t str,
    axis: Option<usize>,
    /// Scale and zero point of each slice along the axis. Without an axis, there is a single pair.
    steps: Vec<(&'t str, i64)>,
}

fn wrong(text: &str, why: &str) -> Error {
    Error::new(ErrorKind::Type, format_args!("{text} {why}"))
}

impl<'t> Quantized<'t> {
    /// Parses a tensor type with quantized elements. Returns `None` for other types, and for elements with blockwise
    /// scales.
    fn of(ty: &'t Type) -> Result<Option<Self>> {
        match ty {
            Type::Other(text) if text.starts_with("tensor<") && !text.starts_with("tensor<*") => Self::parse(text),
            _ => Ok(None),
        }
    }

    fn parse(text: &'t str) -> Result<Option<Self>> {
        let Some((dims, element)) = text["tensor<".len()..].split_once("!quant.uniform<") else { return Ok(None) };
        let shape = dims.split('x').filter(|d| !d.is_empty()).map(|d| if d == "?" { Ok(DYNAMIC) } else { d.parse() });
        let shape: Vec<i64> =
            shape.collect::<std::result::Result<_, _>>().map_err(|_| wrong(text, "has a strange extent"))?;
        let Some((head, steps)) = element.split_once(", ") else { return Err(wrong(text, "has no scale")) };
        if head.contains('{') {
            return Ok(None);
        }
        let (storage, range, rest) = match head.split_once('<').map(|(storage, rest)| (storage, rest.split_once('>'))) {
            Some((storage, Some((range, rest)))) => (storage, Some(range), rest.strip_prefix(':')),
            _ => head.split_once(':').map_or((head, None, None), |(storage, rest)| (storage, None, Some(rest))),
        };
        let (expressed, axis) = match rest.and_then(|rest| rest.split_once(':')) {
            Some((expressed, axis)) => {
                (expressed, Some(axis.parse().map_err(|_| wrong(text, "lacks the dimension to quantize along"))?))
            }
            None => (rest.unwrap_or_default(), None),
        };
        // `u8` and `ui8` are the same type. A signed type has no prefix, as in `i8`.
        let signed = storage.starts_with('i');
        let width = storage.strip_prefix("ui").or_else(|| storage.strip_prefix(['i', 'u']));
        let bits: u32 = width.and_then(|width| width.parse().ok()).unwrap_or(0);
        ensure!(
            Type,
            matches!(bits, 2 | 4 | 8 | 16 | 32),
            "{text} must be stored in integers of 2 to 32 bits, not {storage}"
        );
        let limits = match range.and_then(|range| range.split_once(':')) {
            Some((low, high)) => {
                low.parse().ok().zip(high.parse().ok()).ok_or_else(|| wrong(text, "has a strange range"))?
            }
            None if signed => (-1i64 << (bits - 1), (1i64 << (bits - 1)) - 1),
            None => (0, (1i64 << bits) - 1),
        };
        let list = steps.strip_prefix('{').and_then(|list| list.split('}').next());
        let list = list.unwrap_or_else(|| steps.split('>').next().unwrap_or_default());
        let mut parsed = Vec::new();
        for step in list.split(',').map(str::trim) {
            let (scale, zero) = step.split_once(':').unwrap_or((step, "0"));
            let zero: i64 = zero.trim().parse().map_err(|_| wrong(text, "has a strange zero point"))?;
            ensure!(Type, limits.0 <= zero && zero <= limits.1, "{text} has the zero point {zero} outside its storage");
            parsed.push((scale, zero));
        }
        Ok(Some(Self { shape, storage, bits, expressed, axis, steps: parsed }))
    }

    fn signed(&self) -> bool {
        self.storage.starts_with('i')
    }

    fn same_storage(&self, other: &Self) -> bool {
        self.bits == other.bits && self.signed() == other.signed()
    }

    fn same_steps(&self, other: &Self) -> bool {
        self.steps == other.steps && self.same_storage(other) && self.expressed == other.expressed
    }
}

/// Checks a quantized type. The specification must support the width of the integers, the zero points must be in the
/// range of the integers, and there must be one scale for each slice. Also checks the bounds of a tensor type.
pub(super) fn verify_type(ty: &Type) -> Result<()> {
    if let Type::Other(text) = ty {
        bounds(text)?;
    }
    let Some(q) = Quantized::of(ty)? else { return Ok(()) };
    let Some(axis) = q.axis else { return Ok(()) };
    let scales = i64::try_from(q.steps.len()).unwrap_or(i64::MAX);
    let fits = q.shape.get(axis).is_some_and(|&extent| extents_agree(extent, scales));
    ensure!(Shape, fits, "{ty} has {scales} scales, but dimension {axis} does not exist or has another extent");
    Ok(())
}

/// Checks the bounds of a tensor type. The list has one element for each dimension, which is `?` if the dimension has
/// no bound.
fn bounds(text: &str) -> Result<()> {
    let Some((tensor, bounds)) = text.split_once(", #stablehlo.bounds<") else { return Ok(()) };
    let Some((shape, _)) = crate::compatible::unbounded(tensor) else { return Ok(()) };
    let bounds: Vec<&str> = bounds.trim_end_matches('>').split(',').map(str::trim).collect();
    ensure!(Type, bounds.len() == shape.len(), "{text} has {} bounds for {} dimensions", bounds.len(), shape.len());
    let fits = bounds.iter().zip(&shape).all(|(&bound, &extent)| bound == "?" || extent == DYNAMIC);
    ensure!(Type, fits, "{text} has a bound for a dimension whose extent is known");
    Ok(())
}

/// Checks that all operands and results have the same storage and expressed types, if all of them are quantized.
pub(super) fn alike(site: &Site<'_>) -> Result<()> {
    let mut all = Vec::new();
    for ty in site.operands().chain(site.results()) {
        let Some(q) = Quantized::of(ty)? else { return Ok(()) };
        all.push(q);
    }
    let same = all.windows(2).all(|pair| pair[0].same_storage(&pair[1]) && pair[0].expressed == pair[1].expressed);
    ensure!(Type, same, "operands and results are stored in, or express, different types");
    Ok(())
}

/// Returns the type of the tensor that a quantized tensor represents. Returns `None` for other types.
pub(crate) fn expressed(ty: &Type) -> Option<TensorType> {
    let quantized = Quantized::of(ty).ok()??;
    Some(TensorType { element: ElementType::from_name(quantized.expressed)?, shape: quantized.shape })
}

fn is_quantized(ty: &Type) -> bool {
    matches!(ty, Type::Other(text) if text.contains("!quant.uniform<"))
}

#[inline]
pub(super) fn verify(site: &Site<'_>) -> Result<()> {
    if site.quantized { quantized_op(site) } else { Ok(()) }
}

/// Checks an op that may have quantized operands or results.
fn quantized_op(site: &Site<'_>) -> Result<()> {
    // If the result types are inferred, the results have no types yet.
    let results = if site.wanted.is_none() { &site.op.results[..] } else { &[] };
    let any_quantized = |values: &[ValueId]| values.iter().any(|&v| is_quantized(site.func.ty(v)));
    if !any_quantized(&site.op.operands) && !any_quantized(results) {
        return Ok(());
    }
    let (any, per_axis) = takes(&site.op.kind);
    for &value in site.op.operands.iter().chain(results) {
        let ty = site.func.ty(value);
        let Some(q) = Quantized::of(ty)? else { continue };
        ensure!(Type, any, "does not take quantized elements such as those of {ty}");
        ensure!(Type, per_axis || q.axis.is_none(), "does not take {ty}, whose scales differ along a dimension");
    }
    if site.wanted.is_none() { rules(site) } else { Ok(()) }
}

/// Returns whether an op supports quantized elements, and whether it supports them with a scale for each slice.
fn takes(kind: &OpKind) -> (bool, bool) {
    use Binary::{And, Complex, Or, ShiftLeft, ShiftRightArithmetic, ShiftRightLogical, Xor};
    use Unary::{CountLeadingZeros, Imag, Not, Popcnt, Real};
    match kind {
        OpKind::Convert
        | OpKind::Fma
        | OpKind::Fft { .. }
        | OpKind::Unary(CountLeadingZeros | Imag | Not | Popcnt | Real)
        | OpKind::Binary(And | Complex | Or | ShiftLeft | ShiftRightArithmetic | ShiftRightLogical | Xor) => {
            (false, false)
        }
        OpKind::Constant(_)
        | OpKind::Binary(Binary::Add)
        | OpKind::BitcastConvert
        | OpKind::BroadcastInDim { .. }
        | OpKind::Reshape
        | OpKind::Transpose { .. }
        | OpKind::Convolution { .. }
        | OpKind::DotGeneral { .. }
        | OpKind::GetDimensionSize { .. }
        | OpKind::Call { .. }
        | OpKind::While
        | OpKind::If
        | OpKind::Case
        | OpKind::Composite { .. }
        | OpKind::CustomCall { .. }
        | OpKind::Tuple
        | OpKind::GetTupleElement { .. }
        | OpKind::Return => (true, true),
        OpKind::AllGather { .. }
        | OpKind::AllToAll { .. }
        | OpKind::AllReduce { .. }
        | OpKind::ReduceScatter { .. }
        | OpKind::CollectivePermute { .. }
        | OpKind::Map { .. }
        | OpKind::BatchNormGrad { .. }
        | OpKind::BatchNormInference { .. }
        | OpKind::BatchNormTraining { .. } => (true, false),
        OpKind::CrossReplicaSum { .. }
        | OpKind::CollectiveBroadcast { .. }
        | OpKind::CollectiveReduce { .. }
        | OpKind::AsyncStart
        | OpKind::AsyncDone
        | OpKind::Infeed { .. }
        | OpKind::Outfeed { .. }
        | OpKind::Send { .. }
        | OpKind::Recv { .. }
        | OpKind::Rng { .. }
        | OpKind::DynamicBroadcastInDim { .. }
        | OpKind::DynamicConv { .. }
        | OpKind::DynamicGather { .. }
        | OpKind::DynamicIota { .. }
        | OpKind::DynamicPad
        | OpKind::DynamicReshape
        | OpKind::RealDynamicSlice
        | OpKind::SetDimensionSize { .. }
        | OpKind::UniformDequantize
        | OpKind::UniformQuantize
        | OpKind::Einsum { .. }
        | OpKind::UnaryEinsum { .. }
        | OpKind::TorchIndexSelect { .. }
        | OpKind::Trace
        | OpKind::Other { .. } => (true, true),
        _ => (true, false),
    }
}

/// Checks the rules of an op for its quantized operands and its first result.
fn rules(site: &Site<'_>) -> Result<()> {
    let operand = |i: usize| site.op.operands.get(i).map_or(Ok(None), |&v| Quantized::of(site.func.ty(v)));
    let result = |i: usize| site.op.results.get(i).map_or(Ok(None), |&v| Quantized::of(site.func.ty(v)));
    let (first, out) = (operand(0)?, result(0)?);
    match &site.op.kind {
        OpKind::Constant(literal) => {
            let Some(out) = out else { return Ok(()) };
            let element = literal.ty.element;
            let stored = element.bit_width() == out.bits
                && (element.is_signed_integer() && out.signed() || element.is_unsigned_integer() && !out.signed());
            ensure!(Type, stored, "the value holds {element}, but the result stores {}", out.storage);
            Ok(())
        }
        OpKind::Binary(Binary::Add) => add([first, operand(1)?, out]),
        OpKind::Reshape => reshape(first.as_ref(), out.as_ref()),
        OpKind::Transpose { permutation } => {
            let (Some(from), Some(to)) = (&first, &out) else { return Ok(()) };
            same_scales(from, to)?;
            let moved = to.axis.and_then(|axis| permutation.get(axis).copied());
            ensure!(
                Type,
                moved == from.axis,
                "the result must be quantized along the dimension that the operand's becomes"
            );
            Ok(())
        }
        OpKind::BroadcastInDim { broadcast_dimensions } => {
            broadcast(first.as_ref(), out.as_ref(), broadcast_dimensions)
        }
        OpKind::DotGeneral { dimensions, .. } => {
            let rhs = operand(1)?;
            if let Some(rhs) = &rhs {
                ensure!(Type, rhs.steps.iter().all(|&(_, zero)| zero == 0), "the zero points of rhs must be 0");
                let contracted = rhs.axis.is_some_and(|axis| dimensions.rhs_contracting.contains(&axis));
                ensure!(Type, !contracted, "rhs must not be quantized along a dimension that is contracted");
            }
            product(site, first, rhs, out)
        }
        OpKind::Convolution { dimensions, .. } => {
            let rhs = operand(1)?;
            let along = |q: &Option<Quantized<'_>>, dimension: usize| {
                q.as_ref().and_then(|q| q.axis).is_none_or(|axis| axis == dimension)
            };
            ensure!(
                Type,
                along(&rhs, dimensions.kernel_output_feature),
                "rhs must be quantized along its output features"
            );
            ensure!(Type, along(&out, dimensions.output_feature), "the result must be quantized along its features");
            product(site, first, rhs, out)
        }
        OpKind::BitcastConvert => {
            let (Some(from), Some(to)) = (&first, &out) else { return Ok(()) };
            let same = from.bits != to.bits || crate::compatible::agree(&from.shape, &to.shape);
            ensure!(Shape, same, "operand and result differ in shape");
            Ok(())
        }
        OpKind::Reduce { .. }
        | OpKind::ReduceWindow { .. }
        | OpKind::Scatter { .. }
        | OpKind::SelectAndScatter { .. }
        | OpKind::AllReduce { .. }
        | OpKind::ReduceScatter { .. } => accumulates(site),
        OpKind::DynamicReshape => reshape(first.as_ref(), out.as_ref()),
        OpKind::DynamicBroadcastInDim { broadcast_dimensions, .. } => {
            broadcast(first.as_ref(), out.as_ref(), broadcast_dimensions)
        }
        OpKind::UniformQuantize => {
            let Some(out) = out else { return Ok(()) };
            let from = match (&first, site.operand(0)?) {
                (Some(from), _) => from.expressed.to_owned(),
                (None, Type::Tensor(tensor)) => tensor.element.to_string(),
                _ => return Ok(()),
            };
            ensure!(
                Type,
                from == out.expressed,
                "the expressed types of result and operand differ: {} and {from}",
                out.expressed
            );
            Ok(())
        }
        _ => Ok(()),
    }
}

fn add(all: [Option<Quantized<'_>>; 3]) -> Result<()> {
    let [Some(lhs), Some(rhs), Some(out)] = &all else {
        return Err(Error::new(ErrorKind::Type, "operands and result must all be quantized, or none of them"));
    };
    for other in [rhs, out] {
        ensure!(
            Type,
            lhs.same_storage(other),
            "operands and result are stored in {} and {}",
            lhs.storage,
            other.storage
        );
        ensure!(
            Type,
            lhs.expressed == other.expressed,
            "the expressed types of operands and result differ: {} and {}",
            lhs.expressed,
            other.expressed
        );
    }
    match out.axis {
        None => {
            ensure!(Type, lhs.axis.or(rhs.axis).is_none(), "the result must have a scale per slice, as an operand has")
        }
        Some(axis) => {
            ensure!(Type, lhs.axis.or(rhs.axis).is_some(), "the result has a scale per slice, but no operand does");
            let same = [lhs, rhs].iter().all(|q| q.axis.is_none_or(|other| other == axis));
            ensure!(Type, same, "operands and result are quantized along different dimensions");
        }
    }
    Ok(())
}

/// Checks that an op that moves elements does not change their scales or zero points. Skips the check if only one of
/// the types has a scale for each slice.
fn same_scales(from: &Quantized<'_>, to: &Quantized<'_>) -> Result<()> {
    let alike = from.axis.is_some() != to.axis.is_some() || from.same_steps(to);
    ensure!(Type, alike, "operand and result have different scales or zero points");
    Ok(())
}

fn reshape(from: Option<&Quantized<'_>>, to: Option<&Quantized<'_>>) -> Result<()> {
    let (Some(from), Some(to)) = (from, to) else { return Ok(()) };
    let (Some(a), Some(b)) = (from.axis, to.axis) else { return same_scales(from, to) };
    let slices = |q: &Quantized<'_>, axis: usize| q.shape.get(axis).copied().unwrap_or(DYNAMIC);
    ensure!(
        Shape,
        extents_agree(slices(from, a), slices(to, b)),
        "operand and result have different numbers of slices"
    );
    same_scales(from, to)?;
    let before = |q: &Quantized<'_>, axis: usize| q.shape.iter().take(axis).fold(1i64, |n, &d| n.saturating_mul(d));
    let fixed = !from.shape.contains(&DYNAMIC) && !to.shape.contains(&DYNAMIC);
    ensure!(
        Shape,
        !fixed || before(from, a) == before(to, b),
        "the slices of operand and result hold different elements"
    );
    Ok(())
}

fn broadcast(from: Option<&Quantized<'_>>, to: Option<&Quantized<'_>>, dimensions: &[usize]) -> Result<()> {
    let (Some(from), Some(to)) = (from, to) else { return Ok(()) };
    let (Some(a), Some(b)) = (from.axis, to.axis) else { return same_scales(from, to) };
    ensure!(
        Type,
        dimensions.get(a) == Some(&b),
        "the result must be quantized along the dimension that the operand's becomes"
    );
    if from.shape.get(a) == Some(&1) {
        ensure!(
            Type,
            to.steps.iter().all(|step| from.steps.first() == Some(step)),
            "the result has other scales than the operand"
        );
    }
    Ok(())
}

/// Checks a multiplication of quantized tensors, or of an unquantized tensor and quantized weights.
fn product(
    site: &Site<'_>,
    lhs: Option<Quantized<'_>>,
    rhs: Option<Quantized<'_>>,
    out: Option<Quantized<'_>>,
) -> Result<()> {
    let Some(rhs) = rhs.filter(|_| lhs.is_some() == out.is_some()) else {
        return Err(Error::new(ErrorKind::Type, "rhs must be quantized, and the result if lhs is"));
    };
    if let (Some(lhs), Some(out)) = (lhs, out) {
        ensure!(Type, lhs.same_storage(&rhs), "operands are stored in {} and {}", lhs.storage, rhs.storage);
        let express = [rhs.expressed, out.expressed].iter().all(|&e| e == lhs.expressed);
        ensure!(Type, express, "operands and result express different types");
        ensure!(Type, rhs.axis.is_some() || out.axis.is_none(), "the result has a scale per slice, but rhs does not");
        return Ok(());
    }
    for ty in [site.operand(0)?, site.result(0)?] {
        if let Type::Tensor(tensor) = ty {
            let element = tensor.element.to_string();
            ensure!(
                Type,
                element == rhs.expressed,
                "the expressed type of rhs is {}, but lhs or result holds {element}",
                rhs.expressed
            );
        }
    }
    Ok(())
}

/// Checks that the reducer's arguments have the expressed type of the inputs, and integers that are at least as wide.
fn accumulates(site: &Site<'_>) -> Result<()> {
    let Some(reducer) = site.op.regions.last() else { return Ok(()) };
    let inputs = reducer.args.len() / 2;
    // The source of a select-and-scatter follows the operand. The updates of a scatter follow the indices.
    let (operands, starts) = match &site.op.kind {
        OpKind::SelectAndScatter { .. } => (&site.op.operands[1..], [0, 1]),
        OpKind::Scatter { .. } => (&site.op.operands[..], [0, inputs + 1]),
        _ => (&site.op.operands[..], [0, inputs]),
    };
    for start in starts {
        for (&value, &arg) in operands.iter().skip(start).take(inputs).zip(&reducer.args) {
            let (Some(from), Some(to)) = (Quantized::of(site.func.ty(value))?, Quantized::of(site.func.ty(arg))?)
            else {
                continue;
            };
            let fits = from.bits <= to.bits && from.expressed == to.expressed;
            ensure!(Type, fits, "{} cannot be accumulated in {}", site.func.ty(value), site.func.ty(arg));
        }
    }
    Ok(())
}

//! The pass `decompose_quantized`.

use stablehlo::ir::{
    Binary, ComparisonType, DYNAMIC, ElementType, Func, Module, Op, OpKind, TensorType, Type, Unary, ValueId,
};
use stablehlo::{Error, ErrorKind, Patch, Result, rewrite};

use crate::apply::{apply_all, retype};
use crate::quantized_type::{Params, Quantized};

/// Replaces quantized types with arithmetic on their stored integers. Returns `None` if the program contains no
/// quantized type.
///
/// Ops that only move or pass on elements work on the integers, if their operands and results have the same
/// quantization parameters. All other ops are replaced with ops that dequantize, compute and quantize.
///
/// # Errors
///
/// Returns an error if a quantized tensor has a dimension of unknown extent, or if scales do not fit its shape. The
/// module must be verified.
pub fn decompose_quantized(module: &Module) -> Result<Option<Module>> {
    let quantized = |f: &Func| f.values.iter().chain(&f.results).any(|ty| Quantized::of(ty).is_some());
    apply_all(module, quantized, |func, locations| {
        let types = Original(func.values.iter().map(Quantized::of).collect());
        retype(func, |ty| Some(Type::Tensor(Quantized::of(ty)?.stored())));
        rewrite(func, locations, |op, patch| types.replace(op, patch))
    })
}

/// The original type of each value that had a quantized type.
struct Original(Vec<Option<Quantized>>);

impl Original {
    /// Returns the original type. A value that the pass has created has none.
    fn quantized(&self, id: ValueId) -> Option<&Quantized> {
        self.0.get(id.0 as usize).and_then(Option::as_ref)
    }

    fn replace(&self, mut op: Op, patch: &mut Patch<'_>) -> Result<()> {
        let touched = op.operands.iter().chain(&op.results).any(|&id| self.quantized(id).is_some());
        if !touched || self.works_on_storage(&op) {
            patch.push(op);
            return Ok(());
        }
        for id in &mut op.operands {
            if let Some(q) = self.quantized(*id) {
                *id = dequantize(*id, q, patch)?;
            }
        }
        if matches!(op.kind, OpKind::UniformQuantize | OpKind::UniformDequantize) {
            let (&[x], &[y]) = (&op.operands[..], &op.results[..]) else {
                return Err(invalid("must have one operand and one result"));
            };
            match self.quantized(y) {
                Some(to) => quantize(x, to, y, patch)?,
                None => patch.push(Op { kind: OpKind::Convert, ..op }),
            }
            return Ok(());
        }
        if let OpKind::Compare { compare_type, .. } = &mut op.kind {
            *compare_type = ComparisonType::NoType;
        }
        let results = op.results.clone();
        for result in &mut op.results {
            // The numbers of a result before they are quantized.
            if let Some(q) = self.quantized(*result) {
                *result = patch.value(Type::Tensor(q.meant()));
            }
        }
        let numbers = op.results.clone();
        patch.push(op);
        for (x, y) in numbers.into_iter().zip(results) {
            if let Some(to) = self.quantized(y) {
                quantize(x, to, y, patch)?;
            }
        }
        Ok(())
    }

    /// Returns whether the op can run unchanged on the stored integers.
    fn works_on_storage(&self, op: &Op) -> bool {
        let passes_on = match &op.kind {
            OpKind::BitcastConvert
            | OpKind::Return
            | OpKind::Call { .. }
            | OpKind::Composite { .. }
            | OpKind::CustomCall { .. }
            | OpKind::While
            | OpKind::If
            | OpKind::Case
            | OpKind::Tuple
            | OpKind::GetTupleElement { .. }
            | OpKind::OptimizationBarrier
            | OpKind::GetDimensionSize { .. }
            | OpKind::Constant(_) => return true,
            OpKind::Reshape
            | OpKind::Transpose { .. }
            | OpKind::Slice { .. }
            | OpKind::BroadcastInDim { .. }
            | OpKind::DynamicSlice { .. }
            | OpKind::DynamicUpdateSlice
            | OpKind::Concatenate { .. }
            | OpKind::Pad { .. }
            | OpKind::Reverse { .. }
            | OpKind::Gather { .. }
            | OpKind::Select
            | OpKind::DynamicReshape
            | OpKind::DynamicBroadcastInDim { .. }
            | OpKind::DynamicGather { .. }
            | OpKind::DynamicPad
            | OpKind::RealDynamicSlice
            | OpKind::SetDimensionSize { .. }
            | OpKind::TorchIndexSelect { .. }
            | OpKind::AllGather { .. }
            | OpKind::AllToAll { .. }
            | OpKind::CollectivePermute { .. }
            | OpKind::CollectiveBroadcast { .. } => true,
            OpKind::Other { name, .. } => name.starts_with("sdy."),
            // Ops with regions are rewritten inside the regions.
            _ => !op.regions.is_empty(),
        };
        let mut all = op.operands.iter().chain(&op.results).filter_map(|&id| self.quantized(id)).map(|q| &q.params);
        passes_on && all.next().is_none_or(|first| all.all(|p| p == first))
    }
}

fn invalid(message: impl std::fmt::Display) -> Error {
    Error::new(ErrorKind::Type, message)
}

/// Broadcasts one number per slice, or one number for all slices, to the shape of the tensor. `of` selects the scale or
/// the zero point.
fn spread(q: &Quantized, of: impl Fn(&(f64, i64)) -> f64, patch: &mut Patch<'_>) -> Result<ValueId> {
    if q.shape.contains(&DYNAMIC) {
        return Err(Error::new(
            ErrorKind::Unsupported,
            "a quantized tensor with a dimension of unknown extent; refine the program's shapes first",
        ));
    }
    let numbers: Vec<f64> = q.params.steps.iter().map(of).collect();
    let (shape, broadcast_dimensions) = match q.axis {
        Some(axis) => {
            let fits = q.shape.get(axis).is_some_and(|&d| usize::try_from(d) == Ok(numbers.len()));
            if !fits {
                return Err(invalid(format_args!(
                    "{} scales along dimension {axis} of a quantized tensor of {:?}",
                    numbers.len(),
                    q.shape
                )));
            }
            (vec![q.shape[axis]], vec![axis])
        }
        None => (Vec::new(), Vec::new()),
    };
    let constant = constant(&numbers, shape, q.params.expressed, patch)?;
    let kind = OpKind::BroadcastInDim { broadcast_dimensions: broadcast_dimensions.into() };
    Ok(patch.add(kind, &[constant], q.meant()))
}

fn constant(numbers: &[f64], shape: Vec<i64>, element: ElementType, patch: &mut Patch<'_>) -> Result<ValueId> {
    let data: Vec<u8> = numbers.iter().flat_map(|x| x.to_le_bytes()).collect();
    let wide = patch.constant(TensorType::new(shape.clone(), ElementType::F64), data)?;
    Ok(patch.add(OpKind::Convert, &[wide], TensorType { shape, element }))
}

/// Returns the numbers that a quantized value represents.
fn dequantize(id: ValueId, q: &Quantized, patch: &mut Patch<'_>) -> Result<ValueId> {
    let integers = patch.add(OpKind::Convert, &[id], q.meant());
    let zeros = spread(q, |&(_, zero)| float(zero), patch)?;
    let scales = spread(q, |&(scale, _)| scale, patch)?;
    let shifted = patch.add(OpKind::Binary(Binary::Subtract), &[integers, zeros], q.meant());
    Ok(patch.add(OpKind::Binary(Binary::Multiply), &[shifted, scales], q.meant()))
}

/// Adds ops that convert the numbers `x` to the stored integers `result`.
fn quantize(x: ValueId, q: &Quantized, result: ValueId, patch: &mut Patch<'_>) -> Result<()> {
    let zeros = spread(q, |&(_, zero)| float(zero), patch)?;
    let scales = spread(q, |&(scale, _)| scale, patch)?;
    let scaled = patch.add(OpKind::Binary(Binary::Divide), &[x, scales], q.meant());
    let shifted = patch.add(OpKind::Binary(Binary::Add), &[scaled, zeros], q.meant());
    let Params { range: (low, high), expressed, .. } = q.params;
    let low = constant(&[float(low)], Vec::new(), expressed, patch)?;
    let high = constant(&[float(high)], Vec::new(), expressed, patch)?;
    let clamped = patch.add(OpKind::Clamp, &[low, shifted, high], q.meant());
    let rounded = patch.add(OpKind::Unary(Unary::RoundNearestEven), &[clamped], q.meant());
    patch.define(OpKind::Convert, &[rounded], &[result]);
    Ok(())
}

/// Converts a stored integer. The conversion is exact, because stored integers have at most 32 bits.
#[expect(clippy::cast_precision_loss, reason = "storage has 32 bits at most")]
fn float(x: i64) -> f64 {
    x as f64
}

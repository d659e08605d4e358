//! The pass `decompose_quantized`: rewrites quantized types as plain arithmetic before a program is lowered.
//!
//! Quantized values become tensors of the stored integers. Ops that only move or pass on elements work on the integers,
//! if their operands and results have the same quantization parameters. The specification defines all other ops by
//! dequantizing, computing and quantizing, so they are rewritten in this form. `uniform_quantize` and
//! `uniform_dequantize` are rewritten in the same way.

use stablehlo::ir::{
    Binary, ComparisonType, DYNAMIC, ElementType, Func, Literal, LocationId, Module, Op, OpKind, Region, TensorType,
    Type, Unary, ValueId, ValueTypes,
};

use super::quantized_type::{Params, Quantized};
use crate::error::CompileError;

type Result<T> = std::result::Result<T, CompileError>;

/// Returns the program without quantized types, or `None` if it contains no quantized types.
pub(crate) fn decompose_quantized(module: &Module) -> Result<Option<Module>> {
    let quantized = |f: &Func| f.values.iter().chain(&f.results).any(|ty| Quantized::of(ty).is_some());
    if !module.funcs.iter().any(quantized) {
        return Ok(None);
    }
    let mut module = module.clone();
    for func in &mut module.funcs {
        if quantized(func) {
            let mut rewrite = Rewrite { of: func.values.iter().map(Quantized::of).collect(), values: &mut func.values };
            for (at, of) in rewrite.of.iter().enumerate() {
                if let Some(of) = of {
                    rewrite.values.set(at, Type::Tensor(of.stored()));
                }
            }
            func.body = rewrite.region(std::mem::take(&mut func.body))?;
            for ty in &mut func.results {
                if let Some(of) = Quantized::of(ty) {
                    *ty = Type::Tensor(of.stored());
                }
            }
        }
    }
    Ok(Some(module))
}

struct Rewrite<'f> {
    values: &'f mut ValueTypes,
    /// The original type of each value that had a quantized type.
    of: Vec<Option<Quantized>>,
}

impl Rewrite<'_> {
    fn quantized(&self, id: ValueId) -> Option<&Quantized> {
        self.of.get(id.0 as usize).and_then(Option::as_ref)
    }

    fn region(&mut self, region: Region) -> Result<Region> {
        let mut ops = Vec::with_capacity(region.ops.len());
        for op in region.ops {
            self.op(op, &mut ops)?;
        }
        Ok(Region { args: region.args, ops })
    }

    fn op(&mut self, mut op: Op, ops: &mut Vec<Op>) -> Result<()> {
        op.regions = op.regions.into_iter().map(|r| self.region(r)).collect::<Result<_>>()?;
        let touched = op.operands.iter().chain(&op.results).any(|&id| self.quantized(id).is_some());
        if !touched || self.works_on_storage(&op) {
            ops.push(op);
            return Ok(());
        }
        let at = op.location;
        let mut operands = Vec::with_capacity(op.operands.len());
        for &id in &op.operands {
            operands.push(self.dequantized(id, at, ops)?);
        }
        if matches!(op.kind, OpKind::UniformQuantize | OpKind::UniformDequantize) {
            let (&[x], &[y]) = (&operands[..], &op.results[..]) else {
                return Err(CompileError::invalid(format!("{}: must have one operand and one result", op.kind.name())));
            };
            return match self.quantized(y).cloned() {
                Some(to) => self.quantize(x, &to, y, at, ops),
                None => {
                    let same = Op { kind: OpKind::Convert, operands: vec![x].into(), ..op };
                    ops.push(same);
                    Ok(())
                }
            };
        }
        if let OpKind::Compare { compare_type, .. } = &mut op.kind {
            *compare_type = ComparisonType::NoType;
        }
        let results = op.results.clone();
        op.operands = operands.into();
        op.results = results.iter().map(|&y| self.meant_for(y)).collect();
        let made = op.results.clone();
        ops.push(op);
        for (x, y) in made.into_iter().zip(results) {
            if let Some(to) = self.quantized(y).cloned() {
                self.quantize(x, &to, y, at, ops)?;
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

    fn push(
        &mut self,
        kind: OpKind,
        operands: Vec<ValueId>,
        ty: TensorType,
        at: LocationId,
        ops: &mut Vec<Op>,
    ) -> ValueId {
        let id = self.value(ty);
        ops.push(op(kind, operands, id, at));
        id
    }

    fn value(&mut self, ty: TensorType) -> ValueId {
        self.values.push(Type::Tensor(ty));
        self.of.push(None);
        ValueId(u32::try_from(self.values.len() - 1).unwrap_or(u32::MAX))
    }

    /// Creates the value that receives the numbers of a result before they are quantized. Returns the result itself if
    /// it is not quantized.
    fn meant_for(&mut self, id: ValueId) -> ValueId {
        match self.quantized(id).map(Quantized::meant) {
            Some(ty) => self.value(ty),
            None => id,
        }
    }

    /// Broadcasts one number per slice, or one number for all slices, to the shape of the tensor. `of` selects the
    /// scale or the zero point.
    fn spread(
        &mut self,
        q: &Quantized,
        of: impl Fn(&(f64, i64)) -> f64,
        at: LocationId,
        ops: &mut Vec<Op>,
    ) -> Result<ValueId> {
        if q.shape.contains(&DYNAMIC) {
            return Err(CompileError::unsupported(
                "a quantized tensor with a dimension of unknown extent; refine the program's shapes first",
            ));
        }
        let numbers: Vec<f64> = q.params.steps.iter().map(of).collect();
        let (shape, broadcast_dimensions) = match q.axis {
            Some(axis) => {
                let fits = q.shape.get(axis).is_some_and(|&d| usize::try_from(d) == Ok(numbers.len()));
                if !fits {
                    return Err(CompileError::invalid(format!(
                        "{} scales along dimension {axis} of a quantized tensor of {:?}",
                        numbers.len(),
                        q.shape
                    )));
                }
                (vec![q.shape[axis]], vec![axis])
            }
            None => (Vec::new(), Vec::new()),
        };
        let constant = self.constant(&numbers, shape, q.params.expressed, at, ops);
        let kind = OpKind::BroadcastInDim { broadcast_dimensions: broadcast_dimensions.into() };
        Ok(self.push(kind, vec![constant], q.meant(), at, ops))
    }

    fn constant(
        &mut self,
        numbers: &[f64],
        shape: Vec<i64>,
        element: ElementType,
        at: LocationId,
        ops: &mut Vec<Op>,
    ) -> ValueId {
        let ty = TensorType { shape: shape.clone(), element: ElementType::F64 };
        let data: Vec<u8> = numbers.iter().flat_map(|x| x.to_le_bytes()).collect();
        let literal = Literal { ty: ty.clone(), data: data.into(), splat: false };
        let wide = self.push(OpKind::Constant(literal), Vec::new(), ty, at, ops);
        self.push(OpKind::Convert, vec![wide], TensorType { shape, element }, at, ops)
    }

    /// Returns the numbers that a value represents. Returns the value itself if it is not quantized.
    fn dequantized(&mut self, id: ValueId, at: LocationId, ops: &mut Vec<Op>) -> Result<ValueId> {
        let Some(q) = self.quantized(id).cloned() else { return Ok(id) };
        let integers = self.push(OpKind::Convert, vec![id], q.meant(), at, ops);
        let zeros = self.spread(&q, |&(_, zero)| float(zero), at, ops)?;
        let scales = self.spread(&q, |&(scale, _)| scale, at, ops)?;
        let shifted = self.push(OpKind::Binary(Binary::Subtract), vec![integers, zeros], q.meant(), at, ops);
        Ok(self.push(OpKind::Binary(Binary::Multiply), vec![shifted, scales], q.meant(), at, ops))
    }

    /// Adds ops that convert the numbers `x` to the stored integers `result`.
    fn quantize(
        &mut self,
        x: ValueId,
        q: &Quantized,
        result: ValueId,
        at: LocationId,
        ops: &mut Vec<Op>,
    ) -> Result<()> {
        let zeros = self.spread(q, |&(_, zero)| float(zero), at, ops)?;
        let scales = self.spread(q, |&(scale, _)| scale, at, ops)?;
        let scaled = self.push(OpKind::Binary(Binary::Divide), vec![x, scales], q.meant(), at, ops);
        let shifted = self.push(OpKind::Binary(Binary::Add), vec![scaled, zeros], q.meant(), at, ops);
        let Params { range: (low, high), expressed, .. } = q.params;
        let low = self.constant(&[float(low)], Vec::new(), expressed, at, ops);
        let high = self.constant(&[float(high)], Vec::new(), expressed, at, ops);
        let clamped = self.push(OpKind::Clamp, vec![low, shifted, high], q.meant(), at, ops);
        let rounded = self.push(OpKind::Unary(Unary::RoundNearestEven), vec![clamped], q.meant(), at, ops);
        ops.push(op(OpKind::Convert, vec![rounded], result, at));
        Ok(())
    }
}

fn op(kind: OpKind, operands: Vec<ValueId>, result: ValueId, location: LocationId) -> Op {
    Op { location, ..Op::new(kind, operands, vec![result]) }
}

/// Converts a stored integer. The conversion is exact, because stored integers have at most 32 bits.
#[expect(clippy::cast_precision_loss, reason = "storage has 32 bits at most")]
fn float(x: i64) -> f64 {
    x as f64
}

//! Calls into the host that a program makes for all devices together: one device makes them, and tells the others.

use stablehlo::ir::{
    ComparisonDirection, ComparisonType, ElementType, Literal, Op, OpKind, Region, TensorType, Type, ValueId,
};

use super::grid::Axis;
use super::plan::{is_manual, manual_of};
use super::split::{Form, Splitter};
use crate::engine::CompileError;

type Result<T> = std::result::Result<T, CompileError>;

impl<'m> Splitter<'_, 'm> {
    /// The call is not each device's own, and there are several devices.
    pub(super) fn is_for_all(&self, op: &Op) -> Result<bool> {
        let own = self.manual > 0 || !manual_of(self.plan, op).is_empty();
        Ok(!own && self.grid.order.len() > 1 && !is_manual(op)?)
    }

    /// A call with side effects, by the first device alone, with whole operands; all devices get its results.
    pub(super) fn once(&mut self, op: &'m Op) -> Result<()> {
        let mut operands = Vec::with_capacity(op.operands.len());
        for &operand in &op.operands {
            let whole = self.whole(operand)?;
            operands.push(self.get(operand, &whole)?);
        }
        let mut types = Vec::with_capacity(op.results.len());
        for &result in &op.results {
            let Type::Tensor(ty) = &self.func().values[result.0 as usize] else {
                return Err(CompileError::unsupported(
                    "a call with side effects whose result is no tensor, in a program that is split over partitions",
                ));
            };
            types.push(ty.clone());
        }
        let axes: Vec<Axis> = (0..self.grid.sizes.len()).filter_map(|axis| Axis::try_from(axis).ok()).collect();
        let (place, first) = (self.build.coordinate(&axes)?, self.build.number(0)?);
        let compare = OpKind::Compare { direction: ComparisonDirection::Eq, compare_type: ComparisonType::Unsigned };
        let is_first = self.build.add(compare, &[place, first], TensorType::new([], ElementType::Bool))?;

        self.build.open();
        let made = self.values(&types)?;
        let (operands, results) = (operands.into(), made.clone().into());
        let call = Op { operands, results, regions: Vec::new(), ..op.clone() };
        self.build.push(call);
        let calls = self.region(made);

        self.build.open();
        let mut zeros = Vec::with_capacity(types.len());
        for ty in &types {
            let one = TensorType { shape: vec![1], element: ty.element };
            let size = one.byte_size().ok_or_else(|| CompileError::unsupported(format!("a result of type {ty}")))?;
            let literal = Literal { ty: ty.clone(), data: vec![0; size].into(), splat: true };
            zeros.push(self.build.add(OpKind::Constant(literal), &[], ty.clone())?);
        }
        let waits = self.region(zeros);

        let results = self.values(&types)?;
        let mut choice = self.build.op(OpKind::If, vec![is_first], results.clone());
        choice.regions = vec![calls, waits];
        self.build.push(choice);
        for (&old, value) in op.results.iter().zip(results) {
            let value = self.build.broadcast(value, &axes)?;
            let spec = vec![Vec::new(); self.build.tensor(value)?.rank()];
            self.forms[old.0 as usize] = Some(Form::new(value, spec));
        }
        Ok(())
    }

    fn values(&mut self, types: &[TensorType]) -> Result<Vec<ValueId>> {
        types.iter().map(|ty| self.build.value(Type::Tensor(ty.clone()))).collect()
    }

    /// The region opened last, which returns those values.
    fn region(&mut self, results: Vec<ValueId>) -> Region {
        let end = self.build.op(OpKind::Return, results, Vec::new());
        self.build.push(end);
        Region { args: Vec::new(), ops: self.build.close() }
    }
}

//! Calls to the host that a program makes once for all devices. One device makes the call and broadcasts the results.

use stablehlo::ir::{ComparisonDirection, ComparisonType, ElementType, Op, OpKind, Region, TensorType, Type, ValueId};

use super::annotations::is_manual;
use super::plan::manual_of;
use super::split::{ShardedValue, Splitter};
use crate::error::CompileError;
use crate::sharding::grid::Axis;

type Result<T> = std::result::Result<T, CompileError>;

impl<'m> Splitter<'_, 'm> {
    /// Returns whether one device must make the call for all devices. This is the case if there are several devices,
    /// and the call is neither inside a manual computation nor marked as manual.
    pub(super) fn is_for_all(&self, op: &Op) -> Result<bool> {
        let own = self.manual > 0 || !manual_of(self.plan, op).is_empty();
        Ok(!own && self.grid.order.len() > 1 && !is_manual(op)?)
    }

    /// Emits a call with side effects. Only the first device makes the call, with unsharded operands. All devices
    /// receive the results.
    pub(super) fn once(&mut self, op: &'m Op) -> Result<()> {
        let mut operands = Vec::with_capacity(op.operands.len());
        for &operand in &op.operands {
            let whole = self.whole(operand)?;
            operands.push(self.get(operand, &whole)?);
        }
        let types: Vec<Type> = op.results.iter().map(|&result| self.func().ty(result).clone()).collect();
        let mut tensors: Vec<(ValueId, TensorType)> = Vec::with_capacity(types.len());
        for (&result, ty) in op.results.iter().zip(&types) {
            match ty {
                Type::Tensor(ty) => tensors.push((result, ty.clone())),
                // Calls run in the program's order, so the token only has to exist.
                Type::Token => {
                    let token = self.build.value(Type::Token)?;
                    let made = self.build.op(OpKind::CreateToken, Vec::new(), vec![token]);
                    self.build.push(made);
                    self.forms[result.0 as usize] = Some(ShardedValue::new(token, Vec::new()));
                }
                other => {
                    return Err(CompileError::unsupported(format!(
                        "a call with side effects whose result is a {other}, in a program that is split over partitions"
                    )));
                }
            }
        }
        let axes: Vec<Axis> = (0..self.grid.sizes.len()).filter_map(|axis| Axis::try_from(axis).ok()).collect();
        let (place, first) = (self.build.coordinate(&axes)?, self.build.number(0)?);
        let compare = OpKind::Compare { direction: ComparisonDirection::Eq, compare_type: ComparisonType::Unsigned };
        let is_first = self.build.add(compare, &[place, first], TensorType::new([], ElementType::Bool))?;

        self.build.open();
        let made = types.iter().map(|ty| self.build.value(ty.clone())).collect::<Result<Vec<_>>>()?;
        let is_tensor = |value: &ValueId| matches!(self.build.values[value.0 as usize], Type::Tensor(_));
        let returned = made.iter().copied().filter(is_tensor).collect();
        let call = Op { operands: operands.into(), results: made.into(), regions: Vec::new(), ..op.clone() };
        self.build.push(call);
        let calls = self.region(returned);

        self.build.open();
        let mut zeros = Vec::with_capacity(tensors.len());
        for (_, ty) in &tensors {
            zeros.push(self.build.zeros(ty)?);
        }
        let waits = self.region(zeros);

        let results = tensors.iter().map(|(_, ty)| self.build.value(Type::Tensor(ty.clone())));
        let results = results.collect::<Result<Vec<_>>>()?;
        let mut choice = self.build.op(OpKind::If, vec![is_first], results.clone());
        choice.regions = vec![calls, waits];
        self.build.push(choice);
        for ((old, _), value) in tensors.into_iter().zip(results) {
            let value = self.build.broadcast(value, &axes)?;
            let spec = vec![Vec::new(); self.build.tensor(value)?.rank()];
            self.forms[old.0 as usize] = Some(ShardedValue::new(value, spec));
        }
        Ok(())
    }

    /// Adds a return of these values to the innermost region, and closes the region.
    fn region(&mut self, results: Vec<ValueId>) -> Region {
        let end = self.build.op(OpKind::Return, results, Vec::new());
        self.build.push(end);
        Region { args: Vec::new(), ops: self.build.close() }
    }
}

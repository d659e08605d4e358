//! A computation that is being converted, and the values of its instructions.

use std::collections::HashMap;

use super::proto::{Instruction, Shape};
use super::shape;
use crate::compatible::list;
use crate::error::{Error, ErrorKind, Result};
use crate::ir::*;

/// The result of an instruction. `ids` contains its arrays and tokens, with tuples flattened.
pub(super) struct Value {
    pub(super) ids: Vec<ValueId>,
    pub(super) shape: Shape,
}

/// A computation that is being converted.
pub(super) struct Body<'a> {
    /// Types of all values of the function.
    pub(super) values: &'a mut Vec<Type>,
    pub(super) given: Option<&'a [Vec<ValueId>]>,
    pub(super) depth: usize,
    pub(super) defined: HashMap<i64, Value>,
    pub(super) params: Vec<Option<(Value, Vec<Attributes>)>>,
    /// Exclusive upper bound of the parameter numbers.
    pub(super) limit: usize,
    pub(super) ops: Vec<Op>,
}

impl Body<'_> {
    pub(super) fn operand(&self, i: &Instruction, number: usize) -> Result<&Value> {
        let Some(&id) = i.operand_ids.get(number) else {
            return Err(Error::new(ErrorKind::Encoding, format_args!("operand {number} is missing")));
        };
        let undefined =
            || Error::new(ErrorKind::Reference, format_args!("operand {number} is not an earlier instruction"));
        self.defined.get(&local(id)).ok_or_else(undefined)
    }

    /// Returns the values of all operands of an instruction, with tuples flattened.
    pub(super) fn operands(&self, i: &Instruction) -> Result<Vec<ValueId>> {
        let mut ids = Vec::with_capacity(i.operand_ids.len());
        for number in 0..i.operand_ids.len() {
            ids.extend(&self.operand(i, number)?.ids);
        }
        Ok(ids)
    }

    /// Creates new values for a result of this shape.
    pub(super) fn fresh(&mut self, shape: Shape) -> Result<Value> {
        let start = self.values.len();
        shape::leaves(&shape, self.values)?;
        let id = |n: usize| {
            u32::try_from(n)
                .map(ValueId)
                .map_err(|_| Error::new(ErrorKind::Limit, "a computation has more than 2^32 values"))
        };
        Ok(Value { ids: (start..self.values.len()).map(id).collect::<Result<_>>()?, shape })
    }

    /// Combines existing values into one value of this shape. Returns an error if the types of the values do not match
    /// the shape.
    pub(super) fn alias(&self, ids: Vec<ValueId>, shape: Shape) -> Result<Value> {
        let mut types = Vec::new();
        shape::leaves(&shape, &mut types)?;
        if types.len() != ids.len() || types.iter().zip(&ids).any(|(ty, id)| *ty != self.values[id.0 as usize]) {
            let own = list(ids.iter().map(|id| &self.values[id.0 as usize]));
            return Err(Error::new(
                ErrorKind::Encoding,
                format_args!("the values have the types ({own}), but the instruction has ({})", list(&types)),
            ));
        }
        Ok(Value { ids, shape })
    }

    /// Adds a constant with the extents of an array, and returns its id. StableHLO's `rng` takes the shape as an
    /// operand.
    pub(super) fn shape_operand(&mut self, shape: &Shape) -> Result<ValueId> {
        let extents = shape::tensor(shape)?.shape;
        let ty = TensorType::new([i64::try_from(extents.len()).unwrap_or(i64::MAX)], ElementType::I64);
        let data: Vec<u8> = extents.iter().flat_map(|extent| extent.to_le_bytes()).collect();
        let id = ValueId(
            u32::try_from(self.values.len())
                .map_err(|_| Error::new(ErrorKind::Limit, "a computation has more than 2^32 values"))?,
        );
        self.values.push(Type::Tensor(ty.clone()));
        self.ops.push(op(OpKind::Constant(Literal::new(ty, data)?), Vec::new(), vec![id]));
        Ok(id)
    }
}

pub(super) fn op(kind: OpKind, operands: Vec<ValueId>, results: Vec<ValueId>) -> Op {
    let (operands, results) = (operands.into(), results.into());
    Op { kind, operands, results, regions: Vec::new(), attributes: Attributes::new(), location: LocationId(0) }
}

/// Returns the lower half of an instruction's id. Newer producers put the computation's id into the upper half.
pub(super) fn local(id: i64) -> i64 {
    id & 0xFFFF_FFFF
}

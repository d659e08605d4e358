//! One function out of a program: calls and composites replaced by what they call, annotations ready to read.

use stablehlo::ir::{Func, Module, Op, OpKind, Region, Type, ValueId};

use crate::engine::CompileError;

type Result<T> = std::result::Result<T, CompileError>;

/// Ops after inlining; more suggests functions that double with every call.
const MAX_OPS: usize = 1 << 20;
/// Nesting of calls and regions.
const MAX_DEPTH: usize = 96;

/// The entry function without calls. Values keep their types; every value of the result is defined once.
pub(super) fn inline(module: &Module, entry: &Func) -> Result<Func> {
    let mut inliner = Inliner { module, values: Vec::new(), ops: 0, calls: vec![entry.name.clone()], depth: 0 };
    let mut map = vec![None; entry.values.len()];
    let body = inliner.region(entry, &entry.body, &mut map)?;
    Ok(Func { body, values: inliner.values.into(), ..entry.clone() })
}

struct Inliner<'m> {
    module: &'m Module,
    values: Vec<Type>,
    ops: usize,
    calls: Vec<String>,
    depth: usize,
}

type Map = Vec<Option<ValueId>>;

impl<'m> Inliner<'m> {
    fn define(&mut self, func: &Func, old: ValueId, map: &mut Map) -> Result<ValueId> {
        let id = u32::try_from(self.values.len()).map_err(|_| CompileError::unsupported("more than 2^32 values"))?;
        let ty = func.values.get(old.0 as usize).ok_or_else(|| undefined(old))?;
        self.values.push(ty.clone());
        *map.get_mut(old.0 as usize).ok_or_else(|| undefined(old))? = Some(ValueId(id));
        Ok(ValueId(id))
    }

    fn region(&mut self, func: &'m Func, region: &'m Region, map: &mut Map) -> Result<Region> {
        let args = region.args.iter().map(|&arg| self.define(func, arg, map)).collect::<Result<_>>()?;
        let mut ops = Vec::with_capacity(region.ops.len());
        self.ops(func, &region.ops, map, &mut ops)?;
        Ok(Region { args, ops })
    }

    fn ops(&mut self, func: &'m Func, from: &'m [Op], map: &mut Map, to: &mut Vec<Op>) -> Result<()> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(CompileError::unsupported(format!("calls and regions nested more than {MAX_DEPTH} deep")));
        }
        for op in from {
            self.ops += 1;
            if self.ops > MAX_OPS {
                return Err(CompileError::unsupported(format!("more than {MAX_OPS} ops after inlining calls")));
            }
            let operands = op.operands.iter().map(|&v| lookup(map, v)).collect::<Result<Vec<_>>>()?;
            let callee = match &op.kind {
                OpKind::Call { callee } => Some(callee),
                OpKind::Composite { decomposition, .. } => Some(decomposition),
                _ => None,
            };
            if let Some(callee) = callee {
                let results = self.call(callee, &operands, to)?;
                if results.len() != op.results.len() {
                    return Err(CompileError::invalid(format!("function `{callee}` returns {} values", results.len())));
                }
                for (&old, new) in op.results.iter().zip(results) {
                    *map.get_mut(old.0 as usize).ok_or_else(|| undefined(old))? = Some(new);
                }
                continue;
            }
            let regions = op.regions.iter().map(|r| self.region(func, r, map)).collect::<Result<_>>()?;
            let results = op.results.iter().map(|&v| self.define(func, v, map)).collect::<Result<_>>()?;
            to.push(Op { operands: operands.into(), results, regions, ..op.clone() });
        }
        self.depth -= 1;
        Ok(())
    }

    fn call(&mut self, callee: &str, operands: &[ValueId], to: &mut Vec<Op>) -> Result<Vec<ValueId>> {
        let func = self.module.func(callee);
        let func = func.ok_or_else(|| CompileError::invalid(format!("no function is named `{callee}`")))?;
        if self.calls.iter().any(|name| name == callee) {
            return Err(CompileError::unsupported(format!("function `{callee}` calls itself")));
        }
        if func.args().len() != operands.len() {
            return Err(CompileError::invalid(format!("function `{callee}` is given {} arguments", operands.len())));
        }
        self.calls.push(callee.to_owned());
        let mut map: Map = vec![None; func.values.len()];
        for (&arg, &operand) in func.args().iter().zip(operands) {
            *map.get_mut(arg.0 as usize).ok_or_else(|| undefined(arg))? = Some(operand);
        }
        let (last, ops) = func.body.ops.split_last().ok_or_else(|| CompileError::invalid("a function without ops"))?;
        self.ops(func, ops, &mut map, to)?;
        self.calls.pop();
        last.operands.iter().map(|&v| lookup(&map, v)).collect()
    }
}

fn lookup(map: &Map, value: ValueId) -> Result<ValueId> {
    map.get(value.0 as usize).copied().flatten().ok_or_else(|| undefined(value))
}

fn undefined(value: ValueId) -> CompileError {
    CompileError::invalid(format!("value {} is used before it is defined", value.0))
}

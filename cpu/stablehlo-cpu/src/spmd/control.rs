//! Rewrites loops, branches and the regions of ops.

use std::collections::HashMap;

use stablehlo::ir::{Op, OpKind, Region, ValueId};

use super::role::{Role, role};
use super::split::Splitter;
use crate::error::CompileError;
use crate::sharding::grid::{AxisSet, Spec};

type Result<T> = std::result::Result<T, CompileError>;

/// The sharding of a value, and the axes along which devices hold summands of the value.
type Cut = (Spec, AxisSet);

impl<'m> Splitter<'_, 'm> {
    /// Rewrites a region whose values are scalars. Scalars are never sharded.
    pub(super) fn scalar_region(&mut self, region: &'m Region) -> Result<Region> {
        self.nested(|s| {
            let args = region.args.iter().map(|&arg| s.declare(arg, s.whole_of(arg))).collect::<Result<_>>()?;
            for op in &region.ops {
                if matches!(role(op), Role::Constraint | Role::Nothing | Role::FullToShard | Role::ShardToFull) {
                    for (&x, &y) in op.operands.iter().zip(&op.results) {
                        s.forms[y.0 as usize] = Some(s.form(x)?.clone());
                    }
                    continue;
                }
                let mut operands = Vec::with_capacity(op.operands.len());
                for &v in &op.operands {
                    let whole = s.whole(v)?;
                    operands.push(s.get(v, &whole)?);
                }
                let regions = op.regions.iter().map(|r| s.scalar_region(r)).collect::<Result<_>>()?;
                let results = op.results.iter().map(|&v| s.declare(v, s.whole_of(v))).collect::<Result<_>>()?;
                s.build.push(Op { operands: operands.into(), results, regions, ..op.clone() });
            }
            Ok(args)
        })
    }

    /// Builds a region. `f` adds the ops of the region and returns its arguments.
    fn nested(&mut self, f: impl FnOnce(&mut Self) -> Result<Vec<ValueId>>) -> Result<Region> {
        self.build.open();
        self.scopes.push(HashMap::new());
        let args = f(self);
        self.scopes.pop();
        let ops = self.build.close();
        Ok(Region { args: args?, ops })
    }

    /// Rewrites a region whose arguments and results have the shardings `args` and `ends`.
    fn control_region(&mut self, region: &'m Region, args: &[Cut], ends: &[Cut]) -> Result<Region> {
        self.nested(|s| {
            let args = region.args.iter().zip(args);
            let args = args.map(|(&arg, (spec, partial))| s.declare_as(arg, spec.clone(), *partial));
            let args = args.collect::<Result<_>>()?;
            let (last, ops) = region.ops.split_last().ok_or_else(|| CompileError::invalid("a region without ops"))?;
            s.ops(ops)?;
            let mut operands = Vec::with_capacity(last.operands.len());
            for (&value, (spec, partial)) in last.operands.iter().zip(ends) {
                operands.push(s.get_as(value, spec, *partial)?);
            }
            let ret = s.build.op(OpKind::Return, operands, Vec::new());
            s.build.push(ret);
            Ok(args)
        })
    }

    /// Returns the planned shardings of an op's results, and the axes along which the results are unreduced.
    fn planned(&self, op: &Op) -> Vec<Cut> {
        op.results.iter().map(|&v| self.plan.state(v)).map(|state| (state.dims.clone(), state.unreduced)).collect()
    }

    pub(super) fn while_loop(&mut self, op: &'m Op) -> Result<()> {
        let [cond, body] = &op.regions[..] else { return Err(CompileError::invalid("a loop must have two regions")) };
        let specs = self.planned(op);
        let mut operands = Vec::with_capacity(specs.len());
        for (&value, (spec, partial)) in op.operands.iter().zip(&specs) {
            operands.push(self.get_as(value, spec, *partial)?);
        }
        let cond = self.control_region(cond, &specs, &[(Vec::new(), AxisSet::default())])?;
        let body = self.control_region(body, &specs, &specs)?;
        self.control(op, operands, vec![cond, body], specs)
    }

    pub(super) fn branches(&mut self, op: &'m Op) -> Result<()> {
        let specs = self.planned(op);
        let index = self.get(op.operands[0], &Vec::new())?;
        let regions = op.regions.iter().map(|r| self.control_region(r, &[], &specs)).collect::<Result<_>>()?;
        self.control(op, vec![index], regions, specs)
    }

    fn control(&mut self, op: &Op, operands: Vec<ValueId>, regions: Vec<Region>, specs: Vec<Cut>) -> Result<()> {
        let results = op.results.iter().zip(specs);
        let results = results.map(|(&v, (spec, partial))| self.declare_as(v, spec, partial)).collect::<Result<_>>()?;
        self.build.push(Op { operands: operands.into(), results, regions, ..op.clone() });
        Ok(())
    }
}

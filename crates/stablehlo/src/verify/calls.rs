//! Rules of the call graph: callees exist, and functions do not recurse.

use std::collections::BinaryHeap;

use super::site::ensure;
use crate::error::{Error, ErrorKind, Result};
use crate::ir::*;

/// Maximum depth of nested calls. A device that follows calls recursively needs a stack whose size is proportional to
/// this depth.
const MAX_CALL_DEPTH: usize = 256;

/// Checks the call graph. `calls` are the ops of each function that call other functions.
pub(super) fn verify(module: &Module, calls: &[Vec<&Op>]) -> Result<()> {
    // A heap sorts the functions, because it compiles to less code than a sort or a hash table.
    let by_name: BinaryHeap<_> = module.funcs.iter().enumerate().map(|(i, func)| (func.name.as_str(), i)).collect();
    let by_name = by_name.into_sorted_vec();
    for pair in by_name.windows(2) {
        ensure!(Reference, pair[0].0 != pair[1].0, "function @{} is defined twice", pair[0].0);
    }
    let mut edges = Vec::with_capacity(module.funcs.len());
    for (func, calls) in module.funcs.iter().zip(calls) {
        let mut callees = Vec::new();
        collect(module, &by_name, calls, func, &mut callees).map_err(|e| e.with_func(&func.name))?;
        edges.push(callees);
    }
    // Depth-first search with an explicit stack of (function, next callee). `height` is the maximum number of functions
    // on a path of calls that starts at a function.
    let mut height = vec![None; edges.len()];
    let mut on_path = vec![false; edges.len()];
    for root in 0..edges.len() {
        let mut path = if height[root].is_none() { vec![(root, 0)] } else { Vec::new() };
        while let Some(&mut (func, ref mut next)) = path.last_mut() {
            on_path[func] = true;
            if let Some(&callee) = edges[func].get(*next) {
                *next += 1;
                ensure!(
                    Structure,
                    !on_path[callee],
                    "function @{} calls itself, directly or through others",
                    module.funcs[callee].name
                );
                if height[callee].is_none() {
                    path.push((callee, 0));
                }
                continue;
            }
            let below = edges[func].iter().filter_map(|&c| height[c]).max().unwrap_or(0usize);
            ensure!(
                Limit,
                below < MAX_CALL_DEPTH,
                "calls nest deeper than {MAX_CALL_DEPTH} at function @{}",
                module.funcs[func].name
            );
            height[func] = Some(below + 1);
            on_path[func] = false;
            path.pop();
        }
    }
    Ok(())
}

fn collect(
    module: &Module,
    by_name: &[(&str, usize)],
    calls: &[&Op],
    func: &Func,
    callees: &mut Vec<usize>,
) -> Result<()> {
    for op in calls {
        let place = |e: Error| e.with_op(&op.kind.name()).with_location(module.location(op.location));
        if let OpKind::Call { callee } | OpKind::Composite { decomposition: callee, .. } = &op.kind {
            let Ok(at) = by_name.binary_search_by(|(name, _)| (*name).cmp(callee)) else {
                return Err(place(Error::new(
                    ErrorKind::Reference,
                    format_args!("calls @{callee}, which does not exist or has no body"),
                )));
            };
            let index = by_name[at].1;
            callees.push(index);
            check_types(func, op, &module.funcs[index]).map_err(place)?;
        }
    }
    Ok(())
}

fn check_types(func: &Func, op: &Op, callee: &Func) -> Result<()> {
    let types = |func: &Func, ids: &[ValueId]| crate::compatible::list(ids.iter().map(|&v| func.ty(v)));
    ensure!(
        Type,
        crate::compatible::all_compatible(
            op.operands.iter().map(|&v| func.ty(v)),
            callee.args().iter().map(|&v| callee.ty(v))
        ),
        "passes ({}) to @{}, which takes ({})",
        types(func, &op.operands),
        callee.name,
        types(callee, callee.args())
    );
    ensure!(
        Type,
        crate::compatible::all_compatible(op.results.iter().map(|&v| func.ty(v)), &callee.results),
        "takes ({}) from @{}, which returns ({})",
        types(func, &op.results),
        callee.name,
        crate::compatible::list(&callee.results)
    );
    Ok(())
}

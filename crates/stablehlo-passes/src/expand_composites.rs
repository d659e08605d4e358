//! The pass `expand_composites`.

use std::collections::HashSet;

use stablehlo::ir::{Attributes, Module, Op, OpKind};
use stablehlo::{Result, inline_ops};

/// Replaces composites with the ops of their decompositions. Keeps a composite if `keep` returns `true` for its name
/// and its attributes. Returns `None` if the program has no other composite.
///
/// ```text
/// %0 = stablehlo.composite "a.twice" %x {decomposition = @f}      %0 = stablehlo.add %x, %x
/// func.func private @f(%a) { %1 = stablehlo.add %a, %a ... }  =>
/// ```
///
/// Also replaces composites in the decompositions of other composites. Removes the private functions that only replaced
/// composites referred to. [`stablehlo::inline`] also inlines calls, and keeps composites by their names alone.
///
/// # Errors
///
/// Returns an error if a decomposition does not exist, if it does not fit its composite, or if the program becomes too
/// large. The module must be verified.
pub fn expand_composites(module: &Module, keep: impl Fn(&str, &Attributes) -> bool) -> Result<Option<Module>> {
    let Some(done) = inline_ops(module, |op| decomposition(op, &keep).is_some())? else { return Ok(None) };
    let ops = module.funcs.iter().flat_map(|func| func.body.all_ops());
    Ok(Some(without(done, &ops.filter_map(|op| decomposition(op, &keep)).cloned().collect())))
}

fn decomposition(op: &Op, keep: impl Fn(&str, &Attributes) -> bool) -> Option<&String> {
    match &op.kind {
        OpKind::Composite { name, decomposition, composite_attributes } if !keep(name, composite_attributes) => {
            Some(decomposition)
        }
        _ => None,
    }
}

/// Removes private functions with these names to which nothing refers any more.
fn without(mut module: Module, names: &HashSet<String>) -> Module {
    loop {
        let referred: HashSet<String> = module
            .funcs
            .iter()
            .flat_map(|func| func.body.all_ops())
            .flat_map(crate::extract::references)
            .map(str::to_owned)
            .collect();
        let count = module.funcs.len();
        module.funcs.retain(|func| func.public || !names.contains(&func.name) || referred.contains(&func.name));
        if module.funcs.len() == count {
            return module;
        }
    }
}

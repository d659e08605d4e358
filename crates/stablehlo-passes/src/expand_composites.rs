//! The pass `expand_composites`.

use std::collections::HashSet;

use stablehlo::ir::{Attributes, Module, Op, OpKind};
use stablehlo::{Error, ErrorKind, Result, rewrite};

use crate::apply::apply;
use crate::build::Build;

/// Maximum number of ops after the expansion. Without a limit, nested composites could make a program grow
/// exponentially.
const MAX_OPS: usize = 1 << 20;
/// Maximum depth of composites within decompositions.
const MAX_DEPTH: usize = 96;

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
    let decomposition = |op: &Op| match &op.kind {
        OpKind::Composite { name, decomposition, composite_attributes } => {
            (!keep(name, composite_attributes)).then(|| decomposition.clone())
        }
        _ => None,
    };
    let mut done: Option<Module> = None;
    let mut expanded = HashSet::new();
    for _ in 0..MAX_DEPTH {
        let from = done.as_ref().unwrap_or(module);
        let size = |name: &str| module.func(name).map_or(0, |func| func.body.all_ops().count());
        let ops = from.funcs.iter().flat_map(|func| func.body.all_ops());
        let count = ops.map(|op| 1 + decomposition(op).map_or(0, |name| size(&name))).sum::<usize>();
        if count > MAX_OPS {
            let message = format_args!("more than {MAX_OPS} ops after expanding composites");
            return Err(Error::new(ErrorKind::Limit, message));
        }
        let next = apply(
            from,
            |func| func.body.all_ops().any(|op| decomposition(op).is_some()),
            |func, locations| {
                rewrite(func, locations, |op, patch| {
                    let Some(name) = decomposition(&op) else {
                        patch.push(op);
                        return Ok(());
                    };
                    let callee = module.func(&name).ok_or_else(|| {
                        Error::new(ErrorKind::Reference, format_args!("no function is named `{name}`"))
                    })?;
                    expanded.insert(name);
                    let values = patch.body_of(callee, &op.operands)?;
                    patch.replace(&op.results, &values)
                })
            },
        )?;
        match next {
            Some(next) => done = Some(next),
            None => return Ok(done.map(|done| without(done, &expanded))),
        }
    }
    let message = format_args!("composites nested more than {MAX_DEPTH} deep");
    Err(Error::new(ErrorKind::Limit, message))
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

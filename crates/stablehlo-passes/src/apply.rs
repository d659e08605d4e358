//! The frame of a pass.

use stablehlo::Result;
use stablehlo::ir::{Func, Locations, Module, Type};

/// Changes copies of the functions to which a pass applies. `change` returns whether it has changed the function.
/// Returns `None` if no function has changed.
pub(crate) fn apply(
    module: &Module,
    applies: impl Fn(&Func) -> bool,
    mut change: impl FnMut(&mut Func, &Locations) -> Result<bool>,
) -> Result<Option<Module>> {
    let mut changed: Vec<Option<Func>> = Vec::new();
    for (at, func) in module.funcs.iter().enumerate().filter(|(_, func)| applies(func)) {
        let mut func = func.clone();
        if change(&mut func, &module.locations)? {
            changed.resize_with(module.funcs.len(), || None);
            changed[at] = Some(func);
        }
    }
    if changed.is_empty() {
        return Ok(None);
    }
    let funcs = module.funcs.iter().zip(changed).map(|(func, changed)| changed.unwrap_or_else(|| func.clone()));
    Ok(Some(module.with_funcs(funcs.collect())))
}

/// Changes functions like [`apply`], with a function that always changes them.
pub(crate) fn apply_all(
    module: &Module,
    applies: impl Fn(&Func) -> bool,
    mut change: impl FnMut(&mut Func, &Locations) -> Result<()>,
) -> Result<Option<Module>> {
    apply(module, applies, |func, locations| change(func, locations).map(|()| true))
}

/// Changes the types of values and results for which `to` returns another type.
pub(crate) fn retype(func: &mut Func, to: impl Fn(&Type) -> Option<Type>) {
    for at in 0..func.values.len() {
        if let Some(ty) = func.values.get(at).and_then(&to) {
            func.values.set(at, ty);
        }
    }
    for result in &mut func.results {
        if let Some(ty) = to(result) {
            *result = ty;
        }
    }
}

//! The frame of a pass.

use stablehlo::Result;
use stablehlo::ir::{Func, Locations, Module};

/// Changes the functions to which a pass applies. Returns `None` if it applies to no function.
pub(crate) fn apply(
    module: &Module,
    applies: impl Fn(&Func) -> bool,
    mut change: impl FnMut(&mut Func, &Locations) -> Result<()>,
) -> Result<Option<Module>> {
    if !module.funcs.iter().any(&applies) {
        return Ok(None);
    }
    let mut module = module.clone();
    let Module { funcs, locations, .. } = &mut module;
    funcs.iter_mut().filter(|func| applies(func)).try_for_each(|func| change(func, locations))?;
    Ok(Some(module))
}

//! Passes keep the values of programs. The CPU device runs the programs before and after.

use stablehlo::ir::Module;
use stablehlo_passes::{canonicalize, eliminate_common_subexpressions, eliminate_dead_code, fold_constants};

use crate::oracle::check;

#[test]
fn common_subexpressions() {
    let (programs, random) = check(eliminate_common_subexpressions, 0.0, 200);
    assert!(programs >= 5 && random >= 50, "{programs} and {random} programs changed");
}

#[test]
fn constants() {
    let (programs, random) = check(|module| fold_constants(module).expect("a valid program"), 0.0, 400);
    assert!(programs >= 5 && random >= 300, "{programs} and {random} programs changed");
}

#[test]
fn canonical_forms() {
    let (programs, random) = check(|module| canonicalize(module).expect("a valid program"), 0.0, 400);
    assert!(programs >= 5 && random >= 300, "{programs} and {random} programs changed");
}

type Pass = dyn Fn(&Module) -> Option<Module>;

/// Applies several passes until none of them applies. Their order is the one in which a device needs them.
pub(crate) fn simplified(module: &Module) -> Option<Module> {
    let mut done: Option<Module> = None;
    loop {
        let mut changed = false;
        let passes: [&Pass; 4] = [
            &|module| fold_constants(module).expect("a valid program"),
            &|module| canonicalize(module).expect("a valid program"),
            &eliminate_common_subexpressions,
            &eliminate_dead_code,
        ];
        for pass in passes {
            if let Some(next) = pass(done.as_ref().unwrap_or(module)) {
                (done, changed) = (Some(next), true);
            }
        }
        if !changed {
            return done;
        }
    }
}

#[test]
fn passes_together() {
    let (programs, random) = check(simplified, 0.0, 300);
    assert!(programs >= 20 && random >= 300, "{programs} and {random} programs changed");
}

//! Names of new functions.

use std::collections::{HashMap, HashSet};

use stablehlo::ir::{Attributes, Module};

/// The names that no new function may have.
pub(crate) struct Names {
    known: HashSet<String>,
    /// For each prefix, the number of the next name.
    next: HashMap<String, usize>,
}

impl Names {
    pub(crate) fn new(module: &Module) -> Self {
        let symbol = |(_, attributes): &(String, Attributes)| {
            let name = attributes.iter().find(|(name, _)| name == "sym_name");
            name.and_then(|(_, name)| name.as_str().map(str::to_owned))
        };
        let funcs = module.funcs.iter().map(|func| func.name.clone());
        Self { known: funcs.chain(module.symbols.iter().filter_map(symbol)).collect(), next: HashMap::new() }
    }

    /// Returns the prefix and a number that together are not the name of another symbol.
    pub(crate) fn next(&mut self, prefix: &str) -> String {
        let next = self.next.entry(prefix.to_owned()).or_default();
        loop {
            let name = format!("{prefix}_{next}");
            *next += 1;
            if self.known.insert(name.clone()) {
                return name;
            }
        }
    }
}

//! The mutants, with one module for each group of areas.

mod abi;
mod buffers;
mod data;
mod devices;
mod errors;
mod events;
mod executables;
mod extensions;
mod process;
mod runs;
mod threads;
mod transfers;

use crate::mutant::Mutant;

/// Returns all mutants.
pub(crate) fn all() -> Vec<Mutant> {
    let groups = [
        abi::MUTANTS,
        errors::MUTANTS,
        events::MUTANTS,
        devices::MUTANTS,
        data::MUTANTS,
        buffers::MUTANTS,
        runs::MUTANTS,
        threads::MUTANTS,
        transfers::MUTANTS,
        executables::MUTANTS,
        extensions::MUTANTS,
        process::MUTANTS,
    ];
    groups.concat()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use pjrt_conformance::Suite;

    use crate::device::Device;

    #[test]
    fn device_has_the_replaced_functions() {
        for mutant in super::all() {
            let mut device = Device::new();
            (mutant.install)(&mut device);
            assert!(device.missing.is_empty(), "{} replaces {:?}", mutant.name, device.missing);
        }
    }

    #[test]
    fn names_are_unique_and_start_with_areas() {
        let suite = Suite::new();
        let areas: BTreeSet<&str> = suite.cases().iter().map(|case| case.area()).collect();
        let mut names = BTreeSet::new();
        for mutant in super::all() {
            assert!(names.insert(mutant.name), "{} is declared twice", mutant.name);
            assert!(areas.contains(mutant.area()), "{}: the suite has no such area", mutant.name);
            assert!(mutant.clause.len() > 10, "{} lacks its clause", mutant.name);
        }
        assert!(names.len() >= 80, "{} mutants", names.len());
    }
}

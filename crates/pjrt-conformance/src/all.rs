//! The whole suite.

use crate::suite::Suite;
use crate::{areas, data_case};

impl Suite {
    /// Collects the cases of all areas.
    #[must_use]
    pub fn new() -> Self {
        let mut suite = Self::empty();
        areas::declare(&mut suite);
        data_case::declare(&mut suite);
        suite
    }
}

impl Default for Suite {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use crate::suite::Suite;

    #[test]
    fn ids_are_unique_and_well_formed() {
        let suite = Suite::new();
        let mut seen = BTreeSet::new();
        for case in suite.cases() {
            assert!(seen.insert(case.id()), "{} is declared twice", case.id());
            let name = case.id().split('[').next().unwrap();
            assert_eq!(name.split('.').count(), 3, "{}: area.subject.case", case.id());
            let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_' || c == '.';
            assert!(name.chars().all(plain), "{}", case.id());
            assert!(case.clause().len() > 10 && !case.why().is_empty(), "{} lacks its clause or its reason", case.id());
        }
    }
}

//! The constructor of the complete [`Suite`].

use crate::suite::Suite;
use crate::{areas, data_case};

impl Suite {
    /// Creates the suite with the cases of all areas and of the TOML files.
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

    use crate::matching::selects;
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

    /// Returns the case ids and id patterns in the tables of `COVERAGE.md`. In a pattern, `*` matches any string.
    fn covering() -> Vec<&'static str> {
        let rows = include_str!("../COVERAGE.md").lines().filter(|line| line.starts_with("| "));
        let code = rows.flat_map(|row| row.split('`').skip(1).step_by(2));
        // Code spans without a dot are names of test files, not case ids.
        code.filter(|code| code.contains('.')).collect()
    }

    #[test]
    fn cases_for_checks_of_other_suites_exist() {
        let suite = Suite::new();
        let ids = covering();
        assert!(ids.len() > 100, "{} ids", ids.len());
        for id in ids {
            let found = if id.contains('*') {
                suite.cases().iter().any(|case| selects(id, case.id()))
            } else {
                suite.find(id).is_some()
            };
            assert!(found, "COVERAGE.md names {id}, which the suite lacks");
        }
    }
}

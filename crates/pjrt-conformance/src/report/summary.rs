//! Counts of a report.

use std::collections::BTreeMap;

use crate::case::Profile;
use crate::outcome::Outcome;
use crate::report::Report;

/// Numbers of outcomes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    counts: BTreeMap<Outcome, usize>,
}

impl Totals {
    /// The number of cases with an outcome.
    #[must_use]
    pub fn of(&self, outcome: Outcome) -> usize {
        self.counts.get(&outcome).copied().unwrap_or(0)
    }

    /// The number of cases.
    #[must_use]
    pub fn all(&self) -> usize {
        self.counts.values().sum()
    }

    /// Counts and names of the outcomes that occurred, such as `5 pass, 1 fail`.
    #[must_use]
    pub fn words(&self) -> String {
        let parts = Outcome::ALL.iter().filter(|outcome| self.of(**outcome) > 0);
        parts.map(|outcome| format!("{} {outcome}", self.of(*outcome))).collect::<Vec<_>>().join(", ")
    }

    fn count(&mut self, outcome: Outcome) {
        *self.counts.entry(outcome).or_default() += 1;
    }
}

/// The outcomes of a profile's cases.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProfileSummary {
    /// The profile's name.
    pub profile: &'static str,
    /// The outcomes of its cases.
    pub totals: Totals,
    /// Ids of the cases that fail or are unsupported.
    pub missing: Vec<String>,
}

impl Report {
    /// The outcomes of all cases.
    #[must_use]
    pub fn totals(&self) -> Totals {
        let mut totals = Totals::default();
        for result in &self.results {
            totals.count(result.outcome);
        }
        totals
    }

    /// The outcomes of each area, in the suite's order.
    #[must_use]
    pub fn areas(&self) -> Vec<(String, Totals)> {
        let mut areas: Vec<(String, Totals)> = Vec::new();
        for result in &self.results {
            let area = result.id.split('.').next().unwrap_or_default();
            if areas.last().is_none_or(|(last, _)| last != area) && !areas.iter().any(|(name, _)| name == area) {
                areas.push((area.to_owned(), Totals::default()));
            }
            if let Some((_, totals)) = areas.iter_mut().find(|(name, _)| name == area) {
                totals.count(result.outcome);
            }
        }
        areas
    }

    /// The outcomes of each profile's cases.
    #[must_use]
    pub fn profiles(&self) -> Vec<ProfileSummary> {
        let summary = |profile: &Profile| {
            let mut totals = Totals::default();
            let mut missing = Vec::new();
            let of_profile = |names: &[String]| names.iter().any(|name| name == profile.name());
            for result in self.results.iter().filter(|result| of_profile(&result.profiles)) {
                totals.count(result.outcome);
                if result.outcome.is_failure() || result.outcome == Outcome::Unsupported {
                    missing.push(result.id.clone());
                }
            }
            ProfileSummary { profile: profile.name(), totals, missing }
        };
        Profile::ALL.iter().map(summary).collect()
    }
}

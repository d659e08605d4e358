//! Counts of the outcomes in a report.

use std::collections::BTreeMap;

use crate::case::Profile;
use crate::outcome::Outcome;
use crate::report::Report;

/// Number of cases with each outcome.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    counts: BTreeMap<Outcome, usize>,
}

impl Totals {
    /// Returns the number of cases with an outcome.
    #[must_use]
    pub fn of(&self, outcome: Outcome) -> usize {
        self.counts.get(&outcome).copied().unwrap_or(0)
    }

    /// Returns the number of all cases.
    #[must_use]
    pub fn all(&self) -> usize {
        self.counts.values().sum()
    }

    /// Returns the counts and names of the outcomes that occurred, such as `5 pass, 1 fail`.
    #[must_use]
    pub fn words(&self) -> String {
        let parts = Outcome::ALL.iter().filter(|outcome| self.of(**outcome) > 0);
        parts.map(|outcome| format!("{} {outcome}", self.of(*outcome))).collect::<Vec<_>>().join(", ")
    }

    fn count(&mut self, outcome: Outcome) {
        *self.counts.entry(outcome).or_default() += 1;
    }
}

/// The outcomes of the cases in a profile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProfileSummary {
    /// Name of the profile.
    pub profile: &'static str,
    /// Number of the profile's cases with each outcome.
    pub totals: Totals,
    /// Ids of the profile's cases that fail or are unsupported.
    pub missing: Vec<String>,
}

impl Report {
    /// Counts the outcomes of all cases.
    #[must_use]
    pub fn totals(&self) -> Totals {
        let mut totals = Totals::default();
        for result in &self.results {
            totals.count(result.outcome);
        }
        totals
    }

    /// Counts the outcomes in each area. The areas are in the order of the report's results.
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

    /// Counts the outcomes of each profile's cases.
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

//! Compares two reports.

use serde::Serialize;

use crate::outcome::Outcome;
use crate::report::Report;

/// A case whose outcomes in two reports differ. An outcome is `None` if its report does not contain the case.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Change {
    /// Id of the case.
    pub id: String,
    /// Outcome in the old report.
    pub old: Option<Outcome>,
    /// Outcome in the new report.
    pub new: Option<Outcome>,
    /// Reason for the outcome in the new report. Empty if the new report does not contain the case.
    pub reason: String,
}

/// The differences between two reports.
#[derive(Clone, Debug, Default, Serialize)]
#[non_exhaustive]
pub struct Diff {
    /// Cases with different outcomes.
    pub changes: Vec<Change>,
}

impl Diff {
    /// Returns the cases of `old` and `new` that have different outcomes in these reports.
    #[must_use]
    pub fn of(old: &Report, new: &Report) -> Self {
        let mut changes = Vec::new();
        for result in &new.results {
            let before = old.find(&result.id).map(|before| before.outcome);
            if before != Some(result.outcome) {
                changes.push(Change {
                    id: result.id.clone(),
                    old: before,
                    new: Some(result.outcome),
                    reason: result.reason.clone(),
                });
            }
        }
        for result in old.results.iter().filter(|result| new.find(&result.id).is_none()) {
            changes.push(Change { id: result.id.clone(), old: Some(result.outcome), new: None, reason: String::new() });
        }
        Self { changes }
    }

    /// Returns whether a case fails in the new report but did not fail in the old report.
    #[must_use]
    pub fn is_worse(&self) -> bool {
        let fails = |outcome: Option<Outcome>| outcome.is_some_and(Outcome::is_failure);
        self.changes.iter().any(|change| fails(change.new) && !fails(change.old))
    }

    /// Returns the changes as text: one line for each case, and a last line with the number of cases that differ.
    #[must_use]
    pub fn to_text(&self) -> String {
        let name = |outcome: Option<Outcome>| outcome.map_or("-", Outcome::name);
        let mut text: String = self
            .changes
            .iter()
            .map(|change| {
                let reason = if change.reason.is_empty() { String::new() } else { format!(": {}", change.reason) };
                format!("{} -> {}  {}{reason}\n", name(change.old), name(change.new), change.id)
            })
            .collect();
        text += &format!("{} cases differ\n", self.changes.len());
        text
    }

    /// Returns the changes as JSON.
    #[must_use]
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).unwrap_or_default() + "\n"
    }
}

#[cfg(test)]
mod tests {
    use super::Diff;
    use crate::report::Report;

    fn report(results: &[(&str, &str)]) -> Report {
        let mut report = Report::default();
        for (id, outcome) in results {
            let json = serde_json::json!({"id": id, "outcome": outcome, "reason": "", "ms": 0.0, "expected": true,
                "clause": "", "why": "", "profiles": [], "reproduce": ""});
            report.results.push(serde_json::from_value(json).unwrap());
        }
        report
    }

    #[test]
    fn changes_and_whether_they_are_worse() {
        let (old, new) = (
            report(&[("a", "pass"), ("b", "fail"), ("c", "pass")]),
            report(&[("a", "pass"), ("b", "pass"), ("d", "crash")]),
        );
        let diff = Diff::of(&old, &new);
        assert_eq!(diff.to_text(), "fail -> pass  b\n- -> crash  d\npass -> -  c\n3 cases differ\n");
        assert!(diff.is_worse() && !Diff::of(&new, &old).changes.is_empty());
        assert!(!Diff::of(&old, &old).is_worse());
    }
}

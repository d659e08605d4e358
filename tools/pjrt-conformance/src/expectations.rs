//! Files that list the known outcomes of a plugin's cases, such as known failures.
//!
//! ```toml
//! [[expect]]
//! cases = ["events.await.*"]
//! outcomes = ["fail"]
//! reason = "events do not report the error of the operation"
//! platform = "acme"       # optional: name of the client's platform
//! plugin = "libacme"      # optional: a part of the library's path or of the plugin's name
//! api = ">=0.80, <0.110"  # optional: versions of the C API
//! ```

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::matching::selects;
use crate::outcome::Outcome;
use crate::report::{PluginInfo, Report};

/// The known outcomes of one or more plugins. A case that no entry matches is expected not to fail.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Expectations {
    /// The entries of the file. If several entries apply to a case, the last of them decides.
    #[serde(default)]
    pub expect: Vec<Expectation>,
}

/// An entry of the file. It contains the expected outcomes of some cases, and conditions for the plugins to which it
/// applies.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Expectation {
    /// Patterns of case ids. An id matches a pattern without `*` if it contains the pattern, as in
    /// [`Filter`](crate::Filter).
    pub cases: Vec<String>,
    /// Expected outcomes. There are several if the outcome varies between runs.
    pub outcomes: Vec<Outcome>,
    /// Reason why the plugin has these outcomes.
    pub reason: String,
    /// Platform name of the client. If it is absent, the entry applies to all platforms.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub platform: Option<String>,
    /// Substring of the library's path or of the plugin's name. If it is absent, the entry applies to all plugins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plugin: Option<String>,
    /// Comparisons that the plugin's C API version must satisfy, such as `>=0.80, <0.110`. If they are absent, the
    /// entry applies to all versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api: Option<String>,
}

/// The properties of a plugin that decide which expectations apply to it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Subject {
    /// Name of the plugin, and path of its library.
    pub names: [String; 2],
    /// Platform name of the client.
    pub platform: String,
    /// Version of the C API.
    pub api: String,
}

impl Report {
    /// Returns the properties of the report's plugin that decide which expectations apply.
    #[must_use]
    pub fn subject(&self) -> Subject {
        Subject::of(&self.plugin)
    }
}

impl Subject {
    fn of(plugin: &PluginInfo) -> Self {
        Self {
            names: [plugin.name.clone(), plugin.path.clone()],
            platform: plugin.platform_name.clone(),
            api: plugin.api_version.clone(),
        }
    }
}

/// Parses a version of the C API, such as `0.114`.
fn version(text: &str) -> Option<(u32, u32)> {
    let (major, minor) = text.trim().split_once('.')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

/// Returns whether a version satisfies all comparisons, such as `>=0.80, <0.110`. Text that is not a version satisfies
/// no comparison. Returns `None` if a comparison is not valid.
fn satisfies(found: &str, comparisons: &str) -> Option<bool> {
    let found = version(found);
    let mut all = true;
    for comparison in comparisons.split(',').map(str::trim) {
        let digits = comparison.find(|c: char| c.is_ascii_digit())?;
        let (operator, bound) = comparison.split_at(digits);
        let bound = version(bound)?;
        let holds = |found: (u32, u32)| {
            Some(match operator.trim() {
                ">=" => found >= bound,
                "<=" => found <= bound,
                ">" => found > bound,
                "<" => found < bound,
                "=" | "==" => found == bound,
                _ => return None,
            })
        };
        all &= holds(found.unwrap_or_default())? && found.is_some();
    }
    Some(all)
}

impl Expectation {
    fn applies(&self, subject: &Subject) -> bool {
        let platform = self.platform.as_ref().is_none_or(|platform| *platform == subject.platform);
        let plugin = self.plugin.as_ref().is_none_or(|part| subject.names.iter().any(|name| name.contains(part)));
        let api = self.api.as_ref().is_none_or(|api| satisfies(&subject.api, api) == Some(true));
        platform && plugin && api
    }
}

impl Expectations {
    /// Parses expectations from TOML.
    ///
    /// # Errors
    ///
    /// Returns an error if the text is not TOML with the fields of [`Expectation`], or if a comparison in `api` is not
    /// valid.
    pub fn from_toml(text: &str) -> Result<Self, String> {
        let new: Self = toml::from_str(text).map_err(|error| error.to_string())?;
        for entry in &new.expect {
            if let Some(api) = &entry.api
                && satisfies("0.0", api).is_none()
            {
                return Err(format!("api = {api:?}: write comparisons such as \">=0.80, <0.110\""));
            }
        }
        Ok(new)
    }

    /// Reads a TOML file of expectations.
    ///
    /// # Errors
    ///
    /// Returns an error if the file cannot be read, or if [`Expectations::from_toml`] rejects its contents.
    pub fn read(path: &Path) -> Result<Self, String> {
        let text = std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
        Self::from_toml(&text).map_err(|error| format!("{}: {error}", path.display()))
    }

    /// Serializes the expectations as TOML.
    ///
    /// # Errors
    ///
    /// Returns an error if a value cannot be represented in TOML.
    pub fn to_toml(&self) -> Result<String, String> {
        toml::to_string(self).map_err(|error| error.to_string())
    }

    /// Appends the entries of `other`. They take precedence over the earlier entries.
    pub fn extend(&mut self, other: Self) {
        self.expect.extend(other.expect);
    }

    /// Returns whether an outcome is expected, and the reason from the entry that applies to the case. The reason is
    /// empty if no entry applies or if the case was skipped.
    #[must_use]
    pub fn judge(&self, subject: &Subject, id: &str, outcome: Outcome) -> (bool, String) {
        let names = |entry: &&Expectation| {
            entry.applies(subject) && entry.cases.iter().any(|pattern| pattern == id || selects(pattern, id))
        };
        match self.expect.iter().rev().find(names) {
            // A skipped case neither confirms nor contradicts the expectation.
            Some(_) if outcome == Outcome::Skipped => (true, String::new()),
            Some(entry) => (entry.outcomes.contains(&outcome), entry.reason.clone()),
            None => (!outcome.is_failure(), String::new()),
        }
    }

    /// Returns expectations that match every outcome of the report. Keeps an entry if it matches an outcome of the
    /// report, if the report contains none of its cases, or if it does not apply to the report's plugin. Each
    /// unexpected outcome adds an entry for the report's platform and API version, with the reason that the case
    /// reported.
    #[must_use]
    pub fn updated(&self, report: &Report) -> Self {
        let subject = report.subject();
        let mut new = self.clone();
        new.expect.retain(|entry| {
            if !entry.applies(&subject) {
                return true;
            }
            let mut named = report
                .results
                .iter()
                .filter(|result| {
                    entry.cases.iter().any(|pattern| pattern == &result.id || selects(pattern, &result.id))
                })
                .peekable();
            named.peek().is_none() || named.any(|result| entry.outcomes.contains(&result.outcome))
        });
        for result in &report.results {
            if new.judge(&subject, &result.id, result.outcome).0 {
                continue;
            }
            let mut outcomes = vec![result.outcome];
            outcomes.extend(result.attempts.iter().map(|attempt| attempt.outcome));
            outcomes.sort_unstable();
            outcomes.dedup();
            new.expect.push(Expectation {
                cases: vec![result.id.clone()],
                outcomes,
                reason: result.reason.clone(),
                platform: Some(subject.platform.clone()).filter(|platform| !platform.is_empty()),
                plugin: None,
                api: Some(format!("={}", subject.api)).filter(|_| !subject.api.is_empty()),
            });
        }
        new
    }
}

#[cfg(test)]
mod tests {
    use super::{Expectations, Subject, satisfies};
    use crate::outcome::Outcome;
    use crate::report::Report;

    #[test]
    fn versions() {
        assert_eq!(satisfies("0.106", ">=0.80, <0.110"), Some(true));
        assert_eq!(satisfies("0.115", ">=0.80, <0.110"), Some(false));
        assert_eq!(satisfies("", ">=0.80"), Some(false));
        assert_eq!(satisfies("0.81", "81"), None);
        assert!(Expectations::from_toml("[[expect]]\ncases=['a']\noutcomes=['fail']\nreason='x'\napi='new'").is_err());
    }

    #[test]
    fn last_entry_that_applies_decides() {
        let text = "
            [[expect]]
            cases = ['a.*']
            outcomes = ['fail']
            reason = 'old'
            [[expect]]
            cases = ['a.b']
            outcomes = ['pass', 'crash']
            reason = 'new'
            platform = 'cpu'";
        let expectations = Expectations::from_toml(text).unwrap();
        let cpu = Subject { platform: "cpu".to_owned(), ..Subject::default() };
        assert_eq!(expectations.judge(&cpu, "a.b", Outcome::Crash), (true, "new".to_owned()));
        assert_eq!(expectations.judge(&Subject::default(), "a.b", Outcome::Pass), (false, "old".to_owned()));
        assert_eq!(expectations.judge(&cpu, "c", Outcome::Unsupported), (true, String::new()));
        assert!(!expectations.judge(&cpu, "c", Outcome::Timeout).0);
    }

    #[test]
    fn update_makes_a_report_expected() {
        let mut report = Report::default();
        report.plugin.api_version = "0.81".to_owned();
        report.results.push(
            serde_json::from_str(
                r#"{"id": "a.b.c", "outcome": "fail", "reason": "why", "ms": 1.0, "expected": false, "clause": "",
                    "why": "", "profiles": [], "reproduce": ""}"#,
            )
            .unwrap(),
        );
        let updated = Expectations::default().updated(&report);
        assert_eq!(updated.judge(&report.subject(), "a.b.c", Outcome::Fail), (true, "why".to_owned()));
        assert_eq!(Expectations::from_toml(&updated.to_toml().unwrap()).unwrap(), updated);
        assert_eq!(updated.updated(&report), updated);
    }
}

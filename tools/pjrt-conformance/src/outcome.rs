//! Outcomes of a case.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The outcome of a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// The plugin meets the requirement that the case checks.
    Pass,
    /// The plugin violates the requirement that the case checks.
    Fail,
    /// The process ended during the case, for example by a signal, by `exit`, or by an uncaught exception.
    Crash,
    /// The case did not end within its time limit. The process was killed.
    Timeout,
    /// The plugin does not offer the function, extension or type that the case needs.
    Unsupported,
    /// The case could not run, for example because the client has too few devices.
    Skipped,
}

impl Outcome {
    /// All outcomes.
    pub const ALL: &[Self] = &[Self::Pass, Self::Fail, Self::Crash, Self::Timeout, Self::Unsupported, Self::Skipped];

    /// Returns the name of the outcome in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Fail => "fail",
            Self::Crash => "crash",
            Self::Timeout => "timeout",
            Self::Unsupported => "unsupported",
            Self::Skipped => "skipped",
        }
    }

    /// Returns whether the outcome is a failure: `fail`, `crash` or `timeout`.
    #[must_use]
    pub const fn is_failure(self) -> bool {
        matches!(self, Self::Fail | Self::Crash | Self::Timeout)
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Outcome {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL.iter().find(|outcome| outcome.name() == text).copied().ok_or_else(|| {
            let known: Vec<&str> = Self::ALL.iter().map(|outcome| outcome.name()).collect();
            format!("{text:?} is not an outcome; the outcomes are {}", known.join(", "))
        })
    }
}

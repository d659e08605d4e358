//! The selection of one run in a recording.

use std::fmt;
use std::str::FromStr;

/// Selects one run of a process. A run is one execution of a program. The selection counts all runs of the process, or
/// only the runs of one program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selection {
    /// Name of the program, or `None` for all programs.
    pub program: Option<String>,
    /// Number of the run among the runs of the program, or among all runs if `program` is `None`. The first run has the
    /// number 1.
    pub number: u64,
}

/// The error for a string that does not select a run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` does not name a run: write its number from 1, PROGRAM or PROGRAM:NUMBER")]
pub struct ParseSelectionError(String);

/// Parses strings such as `7`, `jit_step` and `jit_step:7`.
impl FromStr for Selection {
    type Err = ParseSelectionError;

    fn from_str(text: &str) -> Result<Self, ParseSelectionError> {
        let fault = || ParseSelectionError(text.to_owned());
        let number = |text: &str| text.parse().ok().filter(|number| *number > 0);
        if text.starts_with(|first: char| first.is_ascii_digit()) {
            return Ok(Self { program: None, number: number(text).ok_or_else(fault)? });
        }
        let (program, count) = match text.rsplit_once(':') {
            Some((program, count)) => (program, number(count).ok_or_else(fault)?),
            None => (text, 1),
        };
        if program.is_empty() {
            return Err(fault());
        }
        Ok(Self { program: Some(program.to_owned()), number: count })
    }
}

impl fmt::Display for Selection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.program {
            Some(program) => write!(f, "{program}:{}", self.number),
            None => write!(f, "{}", self.number),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms() {
        let parsed = |text: &str| text.parse::<Selection>().map(|selection| selection.to_string());
        assert_eq!(parsed("7"), Ok("7".to_owned()));
        assert_eq!(parsed("jit_step"), Ok("jit_step:1".to_owned()));
        assert_eq!(parsed("jit_step:3"), Ok("jit_step:3".to_owned()));
        for wrong in ["", "0", "7x", ":3", "a:0", "a:b"] {
            assert!(parsed(wrong).is_err(), "{wrong}");
        }
    }
}

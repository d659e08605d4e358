//! What is wrong with the description of a process.

use std::fmt;

/// One thing wrong: where, what, and what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Fault {
    /// The environment variable at fault, where there is one.
    pub variable: Option<String>,
    /// Its value, where it has one.
    pub value: Option<String>,
    /// What is wrong.
    pub problem: String,
    /// What to do about it; empty where the problem says it.
    pub remedy: String,
}

impl Fault {
    pub(super) fn new(problem: impl Into<String>) -> Self {
        Self { variable: None, value: None, problem: problem.into(), remedy: String::new() }
    }

    pub(super) fn variable(mut self, variable: &str, value: Option<&str>) -> Self {
        self.variable = Some(variable.to_owned());
        self.value = value.map(str::to_owned);
        self
    }

    pub(super) fn remedy(mut self, remedy: impl Into<String>) -> Self {
        self.remedy = remedy.into();
        self
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.variable, &self.value) {
            (Some(variable), Some(value)) => write!(f, "{variable}={value:?}: ")?,
            (Some(variable), None) => write!(f, "{variable}: ")?,
            (None, _) => {}
        }
        f.write_str(&self.problem)?;
        if !self.remedy.is_empty() {
            write!(f, "; {}", self.remedy)?;
        }
        Ok(())
    }
}

/// Why the place of this process among others is unknown or makes no sense.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopologyError {
    faults: Vec<Fault>,
}

impl TopologyError {
    pub(super) fn new(faults: Vec<Fault>) -> Self {
        Self { faults }
    }

    /// All that is wrong; at least one.
    pub fn faults(&self) -> &[Fault] {
        &self.faults
    }
}

impl From<Fault> for TopologyError {
    fn from(fault: Fault) -> Self {
        Self { faults: vec![fault] }
    }
}

impl fmt::Display for TopologyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("process topology: ")?;
        for (i, fault) in self.faults.iter().enumerate() {
            write!(f, "{}{fault}", if i == 0 { "" } else { "\n  " })?;
        }
        Ok(())
    }
}

impl std::error::Error for TopologyError {}

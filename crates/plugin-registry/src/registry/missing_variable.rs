//! An environment variable that a plugin needs and this process lacks.

use std::fmt;

use plugin_manifest::process::EnvStep;

/// A variable of an environment plan that is not set in this process, or is set to another value.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct MissingVariable {
    /// Name of the variable.
    pub variable: String,
    /// The value that the plugin needs.
    pub value: String,
    /// The value in this process, if the variable is set.
    pub found: Option<String>,
    /// The reason why the plugin needs the variable.
    pub reason: String,
}

impl MissingVariable {
    pub(crate) fn of(step: &EnvStep) -> Self {
        Self {
            variable: step.variable.clone(),
            value: step.value.clone(),
            found: step.current.clone(),
            reason: step.reason.clone(),
        }
    }
}

impl fmt::Display for MissingVariable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.variable, self.value)?;
        if let Some(found) = &self.found {
            write!(f, " (now {found})")?;
        }
        if !self.reason.is_empty() {
            write!(f, ", {}", self.reason)?;
        }
        Ok(())
    }
}

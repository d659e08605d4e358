//! Stand-ins for the module `process`, so that the crate compiles until it is merged.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{Faults, NamedValue};

/// Variables of a process, by name.
pub type Environment = BTreeMap<String, String>;

/// Stand-in.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ProcessPlan {}

/// Stand-in.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ProcessTopology {}

/// Stand-in.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct EnvPlan {}

impl ProcessPlan {
    /// Checks the rules.
    ///
    /// # Errors
    ///
    /// All faults at once.
    pub fn validate(&self) -> Result<(), Faults> {
        Ok(())
    }

    /// The set-up of one process.
    ///
    /// # Errors
    ///
    /// All faults at once.
    pub fn resolve(&self, _: &ProcessTopology, _: &Environment) -> Result<EnvPlan, Faults> {
        Ok(EnvPlan {})
    }
}

impl EnvPlan {
    /// Options for the client.
    pub fn create_options(&self) -> &[NamedValue] {
        &[]
    }
}

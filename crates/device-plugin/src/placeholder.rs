//! Stand-ins for the modules `capabilities` and `process`, so that the crate compiles until they are merged.
//! Whoever merges `capabilities` deletes `Capabilities` and `Autocast` here; whoever merges `process` deletes the rest.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{Faults, NamedValue};

/// Stand-in.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Capabilities {}

impl Capabilities {
    /// Checks the fields against each other.
    ///
    /// # Errors
    ///
    /// All faults at once.
    pub fn validate(&self) -> Result<(), Faults> {
        Ok(())
    }
}

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

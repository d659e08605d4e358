//! Stand-in for the module `capabilities`, so that the crate compiles until it is merged, which deletes this file.

use serde::{Deserialize, Serialize};

use crate::Faults;

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

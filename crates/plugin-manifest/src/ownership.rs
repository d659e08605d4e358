//! The number of clients that may use a device at the same time.

use serde::{Deserialize, Serialize};

/// The number of clients that a plugin's devices support at the same time. PJRT has no function to query this number. A
/// framework that creates too many clients waits for a lock, or finds that the device is out of memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Ownership {
    /// Any number of clients, in any number of processes.
    #[default]
    Shared,
    /// One client in each process. Several processes may have a client at the same time.
    PerProcess,
    /// One client on the whole machine.
    Exclusive,
}

impl Ownership {
    /// Returns the name, as a manifest spells it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Shared => "shared",
            Self::PerProcess => "per_process",
            Self::Exclusive => "exclusive",
        }
    }
}

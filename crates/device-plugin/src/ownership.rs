//! Who may use a device at once.

use serde::{Deserialize, Serialize};

/// How many clients a plugin's devices bear. PJRT has no way to ask; a framework that ignores it waits for a lock, or
/// finds the device's memory gone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Ownership {
    /// Any number of clients, in any number of processes.
    #[default]
    Shared,
    /// One client in each process; several processes may have one.
    PerProcess,
    /// One client on the machine.
    Exclusive,
}

impl Ownership {
    /// The name, as a manifest spells it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Shared => "shared",
            Self::PerProcess => "per_process",
            Self::Exclusive => "exclusive",
        }
    }
}

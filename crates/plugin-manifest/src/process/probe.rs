//! How to count the devices of a host, as data.

use serde::{Deserialize, Serialize};

/// A method to count the devices of this host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "from", rename_all = "snake_case")]
#[non_exhaustive]
pub enum ChipProbe {
    /// A constant number.
    Constant {
        /// The number.
        count: u32,
    },
    /// The value of an environment variable.
    Variable {
        /// The variable.
        name: String,
    },
    /// The number of device nodes.
    DeviceNodes {
        /// Path of the nodes. Its last part may contain `*`, `?` and `[0-9]`, as in `/dev/accel[0-9]*`.
        glob: String,
    },
}

/// The source of the index of a host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "from", rename_all = "snake_case")]
#[non_exhaustive]
pub enum HostIndex {
    /// The topology.
    #[default]
    Topology,
    /// The first of these environment variables that is set, or else the topology.
    Variables {
        /// The variables.
        names: Vec<String>,
    },
}

//! Methods to count the devices of a host and to determine its index, as data.

use serde::{Deserialize, Serialize};

/// A method to count the devices of this host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "from", rename_all = "snake_case")]
#[non_exhaustive]
pub enum ChipProbe {
    /// A constant.
    Constant {
        /// Number of devices.
        count: u32,
    },
    /// The value of an environment variable.
    Variable {
        /// Name of the variable.
        name: String,
    },
    /// The number of matching device nodes.
    DeviceNodes {
        /// Path of the device nodes. The file name may contain `*`, `?` and `[0-9]`, as in `/dev/accel[0-9]*`.
        glob: String,
    },
}

/// The source of the index of a host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "from", rename_all = "snake_case")]
#[non_exhaustive]
pub enum HostIndex {
    /// The host index of the topology.
    #[default]
    Topology,
    /// The first of these environment variables that is set and not empty, or else the host index of the topology.
    Variables {
        /// Names of the variables.
        names: Vec<String>,
    },
}

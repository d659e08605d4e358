//! The requirements of a plugin for each process, as data.

use serde::{Deserialize, Serialize};

use super::probe::{ChipProbe, HostIndex};
use super::topology::{DeviceShare, ProcessTopology};
use crate::OptionType;

/// A condition of a rule. A rule applies only if all of its conditions are true. A rule without conditions can apply to
/// every topology.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum When {
    /// There is one process.
    SingleProcess,
    /// There are several processes.
    MultiProcess,
    /// There is one process on this host.
    SoleOnHost,
    /// There are several processes on this host.
    SharedHost,
    /// The process uses one device ([`DeviceShare::One`]).
    OneDevice,
    /// The process uses all devices of its host ([`DeviceShare::All`]).
    AllDevices,
}

impl When {
    /// Returns whether the condition is true for this topology.
    pub(crate) fn holds(self, topology: &ProcessTopology) -> bool {
        match self {
            Self::SingleProcess => topology.world_size() == 1,
            Self::MultiProcess => topology.world_size() > 1,
            Self::SoleOnHost => topology.local_world_size() == 1,
            Self::SharedHost => topology.local_world_size() > 1,
            Self::OneDevice => topology.device_share == DeviceShare::One,
            Self::AllDevices => topology.device_share == DeviceShare::All,
        }
    }

    /// Returns whether the two conditions can never be true together.
    pub(super) fn excludes(self, other: Self) -> bool {
        let pairs = [
            (Self::SingleProcess, Self::MultiProcess),
            (Self::SoleOnHost, Self::SharedHost),
            (Self::OneDevice, Self::AllDevices),
            (Self::SingleProcess, Self::SharedHost),
        ];
        pairs.contains(&(self, other)) || pairs.contains(&(other, self))
    }
}

/// Whether to keep or replace the value of a variable that is already set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum SetMode {
    /// Keep the value.
    #[default]
    Default,
    /// Replace the value.
    Override,
}

/// The latest time at which a variable may be set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Before {
    /// Before the plugin's library is loaded, because the library reads the variable while it is loaded.
    #[default]
    Load,
    /// Before a client is created.
    Client,
}

/// A rule that sets an environment variable.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
// Exhaustive, because vendors construct this struct.
pub struct EnvRule {
    /// Name of the variable.
    pub variable: String,
    /// Template for the value of the variable. The module [`process`](crate::process) describes the syntax of
    /// templates.
    pub value: String,
    /// Conditions under which the rule applies.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub when: Vec<When>,
    /// If any of these variables is set and not empty, the rule does not apply.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unless_set: Vec<String>,
    /// Whether to keep or replace a value that is already set.
    #[serde(default)]
    pub set: SetMode,
    /// The latest time at which the variable may be set.
    #[serde(default)]
    pub before: Before,
    /// Reason for the rule, for display.
    #[serde(default)]
    pub reason: String,
}

impl EnvRule {
    /// Creates a rule that sets a variable before the library is loaded, unless the variable is already set.
    pub fn new(variable: impl Into<String>, value: impl Into<String>) -> Self {
        Self {
            variable: variable.into(),
            value: value.into(),
            when: Vec::new(),
            unless_set: Vec::new(),
            set: SetMode::Default,
            before: Before::Load,
            reason: String::new(),
        }
    }
}

/// A rule that passes an option to `PJRT_Client_Create`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
// Exhaustive, because vendors construct this struct.
pub struct OptionRule {
    /// Name of the option.
    pub name: String,
    /// Type of the option's value.
    #[serde(rename = "type")]
    pub ty: OptionType,
    /// Template for the value of the option. The module [`process`](crate::process) describes the syntax of templates.
    pub value: String,
    /// Conditions under which the rule applies.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub when: Vec<When>,
    /// If any of these variables is set and not empty, the rule does not apply.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unless_set: Vec<String>,
    /// Reason for the rule, for display.
    #[serde(default)]
    pub reason: String,
}

impl OptionRule {
    /// Creates a rule without conditions. It passes the option `name` with the type `ty`. `value` is the template for
    /// the option's value.
    pub fn new(name: impl Into<String>, ty: OptionType, value: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            ty,
            value: value.into(),
            when: Vec::new(),
            unless_set: Vec::new(),
            reason: String::new(),
        }
    }
}

/// Whether clients need a key-value store that all processes share.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum CoordinatorNeed {
    /// Never.
    #[default]
    Never,
    /// Always, even if there is only one process.
    Always,
    /// If there are several processes.
    MultiProcess,
}

/// A plugin's need for a coordinator. The coordinator is the process with global rank 0, which provides the key-value
/// store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
// Exhaustive, because vendors construct this struct.
pub struct Coordinator {
    /// Whether clients need a coordinator.
    pub need: CoordinatorNeed,
    /// Port of the coordinator, if no source provides one.
    pub default_port: u16,
}

impl Coordinator {
    /// Default port of the coordinator in PyTorch/XLA.
    pub const DEFAULT_PORT: u16 = 8547;
}

/// No coordinator. If a plan sets only [`Self::need`], the default port is [`Self::DEFAULT_PORT`].
impl Default for Coordinator {
    fn default() -> Self {
        Self { need: CoordinatorNeed::Never, default_port: Self::DEFAULT_PORT }
    }
}

/// The requirements of a plugin for each process: variables, create options, a coordinator, and methods to count
/// devices.
///
/// A plan has a JSON form, so that programs in other languages can apply it, too. [`ProcessPlan::validate`] reports the
/// faults of a plan. [`ProcessPlan::resolve`] computes its values for one process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
// Exhaustive, because vendors construct this struct.
pub struct ProcessPlan {
    /// Rules for environment variables, which are set in this order.
    pub environment: Vec<EnvRule>,
    /// Rules for options of the client.
    pub options: Vec<OptionRule>,
    /// Whether clients need a coordinator.
    pub coordinator: Coordinator,
    /// Probes that count the devices of this host without the plugin. The first probe that finds any devices determines
    /// the number.
    pub chips: Vec<ChipProbe>,
    /// Source of the host's index.
    pub host_index: HostIndex,
}

/// The default plan has no variables, options or coordinator, and counts one device.
impl Default for ProcessPlan {
    fn default() -> Self {
        Self {
            environment: Vec::new(),
            options: Vec::new(),
            coordinator: Coordinator::default(),
            chips: vec![ChipProbe::Constant { count: 1 }],
            host_index: HostIndex::Topology,
        }
    }
}

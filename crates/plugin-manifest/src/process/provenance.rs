//! The origin of each value of a topology.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;

/// The source of a topology value, such as a launcher that sets variables, the program itself, or a computation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Source {
    /// Values that the program passed.
    Explicit,
    /// JAX's own variables: `JAX_COORDINATOR_ADDRESS` and others.
    Jax,
    /// `PJRT_LOCAL_PROCESS_RANK` and `PJRT_LOCAL_PROCESS_COUNT`, which PyTorch/XLA sets for the processes that it
    /// spawns.
    PjrtLocal,
    /// torchrun: `RANK`, `WORLD_SIZE`, `LOCAL_RANK`, `LOCAL_WORLD_SIZE`.
    Torchrun,
    /// Open MPI's `mpirun`.
    OpenMpi,
    /// A job step of Slurm.
    Slurm,
    /// Variables of a TPU worker: `TPU_WORKER_HOSTNAMES` and others. Google Kubernetes Engine sets these variables.
    TpuVariables,
    /// Metadata of a Google TPU VM.
    TpuMetadata,
    /// An indexed Job of Kubernetes.
    Kubernetes,
    /// Variables of AWS Neuron: `NEURON_PJRT_PROCESS_INDEX` and others.
    Neuron,
    /// A value that was computed from other values.
    Derived,
    /// A default, because no source provides the value.
    Assumed,
}

impl Source {
    /// Returns the name for tables and errors.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Explicit => "explicit",
            Self::Jax => "JAX",
            Self::PjrtLocal => "PJRT local process",
            Self::Torchrun => "torchrun",
            Self::OpenMpi => "Open MPI",
            Self::Slurm => "Slurm",
            Self::TpuVariables => "TPU variables",
            Self::TpuMetadata => "TPU metadata",
            Self::Kubernetes => "Kubernetes",
            Self::Neuron => "Neuron",
            Self::Derived => "derived",
            Self::Assumed => "assumed",
        }
    }
}

/// Identifies one of the values of a topology.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Item {
    GlobalRank,
    WorldSize,
    LocalRank,
    LocalWorldSize,
    HostIndex,
    HostCount,
    SliceIndex,
    SliceCount,
    Coordinator,
    Hosts,
}

impl Item {
    /// Returns the name for tables and errors.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::GlobalRank => "global rank",
            Self::WorldSize => "world size",
            Self::LocalRank => "local rank",
            Self::LocalWorldSize => "local world size",
            Self::HostIndex => "host index",
            Self::HostCount => "host count",
            Self::SliceIndex => "slice index",
            Self::SliceCount => "slice count",
            Self::Coordinator => "coordinator",
            Self::Hosts => "hosts",
        }
    }
}

impl fmt::Display for Item {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The origin of a value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Origin {
    /// The source that provides the value.
    pub(super) source: Source,
    /// Name of the variable, file or metadata attribute that contains the value, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) name: Option<String>,
}

impl Origin {
    /// Creates the origin of a value that `source` provides without a name.
    pub(super) fn of(source: Source) -> Self {
        Self { source, name: None }
    }

    /// Creates the origin of a value that `source` provides in the variable, file or attribute `name`.
    pub(super) fn named(source: Source, name: impl Into<String>) -> Self {
        Self { source, name: Some(name.into()) }
    }
}

/// Formats the source and the name, such as `torchrun RANK`.
impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.name {
            Some(name) => write!(f, "{} {name}", self.source.name()),
            None => f.write_str(self.source.name()),
        }
    }
}

/// The origin of each value of a topology.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub(crate) struct Provenance(BTreeMap<Item, Origin>);

impl Provenance {
    /// Returns the origin of one value. Returns `None` if the value is unknown, or if the program passed it to
    /// [`ProcessTopology`](crate::ProcessTopology) directly.
    pub(super) fn of(&self, item: Item) -> Option<&Origin> {
        self.0.get(&item)
    }

    /// Returns all values that have an origin, with their origins.
    pub(super) fn iter(&self) -> impl Iterator<Item = (Item, &Origin)> {
        self.0.iter().map(|(item, origin)| (*item, origin))
    }

    pub(super) fn set(&mut self, item: Item, origin: Origin) {
        self.0.insert(item, origin);
    }
}

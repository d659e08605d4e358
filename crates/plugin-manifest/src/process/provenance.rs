//! The origin of each value of a topology.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;

use crate::names::names;

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

names! {
    /// Identifies one of the values of a topology.
    pub(crate) enum Item {
        GlobalRank "global_rank",
        WorldSize "world_size",
        LocalRank "local_rank",
        LocalWorldSize "local_world_size",
        HostIndex "host_index",
        HostCount "host_count",
        SliceIndex "slice_index",
        SliceCount "slice_count",
        Coordinator "coordinator",
        Hosts "hosts",
    }
}

impl Item {
    /// Each index, and the count that exceeds it.
    pub(super) const PAIRS: [(Self, Self); 4] = [
        (Self::GlobalRank, Self::WorldSize),
        (Self::LocalRank, Self::LocalWorldSize),
        (Self::HostIndex, Self::HostCount),
        (Self::SliceIndex, Self::SliceCount),
    ];
}

/// Formats the name for tables and errors.
impl fmt::Display for Item {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.name().replace('_', " "))
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

/// The origin of each value of a topology. A value has no origin if it is unknown, or if the program passed it to
/// [`ProcessTopology`](crate::ProcessTopology) directly.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub(crate) struct Provenance(pub(super) BTreeMap<Item, Origin>);

impl Provenance {
    pub(super) fn of(&self, item: Item) -> Option<&Origin> {
        self.0.get(&item)
    }
}

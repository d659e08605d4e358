//! The properties of a machine that libraries may require.

use std::collections::BTreeSet;

use super::cpu::CpuLevel;
use super::version::DottedVersion;

/// The properties of a machine that a library may require. Each property may be unknown, as all are by default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
// Exhaustive, because programs that describe a machine construct this struct.
pub struct MachineProperties {
    /// Features that all processors of the machine have, as `/proc/cpuinfo` of Linux spells them. `None` if they are
    /// unknown.
    pub cpu_features: Option<BTreeSet<String>>,
    /// CUDA compute capabilities of the GPUs. Empty if they are unknown.
    pub cuda_compute_capabilities: Vec<DottedVersion>,
    /// Version of NVIDIA's kernel driver. `None` if it is unknown or there is no such driver.
    pub nvidia_driver: Option<DottedVersion>,
}

impl MachineProperties {
    /// Name of the environment variable that sets the CPU level, such as `x86-64-v3`.
    pub const CPU_LEVEL_VARIABLE: &str = "PJRT_REGISTRY_CPU_LEVEL";
    /// Name of the environment variable that sets the CUDA compute capabilities of the GPUs, such as `9.0` or
    /// `8.0,9.0`.
    pub const COMPUTE_CAPABILITY_VARIABLE: &str = "PJRT_REGISTRY_CUDA_COMPUTE_CAPABILITY";
    /// Name of the environment variable that sets the version of NVIDIA's driver, such as `550.54`.
    pub const NVIDIA_DRIVER_VARIABLE: &str = "PJRT_REGISTRY_NVIDIA_DRIVER";

    /// Sets the features of the CPU to those of a level.
    #[must_use]
    pub fn with_cpu_level(mut self, level: CpuLevel) -> Self {
        self.cpu_features = Some(level.features().into_iter().map(str::to_owned).collect());
        self
    }
}

//! The properties of a machine that libraries may require.

use std::collections::BTreeSet;

use super::cpu::CpuLevel;
use super::version::DottedVersion;

/// The properties of a machine that a library may require. Each property may be unknown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
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

    /// Returns a machine whose properties are all unknown.
    pub fn unknown() -> Self {
        Self::default()
    }

    /// Sets the features of the CPU, as `/proc/cpuinfo` of Linux spells them.
    #[must_use]
    pub fn with_cpu_features(mut self, features: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.cpu_features = Some(features.into_iter().map(Into::into).collect());
        self
    }

    /// Sets the features of the CPU to those of a level.
    #[must_use]
    pub fn with_cpu_level(self, level: CpuLevel) -> Self {
        self.with_cpu_features(level.features())
    }

    /// Sets the CUDA compute capabilities of the GPUs.
    #[must_use]
    pub fn with_cuda_compute_capabilities(mut self, capabilities: impl IntoIterator<Item = DottedVersion>) -> Self {
        self.cuda_compute_capabilities = capabilities.into_iter().collect();
        self
    }

    /// Sets the version of NVIDIA's kernel driver.
    #[must_use]
    pub fn with_nvidia_driver(mut self, version: DottedVersion) -> Self {
        self.nvidia_driver = Some(version);
        self
    }
}

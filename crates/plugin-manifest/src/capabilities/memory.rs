//! Memories, and memory shared with other libraries.

use serde::{Deserialize, Serialize};

use super::c_enums::codes;

codes! {
    /// `DLDeviceType`: the location of memory, with the numbers of DLPack 1.1 and one that JAX adds.
    pub enum DlpackDevice, "a DLPack device type" {
        /// The host.
        Cpu = 1 "cpu",
        /// NVIDIA's GPUs.
        Cuda = 2 "cuda",
        /// Host memory pinned by CUDA.
        CudaHost = 3 "cuda_host",
        /// OpenCL devices.
        OpenCl = 4 "opencl",
        /// Vulkan buffers.
        Vulkan = 7 "vulkan",
        /// Apple's GPUs.
        Metal = 8 "metal",
        /// Verilog simulators.
        Vpi = 9 "vpi",
        /// AMD's GPUs.
        Rocm = 10 "rocm",
        /// Host memory pinned by ROCm.
        RocmHost = 11 "rocm_host",
        /// A device for which DLPack has no name.
        ExtDev = 12 "ext_dev",
        /// CUDA memory that the host can also read.
        CudaManaged = 13 "cuda_managed",
        /// oneAPI devices through unified shared memory.
        OneApi = 14 "oneapi",
        /// WebGPU buffers.
        WebGpu = 15 "webgpu",
        /// Qualcomm's Hexagon DSPs.
        Hexagon = 16 "hexagon",
        /// Microsoft's MAIA devices.
        Maia = 17 "maia",
        /// AWS Trainium.
        Trn = 18 "trn",
        /// Host memory pinned by the TPU runtime; JAX's number, not one of DLPack 1.1.
        TpuHost = 20 "tpu_host",
    }
}

impl DlpackDevice {
    /// Whether the host can read such memory at its address.
    pub const fn is_host(self) -> bool {
        matches!(self, Self::Cpu | Self::CudaHost | Self::RocmHost | Self::CudaManaged | Self::TpuHost)
    }
}

/// The memories of a device, as frameworks select them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct MemoryKinds {
    /// Names of the kinds: `device`, `pinned_host`. Empty if only the client knows them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<String>,
    /// The kind of memory for arrays if the user names none; one of `names`.
    #[serde(rename = "default", skip_serializing_if = "Option::is_none")]
    pub default_kind: Option<String>,
    /// Whether a program may keep arrays in one of the host's memories while it runs.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub host_offload: bool,
}

impl MemoryKinds {
    /// Memories of these kinds; the first is the default.
    pub fn new<S: Into<String>>(names: impl IntoIterator<Item = S>) -> Self {
        let names: Vec<String> = names.into_iter().map(Into::into).collect();
        Self { default_kind: names.first().cloned(), names, host_offload: false }
    }

    /// Programs may keep arrays in a memory of the host.
    #[must_use]
    pub fn host_offload(mut self) -> Self {
        self.host_offload = true;
        self
    }
}

codes! {
    /// The statistics that `PJRT_Device_MemoryStats` returns.
    #[derive(Default)]
    pub enum MemoryStatsReport, "an answer about memory statistics" {
        /// Unknown before the call. PyTorch/XLA assumes that there is a limit, JAX does not.
        #[default]
        Unstated = 0 "unstated",
        /// The function returns no statistics.
        None = 1 "none",
        /// The amount of memory in use.
        InUse = 2 "in_use",
        /// The amount of memory in use, and the limit (`bytes_limit`).
        WithLimit = 3 "with_limit",
    }
}

/// Limits of callbacks from a running program into the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct HostCallbacks {
    /// Partitioned programs may contain callbacks.
    pub partitioned: bool,
    /// Callbacks may take arrays without elements.
    pub empty_arrays: bool,
}

/// Callbacks without limits.
impl Default for HostCallbacks {
    fn default() -> Self {
        Self { partitioned: true, empty_arrays: true }
    }
}

impl HostCallbacks {
    /// Sets whether partitioned programs may contain callbacks, and whether callbacks may take empty arrays.
    pub fn new(partitioned: bool, empty_arrays: bool) -> Self {
        Self { partitioned, empty_arrays }
    }
}

//! Memory kinds, and memory that is shared with other libraries.

use serde::{Deserialize, Serialize};

use crate::names::codes;

codes! {
    /// Location of memory: DLPack's `DLDeviceType` with the codes of DLPack 1.1, and one code that JAX adds.
    pub enum DlpackDevice {
        /// Host memory.
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
        /// A device that does not have its own DLPack device type.
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
        /// Host memory pinned by the TPU runtime. JAX defines this code, and DLPack 1.1 does not.
        TpuHost = 20 "tpu_host",
    }
}

impl DlpackDevice {
    /// Returns whether the host can read memory of this type directly.
    pub(crate) const fn is_host(self) -> bool {
        matches!(self, Self::Cpu | Self::CudaHost | Self::RocmHost | Self::CudaManaged | Self::TpuHost)
    }
}

/// The memory kinds of a device. Frameworks select a memory by its kind.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
// Exhaustive, because vendors construct this struct.
pub struct MemoryKinds {
    /// Names of the memory kinds, such as `device` and `pinned_host`. Empty if only the client can list them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<String>,
    /// Memory kind for arrays if the user does not choose one. It must be in `names`.
    #[serde(rename = "default", skip_serializing_if = "Option::is_none")]
    pub default_kind: Option<String>,
    /// Whether a program may keep arrays in host memory while it runs.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub host_offload: bool,
}

impl MemoryKinds {
    /// Creates memory kinds with these names. The first one is the default.
    pub fn new<S: Into<String>>(names: impl IntoIterator<Item = S>) -> Self {
        let names: Vec<String> = names.into_iter().map(Into::into).collect();
        Self { default_kind: names.first().cloned(), names, host_offload: false }
    }
}

codes! {
    /// The statistics that `PJRT_Device_MemoryStats` returns.
    #[derive(Default)]
    pub enum MemoryStatsReport {
        /// Unknown until `PJRT_Device_MemoryStats` is called. PyTorch/XLA assumes that the limit is reported, and JAX
        /// does not.
        #[default]
        Unstated = 0 "unstated",
        /// `PJRT_Device_MemoryStats` does not return statistics.
        None = 1 "none",
        /// The amount of memory in use.
        InUse = 2 "in_use",
        /// The amount of memory in use, and the limit (`bytes_limit`).
        WithLimit = 3 "with_limit",
    }
}

/// Restrictions on callbacks from a running program into the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
// Exhaustive, because vendors construct this struct.
pub struct HostCallbacks {
    /// Whether partitioned programs may contain callbacks.
    pub partitioned: bool,
    /// Whether callbacks may take arrays without elements.
    pub empty_arrays: bool,
}

/// Callbacks without restrictions.
impl Default for HostCallbacks {
    fn default() -> Self {
        Self { partitioned: true, empty_arrays: true }
    }
}

//! The capabilities of a device, which replace rules that frameworks keep by device name.
//!
//! PJRT reports the version of the interface and the extensions of a plugin. It does not report how to lower `gather`,
//! which float autocast uses or whether donation works. Frameworks keep such knowledge in lists of device names, so a
//! device with an unknown name gets the defaults. [`Capabilities`] is that knowledge as data. It is available without a
//! client, in Rust, in JSON (the `capabilities` of a [`Manifest`](crate::Manifest)) and in C (`dp_capabilities`).
//!
//! ```
//! use plugin_manifest::ElementType;
//! use plugin_manifest::capabilities::{Autocast, Capabilities};
//!
//! let capabilities = Capabilities::builder()
//!     .dense_gather_factor(8192)
//!     .autocast(Autocast::xla([ElementType::Bf16]))
//!     .spmd(true)
//!     .build();
//! assert_eq!(capabilities.validate(), Ok(()));
//! let json = r#"{"dense_gather_factor": 8192, "autocast": {"kind": "xla", "dtypes": ["bf16"], "default_dtype": "bf16"}}"#;
//! assert_eq!(Capabilities::from_json(json)?, capabilities);
//! # Ok::<(), plugin_manifest::Faults>(())
//! ```

mod builder;
mod c_enums;
mod layout;
pub mod legacy;
mod lowering;
mod memory;
mod patch;
mod program;
mod table;
mod validate;

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;

use serde::{Deserialize, Serialize};

pub use builder::CapabilitiesBuilder;
pub use layout::{LayoutPolicy, MasterAddress, ReplicaOrder, Tiling};
pub use lowering::{
    Autocast, AutocastDispatchKey, AutocastKind, Bf16Policy, DotAlgorithm, EagerFallback, Int64Policy, MixedDot,
    RngBitGenerator,
};
pub use memory::{DlpackDevice, HostCallbacks, MemoryKinds, MemoryStatsReport};
pub use program::{
    DynamicShapes, OptimizedProgram, ProgramFormat, ProgramFormats, Spmd, StablehloRange, StablehloVersion,
};
pub use table::{Row, Table};

use crate::{ElementType, Value};

/// The capabilities of the devices of a plugin. The default is what frameworks assume of an unknown device.
///
/// The brackets after each field name the framework that keeps a rule for it by device name, and the rule.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Capabilities {
    /// Lower a gather as a dense product with a mask if the gathered dimension has at most ten times this many
    /// elements. `None`: always gather. \[PyTorch/XLA `index_select`, `gather`: 8192 on TPU and Neuron\]
    #[serde(skip_serializing_if = "is_default")]
    pub dense_gather_factor: Option<NonZeroU32>,

    /// Lower a scatter densely if the index has at least one element for this many of the input. `None`: always
    /// scatter. \[PyTorch/XLA scatter: 100 on TPU\]
    #[serde(skip_serializing_if = "is_default")]
    pub dense_scatter_factor: Option<NonZeroU32>,

    /// The algorithm for random bits. \[PyTorch/XLA random: ThreeFry on CUDA up to 2.8\]
    #[serde(skip_serializing_if = "is_default")]
    pub rng_bit_generator: RngBitGenerator,

    /// Automatic mixed precision. `None`: frameworks ignore a request for it, with a warning. \[PyTorch/XLA
    /// `torch_xla.amp.autocast`: `bf16` on TPU and Neuron, `f16` and others on CUDA up to 2.8\]
    #[serde(skip_serializing_if = "is_default")]
    pub autocast: Option<Autocast>,

    /// PyTorch's dispatch key for autocast on tensors of the device. \[PyTorch/XLA tensor set-up: AutocastCUDA on CUDA
    /// up to 2.8\]
    #[serde(skip_serializing_if = "is_default")]
    pub autocast_dispatch_key: AutocastDispatchKey,

    /// The device for operations without a lowering. \[PyTorch/XLA fallback: the CUDA device through DLPack on CUDA up
    /// to 2.8\]
    #[serde(skip_serializing_if = "is_default")]
    pub eager_fallback: EagerFallback,

    /// The element types that programs may use. `None`: not stated, frameworks try all.
    #[serde(skip_serializing_if = "is_default")]
    pub supported_dtypes: Option<BTreeSet<ElementType>>,

    /// Element types that frameworks replace by another throughout. \[PyTorch/XLA: `f64`, `u16` and `s16` on Neuron\]
    #[serde(skip_serializing_if = "is_default")]
    pub remapped_dtypes: BTreeMap<ElementType, ElementType>,

    /// Handling of 64-bit integers. \[PyTorch/XLA `dot`: on the host on TPU\]
    #[serde(skip_serializing_if = "is_default")]
    pub int64: Int64Policy,

    /// The floats that are stored as `bf16`. \[PyTorch/XLA, by environment variables only\]
    #[serde(skip_serializing_if = "is_default")]
    pub bf16: Bf16Policy,

    /// The layout of arrays sent to the device. \[PyTorch/XLA: tiles of 8 by 128 on TPU\]
    #[serde(skip_serializing_if = "is_default")]
    pub layout: LayoutPolicy,

    /// Whether the compiler knows the custom calls `ResizeNearest` and `ResizeBilinear`. If not, frameworks expand
    /// them. \[PyTorch/XLA upsampling: TPU and Neuron\]
    #[serde(skip_serializing_if = "is_default")]
    pub resize_custom_call: bool,

    /// Whether the gradient of nearest upsampling runs on the device or the host. \[PyTorch/XLA: TPU and Neuron\]
    #[serde(skip_serializing_if = "is_default")]
    pub upsample_nearest_backward: bool,

    /// Whether the gradient of bilinear upsampling runs on the device or the host. \[PyTorch/XLA: TPU\]
    #[serde(skip_serializing_if = "is_default")]
    pub upsample_bilinear_backward: bool,

    /// Whether one program may be partitioned for several devices. \[PyTorch/XLA: hardware checks, and a second set-up
    /// on Neuron\]
    #[serde(skip_serializing_if = "is_default")]
    pub spmd: Spmd,

    /// The device attribute that holds a device's coordinates in the physical mesh. `None`: devices do not form a mesh.
    /// \[PyTorch/XLA hybrid meshes: `coords`, on TPU only\]
    #[serde(skip_serializing_if = "is_default")]
    pub mesh_coordinates: Option<String>,

    /// Orders of devices for collective operations, for meshes in which the logical order is not the best.
    /// \[PyTorch/XLA replica groups: TPU v5p and v6e\]
    #[serde(skip_serializing_if = "is_default")]
    pub replica_orders: Vec<ReplicaOrder>,

    /// How processes find the first process. \[PyTorch/XLA `get_master_ip`: TPU and Neuron\]
    #[serde(skip_serializing_if = "is_default")]
    pub master_address: MasterAddress,

    /// Whether a program may reuse the memory of its inputs for its outputs. \[JAX: cpu, cuda, rocm, tpu, neuron\]
    #[serde(skip_serializing_if = "is_default")]
    pub donation: bool,

    /// Whether compiled programs may be kept on disk for other processes. Executables must support serialization.
    /// \[JAX: tpu, gpu, cpu, neuron\]
    #[serde(skip_serializing_if = "is_default")]
    pub persistent_cache: bool,

    /// Whether a program compiled for some devices can run on others, so that the cache key omits the device
    /// assignment. \[JAX: gpu\]
    #[serde(skip_serializing_if = "is_default")]
    pub cache_key_strip_device_assignment: bool,

    /// Callbacks from a running program into the host. `None`: no callbacks. \[JAX: cpu, cuda, rocm, tpu\]
    #[serde(skip_serializing_if = "is_default")]
    pub host_callbacks: Option<HostCallbacks>,

    /// Pass the arguments of a program as one tuple if there are more than this many. `None`: never. \[JAX: 2000 on
    /// TPU\]
    #[serde(skip_serializing_if = "is_default")]
    pub tuple_args_threshold: Option<NonZeroU32>,

    /// Program formats that the compiler accepts. \[PyTorch/XLA sends HLO unless an environment variable requests
    /// another; JAX sends StableHLO\]
    #[serde(skip_serializing_if = "is_default")]
    pub program_formats: ProgramFormats,

    /// Whether executables return their optimized program. \[PyTorch/XLA compilation fails without it\]
    #[serde(skip_serializing_if = "is_default")]
    pub optimized_program: OptimizedProgram,

    /// Versions of StableHLO that the compiler reads, for tools without a client. Loaded plugins report the same in
    /// their attributes. `None`: not stated.
    #[serde(skip_serializing_if = "is_default")]
    pub stablehlo: Option<StablehloRange>,

    /// Arrays with extents known only at run time. \[PyTorch/XLA, by an environment variable for all devices\]
    #[serde(skip_serializing_if = "is_default")]
    pub dynamic_shapes: DynamicShapes,

    /// DLPack's name for the device's memory. `None` if it cannot be shared through DLPack. \[JAX: cpu, cuda, rocm,
    /// oneapi; PyTorch/XLA: CPU, and CUDA up to 2.8\]
    #[serde(skip_serializing_if = "is_default")]
    pub dlpack_device: Option<DlpackDevice>,

    /// DLPack's name for host memory pinned for the device. `None` if it cannot be shared. \[JAX: cuda, rocm, tpu\]
    #[serde(skip_serializing_if = "is_default")]
    pub dlpack_host_device: Option<DlpackDevice>,

    /// Foreign memories that buffers can use without a copy. \[PyTorch/XLA Dynamo: CUDA up to 2.8\]
    #[serde(skip_serializing_if = "is_default")]
    pub zero_copy_import: BTreeSet<DlpackDevice>,

    /// Memories through which others can use buffers without a copy. \[PyTorch/XLA Dynamo: CUDA up to 2.8\]
    #[serde(skip_serializing_if = "is_default")]
    pub zero_copy_export: BTreeSet<DlpackDevice>,

    /// The memories of a device.
    #[serde(skip_serializing_if = "is_default")]
    pub memory_kinds: MemoryKinds,

    /// The memory statistics of the device. \[PyTorch/XLA reads the limit without checking whether it exists\]
    #[serde(skip_serializing_if = "is_default")]
    pub memory_stats: MemoryStatsReport,

    /// The dot algorithms that the compiler supports. `None`: all. \[JAX: seven on cpu, which ignores others\]
    #[serde(skip_serializing_if = "is_default")]
    pub dot_algorithms: Option<BTreeSet<DotAlgorithm>>,

    /// Dot products of operands with different types. \[JAX: floats and integers mix on TPU\]
    #[serde(skip_serializing_if = "is_default")]
    pub mixed_dot: MixedDot,

    /// Capabilities without a field of their own, by name: lower-case letters, digits, underscores and dots. A
    /// framework looks up the names it knows.
    #[serde(skip_serializing_if = "is_default")]
    pub features: BTreeMap<String, Value>,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

impl Capabilities {
    /// Returns a builder that starts from what frameworks assume of an unknown device.
    pub fn builder() -> CapabilitiesBuilder {
        CapabilitiesBuilder::default()
    }

    /// Returns a builder that starts from these capabilities.
    pub fn into_builder(self) -> CapabilitiesBuilder {
        CapabilitiesBuilder::from(self)
    }

    /// The type in which the device stores arrays that a program declares as `ty`, by [`Self::remapped_dtypes`],
    /// [`Self::int64`] and [`Self::bf16`].
    pub fn stored_as(&self, ty: ElementType) -> ElementType {
        use ElementType::{Bf16, F32, F64, S32, S64, U32, U64};
        match (ty, self.bf16, self.int64) {
            (F64 | F32, Bf16Policy::Replace, _) => Bf16,
            (F32, Bf16Policy::Downcast, _) => Bf16,
            (F64, Bf16Policy::Downcast, _) => F32,
            (S64, _, Int64Policy::Remapped) => S32,
            (U64, _, Int64Policy::Remapped) => U32,
            _ => self.remapped_dtypes.get(&ty).copied().unwrap_or(ty),
        }
    }

    /// Whether to lower a gather along a dimension of `elements` elements densely.
    pub fn gathers_densely(&self, elements: u64) -> bool {
        self.dense_gather_factor.is_some_and(|factor| elements <= u64::from(factor.get()) * 10)
    }

    /// Whether to lower a scatter of `index_elements` into `input_elements` elements densely.
    pub fn scatters_densely(&self, index_elements: u64, input_elements: u64) -> bool {
        let dense = |factor: NonZeroU32| index_elements.saturating_mul(u64::from(factor.get())) >= input_elements;
        self.dense_scatter_factor.is_some_and(dense)
    }

    /// Whether a program with this number of arguments takes them as one tuple.
    pub fn tuples_args(&self, arguments: usize) -> bool {
        let more = |limit: NonZeroU32| u64::try_from(arguments).is_ok_and(|n| n > u64::from(limit.get()));
        self.tuple_args_threshold.is_some_and(more)
    }

    /// The order in which a collective operation should visit the devices of this kind in a mesh with these bounds.
    /// Returns `None` if the logical order is suitable. Kinds match in any case.
    pub fn replica_order(&self, device_kind: &str, bounds: &[u32]) -> Option<&[u32]> {
        let fits =
            |order: &&ReplicaOrder| order.device_kind.eq_ignore_ascii_case(device_kind) && order.bounds == bounds;
        self.replica_orders.iter().find(fits).map(|order| order.order.as_slice())
    }
}

#[cfg(test)]
pub(crate) mod tests;

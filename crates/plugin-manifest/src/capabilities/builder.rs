//! A builder with one method for each field.

use std::num::NonZeroU32;

use super::{
    Autocast, AutocastDispatchKey, Bf16Policy, Capabilities, DlpackDevice, DotAlgorithm, DynamicShapes, EagerFallback,
    HostCallbacks, Int64Policy, LayoutPolicy, MasterAddress, MemoryKinds, MemoryStatsReport, MixedDot,
    OptimizedProgram, ProgramFormats, ReplicaOrder, RngBitGenerator, Spmd, StablehloRange,
};
use crate::{ElementType, Value};

/// Builds [`Capabilities`]. See its fields for their meaning.
///
/// Building never fails. [`Capabilities::validate`] reports all faults at once, and registration calls it.
#[derive(Clone, Debug, Default, PartialEq)]
#[must_use]
pub struct CapabilitiesBuilder(Capabilities);

impl From<Capabilities> for CapabilitiesBuilder {
    fn from(capabilities: Capabilities) -> Self {
        Self(capabilities)
    }
}

/// Setters that store their argument.
macro_rules! setters {
    ($($(#[$meta:meta])* $field:ident: $ty:ty;)*) => {
        $(
            $(#[$meta])*
            pub fn $field(mut self, value: impl Into<$ty>) -> Self {
                self.0.$field = value.into();
                self
            }
        )*
    };
}

/// Setters of counts, where 0 means `None`.
macro_rules! counts {
    ($($(#[$meta:meta])* $field:ident;)*) => {
        $(
            $(#[$meta])*
            pub fn $field(mut self, value: u32) -> Self {
                self.0.$field = NonZeroU32::new(value);
                self
            }
        )*
    };
}

impl CapabilitiesBuilder {
    counts! {
        /// Sets [`Capabilities::dense_gather_factor`], a count of elements; 0 to always gather.
        dense_gather_factor;
        /// Sets [`Capabilities::dense_scatter_factor`], elements of the input for one of the index; 0 to always scatter.
        dense_scatter_factor;
        /// Sets [`Capabilities::tuple_args_threshold`], a count of arguments; 0 for never.
        tuple_args_threshold;
    }

    setters! {
        /// Sets [`Capabilities::rng_bit_generator`].
        rng_bit_generator: RngBitGenerator;
        /// Sets [`Capabilities::autocast`].
        autocast: Option<Autocast>;
        /// Sets [`Capabilities::autocast_dispatch_key`].
        autocast_dispatch_key: AutocastDispatchKey;
        /// Sets [`Capabilities::eager_fallback`].
        eager_fallback: EagerFallback;
        /// Sets [`Capabilities::int64`].
        int64: Int64Policy;
        /// Sets [`Capabilities::bf16`].
        bf16: Bf16Policy;
        /// Sets [`Capabilities::layout`].
        layout: LayoutPolicy;
        /// Sets [`Capabilities::resize_custom_call`].
        resize_custom_call: bool;
        /// Sets [`Capabilities::upsample_nearest_backward`].
        upsample_nearest_backward: bool;
        /// Sets [`Capabilities::upsample_bilinear_backward`].
        upsample_bilinear_backward: bool;
        /// Sets [`Capabilities::spmd`]; a boolean will do.
        spmd: Spmd;
        /// Sets [`Capabilities::master_address`].
        master_address: MasterAddress;
        /// Sets [`Capabilities::donation`].
        donation: bool;
        /// Sets [`Capabilities::persistent_cache`].
        persistent_cache: bool;
        /// Sets [`Capabilities::cache_key_strip_device_assignment`].
        cache_key_strip_device_assignment: bool;
        /// Sets [`Capabilities::host_callbacks`].
        host_callbacks: Option<HostCallbacks>;
        /// Sets [`Capabilities::program_formats`].
        program_formats: ProgramFormats;
        /// Sets [`Capabilities::optimized_program`].
        optimized_program: OptimizedProgram;
        /// Sets [`Capabilities::stablehlo`].
        stablehlo: Option<StablehloRange>;
        /// Sets [`Capabilities::dynamic_shapes`].
        dynamic_shapes: DynamicShapes;
        /// Sets [`Capabilities::dlpack_device`].
        dlpack_device: Option<DlpackDevice>;
        /// Sets [`Capabilities::dlpack_host_device`].
        dlpack_host_device: Option<DlpackDevice>;
        /// Sets [`Capabilities::memory_kinds`].
        memory_kinds: MemoryKinds;
        /// Sets [`Capabilities::memory_stats`].
        memory_stats: MemoryStatsReport;
        /// Sets [`Capabilities::mixed_dot`].
        mixed_dot: MixedDot;
    }

    /// Sets [`Capabilities::supported_dtypes`].
    pub fn supported_dtypes(mut self, dtypes: impl IntoIterator<Item = ElementType>) -> Self {
        self.0.supported_dtypes = Some(dtypes.into_iter().collect());
        self
    }

    /// Adds to [`Capabilities::remapped_dtypes`]: frameworks replace `from` by `to`.
    pub fn remapped_dtype(mut self, from: ElementType, to: ElementType) -> Self {
        self.0.remapped_dtypes.insert(from, to);
        self
    }

    /// Sets [`Capabilities::mesh_coordinates`]: the device attribute that holds the coordinates.
    pub fn mesh_coordinates(mut self, attribute: impl Into<String>) -> Self {
        self.0.mesh_coordinates = Some(attribute.into());
        self
    }

    /// Adds to [`Capabilities::replica_orders`].
    pub fn replica_order(mut self, order: ReplicaOrder) -> Self {
        self.0.replica_orders.push(order);
        self
    }

    /// Sets [`Capabilities::zero_copy_import`].
    pub fn zero_copy_import(mut self, devices: impl IntoIterator<Item = DlpackDevice>) -> Self {
        self.0.zero_copy_import = devices.into_iter().collect();
        self
    }

    /// Sets [`Capabilities::zero_copy_export`].
    pub fn zero_copy_export(mut self, devices: impl IntoIterator<Item = DlpackDevice>) -> Self {
        self.0.zero_copy_export = devices.into_iter().collect();
        self
    }

    /// Sets [`Capabilities::dot_algorithms`].
    pub fn dot_algorithms(mut self, algorithms: impl IntoIterator<Item = DotAlgorithm>) -> Self {
        self.0.dot_algorithms = Some(algorithms.into_iter().collect());
        self
    }

    /// Adds to [`Capabilities::features`].
    pub fn feature(mut self, name: impl Into<String>, value: impl Into<Value>) -> Self {
        self.0.features.insert(name.into(), value.into());
        self
    }

    /// Returns the capabilities.
    pub fn build(self) -> Capabilities {
        self.0
    }
}

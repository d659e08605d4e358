//! Conversion from [`Capabilities`] to C.

use std::ffi::c_char;
use std::num::NonZeroU32;
use std::ops::Deref;

use pjrt_sys::AbiStruct;

use super::constants::{
    DP_FEATURE_BOOL, DP_FEATURE_FLOAT, DP_FEATURE_INT64, DP_FEATURE_INT64_LIST, DP_FEATURE_STRING, DP_LAYOUT_TILED,
    DP_MASTER_ADDRESS_METADATA, DP_MASTER_ADDRESS_UNKNOWN, DP_MASTER_ADDRESS_VARIABLE,
};
use super::{dp_capabilities, dp_dtype_remap, dp_feature, dp_replica_order, dp_string};
use crate::capabilities::{
    DlpackDevice, DotAlgorithm, LayoutPolicy, MasterAddress, ProgramFormat, StablehloRange, StablehloVersion,
};
use crate::{Capabilities, ElementType, Error, Result, Value};

/// Capabilities for C: the struct, and the text and lists to which it points.
///
/// The struct is valid as long as this value exists, even if it is moved.
#[derive(Debug)]
pub struct CCapabilities {
    raw: dp_capabilities,
    // The memory to which `raw` points. A vector's elements do not move when the vector does.
    _owned: Owned,
}

// SAFETY: V6 (lifetimes), the pointers lead to what `_owned` holds, which nobody changes; all of it is `Send`.
unsafe impl Send for CCapabilities {}
// SAFETY: as above; a shared reference gives shared access only.
unsafe impl Sync for CCapabilities {}

impl Deref for CCapabilities {
    type Target = dp_capabilities;

    fn deref(&self) -> &dp_capabilities {
        &self.raw
    }
}

#[derive(Debug, Default)]
struct Owned {
    texts: Vec<String>,
    numbers: Vec<Vec<u32>>,
    integers: Vec<Vec<i64>>,
    strings: Vec<dp_string>,
    remaps: Vec<dp_dtype_remap>,
    orders: Vec<dp_replica_order>,
    features: Vec<dp_feature>,
}

impl Owned {
    fn text(&mut self, text: &str) -> dp_string {
        if text.is_empty() {
            return EMPTY;
        }
        let text = text.to_owned();
        let string = dp_string { data: text.as_ptr().cast::<c_char>(), size: text.len() };
        self.texts.push(text);
        string
    }

    fn numbers(&mut self, numbers: impl IntoIterator<Item = u32>) -> (*const u32, usize) {
        let numbers: Vec<u32> = numbers.into_iter().collect();
        let parts = parts(&numbers);
        self.numbers.push(numbers);
        parts
    }
}

const EMPTY: dp_string = dp_string { data: std::ptr::null(), size: 0 };

/// Pointer and length; null if the list is empty.
fn parts<T>(list: &[T]) -> (*const T, usize) {
    (if list.is_empty() { std::ptr::null() } else { list.as_ptr() }, list.len())
}

fn count(count: Option<NonZeroU32>) -> u32 {
    count.map_or(0, NonZeroU32::get)
}

impl CCapabilities {
    /// Converts valid capabilities to C. Lists that are stated but empty become unstated.
    ///
    /// # Errors
    ///
    /// The name of a feature with a value of a type that C cannot represent.
    pub fn new(capabilities: &Capabilities) -> Result<Self> {
        let mut owned = Owned::default();
        let mut raw = dp_capabilities::new();
        lowering(capabilities, &mut raw, &mut owned);
        topology(capabilities, &mut raw, &mut owned);
        programs(capabilities, &mut raw, &mut owned);
        memories(capabilities, &mut raw, &mut owned);
        for (name, value) in &capabilities.features {
            let feature = feature(name, value, &mut owned)?;
            owned.features.push(feature);
        }
        (raw.features, raw.features_size) = parts(&owned.features);
        Ok(Self { raw, _owned: owned })
    }

    /// A pointer for C, valid as long as this value exists.
    pub fn as_ptr(&self) -> *const dp_capabilities {
        &raw const self.raw
    }
}

fn lowering(from: &Capabilities, raw: &mut dp_capabilities, owned: &mut Owned) {
    raw.dense_gather_factor = count(from.dense_gather_factor);
    raw.dense_scatter_factor = count(from.dense_scatter_factor);
    raw.rng_bit_generator = from.rng_bit_generator.code();
    raw.autocast_dispatch_key = from.autocast_dispatch_key.code();
    if let Some(autocast) = &from.autocast {
        let dtypes = autocast.dtypes.iter().map(|ty| ty.as_raw());
        (raw.autocast_dtypes, raw.autocast_dtypes_size) = owned.numbers(dtypes);
        raw.autocast_default_dtype = autocast.default_dtype.as_raw();
        raw.autocast_kind = autocast.kind.code();
    }
    raw.eager_fallback = from.eager_fallback.code();
    raw.int64_policy = from.int64.code();
    let supported = from.supported_dtypes.iter().flatten().map(|ty| ty.as_raw());
    (raw.supported_dtypes, raw.supported_dtypes_size) = owned.numbers(supported);
    let remap = |(from, to): (&ElementType, &ElementType)| dp_dtype_remap { from: from.as_raw(), to: to.as_raw() };
    owned.remaps = from.remapped_dtypes.iter().map(remap).collect();
    (raw.remapped_dtypes, raw.remapped_dtypes_size) = parts(&owned.remaps);
    raw.bf16_policy = from.bf16.code();
    if let LayoutPolicy::Tiled(tiling) = &from.layout {
        raw.layout_tile = tiling.tile.map(NonZeroU32::get);
        raw.layout_max_padding = tiling.max_padding;
        raw.layout_policy = DP_LAYOUT_TILED;
    }
    raw.resize_custom_call = from.resize_custom_call.into();
    raw.upsample_nearest_backward = from.upsample_nearest_backward.into();
    raw.upsample_bilinear_backward = from.upsample_bilinear_backward.into();
    raw.mixed_dot = from.mixed_dot.code();
    let algorithms = from.dot_algorithms.iter().flatten().copied().map(DotAlgorithm::code);
    (raw.dot_algorithms, raw.dot_algorithms_size) = owned.numbers(algorithms);
}

fn topology(from: &Capabilities, raw: &mut dp_capabilities, owned: &mut Owned) {
    raw.spmd = from.spmd.code();
    let coordinates = owned.text(from.mesh_coordinates.as_deref().unwrap_or_default());
    (raw.mesh_coordinates, raw.mesh_coordinates_size) = (coordinates.data, coordinates.size);
    for replicas in &from.replica_orders {
        let device_kind = owned.text(&replicas.device_kind);
        let (bounds, bounds_size) = owned.numbers(replicas.bounds.iter().copied());
        let (order, order_size) = owned.numbers(replicas.order.iter().copied());
        owned.orders.push(dp_replica_order { device_kind, bounds, bounds_size, order, order_size });
    }
    (raw.replica_orders, raw.replica_orders_size) = parts(&owned.orders);
    raw.master_address = match &from.master_address {
        MasterAddress::Unknown => DP_MASTER_ADDRESS_UNKNOWN,
        MasterAddress::Metadata => DP_MASTER_ADDRESS_METADATA,
        MasterAddress::Variable(name) => {
            let name = owned.text(name);
            (raw.master_address_variable, raw.master_address_variable_size) = (name.data, name.size);
            DP_MASTER_ADDRESS_VARIABLE
        }
    };
}

fn programs(from: &Capabilities, raw: &mut dp_capabilities, owned: &mut Owned) {
    raw.donation = from.donation.into();
    raw.persistent_cache = from.persistent_cache.into();
    raw.cache_key_strip_device_assignment = from.cache_key_strip_device_assignment.into();
    if let Some(callbacks) = from.host_callbacks {
        raw.host_callbacks_partitioned = callbacks.partitioned.into();
        raw.host_callbacks_empty_arrays = callbacks.empty_arrays.into();
        raw.host_callbacks = 1;
    }
    raw.tuple_args_threshold = count(from.tuple_args_threshold);
    let formats = from.program_formats.as_slice().iter().copied().map(ProgramFormat::code);
    (raw.program_formats, raw.program_formats_size) = owned.numbers(formats);
    if let Some(StablehloRange { minimum, current }) = from.stablehlo {
        let numbers = |StablehloVersion { major, minor, patch }| [major, minor, patch];
        (raw.stablehlo_minimum, raw.stablehlo_current) = (numbers(minimum), numbers(current));
    }
    raw.optimized_program = from.optimized_program.code();
    raw.dynamic_shapes = from.dynamic_shapes.code();
}

fn memories(from: &Capabilities, raw: &mut dp_capabilities, owned: &mut Owned) {
    raw.dlpack_device = from.dlpack_device.map_or(0, DlpackDevice::code);
    raw.dlpack_host_device = from.dlpack_host_device.map_or(0, DlpackDevice::code);
    let import = from.zero_copy_import.iter().copied().map(DlpackDevice::code);
    (raw.zero_copy_import, raw.zero_copy_import_size) = owned.numbers(import);
    let export = from.zero_copy_export.iter().copied().map(DlpackDevice::code);
    (raw.zero_copy_export, raw.zero_copy_export_size) = owned.numbers(export);
    owned.strings = from.memory_kinds.names.iter().map(|name| owned.text(name)).collect();
    (raw.memory_kinds, raw.memory_kinds_size) = parts(&owned.strings);
    let kind = owned.text(from.memory_kinds.default_kind.as_deref().unwrap_or_default());
    (raw.default_memory_kind, raw.default_memory_kind_size) = (kind.data, kind.size);
    raw.host_offload = from.memory_kinds.host_offload.into();
    raw.memory_stats = from.memory_stats.code();
}

fn feature(name: &str, value: &Value, owned: &mut Owned) -> Result<dp_feature> {
    let mut feature = dp_feature {
        name: owned.text(name),
        int64_value: 0,
        string_value: EMPTY,
        int64_list: std::ptr::null(),
        int64_list_size: 0,
        float_value: 0.0,
        bool_value: 0,
        kind: DP_FEATURE_STRING,
    };
    feature.kind = match value {
        Value::String(text) => {
            feature.string_value = owned.text(text);
            DP_FEATURE_STRING
        }
        Value::Int64(number) => {
            feature.int64_value = *number;
            DP_FEATURE_INT64
        }
        Value::Int64List(numbers) => {
            owned.integers.push(numbers.clone());
            let numbers = owned.integers.last().map(Vec::as_slice).unwrap_or_default();
            (feature.int64_list, feature.int64_list_size) = parts(numbers);
            DP_FEATURE_INT64_LIST
        }
        Value::Float(number) => {
            feature.float_value = *number;
            DP_FEATURE_FLOAT
        }
        Value::Bool(flag) => {
            feature.bool_value = (*flag).into();
            DP_FEATURE_BOOL
        }
        other => {
            let text = format!("features.{name} is of the type {}, which C has no form for", other.type_name());
            return Err(Error::invalid_argument(text));
        }
    };
    Ok(feature)
}

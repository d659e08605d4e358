//! Conversion from C to [`Capabilities`]. It reads only the first `struct_size` bytes, and checks every value.

use std::collections::BTreeSet;
use std::num::NonZeroU32;

use pjrt_sys::AbiStruct;

use super::constants::{
    DP_FEATURE_BOOL, DP_FEATURE_FLOAT, DP_FEATURE_INT64, DP_FEATURE_INT64_LIST, DP_FEATURE_STRING,
    DP_LAYOUT_DESCENDING, DP_LAYOUT_TILED, DP_MASTER_ADDRESS_METADATA, DP_MASTER_ADDRESS_UNKNOWN,
    DP_MASTER_ADDRESS_VARIABLE,
};
use super::fields::whole_fields;
use super::{dp_capabilities, dp_feature, dp_string};
use crate::capabilities::{
    Autocast, AutocastDispatchKey, AutocastKind, Bf16Policy, DlpackDevice, DotAlgorithm, DynamicShapes, EagerFallback,
    HostCallbacks, Int64Policy, LayoutPolicy, MasterAddress, MemoryKinds, MemoryStatsReport, MixedDot,
    OptimizedProgram, ProgramFormat, ProgramFormats, ReplicaOrder, RngBitGenerator, Spmd, StablehloRange,
    StablehloVersion,
};
use crate::describe::foreign;
use crate::{Capabilities, ElementType, Error, Result, Value};

/// Reads and checks capabilities of any size that another library created.
///
/// # Safety
///
/// V8 for `capabilities`.
///
/// # Errors
///
/// Null, misaligned or too short structs, invalid numbers, and text that is not UTF-8, each with the field's name; or
/// all faults of the values.
pub unsafe fn read(capabilities: *const dp_capabilities) -> Result<Capabilities> {
    if capabilities.is_null() || !capabilities.is_aligned() {
        let what = if capabilities.is_null() { "null" } else { "not aligned" };
        return Err(Error::invalid_argument(format!("dp_capabilities is {what}")));
    }
    // SAFETY: V8 (descriptors), the struct begins with its size.
    let struct_size = unsafe { capabilities.cast::<usize>().read() };
    let size = whole_fields(struct_size);
    if size == 0 {
        let message = format!("struct_size = {struct_size} of dp_capabilities does not include itself; write sizeof");
        return Err(Error::invalid_argument(message));
    }
    let mut local = dp_capabilities::new();
    // SAFETY: V8 (descriptors), the struct is readable for `struct_size` bytes. `size` is at most that and the size of
    // `local`.
    unsafe { capabilities.cast::<u8>().copy_to_nonoverlapping((&raw mut local).cast(), size) };
    let mut read = Capabilities::default();
    // SAFETY: V8 (descriptors) for what the fields point to; fields beyond the size are null and 0.
    unsafe { lowering(&local, &mut read) }?;
    // SAFETY: as above.
    unsafe { topology(&local, &mut read) }?;
    // SAFETY: as above.
    unsafe { programs(&local, &mut read) }?;
    // SAFETY: as above.
    unsafe { memories(&local, &mut read) }?;
    // SAFETY: as above.
    for feature in unsafe { foreign::slice(local.features, local.features_size, "features") }? {
        // SAFETY: V8 (descriptors) for what the element points to.
        let (name, value) = unsafe { named(feature) }?;
        read.features.insert(name, value);
    }
    read.validate()?;
    Ok(read)
}

/// Converts a number to a value, or returns an error that names the field.
fn decode<T>(field: &str, number: u32, from_code: fn(u32) -> Option<T>) -> Result<T> {
    from_code(number).ok_or_else(|| {
        let remedy = "a newer plugin needs a newer reader, else correct the number";
        Error::invalid_argument(format!("{field} = {number} is no value known here; {remedy}"))
    })
}

fn flag(field: &str, number: u32) -> Result<bool> {
    match number {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(Error::invalid_argument(format!("{field} = {number} is no flag; write 0 or 1"))),
    }
}

/// # Safety
///
/// V8 for the list.
unsafe fn decoded<T>(
    data: *const u32,
    size: usize,
    field: &str,
    from_code: fn(u32) -> Option<T>,
) -> Result<Option<Vec<T>>> {
    // SAFETY: the caller's contract.
    let numbers = unsafe { foreign::slice(data, size, field) }?;
    let element = |(index, &number): (usize, &u32)| decode(&format!("{field}[{index}]"), number, from_code);
    let all: Vec<T> = numbers.iter().enumerate().map(element).collect::<Result<_>>()?;
    Ok((!all.is_empty()).then_some(all))
}

/// # Safety
///
/// V8 for the text.
unsafe fn text(string: dp_string, field: &str) -> Result<Option<String>> {
    // SAFETY: the caller's contract.
    let text = unsafe { foreign::text(string.data, string.size, field) }?;
    Ok((!text.is_empty()).then(|| text.to_owned()))
}

/// # Safety
///
/// V8 for what the fields point to.
unsafe fn lowering(from: &dp_capabilities, read: &mut Capabilities) -> Result<()> {
    read.dense_gather_factor = NonZeroU32::new(from.dense_gather_factor);
    read.dense_scatter_factor = NonZeroU32::new(from.dense_scatter_factor);
    read.rng_bit_generator = decode("rng_bit_generator", from.rng_bit_generator, RngBitGenerator::from_code)?;
    let key = from.autocast_dispatch_key;
    read.autocast_dispatch_key = decode("autocast_dispatch_key", key, AutocastDispatchKey::from_code)?;
    if from.autocast_kind != 0 {
        let field = "autocast_dtypes";
        // SAFETY: the caller's contract.
        let dtypes = unsafe { decoded(from.autocast_dtypes, from.autocast_dtypes_size, field, ElementType::from_raw) }?;
        let mut autocast = Autocast::xla(dtypes.unwrap_or_default());
        autocast.kind = decode("autocast_kind", from.autocast_kind, AutocastKind::from_code)?;
        let default_dtype = from.autocast_default_dtype;
        autocast.default_dtype = decode("autocast_default_dtype", default_dtype, ElementType::from_raw)?;
        read.autocast = Some(autocast);
    }
    read.eager_fallback = decode("eager_fallback", from.eager_fallback, EagerFallback::from_code)?;
    read.int64 = decode("int64_policy", from.int64_policy, Int64Policy::from_code)?;
    let (data, size) = (from.supported_dtypes, from.supported_dtypes_size);
    // SAFETY: the caller's contract.
    let supported = unsafe { decoded(data, size, "supported_dtypes", ElementType::from_raw) }?;
    read.supported_dtypes = supported.map(BTreeSet::from_iter);
    let field = "remapped_dtypes";
    // SAFETY: the caller's contract.
    let remaps = unsafe { foreign::slice(from.remapped_dtypes, from.remapped_dtypes_size, field) }?;
    for (index, remap) in remaps.iter().enumerate() {
        let source = decode(&format!("{field}[{index}].from"), remap.from, ElementType::from_raw)?;
        let target = decode(&format!("{field}[{index}].to"), remap.to, ElementType::from_raw)?;
        read.remapped_dtypes.insert(source, target);
    }
    read.bf16 = decode("bf16_policy", from.bf16_policy, Bf16Policy::from_code)?;
    read.layout = match from.layout_policy {
        DP_LAYOUT_DESCENDING => LayoutPolicy::Descending,
        DP_LAYOUT_TILED => {
            let [rows, columns] = from.layout_tile.map(NonZeroU32::new);
            let Some((rows, columns)) = rows.zip(columns) else {
                let message = format!("layout_tile = {:?} is no tile; write positive numbers", from.layout_tile);
                return Err(Error::invalid_argument(message));
            };
            LayoutPolicy::tiled([rows, columns], from.layout_max_padding)
        }
        other => return decode("layout_policy", other, |_| None),
    };
    read.resize_custom_call = flag("resize_custom_call", from.resize_custom_call)?;
    read.upsample_nearest_backward = flag("upsample_nearest_backward", from.upsample_nearest_backward)?;
    read.upsample_bilinear_backward = flag("upsample_bilinear_backward", from.upsample_bilinear_backward)?;
    read.mixed_dot = decode("mixed_dot", from.mixed_dot, MixedDot::from_code)?;
    let (data, size) = (from.dot_algorithms, from.dot_algorithms_size);
    // SAFETY: the caller's contract.
    let algorithms = unsafe { decoded(data, size, "dot_algorithms", DotAlgorithm::from_code) }?;
    read.dot_algorithms = algorithms.map(BTreeSet::from_iter);
    Ok(())
}

/// # Safety
///
/// V8 for what the fields point to.
unsafe fn topology(from: &dp_capabilities, read: &mut Capabilities) -> Result<()> {
    read.spmd = decode("spmd", from.spmd, Spmd::from_code)?;
    let coordinates = dp_string { data: from.mesh_coordinates, size: from.mesh_coordinates_size };
    // SAFETY: the caller's contract.
    read.mesh_coordinates = unsafe { text(coordinates, "mesh_coordinates") }?;
    let field = "replica_orders";
    // SAFETY: the caller's contract.
    let orders = unsafe { foreign::slice(from.replica_orders, from.replica_orders_size, field) }?;
    for (index, from) in orders.iter().enumerate() {
        let field = |name: &str| format!("{field}[{index}].{name}");
        // SAFETY: the caller's contract.
        let device_kind = unsafe { text(from.device_kind, &field("device_kind")) }?.unwrap_or_default();
        // SAFETY: the caller's contract.
        let bounds = unsafe { foreign::slice(from.bounds, from.bounds_size, &field("bounds")) }?;
        // SAFETY: the caller's contract.
        let order = unsafe { foreign::slice(from.order, from.order_size, &field("order")) }?;
        read.replica_orders.push(ReplicaOrder::new(device_kind, bounds, order));
    }
    read.master_address = match from.master_address {
        DP_MASTER_ADDRESS_UNKNOWN => MasterAddress::Unknown,
        DP_MASTER_ADDRESS_METADATA => MasterAddress::Metadata,
        DP_MASTER_ADDRESS_VARIABLE => {
            let name = dp_string { data: from.master_address_variable, size: from.master_address_variable_size };
            // SAFETY: the caller's contract.
            MasterAddress::Variable(unsafe { text(name, "master_address_variable") }?.unwrap_or_default())
        }
        other => return decode("master_address", other, |_| None),
    };
    Ok(())
}

/// # Safety
///
/// V8 for what the fields point to.
unsafe fn programs(from: &dp_capabilities, read: &mut Capabilities) -> Result<()> {
    read.donation = flag("donation", from.donation)?;
    read.persistent_cache = flag("persistent_cache", from.persistent_cache)?;
    let strip = from.cache_key_strip_device_assignment;
    read.cache_key_strip_device_assignment = flag("cache_key_strip_device_assignment", strip)?;
    if flag("host_callbacks", from.host_callbacks)? {
        let partitioned = flag("host_callbacks_partitioned", from.host_callbacks_partitioned)?;
        let empty_arrays = flag("host_callbacks_empty_arrays", from.host_callbacks_empty_arrays)?;
        read.host_callbacks = Some(HostCallbacks::new(partitioned, empty_arrays));
    }
    read.tuple_args_threshold = NonZeroU32::new(from.tuple_args_threshold);
    let (data, size) = (from.program_formats, from.program_formats_size);
    // SAFETY: the caller's contract.
    if let Some(formats) = unsafe { decoded(data, size, "program_formats", ProgramFormat::from_code) }? {
        read.program_formats = ProgramFormats::try_from(formats)?;
    }
    if from.stablehlo_current != [0; 3] {
        let version = |[major, minor, patch]: [u32; 3]| StablehloVersion::new(major, minor, patch);
        read.stablehlo = Some(StablehloRange::new(version(from.stablehlo_minimum), version(from.stablehlo_current)));
    }
    read.optimized_program = decode("optimized_program", from.optimized_program, OptimizedProgram::from_code)?;
    read.dynamic_shapes = decode("dynamic_shapes", from.dynamic_shapes, DynamicShapes::from_code)?;
    Ok(())
}

/// # Safety
///
/// V8 for what the fields point to.
unsafe fn memories(from: &dp_capabilities, read: &mut Capabilities) -> Result<()> {
    let device = |field: &str, code: u32| match code {
        0 => Ok(None),
        code => decode(field, code, DlpackDevice::from_code).map(Some),
    };
    read.dlpack_device = device("dlpack_device", from.dlpack_device)?;
    read.dlpack_host_device = device("dlpack_host_device", from.dlpack_host_device)?;
    let (data, size) = (from.zero_copy_import, from.zero_copy_import_size);
    // SAFETY: the caller's contract.
    let import = unsafe { decoded(data, size, "zero_copy_import", DlpackDevice::from_code) }?;
    read.zero_copy_import = import.into_iter().flatten().collect();
    let (data, size) = (from.zero_copy_export, from.zero_copy_export_size);
    // SAFETY: the caller's contract.
    let export = unsafe { decoded(data, size, "zero_copy_export", DlpackDevice::from_code) }?;
    read.zero_copy_export = export.into_iter().flatten().collect();
    let mut kinds = MemoryKinds::default();
    // SAFETY: the caller's contract.
    let names = unsafe { foreign::slice(from.memory_kinds, from.memory_kinds_size, "memory_kinds") }?;
    for (index, &name) in names.iter().enumerate() {
        // SAFETY: the caller's contract.
        kinds.names.push(unsafe { text(name, &format!("memory_kinds[{index}]")) }?.unwrap_or_default());
    }
    let kind = dp_string { data: from.default_memory_kind, size: from.default_memory_kind_size };
    // SAFETY: the caller's contract.
    kinds.default_kind = unsafe { text(kind, "default_memory_kind") }?;
    kinds.host_offload = flag("host_offload", from.host_offload)?;
    read.memory_kinds = kinds;
    read.memory_stats = decode("memory_stats", from.memory_stats, MemoryStatsReport::from_code)?;
    Ok(())
}

/// # Safety
///
/// V8 for what the feature points to.
unsafe fn named(feature: &dp_feature) -> Result<(String, Value)> {
    // SAFETY: the caller's contract.
    let name = unsafe { text(feature.name, "features.name") }?.unwrap_or_default();
    let field = |part: &str| format!("features.{name}.{part}");
    let value = match feature.kind {
        DP_FEATURE_STRING => {
            // SAFETY: the caller's contract.
            let value = unsafe { text(feature.string_value, &field("string_value")) }?;
            Value::String(value.unwrap_or_default())
        }
        DP_FEATURE_INT64 => Value::Int64(feature.int64_value),
        DP_FEATURE_INT64_LIST => {
            let (data, size) = (feature.int64_list, feature.int64_list_size);
            // SAFETY: the caller's contract.
            Value::Int64List(unsafe { foreign::slice(data, size, &field("int64_list")) }?.to_vec())
        }
        DP_FEATURE_FLOAT => Value::Float(feature.float_value),
        DP_FEATURE_BOOL => Value::Bool(flag(&field("bool_value"), feature.bool_value)?),
        other => return decode(&field("kind"), other, |_| None),
    };
    Ok((name, value))
}

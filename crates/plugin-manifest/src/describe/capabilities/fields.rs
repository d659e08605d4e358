//! The ends of the fields of [`dp_capabilities`], so that a struct of another size is never cut within a field.

use std::mem::offset_of;

use pjrt_sys::AbiStruct;

use super::dp_capabilities;

/// A field: its name, and the bytes of the struct up to its end.
#[derive(Clone, Copy, Debug)]
pub(super) struct Field {
    #[cfg_attr(not(test), expect(dead_code, reason = "for tests that name the field"))]
    pub(super) name: &'static str,
    pub(super) end: usize,
}

/// The fields in their order. The pattern has no `..`, so the code does not compile if a field is missing.
macro_rules! fields {
    ($($name:ident,)*) => {
        pub(super) const FIELDS: &[Field] = &{
            const fn size_of_field<T>(_: fn(&dp_capabilities) -> &T) -> usize {
                size_of::<T>()
            }
            const fn complete(all: dp_capabilities) {
                let dp_capabilities { $($name: _),* } = all;
            }
            let _ = complete;
            [$(
                Field {
                    name: stringify!($name),
                    end: offset_of!(dp_capabilities, $name) + size_of_field(|all| &all.$name),
                },
            )*]
        };
    };
}

#[rustfmt::skip]
fields! {
    struct_size,
    dense_gather_factor,
    dense_scatter_factor,
    rng_bit_generator,
    autocast_dispatch_key,
    autocast_dtypes,
    autocast_dtypes_size,
    autocast_default_dtype,
    autocast_kind,
    eager_fallback,
    int64_policy,
    supported_dtypes,
    supported_dtypes_size,
    remapped_dtypes,
    remapped_dtypes_size,
    bf16_policy,
    layout_tile,
    layout_max_padding,
    layout_policy,
    resize_custom_call,
    upsample_nearest_backward,
    upsample_bilinear_backward,
    spmd,
    mesh_coordinates,
    mesh_coordinates_size,
    replica_orders,
    replica_orders_size,
    master_address_variable,
    master_address_variable_size,
    master_address,
    donation,
    persistent_cache,
    cache_key_strip_device_assignment,
    host_callbacks_partitioned,
    host_callbacks_empty_arrays,
    host_callbacks,
    tuple_args_threshold,
    program_formats,
    program_formats_size,
    stablehlo_minimum,
    stablehlo_current,
    optimized_program,
    dynamic_shapes,
    dlpack_device,
    dlpack_host_device,
    zero_copy_import,
    zero_copy_import_size,
    zero_copy_export,
    zero_copy_export_size,
    memory_kinds,
    memory_kinds_size,
    default_memory_kind,
    default_memory_kind_size,
    host_offload,
    memory_stats,
    mixed_dot,
    dot_algorithms,
    dot_algorithms_size,
    features,
    features_size,
}

/// The end of the last field that is completely within a struct of this size; 0 if not even its size field is.
pub(super) fn whole_fields(struct_size: usize) -> usize {
    FIELDS.iter().map(|field| field.end).take_while(|end| *end <= struct_size).last().unwrap_or(0)
}

// SAFETY: the struct is `repr(C)`, begins with its size, and consists of integers, floats and raw pointers, for which
// any bytes are a value.
unsafe impl AbiStruct for dp_capabilities {
    const NAME: &'static str = "dp_capabilities";
    const STRUCT_SIZE: usize = FIELDS[FIELDS.len() - 1].end;
    const MIN_SIZE: usize = FIELDS[0].end;
    const HISTORY: &'static [(u32, usize)] = &[];
}

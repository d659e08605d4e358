//! Tests that read the C form with every `struct_size` and with invalid values.

use std::collections::BTreeMap;

use pjrt_sys::AbiStruct;

use super::fields::{FIELDS, whole_fields};
use super::*;
use crate::capabilities::{
    AutocastKind, Bf16Policy, DlpackDevice, DotAlgorithm, DynamicShapes, Int64Policy, MemoryStatsReport, MixedDot,
    OptimizedProgram, ProgramFormat, RngBitGenerator, Spmd, for_each_capability,
};
use crate::names::Code;
use crate::{Capabilities, ElementType, ErrorCode};

/// Capabilities in which every field differs from its default and is valid.
fn full() -> Capabilities {
    let mut full = crate::capabilities::tests::full();
    full.supported_dtypes.as_mut().unwrap().insert(ElementType::Bf16);
    full
}

/// Reads a struct whose creator set only the first `size` bytes.
fn read_cut(c: &CCapabilities, size: usize) -> crate::Result<Capabilities> {
    // A vector of words is aligned for the struct. The bytes beyond `size` are invalid on purpose, so that a read of
    // them fails.
    let mut words = vec![u64::MAX; size_of::<dp_capabilities>().div_ceil(8)];
    // SAFETY: source and destination are valid for `C_SIZE` bytes and do not overlap.
    unsafe { c.as_ptr().cast::<u8>().copy_to_nonoverlapping(words.as_mut_ptr().cast(), size.min(C_SIZE)) };
    words[0] = size.try_into().unwrap();
    // SAFETY: V8 (descriptors): `read` does not access bytes beyond `C_SIZE`, even if `size` is larger.
    unsafe { read(words.as_ptr().cast()) }
}

const C_SIZE: usize = size_of::<dp_capabilities>();

/// Generates a function that returns the C fields of a field of `Capabilities`. The last C field of a capability
/// determines whether the capability is set.
macro_rules! c_fields {
    ($(
        $(#[$doc:meta])*
        $field:ident: $ty:ty { c: [$($c:ident),*], replaces: $replaces:literal, }
    )*) => {
        fn c_fields(field: &str) -> &'static [&'static str] {
            match field {
                $(stringify!($field) => &[$(stringify!($c)),*],)*
                _ => &[],
            }
        }
    };
}
for_each_capability!(c_fields);

/// Returns the name of each C field and the byte offset at which the field ends, in the order of the struct.
fn sorted() -> Vec<(&'static str, usize)> {
    let mut fields: Vec<_> = FIELDS.iter().map(|field| (field.name, field.end)).collect();
    fields.sort_by_key(|(_, end)| *end);
    fields
}

#[test]
fn round_trip_at_full_size() {
    for capabilities in [full(), Capabilities::default()] {
        let c = CCapabilities::new(&capabilities).unwrap();
        assert_eq!(c.raw.struct_size, C_SIZE);
        let moved = Box::new(c);
        // SAFETY: V8 (descriptors): the struct is ours.
        assert_eq!(unsafe { read(moved.as_ptr()) }.unwrap(), capabilities);
        // The struct of a newer creator is longer.
        assert_eq!(read_cut(&moved, C_SIZE + 8).unwrap(), capabilities);
    }
    let default = CCapabilities::new(&Capabilities::default()).unwrap();
    assert!(default.raw.features.is_null() && default.raw.memory_kinds.is_null());
    assert_eq!(default.raw.program_formats_size, 2);
}

#[test]
fn zeros_are_default() {
    let zeros = dp_capabilities::new();
    // SAFETY: V8 (descriptors): the struct is ours.
    assert_eq!(unsafe { read(&raw const zeros) }.unwrap(), Capabilities::default());
}

#[test]
fn reads_structs_of_every_size() {
    let full = full();
    let c = CCapabilities::new(&full).unwrap();
    let ends: BTreeMap<&str, usize> = FIELDS.iter().map(|field| (field.name, field.end)).collect();
    assert_eq!(ends.len(), FIELDS.len());
    assert_eq!(sorted().last().unwrap().1, C_SIZE, "no padding at the end that a later field could fall into");
    // Validation reports a capability within `size` as a fault if it depends on a capability beyond `size`.
    let mut checked = 0;
    let json = serde_json::to_value(&full).unwrap();
    let names: Vec<String> = json.as_object().unwrap().keys().cloned().collect();
    for size in 0..=C_SIZE + 1 {
        let read = read_cut(&c, size);
        if size < size_of::<usize>() {
            assert_eq!(read.unwrap_err().code(), ErrorCode::INVALID_ARGUMENT);
            continue;
        }
        // Keep only the capabilities that the creator set: those whose last C field is within `size`.
        let mut known = json.clone();
        let mut partly = Vec::new();
        for name in &names {
            let c_names = c_fields(name);
            if ends[c_names.last().unwrap()] > size {
                known.as_object_mut().unwrap().remove(name);
                if c_names.first().is_some_and(|first| ends[first] <= size) {
                    partly.push(name.as_str());
                }
            }
        }
        // `memory_kinds` consists of several independent C fields, so `size` may include the names without the later
        // fields.
        if partly.contains(&"memory_kinds") {
            let mut kinds = full.memory_kinds.clone();
            kinds.host_offload = false;
            if ends["default_memory_kind_size"] > size {
                kinds.default_kind = None;
            }
            if ends["memory_kinds_size"] <= size {
                known["memory_kinds"] = serde_json::to_value(kinds).unwrap();
            }
        }
        let known: Capabilities = serde_json::from_value(known).unwrap();
        match known.validate() {
            Ok(()) => assert_eq!(read.unwrap(), known, "size {size}"),
            Err(faults) => assert_eq!(read.unwrap_err().message(), faults.to_string(), "size {size}"),
        }
        checked += 1;
    }
    assert_eq!(checked, C_SIZE + 2 - size_of::<usize>());
    assert_eq!(whole_fields(7), 0);
    assert_eq!(whole_fields(ends["autocast_dtypes"] - 1), ends["rng_bit_generator"]);
}

#[test]
fn invalid_values_name_their_field() {
    let error = |change: &dyn Fn(&mut dp_capabilities)| {
        let mut raw = dp_capabilities::new();
        change(&mut raw);
        // SAFETY: V8 (descriptors): the struct is ours. Each pointer that a change sets is readable, or `read` rejects
        // the pointer before it uses it.
        let error = unsafe { read(&raw const raw) }.unwrap_err();
        assert_eq!(error.code(), ErrorCode::INVALID_ARGUMENT);
        error.message().to_owned()
    };
    static ZERO: [u32; 1] = [0];
    static S32: [u32; 1] = [4];
    static BYTES: [u8; 2] = [b'a', 0xff];
    static REMAP: [dp_dtype_remap; 1] = [dp_dtype_remap { from: 12, to: 99 }];
    let feature = |kind, bool_value| dp_feature {
        name: dp_string { data: BYTES.as_ptr().cast(), size: 1 },
        int64_value: 0,
        string_value: dp_string { data: std::ptr::null(), size: 0 },
        int64_list: std::ptr::null(),
        int64_list_size: 1,
        float_value: 0.0,
        bool_value,
        kind,
    };
    let features = [feature(9, 0), feature(4, 2), feature(2, 0)];
    type Change<'c> = &'c dyn Fn(&mut dp_capabilities);
    let cases: [(&str, Change<'_>); 18] = [
        ("rng_bit_generator", &|raw| raw.rng_bit_generator = 3),
        ("autocast_default_dtype: none", &|raw| raw.autocast_kind = 1),
        ("autocast_kind", &|raw| (raw.autocast_kind, raw.autocast_default_dtype) = (7, 13)),
        ("autocast_dtypes: empty", &|raw| (raw.autocast_kind, raw.autocast_default_dtype) = (1, 13)),
        ("supported_dtypes: an invalid type", &|raw| {
            (raw.supported_dtypes, raw.supported_dtypes_size) = (ZERO.as_ptr(), 1)
        }),
        ("supported_dtypes: null", &|raw| raw.supported_dtypes_size = 1),
        ("supported_dtypes: too long", &|raw| {
            (raw.supported_dtypes, raw.supported_dtypes_size) = (S32.as_ptr(), usize::MAX)
        }),
        ("supported_dtypes: misaligned", &|raw| {
            (raw.supported_dtypes, raw.supported_dtypes_size) = (S32.as_ptr().wrapping_byte_add(1), 1)
        }),
        ("remapped_dtypes", &|raw| (raw.remapped_dtypes, raw.remapped_dtypes_size) = (REMAP.as_ptr(), 1)),
        ("layout_tile", &|raw| raw.layout_policy = 1),
        ("layout_policy", &|raw| raw.layout_policy = 2),
        ("donation", &|raw| raw.donation = 2),
        ("default_memory_kind", &|raw| {
            (raw.default_memory_kind, raw.default_memory_kind_size) = (BYTES.as_ptr().cast(), 2)
        }),
        ("dlpack_device", &|raw| raw.dlpack_device = 5),
        ("features: kind", &|raw| (raw.features, raw.features_size) = (&raw const features[0], 1)),
        ("features: bool_value", &|raw| (raw.features, raw.features_size) = (&raw const features[1], 1)),
        ("features: int64_list", &|raw| (raw.features, raw.features_size) = (&raw const features[2], 1)),
        ("cache_key_strip_device_assignment", &|raw| raw.cache_key_strip_device_assignment = 1),
    ];
    let mut messages = String::new();
    for (case, change) in cases {
        messages += &format!("{case}: {}\n", error(change));
    }
    expect_test::expect![[r#"
        rng_bit_generator: rng_bit_generator = 3 is not a known value; update this reader if the plugin is newer than it, or correct the number
        autocast_default_dtype: none: autocast_default_dtype = 0 is not a known value; update this reader if the plugin is newer than it, or correct the number
        autocast_kind: autocast_kind = 7 is not a known value; update this reader if the plugin is newer than it, or correct the number
        autocast_dtypes: empty: autocast.dtypes: [] excludes every type; list float types, or remove autocast
        supported_dtypes: an invalid type: supported_dtypes[0] = 0 is not a known value; update this reader if the plugin is newer than it, or correct the number
        supported_dtypes: null: supported_dtypes is null, but its length is 1
        supported_dtypes: too long: supported_dtypes has the length 18446744073709551615, which exceeds the address space
        supported_dtypes: misaligned: supported_dtypes is not aligned
        remapped_dtypes: remapped_dtypes[0].to = 99 is not a known value; update this reader if the plugin is newer than it, or correct the number
        layout_tile: layout_tile = [0, 0] is not a tile; write positive numbers
        layout_policy: layout_policy = 2 is not a known value; update this reader if the plugin is newer than it, or correct the number
        donation: donation = 2 is not a flag; write 0 or 1
        default_memory_kind: default_memory_kind is not UTF-8
        dlpack_device: dlpack_device = 5 is not a known value; update this reader if the plugin is newer than it, or correct the number
        features: kind: features.a.kind = 9 is not a known value; update this reader if the plugin is newer than it, or correct the number
        features: bool_value: features.a.bool_value = 2 is not a flag; write 0 or 1
        features: int64_list: features.a.int64_list is null, but its length is 1
        cache_key_strip_device_assignment: cache_key_strip_device_assignment: true has no effect without persistent_cache; set persistent_cache to true, or remove this field
    "#]].assert_eq(&messages);
    // SAFETY: null and misaligned pointers are rejected before they are read.
    assert_eq!(unsafe { read(std::ptr::null()) }.unwrap_err().code(), ErrorCode::INVALID_ARGUMENT);
    let words = [0_u64; 2];
    // SAFETY: a misaligned pointer is rejected before it is read.
    let odd = unsafe { read(words.as_ptr().wrapping_byte_add(4).cast()) };
    assert_eq!(odd.unwrap_err().code(), ErrorCode::INVALID_ARGUMENT);
}

#[test]
fn constants_match_enums() {
    let mut expected = Vec::new();
    macro_rules! expect {
        ($($name:ident $prefix:literal)*) => {$(
            for value in $name::ALL {
                let name = value.name().to_ascii_uppercase();
                expected.push(format!("pub const DP_{}_{name}: u32 = {};", $prefix, value.code()));
                assert_eq!($name::from_code(value.code()), Some(*value));
            }
        )*};
    }
    expect! {
        RngBitGenerator "RNG_BIT_GENERATOR"
        AutocastKind "AUTOCAST"
        Int64Policy "INT64"
        Bf16Policy "BF16"
        MixedDot "MIXED_DOT"
        DotAlgorithm "DOT_ALGORITHM"
        ProgramFormat "PROGRAM_FORMAT"
        OptimizedProgram "OPTIMIZED_PROGRAM"
        DynamicShapes "DYNAMIC_SHAPES"
        Spmd "SPMD"
        DlpackDevice "DLPACK"
        MemoryStatsReport "MEMORY_STATS"
    }
    let source = include_str!("constants.rs");
    let found: Vec<&str> = source.lines().filter(|line| line.starts_with("pub const ")).collect();
    // The other constants are codes of enumerations whose variants hold data. `read` and `write` convert each of these
    // enumerations explicitly.
    let own = ["DP_LAYOUT_", "DP_FEATURE_"];
    let found: Vec<&str> = found.into_iter().filter(|line| !own.iter().any(|own| line.contains(own))).collect();
    assert_eq!(found, expected);
}

/// The name of each C field in the first version of the struct, and the byte offset at which the field ends. Later
/// versions may only append fields.
const FIRST: &[(&str, usize)] = &[
    ("struct_size", 8),
    ("dense_gather_factor", 12),
    ("dense_scatter_factor", 16),
    ("rng_bit_generator", 20),
    ("autocast_dtypes", 32),
    ("autocast_dtypes_size", 40),
    ("autocast_default_dtype", 44),
    ("autocast_kind", 48),
    ("int64_policy", 52),
    ("supported_dtypes", 64),
    ("supported_dtypes_size", 72),
    ("remapped_dtypes", 80),
    ("remapped_dtypes_size", 88),
    ("bf16_policy", 92),
    ("layout_tile", 100),
    ("layout_max_padding", 104),
    ("layout_policy", 108),
    ("spmd", 112),
    ("donation", 116),
    ("persistent_cache", 120),
    ("cache_key_strip_device_assignment", 124),
    ("host_callbacks_partitioned", 128),
    ("host_callbacks_empty_arrays", 132),
    ("host_callbacks", 136),
    ("tuple_args_threshold", 140),
    ("program_formats", 152),
    ("program_formats_size", 160),
    ("stablehlo_minimum", 172),
    ("stablehlo_current", 184),
    ("optimized_program", 188),
    ("dynamic_shapes", 192),
    ("dlpack_device", 196),
    ("dlpack_host_device", 200),
    ("zero_copy_import", 208),
    ("zero_copy_import_size", 216),
    ("zero_copy_export", 224),
    ("zero_copy_export_size", 232),
    ("memory_kinds", 240),
    ("memory_kinds_size", 248),
    ("default_memory_kind", 256),
    ("default_memory_kind_size", 264),
    ("host_offload", 268),
    ("memory_stats", 272),
    ("mixed_dot", 276),
    ("dot_algorithms", 288),
    ("dot_algorithms_size", 296),
    ("features", 304),
    ("features_size", 312),
];

#[test]
fn struct_only_grows_at_end() {
    let found = sorted();
    assert!(found.len() >= FIRST.len());
    for (found, first) in found.iter().zip(FIRST) {
        assert_eq!(found, first, "append to dp_capabilities; never insert, remove or change");
    }
    // Structs that are elements of lists never grow.
    assert_eq!([size_of::<dp_string>(), size_of::<dp_dtype_remap>(), size_of::<dp_feature>()], [16, 8, 72]);
}

//! Tests of the capability types, their JSON form and their validation.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;

use expect_test::expect;

use super::*;
use crate::ElementType;
use crate::{Faults, StablehloVersions};

/// Capabilities in which every field differs from its default.
pub(crate) fn full() -> Capabilities {
    let tile = [NonZeroU32::new(8).unwrap(), NonZeroU32::new(128).unwrap()];
    Capabilities {
        dense_gather_factor: NonZeroU32::new(8192),
        dense_scatter_factor: NonZeroU32::new(100),
        rng_bit_generator: RngBitGenerator::ThreeFry,
        autocast: Some(Autocast { kind: AutocastKind::Cuda, ..Autocast::xla([ElementType::F16, ElementType::Bf16]) }),
        supported_dtypes: Some(BTreeSet::from([
            ElementType::Pred,
            ElementType::S32,
            ElementType::U32,
            ElementType::F16,
            ElementType::F32,
        ])),
        int64: Int64Policy::Remapped,
        bf16: Bf16Policy::Downcast,
        layout: LayoutPolicy::Tiled { tile, max_padding: 1.1 },
        spmd: Spmd::Reinitialize,
        donation: true,
        persistent_cache: true,
        cache_key_strip_device_assignment: true,
        host_callbacks: Some(HostCallbacks { partitioned: false, empty_arrays: true }),
        tuple_args_threshold: NonZeroU32::new(2000),
        program_formats: ProgramFormats::preferring(ProgramFormat::Mlir).or(ProgramFormat::Hlo),
        optimized_program: OptimizedProgram::Unavailable,
        stablehlo: Some(StablehloVersions { minimum: [0, 9, 0], current: [1, 13, 7] }),
        dynamic_shapes: DynamicShapes::Bounded,
        dlpack_device: Some(DlpackDevice::Cuda),
        dlpack_host_device: Some(DlpackDevice::CudaHost),
        zero_copy_import: BTreeSet::from([DlpackDevice::Cuda, DlpackDevice::CudaManaged]),
        zero_copy_export: BTreeSet::from([DlpackDevice::Cuda]),
        memory_kinds: MemoryKinds { host_offload: true, ..MemoryKinds::new(["device", "pinned_host"]) },
        memory_stats: MemoryStatsReport::WithLimit,
        dot_algorithms: Some(BTreeSet::from([DotAlgorithm::Default, DotAlgorithm::F32F32F32])),
        mixed_dot: MixedDot::FloatAndInteger,
        remapped_dtypes: BTreeMap::from([(ElementType::S64, ElementType::S32)]),
        features: BTreeMap::from([
            ("vendor.queues".to_owned(), 4.into()),
            ("name".to_owned(), "x".into()),
            ("ratio".to_owned(), 0.5_f32.into()),
            ("sizes".to_owned(), [1, 2].into()),
            ("on".to_owned(), true.into()),
        ]),
    }
}

fn fields(faults: &Faults) -> Vec<&str> {
    faults.all().iter().map(|fault| fault.field.as_str()).collect()
}

fn faults(capabilities: &Capabilities) -> Vec<String> {
    capabilities.validate().map_or_else(|faults| faults.all().iter().map(ToString::to_string).collect(), |()| vec![])
}

#[test]
fn default_is_empty_and_valid() {
    let default = Capabilities::default();
    assert_eq!(serde_json::to_string(&default).unwrap(), "{}");
    assert_eq!(default.validate(), Ok(()));
    assert_eq!(default.changes(), []);
    assert_eq!(Capabilities::from_json("{}").unwrap(), default);
}

#[test]
fn json_round_trip_of_every_field() {
    let mut full = full();
    // Autocast to bf16 and `bf16 = downcast` require bf16 in `supported_dtypes`.
    full.supported_dtypes.as_mut().unwrap().insert(ElementType::Bf16);
    assert_eq!(faults(&full), Vec::<String>::new());
    let changed: Vec<&str> = full.changes().into_iter().map(|(field, _)| field).collect();
    assert_eq!(changed, Capabilities::FIELDS);
    assert_eq!(Capabilities::from_json(&full.to_json()).unwrap(), full);
    let json: serde_json::Value = serde_json::from_str(&full.to_json()).unwrap();
    assert_eq!(json["remapped_dtypes"]["s64"], "s32");
    assert_eq!(json["layout"]["tiled"]["tile"][1], 128);
    assert_eq!(json["stablehlo"]["current"], "1.13.7");
    assert_eq!(json["program_formats"], serde_json::json!(["mlir", "hlo"]));
    // The field names are the JSON keys.
    assert!(changed.iter().all(|field| json.get(field).is_some()));
    assert_eq!(json.as_object().unwrap().len(), changed.len());
}

#[test]
fn names_unknown_fields_and_values() {
    let mut messages = String::new();
    for (json, field) in [
        (r#"{"dense_gather": 1}"#, "dense_gather"),
        (r#"{"autocast": {"kind": "xla", "dtypes": ["bf17"], "default_dtype": "bf16"}}"#, "autocast.dtypes[0]"),
        (r#"{"autocast": {"kind": "tpu", "dtypes": [], "default_dtype": "bf16"}}"#, "autocast.kind"),
        (r#"{"autocast": {"kind": "xla", "dtype": []}}"#, "autocast"),
        (r#"{"layout": {"tiled": {"tile": [0, 128], "max_padding": 1}}}"#, "layout.tiled.tile[0]"),
        (r#"{"program_formats": []}"#, "program_formats"),
        (r#"{"stablehlo": {"minimum": "1.0", "current": "1.1.1"}}"#, "stablehlo.minimum"),
        (r#"{"dense_gather_factor": -1}"#, "dense_gather_factor"),
        (r#"{"donation": "yes"}"#, "donation"),
        (r#"{"host_callbacks": {"partitoned": true}}"#, "host_callbacks.partitoned"),
        ("[]", "capabilities"),
        ("{", "capabilities"),
    ] {
        let faults = Capabilities::from_json(json).unwrap_err();
        assert_eq!(fields(&faults), [field], "{json}");
        messages += &format!("{json}: {faults}\n");
    }
    expect![[r#"
        {"dense_gather": 1}: dense_gather: unknown field; the known fields are dense_gather_factor, dense_scatter_factor, rng_bit_generator, autocast, supported_dtypes, remapped_dtypes, int64, bf16, layout, spmd, donation, persistent_cache, cache_key_strip_device_assignment, host_callbacks, tuple_args_threshold, program_formats, optimized_program, stablehlo, dynamic_shapes, dlpack_device, dlpack_host_device, zero_copy_import, zero_copy_export, memory_kinds, memory_stats, dot_algorithms, mixed_dot, features
        {"autocast": {"kind": "xla", "dtypes": ["bf17"], "default_dtype": "bf16"}}: autocast.dtypes[0]: "bf17" is not an element type; known are pred, s8, s16, s32, s64, u8, u16, u32, u64, f16, f32, f64, bf16, c64, c128, f8e5m2, f8e4m3fn, f8e4m3b11fnuz, f8e5m2fnuz, f8e4m3fnuz, s4, u4, token, s2, u2, f8e4m3, f8e3m4, f8e8m0fnu, f4e2m1fn, s1, u1, f6e2m3fn, f6e3m2fn
        {"autocast": {"kind": "tpu", "dtypes": [], "default_dtype": "bf16"}}: autocast.kind: unknown variant `tpu`, expected `xla` or `cuda`
        {"autocast": {"kind": "xla", "dtype": []}}: autocast: missing field `dtypes`
        {"layout": {"tiled": {"tile": [0, 128], "max_padding": 1}}}: layout.tiled.tile[0]: invalid value: integer `0`, expected a nonzero u32
        {"program_formats": []}: program_formats: the list of program formats is empty; name at least one, such as mlir
        {"stablehlo": {"minimum": "1.0", "current": "1.1.1"}}: stablehlo.minimum: "1.0" is not a version of StableHLO; write it as "1.13.7"
        {"dense_gather_factor": -1}: dense_gather_factor: invalid value: integer `-1`, expected a nonzero u32
        {"donation": "yes"}: donation: invalid type: string "yes", expected a boolean
        {"host_callbacks": {"partitoned": true}}: host_callbacks.partitoned: unknown field; remove it, or correct its spelling
        []: capabilities: [] is not a JSON object; write an object with fields, such as {"donation": true}
        {: capabilities: this is not valid JSON: EOF while parsing an object at line 1 column 1
    "#]].assert_eq(&messages);
}

#[test]
fn lists_all_faults() {
    let mut bad = Capabilities {
        dense_gather_factor: NonZeroU32::new(u32::MAX),
        autocast: Some(Autocast::xla([ElementType::S32, ElementType::S32])),
        layout: LayoutPolicy::Tiled { tile: [NonZeroU32::MIN; 2], max_padding: f32::NAN },
        cache_key_strip_device_assignment: true,
        program_formats: ProgramFormats::preferring(ProgramFormat::Hlo),
        stablehlo: Some(StablehloVersions { minimum: [1, 0, 0], current: [0, 9, 0] }),
        dlpack_host_device: Some(DlpackDevice::Cuda),
        memory_kinds: MemoryKinds { host_offload: true, ..MemoryKinds::new(["device", "device"]) },
        dot_algorithms: Some(BTreeSet::from([])),
        remapped_dtypes: BTreeMap::from([
            (ElementType::F64, ElementType::S32),
            (ElementType::S64, ElementType::S16),
            (ElementType::S16, ElementType::S16),
        ]),
        features: BTreeMap::from([("donation".to_owned(), true.into()), ("Big".to_owned(), f32::INFINITY.into())]),
        ..Capabilities::default()
    };
    bad.memory_kinds.default_kind = Some("hbm".to_owned());
    let expected = [
        "dense_gather_factor",
        "remapped_dtypes.s16",
        "remapped_dtypes.s64",
        "remapped_dtypes.s64",
        "remapped_dtypes.f64",
        "autocast.dtypes[0]",
        "autocast.dtypes[1]",
        "layout.tiled.max_padding",
        "cache_key_strip_device_assignment",
        "stablehlo.minimum",
        "program_formats",
        "dlpack_host_device",
        "memory_kinds.names[1]",
        "memory_kinds.default",
        "memory_kinds.host_offload",
        "dot_algorithms",
        "features.Big",
        "features.Big",
        "features.donation",
    ];
    let faults = bad.validate().unwrap_err();
    assert_eq!(fields(&faults), expected);
    let mut messages = String::new();
    for fault in faults.all() {
        messages += &format!("{fault}\n");
    }
    expect![[r#"
        dense_gather_factor: 4294967295 overflows the arithmetic of frameworks; write at most 214748364
        remapped_dtypes.s16: s16 replaces the type with itself; remove the entry
        remapped_dtypes.s64: s16 is replaced in turn; write the type that the device stores
        remapped_dtypes.s64: s16 contradicts int64, by which the device stores 64-bit integers; set int64 to remapped
        remapped_dtypes.f64: s32 cannot replace f64, which is a different kind of type; choose another float
        autocast.dtypes[0]: s32 is not a float type; write bf16, f16 or another float type
        autocast.dtypes[1]: s32 is not a float type; write bf16, f16 or another float type
        layout.tiled.max_padding: NaN is not a valid padding factor; write a number of at least 1
        cache_key_strip_device_assignment: true has no effect without persistent_cache; set persistent_cache to true, or remove this field
        stablehlo.minimum: 1.0.0 is newer than stablehlo.current = 0.9.0; swap the two
        program_formats: [hlo] lacks mlir, although the field stablehlo is set; add mlir, or remove stablehlo
        dlpack_host_device: cuda is not a host device; write cpu, cuda_host, rocm_host or tpu_host
        memory_kinds.names[1]: device is listed twice; remove one of the two
        memory_kinds.default: hbm is missing from memory_kinds.names; add it there
        memory_kinds.host_offload: true needs a host memory; add pinned_host or unpinned_host to memory_kinds.names
        dot_algorithms: [] excludes every dot product; list the supported algorithms, or remove the field to allow all of them
        features.Big: inf cannot be stored under this name; begin the name with a lower-case letter, and use only lower-case letters, digits, _ and .
        features.Big: inf cannot be written in JSON; write a finite number
        features.donation: true belongs in the field of the same name; move it there
    "#]].assert_eq(&messages);
}

#[test]
fn supported_types_limit_other_fields() {
    let mut messages = String::new();
    // Returns the field of the first fault that is found if only `f32` is supported.
    let mut first = |capabilities: Capabilities| {
        let supported_dtypes = Some(BTreeSet::from([ElementType::F32]));
        let faults = Capabilities { supported_dtypes, ..capabilities }.validate().unwrap_err();
        let fault = &faults.all()[0];
        messages += &format!("{fault}\n");
        fault.field.clone()
    };
    let default = Capabilities::default;
    let with_autocast = |autocast| Capabilities { autocast: Some(autocast), ..default() };
    let remapped = |from, to| Capabilities { remapped_dtypes: BTreeMap::from([(from, to)]), ..default() };
    for (capabilities, field) in [
        (with_autocast(Autocast::xla([ElementType::Bf16])), "autocast.dtypes[0]"),
        (Capabilities { bf16: Bf16Policy::Replace, ..default() }, "bf16"),
        (Capabilities { int64: Int64Policy::Remapped, ..default() }, "int64"),
        (remapped(ElementType::F64, ElementType::F16), "remapped_dtypes.f64"),
        (remapped(ElementType::F32, ElementType::F64), "remapped_dtypes.f32"),
    ] {
        assert_eq!(first(capabilities), field);
    }
    let none = Capabilities {
        supported_dtypes: Some(BTreeSet::new()),
        zero_copy_export: BTreeSet::from([DlpackDevice::Cpu]),
        ..default()
    };
    let faults = none.validate().unwrap_err();
    assert_eq!(fields(&faults), ["supported_dtypes", "zero_copy_export"]);
    expect!["supported_dtypes: [] excludes every program; list the supported types, or remove the field if they are unknown; zero_copy_export: [cpu] has no effect without a DLPack device type; set dlpack_device, or remove the field"]
        .assert_eq(&faults.to_string());
    let mut autocast = Autocast::xla([]);
    assert_eq!(first(with_autocast(autocast.clone())), "autocast.dtypes");
    autocast.dtypes = vec![ElementType::F32];
    assert_eq!(first(with_autocast(autocast)), "autocast.default_dtype");
    expect![[r#"
        autocast.dtypes[0]: bf16 is missing from supported_dtypes; add it there
        bf16: replace stores bf16, which supported_dtypes does not list; add it there
        int64: remapped stores s32 and u32, which supported_dtypes does not list; add them there
        remapped_dtypes.f64: f16 is missing from supported_dtypes; add it there, or choose another type
        remapped_dtypes.f32: f64 is missing from supported_dtypes; add it there, or choose another type
        autocast.dtypes: [] excludes every type; list float types, or remove autocast
        autocast.default_dtype: bf16 is missing from autocast.dtypes; add it there
    "#]]
    .assert_eq(&messages);
}

#[test]
fn user_overrides() {
    let base =
        Capabilities { donation: true, autocast: Some(Autocast::xla([ElementType::Bf16])), ..Capabilities::default() };
    let patched = base.patched(r#"{"donation": null, "dense_gather_factor": 64, "spmd": "unsupported"}"#).unwrap();
    assert!(!patched.donation && patched.autocast == base.autocast);
    assert_eq!(
        (patched.dense_gather_factor, patched.spmd),
        (NonZeroU32::new(64), Spmd::Unsupported),
        "the rest is as before"
    );
    // JSON objects are merged, and JSON arrays are replaced.
    let patched = base.patched(r#"{"autocast": {"dtypes": ["f16"], "default_dtype": "f16"}}"#).unwrap();
    assert_eq!(patched.autocast, Some(Autocast::xla([ElementType::F16])));
    assert_eq!(base.patched(r#"{"autocast": null}"#).unwrap().autocast, None);
    assert_eq!(base.patched("{}").unwrap(), base);
    assert_eq!(Capabilities::override_variable("tt_2"), "PJRT_REGISTRY_CAPABILITIES_TT_2");

    let mut messages = String::new();
    for (patch, expected) in [
        (r#"{"autocast": {"dtypes": []}}"#, &["autocast.dtypes"][..]),
        (r#"{"donations": true, "layout": {"tiles": 1}}"#, &["layout"]),
        (r#"{"b": true, "a": 1}"#, &["a", "b"]),
        ("true", &["capabilities"]),
        ("{", &["capabilities"]),
    ] {
        let faults = base.patched(patch).unwrap_err();
        assert_eq!(fields(&faults), expected, "{patch}");
        messages += &format!("{patch}: {faults}\n");
    }
    expect![[r#"
        {"autocast": {"dtypes": []}}: autocast.dtypes: [] excludes every type; list float types, or remove autocast
        {"donations": true, "layout": {"tiles": 1}}: layout: unknown variant `tiles`, expected `descending` or `tiled`
        {"b": true, "a": 1}: a: unknown field; the known fields are dense_gather_factor, dense_scatter_factor, rng_bit_generator, autocast, supported_dtypes, remapped_dtypes, int64, bf16, layout, spmd, donation, persistent_cache, cache_key_strip_device_assignment, host_callbacks, tuple_args_threshold, program_formats, optimized_program, stablehlo, dynamic_shapes, dlpack_device, dlpack_host_device, zero_copy_import, zero_copy_export, memory_kinds, memory_stats, dot_algorithms, mixed_dot, features; b: unknown field; the known fields are dense_gather_factor, dense_scatter_factor, rng_bit_generator, autocast, supported_dtypes, remapped_dtypes, int64, bf16, layout, spmd, donation, persistent_cache, cache_key_strip_device_assignment, host_callbacks, tuple_args_threshold, program_formats, optimized_program, stablehlo, dynamic_shapes, dlpack_device, dlpack_host_device, zero_copy_import, zero_copy_export, memory_kinds, memory_stats, dot_algorithms, mixed_dot, features
        true: capabilities: true is not a JSON object; write an object with fields, such as {"donation": true}
        {: capabilities: this is not valid JSON: EOF while parsing an object at line 1 column 1
    "#]].assert_eq(&messages);
}

#[test]
fn queries() {
    let full = full();
    assert!(full.gathers_densely(81920) && !full.gathers_densely(81921));
    assert!(full.scatters_densely(10, 1000) && !full.scatters_densely(10, 1001));
    assert!(full.scatters_densely(u64::MAX, u64::MAX));
    let default = Capabilities::default();
    assert!(!default.gathers_densely(1) && !default.scatters_densely(9, 1));

    use ElementType::{Bf16, F32, F64, S32, S64, U32, U64};
    let stored = |capabilities: &Capabilities| [F64, F32, S64, U64].map(|ty| capabilities.stored_as(ty));
    assert_eq!(stored(&full), [F32, Bf16, S32, U32]);
    assert_eq!(stored(&default), [F64, F32, S64, U64]);
    assert_eq!(stored(&Capabilities { bf16: Bf16Policy::Replace, ..Capabilities::default() }), [Bf16, Bf16, S64, U64]);
    assert_eq!(
        stored(&Capabilities { remapped_dtypes: BTreeMap::from([(F64, F32)]), ..Capabilities::default() }),
        [F32, F32, S64, U64]
    );
}

#[test]
fn stablehlo_versions() {
    let json = |minimum: &str| format!(r#"{{"stablehlo": {{"minimum": "{minimum}", "current": "1.13.7"}}}}"#);
    let read = Capabilities::from_json(&json("0.9.0")).unwrap().stablehlo;
    assert_eq!(read, Some(StablehloVersions { minimum: [0, 9, 0], current: [1, 13, 7] }));
    for bad in ["", "1", "1.2", "1.2.3.4", "1.2.x", "1.2.3.", "-1.2.3"] {
        assert!(Capabilities::from_json(&json(bad)).is_err(), "{bad}");
    }
}

#[test]
fn longest_dimensions_are_minor_if_padding_is_large() {
    let tile = [8, 128].map(|extent| NonZeroU32::new(extent).unwrap());
    let policy = LayoutPolicy::Tiled { tile, max_padding: 1.5 };
    // [16, 256] consists of whole tiles, and padding multiplies the memory of [3, 8, 100] by only 1.28.
    assert_eq!(policy.minor_to_major(&[16, 256]), None);
    assert_eq!(policy.minor_to_major(&[3, 8, 100]), None);
    // A row of 4 elements fills 1/32 of a tile's row of 128.
    assert_eq!(policy.minor_to_major(&[1000, 4]), Some(vec![0, 1]));
    assert_eq!(policy.minor_to_major(&[200, 30, 4, 4]), Some(vec![0, 1, 3, 2]));
    // In row-major order, the longest dimension is already the most minor one.
    assert_eq!(policy.minor_to_major(&[4, 4]), None);
    assert_eq!(policy.minor_to_major(&[2, 3, 5]), None);
    for shape in [&[][..], &[5], &[0, 4], &[1000, -1]] {
        assert_eq!(policy.minor_to_major(shape), None, "{shape:?}");
    }
    assert_eq!(LayoutPolicy::Descending.minor_to_major(&[1000, 4]), None);
}

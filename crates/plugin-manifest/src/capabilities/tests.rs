//! Tests of the capability types, their JSON form and their validation.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;

use recorded_messages::assert_message;

use super::*;
use crate::ElementType;
use crate::Faults;

/// Capabilities in which every field differs from its default.
pub(crate) fn full() -> Capabilities {
    let tile = [NonZeroU32::new(8).unwrap(), NonZeroU32::new(128).unwrap()];
    let version = StablehloVersion::new;
    Capabilities {
        dense_gather_factor: NonZeroU32::new(8192),
        dense_scatter_factor: NonZeroU32::new(100),
        rng_bit_generator: RngBitGenerator::ThreeFry,
        autocast: Some(Autocast::cuda([ElementType::F16, ElementType::Bf16])),
        supported_dtypes: Some(BTreeSet::from([
            ElementType::Pred,
            ElementType::S32,
            ElementType::U32,
            ElementType::F16,
            ElementType::F32,
        ])),
        int64: Int64Policy::Remapped,
        bf16: Bf16Policy::Downcast,
        layout: LayoutPolicy::tiled(tile, 1.1),
        spmd: Spmd::Reinitialize,
        donation: true,
        persistent_cache: true,
        cache_key_strip_device_assignment: true,
        host_callbacks: Some(HostCallbacks::new(false, true)),
        tuple_args_threshold: NonZeroU32::new(2000),
        program_formats: ProgramFormats::preferring(ProgramFormat::Mlir).or(ProgramFormat::Hlo),
        optimized_program: OptimizedProgram::Unavailable,
        stablehlo: Some(StablehloRange::new(version(0, 9, 0), version(1, 13, 7))),
        dynamic_shapes: DynamicShapes::Bounded,
        dlpack_device: Some(DlpackDevice::Cuda),
        dlpack_host_device: Some(DlpackDevice::CudaHost),
        zero_copy_import: BTreeSet::from([DlpackDevice::Cuda, DlpackDevice::CudaManaged]),
        zero_copy_export: BTreeSet::from([DlpackDevice::Cuda]),
        memory_kinds: MemoryKinds::new(["device", "pinned_host"]).host_offload(),
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
    assert_eq!(default.differences(), []);
    assert_message!("capabilities::default", "table", default);
    assert_eq!(Capabilities::from_json("{}").unwrap(), default);
}

#[test]
fn json_round_trip_of_every_field() {
    let mut full = full();
    // Autocast to bf16 and `bf16 = downcast` require bf16 in `supported_dtypes`.
    full.supported_dtypes.as_mut().unwrap().insert(ElementType::Bf16);
    assert_eq!(faults(&full), Vec::<String>::new());
    assert!(full.rows().iter().all(|row| !row.is_default), "{full}");
    assert_eq!(Capabilities::from_json(&full.to_json()).unwrap(), full);
    let json: serde_json::Value = serde_json::from_str(&full.to_json()).unwrap();
    assert_eq!(json["remapped_dtypes"]["s64"], "s32");
    assert_eq!(json["layout"]["tiled"]["tile"][1], 128);
    assert_eq!(json["stablehlo"]["current"], "1.13.7");
    assert_eq!(json["program_formats"], serde_json::json!(["mlir", "hlo"]));
    // The field names of the rows are the JSON keys.
    assert!(full.rows().iter().all(|row| json.get(row.field).is_some()));
    assert_eq!(json.as_object().unwrap().len(), full.rows().len());
}

#[test]
fn names_unknown_fields_and_values() {
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
        assert_message!("capabilities::json", json, faults);
    }
}

#[test]
fn lists_all_faults() {
    let zero = StablehloVersion::new(0, 9, 0);
    let mut bad = Capabilities {
        dense_gather_factor: NonZeroU32::new(u32::MAX),
        autocast: Some(Autocast::xla([ElementType::S32, ElementType::S32])),
        layout: LayoutPolicy::tiled([NonZeroU32::MIN; 2], f32::NAN),
        cache_key_strip_device_assignment: true,
        program_formats: ProgramFormats::preferring(ProgramFormat::Hlo),
        stablehlo: Some(StablehloRange::new(StablehloVersion::new(1, 0, 0), zero)),
        dlpack_host_device: Some(DlpackDevice::Cuda),
        memory_kinds: MemoryKinds::new(["device", "device"]).host_offload(),
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
    for (number, fault) in faults.all().iter().enumerate() {
        assert_message!("capabilities::all_faults", format_args!("{number:02} {}", fault.field), fault);
    }
}

#[test]
fn supported_types_limit_other_fields() {
    // Returns the field of the first fault that is found if only `f32` is supported.
    let first = |capabilities: Capabilities| {
        let supported_dtypes = Some(BTreeSet::from([ElementType::F32]));
        let faults = Capabilities { supported_dtypes, ..capabilities }.validate().unwrap_err();
        let fault = &faults.all()[0];
        assert_message!("capabilities::supported_dtypes", fault.field, fault);
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
    assert_message!("capabilities::supported_dtypes", "no types", faults);
    let mut autocast = Autocast::cuda([]);
    assert_eq!(first(with_autocast(autocast.clone())), "autocast.dtypes");
    autocast.dtypes = vec![ElementType::F32];
    assert_eq!(first(with_autocast(autocast)), "autocast.default_dtype");
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

    for (patch, expected) in [
        (r#"{"autocast": {"dtypes": []}}"#, &["autocast.dtypes"][..]),
        (r#"{"donations": true, "layout": {"tiles": 1}}"#, &["layout"]),
        (r#"{"b": true, "a": 1}"#, &["a", "b"]),
        ("true", &["capabilities"]),
        ("{", &["capabilities"]),
    ] {
        let faults = base.patched(patch).unwrap_err();
        assert_eq!(fields(&faults), expected, "{patch}");
        assert_message!("capabilities::overrides", patch, faults);
    }
}

#[test]
fn table_text() {
    let some = Capabilities {
        dense_gather_factor: NonZeroU32::new(8192),
        autocast: Some(Autocast::xla([ElementType::Bf16])),
        donation: true,
        remapped_dtypes: BTreeMap::from([(ElementType::F64, ElementType::F32)]),
        ..Capabilities::default()
    };
    assert_eq!(
        some.to_string(),
        "dense_gather_factor  8192\n\
         autocast             default_dtype bf16, dtypes (bf16), kind xla\n\
         remapped_dtypes      f64 f32\n\
         donation             yes"
    );
    assert_eq!(some.differences()[0], ("dense_gather_factor", "8192".to_owned()));
    let all = some.table(true);
    assert_eq!(all.rows().len(), some.rows().len());
    for line in ["spmd                               supported", "program_formats                    hlo, mlir"] {
        assert!(all.to_string().lines().any(|found| found == line), "{all}");
    }
    assert_eq!(some.rows()[0].replaces, "PyTorch/XLA gather: TPU, Neuron");
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
fn stablehlo_versions_from_attributes() {
    let said = crate::StablehloVersions::new([1, 13, 7], [0, 9, 0]);
    let range = StablehloRange::try_from(said).unwrap();
    assert_eq!((range.minimum.to_string(), range.current.to_string()), ("0.9.0".to_owned(), "1.13.7".to_owned()));
    let negative = crate::StablehloVersions::new([1, -1, 0], [0, 9, 0]);
    let error = StablehloRange::try_from(negative).unwrap_err();
    assert_message!("capabilities::stablehlo_versions", "a negative version", error.message());
    for bad in ["", "1", "1.2", "1.2.3.4", "1.2.x", "1.2.3.", "-1.2.3"] {
        assert!(bad.parse::<StablehloVersion>().is_err(), "{bad}");
    }
}

#[test]
fn longest_dimensions_are_minor_if_padding_is_large() {
    let policy = LayoutPolicy::tiled([8, 128].map(|extent| NonZeroU32::new(extent).unwrap()), 1.5);
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

//! Tests that read descriptors as other programs fill them in.
#![allow(
    clippy::undocumented_unsafe_blocks,
    clippy::multiple_unsafe_ops_per_block,
    clippy::disallowed_methods,
    reason = "tests of unsafe code, which read what C reads"
)]

use std::ffi::{c_char, c_void};
use std::num::NonZeroU32;
use std::path::Path;
use std::ptr;

use expect_test::expect;
use pjrt_sys::AbiStruct;

use crate::c_view::capabilities::dp_string;
use crate::c_view::descriptor::{
    CTopology, DP_DEPTH_ATTRIBUTES, DP_DEPTH_COMPILE, DP_DEPTH_NAMES, DP_DEPTH_TYPES, DP_LIBRARY_BESIDE,
    DP_LIBRARY_COMPUTED, DP_LIBRARY_PATH, DP_LIBRARY_THIS, dp_descriptor, dp_sink, dp_topology, dp_variable,
};
use crate::names::Code;
use crate::process::{Before, DeviceShare, Position, SetMode};
use crate::{Capabilities, Depth, Descriptor, Environment, ErrorCode, Faults, Library, Manifest, ProcessTopology};

fn read(descriptor: *const dp_descriptor) -> Result<Descriptor, Faults> {
    unsafe { Descriptor::from_raw(descriptor) }
}

fn place(index: u32, count: u32) -> Position {
    Position::new(index, count).unwrap()
}

/// A descriptor as a C program would fill it in.
fn foreign() -> dp_descriptor {
    dp_descriptor {
        name: dp_string::new("foreign"),
        library_kind: DP_LIBRARY_BESIDE,
        library: dp_string::new("libforeign.so"),
        ..dp_descriptor::EMPTY
    }
}

/// The first bytes of a descriptor, at the end of an allocation. A sanitizer therefore detects a read beyond these
/// bytes.
struct Cut {
    words: Box<[usize]>,
}

impl Cut {
    fn new(mut descriptor: dp_descriptor, size: usize) -> Self {
        descriptor.struct_size = size;
        let mut words = vec![0; size.div_ceil(size_of::<usize>()).max(1)].into_boxed_slice();
        let known = size.clamp(size_of::<usize>(), dp_descriptor::STRUCT_SIZE);
        unsafe { (&raw const descriptor).cast::<u8>().copy_to(words.as_mut_ptr().cast(), known) };
        Self { words }
    }

    fn read(&self) -> Result<Descriptor, Faults> {
        read(self.words.as_ptr().cast())
    }
}

#[test]
fn constants_are_codes_of_depths() {
    let codes = [DP_DEPTH_NAMES, DP_DEPTH_ATTRIBUTES, DP_DEPTH_TYPES, DP_DEPTH_COMPILE];
    assert!(Depth::ALL.iter().map(|depth| depth.code()).eq(codes));
}

#[test]
fn reads_structs_of_every_size() {
    let full = dp_descriptor { shutdown: Some(never), configure: Some(no_plan), ..foreign() };
    for size in 0..=dp_descriptor::STRUCT_SIZE + 64 {
        let read = Cut::new(full, size).read();
        let (library, configure) =
            (std::mem::offset_of!(dp_descriptor, library), std::mem::offset_of!(dp_descriptor, configure));
        if size < dp_descriptor::MIN_SIZE {
            let faults = read.unwrap_err();
            assert_eq!(faults.all()[0].field, "descriptor", "{size}: {faults}");
            assert!(faults.all()[0].message.contains(&format!(" {size},")), "{faults}");
            if size == 0 {
                expect!["descriptor: struct_size of the dp_descriptor is 0, but must be at least 48; set it to sizeof(dp_descriptor)"]
                    .assert_eq(&faults.to_string());
            }
        } else if size < library + size_of::<dp_string>() {
            let faults = read.unwrap_err();
            assert_eq!(faults.all()[0].field, "descriptor.library", "{size}: {faults}");
            if size == dp_descriptor::MIN_SIZE {
                expect![[r#"descriptor.library: library_kind is 2, which needs a file name, but library is """#]]
                    .assert_eq(&faults.to_string());
            }
        } else {
            let read = read.unwrap();
            assert_eq!(read.manifest(), &Manifest::new("foreign"));
            // If `configure` is beyond `size`, the manifest provides the plan, which is empty.
            let plan = read.configure(&ProcessTopology::single(), &Environment::new());
            assert_eq!(plan.is_ok(), size < configure + size_of::<usize>(), "{size}: {plan:?}");
        }
    }
}

unsafe extern "C" fn never() {
    std::process::abort()
}

unsafe extern "C" fn no_plan(
    _: *const dp_topology,
    _: *const dp_variable,
    _: usize,
    _: dp_sink,
    _: *mut c_void,
) -> u32 {
    9
}

type PathHook = unsafe extern "C" fn(dp_sink, *mut c_void) -> u32;

unsafe extern "C" fn nowhere(_: dp_sink, _: *mut c_void) -> u32 {
    0
}

unsafe extern "C" fn bad_path(sink: dp_sink, user: *mut c_void) -> u32 {
    // SAFETY: D5 (sinks): the sink may be called with `user` on this thread.
    unsafe { sink.unwrap()(user, c"\xff".as_ptr(), 1) };
    0
}

unsafe extern "C" fn two_answers(sink: dp_sink, user: *mut c_void) -> u32 {
    let sink = sink.unwrap();
    // SAFETY: D5 (sinks): the sink may be called with `user` on this thread.
    unsafe { sink(user, c"/first".as_ptr(), 6) };
    // SAFETY: D5 (sinks): the sink may be called with `user` on this thread.
    unsafe { sink(user, c"/second".as_ptr(), 7) };
    0
}

unsafe extern "C" fn undefined_code(sink: dp_sink, user: *mut c_void) -> u32 {
    // SAFETY: D5 (sinks): the sink may be called with `user` on this thread.
    unsafe { sink.unwrap()(user, c"no".as_ptr(), 2) };
    u32::MAX
}

unsafe extern "C" fn null_table() -> *const pjrt_sys::PJRT_Api {
    ptr::null()
}

#[test]
fn names_faults_of_foreign_descriptors() {
    expect!["descriptor: the dp_descriptor is null"].assert_eq(&read(ptr::null()).unwrap_err().to_string());
    expect!["descriptor: the dp_descriptor is not aligned"]
        .assert_eq(&read(ptr::without_provenance(1)).unwrap_err().to_string());
    let bad = dp_string { data: c"\xff\xfe".as_ptr(), size: 2 };
    let null = dp_string { data: ptr::null(), size: 3 };
    let huge = dp_string { data: c"x".as_ptr().cast::<c_char>(), size: usize::MAX };
    let mut messages = String::new();
    for (descriptor, case) in [
        (dp_descriptor { version: 2, ..foreign() }, "version"),
        (dp_descriptor { name: dp_string::EMPTY, ..foreign() }, "empty name"),
        (dp_descriptor { name: dp_string::new("A b"), ..foreign() }, "name with a space"),
        (dp_descriptor { name: bad, ..foreign() }, "name that is not UTF-8"),
        (dp_descriptor { name: null, ..foreign() }, "null name"),
        (dp_descriptor { manifest: huge, ..foreign() }, "long manifest"),
        (dp_descriptor { error: dp_string::new("no licence"), ..foreign() }, "error"),
        (dp_descriptor { manifest: dp_string::new("{}"), ..foreign() }, "empty manifest"),
        (
            dp_descriptor { manifest: dp_string::new(r#"{"format_version": "1.0", "name": "other"}"#), ..foreign() },
            "manifest of another name",
        ),
        (dp_descriptor { library: dp_string::EMPTY, ..foreign() }, "no library"),
        (dp_descriptor { library_kind: 0, ..foreign() }, "library kind 0"),
        (dp_descriptor { library_kind: DP_LIBRARY_THIS, ..foreign() }, "no table"),
        (dp_descriptor { library_kind: DP_LIBRARY_COMPUTED, ..foreign() }, "no library path"),
        (dp_descriptor { library_kind: DP_LIBRARY_THIS, get_pjrt_api: Some(null_table), ..foreign() }, "null table"),
    ] {
        messages += &format!("{case}: {}\n", read(&raw const descriptor).unwrap_err());
    }
    expect![[r#"
        version: descriptor.version: version 2 is unknown; this reader supports version 1. Build the plugin with a matching SDK
        empty name: name: "" is not a valid plugin name; write a lower-case letter, then lower-case letters, digits and underscores
        name with a space: name: "A b" is not a valid plugin name; write a lower-case letter, then lower-case letters, digits and underscores
        name that is not UTF-8: descriptor: name is not UTF-8
        null name: descriptor: name is null, but its length is 3
        long manifest: descriptor: manifest has the length 18446744073709551615, which exceeds the address space
        error: descriptor: the plugin "foreign" reports: no licence
        empty manifest: manifest: missing field `format_version` at line 1 column 2; write "format_version": "1.1"
        manifest of another name: descriptor.name: the name is "foreign" here and "other" in the manifest; use one name
        no library: descriptor.library: library_kind is 2, which needs a file name, but library is ""
        library kind 0: descriptor.library_kind: unknown value 0; set DP_LIBRARY_THIS, DP_LIBRARY_BESIDE, DP_LIBRARY_PATH or DP_LIBRARY_COMPUTED
        no table: descriptor.get_pjrt_api: library_kind is DP_LIBRARY_THIS, which needs this function, but it is null
        no library path: descriptor.library_path: library_kind is DP_LIBRARY_COMPUTED, which needs this function, but it is null
        null table: descriptor.get_pjrt_api: the function returned null instead of a PJRT table
    "#]].assert_eq(&messages);
    // The two faults are reported together.
    let two = dp_descriptor { manifest: dp_string::new("{}"), library_kind: 7, ..foreign() };
    expect![[r#"manifest: missing field `format_version` at line 1 column 2; write "format_version": "1.1"; descriptor.library_kind: unknown value 7; set DP_LIBRARY_THIS, DP_LIBRARY_BESIDE, DP_LIBRARY_PATH or DP_LIBRARY_COMPUTED"#]]
        .assert_eq(&read(&raw const two).unwrap_err().to_string());
}

#[test]
fn rejects_invalid_hook_results() {
    let path = |function| {
        let descriptor = dp_descriptor { library_kind: DP_LIBRARY_COMPUTED, library_path: Some(function), ..foreign() };
        let Library::Computed { path } = read(&raw const descriptor).unwrap().library().clone() else { panic!() };
        path()
    };
    let mut messages = String::new();
    for (case, function) in [("no path", nowhere as PathHook), ("a path that is not UTF-8", bad_path)] {
        let error = path(function).unwrap_err();
        assert_eq!(error.code(), ErrorCode::INTERNAL);
        messages += &format!("{case}: {}\n", error.message());
    }
    expect![[r#"
        no path: library_path of foreign succeeded without passing a result to its sink
        a path that is not UTF-8: library_path of foreign: the text passed to the sink is not UTF-8
    "#]]
    .assert_eq(&messages);
    assert_eq!(path(two_answers).unwrap(), Path::new("/second"));
    let error = path(undefined_code).unwrap_err();
    assert_eq!((error.code(), error.message()), (ErrorCode::UNKNOWN, "no"));
    let descriptor = dp_descriptor { configure: Some(no_plan), ..foreign() };
    let error = read(&raw const descriptor).unwrap().configure(&ProcessTopology::single(), &Environment::new());
    let error = error.unwrap_err();
    assert_eq!(error.code(), ErrorCode::FAILED_PRECONDITION);
    expect!["configure of foreign: configure of foreign failed without an error message"].assert_eq(error.message());
}

unsafe extern "C" fn plan_that_cannot_be_set(
    topology: *const dp_topology,
    _: *const dp_variable,
    _: usize,
    sink: dp_sink,
    user: *mut c_void,
) -> u32 {
    // SAFETY: D4 (arguments of hooks): `Descriptor` passes a valid topology.
    let local_rank = unsafe { (*topology).local_rank };
    let steps = [r#""A=B", "value": "1""#, r#""", "value": "1""#, r#""A", "value": "1\u0000""#];
    let plan = format!(r#"{{"steps": [{{"variable": {}}}]}}"#, steps[local_rank as usize]);
    // SAFETY: D5 (sinks): the sink may be called with `user` on this thread.
    unsafe { sink.unwrap()(user, plan.as_ptr().cast(), plan.len()) };
    0
}

#[test]
fn rejects_impossible_plans() {
    let descriptor = dp_descriptor { configure: Some(plan_that_cannot_be_set), ..foreign() };
    let read = read(&raw const descriptor).unwrap();
    let mut messages = String::new();
    for (rank, case) in [(0, "a name with an equals sign"), (1, "an empty name"), (2, "a value with a zero byte")] {
        let place = |index| Position::new(index, 3).unwrap();
        let topology = ProcessTopology::new(place(rank), place(rank), Position::new(0, 1).unwrap()).unwrap();
        let error = read.configure(&topology, &Environment::new()).unwrap_err();
        messages += &format!("{case}: {}\n", error.message());
    }
    expect![[r#"
        a name with an equals sign: configure of foreign: "A=B" is not a valid name of a variable; write letters, digits and _, and do not begin with a digit
        an empty name: configure of foreign: "" is not a valid name of a variable; write letters, digits and _, and do not begin with a digit
        a value with a zero byte: configure of foreign: the value "1\0" of A contains a NUL byte; remove the byte
    "#]].assert_eq(&messages);
}

#[test]
fn plans_of_newer_versions() {
    let plan = |json| super::plan::from_json(json, &Environment::new());
    assert!(plan("{}").unwrap().is_empty());
    let read = plan(r#"{"steps": [{"variable": "A", "value": "1", "current": 3}], "later": []}"#).unwrap();
    assert_eq!((read.steps[0].set, read.steps[0].before), (SetMode::Default, Before::Load));
    let mut messages = String::new();
    for json in [
        "",
        r#"{"steps": [{"variable": "A"}]}"#,
        r#"{"options": [{"name": "a", "type": "int64", "value": 1.5}]}"#,
        r#"{"options": [{"name": "a", "type": "float", "value": "x"}]}"#,
    ] {
        messages += &format!("{json:?}: {}\n", plan(json).unwrap_err().message());
    }
    expect![[r#"
        "": the plan that configure returned: EOF while parsing a value at line 1 column 0
        "{\"steps\": [{\"variable\": \"A\"}]}": the plan that configure returned: missing field `value` at line 1 column 28
        "{\"options\": [{\"name\": \"a\", \"type\": \"int64\", \"value\": 1.5}]}": the plan that configure returned: option a is 1.5, which is not of its type int64
        "{\"options\": [{\"name\": \"a\", \"type\": \"float\", \"value\": \"x\"}]}": the plan that configure returned: option a is "x", which is not of its type float
    "#]].assert_eq(&messages);
}

fn capabilities() -> Capabilities {
    Capabilities { dense_gather_factor: NonZeroU32::new(8192), ..Capabilities::default() }
}

#[test]
fn struct_capabilities_fill_manifest() {
    let own = crate::c_view::capabilities::CCapabilities::new(&capabilities()).unwrap();
    let bare = dp_descriptor { capabilities: own.as_ptr(), library_kind: DP_LIBRARY_PATH, ..foreign() };
    let silent = r#"{"format_version": "1.0", "name": "foreign"}"#;
    let said = r#"{"format_version": "1.0", "name": "foreign", "capabilities": {}}"#;
    for (manifest, expected) in [("", capabilities()), (silent, capabilities()), (said, Capabilities::default())] {
        let descriptor = dp_descriptor { manifest: dp_string::new(manifest), ..bare };
        assert_eq!(read(&raw const descriptor).unwrap().manifest().capabilities, expected, "{manifest}");
    }
}

#[test]
fn topology_round_trip() {
    let read = |raw: *const dp_topology| unsafe { ProcessTopology::from_raw(raw) };
    let topology = ProcessTopology::new(place(5, 8), place(1, 2), place(2, 4)).unwrap();
    let mut topology = topology.with_slice(place(1, 2)).unwrap().with_hosts(vec!["a".into(), "b".into()]).unwrap();
    topology.coordinator = Some("[::1]:7".parse().unwrap());
    topology.device_share = DeviceShare::All;
    topology.attributes.insert("POD".to_owned(), String::new());
    assert_eq!(read(CTopology::new(&topology).as_ptr()).unwrap(), topology);
    let single = ProcessTopology::single();
    let back = read(CTopology::new(&single).as_ptr()).unwrap();
    assert_eq!((back.world_size(), back.device_share), (1, DeviceShare::All));
    let alone = dp_topology::new();
    assert_eq!(read(&raw const alone).unwrap(), single);

    let wrong = |raw: dp_topology| read(&raw const raw).unwrap_err().to_string();
    let two = dp_topology { world_size: 2, local_world_size: 2, host_count: 1, ..dp_topology::new() };
    assert!(read(&raw const two).is_ok());
    let mut messages = String::new();
    for (raw, case) in [
        (dp_topology { struct_size: 40, ..two }, "struct_size"),
        (dp_topology { global_rank: 2, ..two }, "global_rank"),
        (dp_topology { local_world_size: 0, ..two }, "local_world_size"),
        (dp_topology { device_share: 3, ..two }, "device_share"),
        (dp_topology { num_hosts: 1, ..two }, "hosts"),
        (dp_topology { coordinator: dp_string::new("a:b:c]"), ..two }, "coordinator"),
    ] {
        messages += &format!("{case}: {}\n", wrong(raw));
    }
    expect![[r#"
        struct_size: INVALID_ARGUMENT: struct_size of the dp_topology is 40, but must be at least 48; set it to sizeof(dp_topology)
        global_rank: INVALID_ARGUMENT: global_rank of the dp_topology: index: 2 is not below the count, 2; the first index is 0
        local_world_size: INVALID_ARGUMENT: local_rank of the dp_topology: index: 0 is not below the count, 0; the first index is 0
        device_share: INVALID_ARGUMENT: device_share of the dp_topology is 3; write one of DP_DEVICE_SHARE_*
        hosts: INVALID_ARGUMENT: hosts is null, but its length is 1
        coordinator: INVALID_ARGUMENT: address: "a:b:c]" is not a valid host; write a name such as node01, or an address such as 10.0.0.1 or [fe80::1]
    "#]].assert_eq(&messages);
    // A struct of the minimum size ends before the fields with strings.
    let older = dp_topology { struct_size: dp_topology::MIN_SIZE, num_hosts: 9, ..two };
    assert!(read(&raw const older).unwrap().hosts().is_empty());
}

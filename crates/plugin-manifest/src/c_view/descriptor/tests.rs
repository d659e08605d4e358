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

use recorded_messages::assert_message;

use crate::c_view::capabilities::dp_string;
use crate::c_view::descriptor::{
    CTopology, DP_LIBRARY_BESIDE, DP_LIBRARY_COMPUTED, DP_LIBRARY_PATH, DP_LIBRARY_THIS, dp_descriptor, dp_sink,
    dp_topology, dp_variable,
};
use crate::process::{Before, DeviceShare, Position, SetMode};
use crate::{Capabilities, Descriptor, Environment, ErrorCode, Faults, Library, Manifest, ProcessTopology};

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
        ..dp_descriptor::new()
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
                assert_message!("descriptor::sizes", "0", faults);
            }
        } else if size < library + size_of::<dp_string>() {
            let faults = read.unwrap_err();
            assert_eq!(faults.all()[0].field, "descriptor.library", "{size}: {faults}");
            if size == dp_descriptor::MIN_SIZE {
                assert_message!("descriptor::sizes", "the smallest", faults);
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
    assert_message!("descriptor::faults", "null", read(ptr::null()).unwrap_err());
    assert_message!("descriptor::faults", "misaligned", read(ptr::without_provenance(1)).unwrap_err());
    let bad = dp_string { data: c"\xff\xfe".as_ptr(), size: 2 };
    let null = dp_string { data: ptr::null(), size: 3 };
    let huge = dp_string { data: c"x".as_ptr().cast::<c_char>(), size: usize::MAX };
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
        assert_message!("descriptor::faults", case, read(&raw const descriptor).unwrap_err());
    }
    // The two faults are reported together.
    let two = dp_descriptor { manifest: dp_string::new("{}"), library_kind: 7, ..foreign() };
    assert_message!("descriptor::faults", "two faults", read(&raw const two).unwrap_err());
}

#[test]
fn rejects_invalid_hook_results() {
    let path = |function| {
        let descriptor = dp_descriptor { library_kind: DP_LIBRARY_COMPUTED, library_path: Some(function), ..foreign() };
        let Library::Computed { path } = read(&raw const descriptor).unwrap().library().clone() else { panic!() };
        path()
    };
    for (case, function) in [("no path", nowhere as PathHook), ("a path that is not UTF-8", bad_path)] {
        let error = path(function).unwrap_err();
        assert_eq!(error.code(), ErrorCode::INTERNAL);
        assert_message!("descriptor::hooks", case, error.message());
    }
    assert_eq!(path(two_answers).unwrap(), Path::new("/second"));
    let error = path(undefined_code).unwrap_err();
    assert_eq!((error.code(), error.message()), (ErrorCode::UNKNOWN, "no"));
    let descriptor = dp_descriptor { configure: Some(no_plan), ..foreign() };
    let error = read(&raw const descriptor).unwrap().configure(&ProcessTopology::single(), &Environment::new());
    let error = error.unwrap_err();
    assert_eq!(error.code(), ErrorCode::FAILED_PRECONDITION);
    assert_message!("descriptor::hooks", "no plan", error.message());
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
    for (rank, case) in [(0, "a name with an equals sign"), (1, "an empty name"), (2, "a value with a zero byte")] {
        let place = |index| Position::new(index, 3).unwrap();
        let topology = ProcessTopology::new(place(rank), place(rank), Position::new(0, 1).unwrap()).unwrap();
        let error = read.configure(&topology, &Environment::new()).unwrap_err();
        assert_message!("descriptor::impossible_plans", case, error.message());
    }
}

#[test]
fn plans_of_newer_versions() {
    let plan = |json| super::plan::from_json(json, &Environment::new());
    assert!(plan("{}").unwrap().is_empty());
    let read = plan(r#"{"steps": [{"variable": "A", "value": "1", "current": 3}], "later": []}"#).unwrap();
    assert_eq!((read.steps()[0].set, read.steps()[0].before), (SetMode::Default, Before::Load));
    for json in [
        "",
        r#"{"steps": [{"variable": "A"}]}"#,
        r#"{"options": [{"name": "a", "type": "int64", "value": 1.5}]}"#,
        r#"{"options": [{"name": "a", "type": "float", "value": "x"}]}"#,
    ] {
        assert_message!("descriptor::plans", format_args!("{json:?}"), plan(json).unwrap_err().message());
    }
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
    let topology = topology.with_slice(place(1, 2)).unwrap().with_hosts(vec!["a".into(), "b".into()]).unwrap();
    let topology = topology.with_coordinator("[::1]:7".parse().unwrap()).with_device_share(DeviceShare::All);
    let topology = topology.with_attribute("POD", "");
    assert_eq!(read(CTopology::new(&topology).as_ptr()).unwrap(), topology);
    let single = ProcessTopology::single();
    let back = read(CTopology::new(&single).as_ptr()).unwrap();
    assert_eq!((back.world_size(), back.device_share()), (1, DeviceShare::All));
    let alone = dp_topology::new();
    assert_eq!(read(&raw const alone).unwrap(), single);

    let wrong = |raw: dp_topology| read(&raw const raw).unwrap_err().to_string();
    let two = dp_topology { world_size: 2, local_world_size: 2, host_count: 1, ..dp_topology::new() };
    assert!(read(&raw const two).is_ok());
    for (raw, case) in [
        (dp_topology { struct_size: 40, ..two }, "struct_size"),
        (dp_topology { global_rank: 2, ..two }, "global_rank"),
        (dp_topology { local_world_size: 0, ..two }, "local_world_size"),
        (dp_topology { device_share: 3, ..two }, "device_share"),
        (dp_topology { num_hosts: 1, ..two }, "hosts"),
        (dp_topology { coordinator: dp_string::new("a:b:c]"), ..two }, "coordinator"),
    ] {
        assert_message!("descriptor::topologies", case, wrong(raw));
    }
    // A struct of the minimum size ends before the fields with strings.
    let older = dp_topology { struct_size: dp_topology::MIN_SIZE, num_hosts: 9, ..two };
    assert!(read(&raw const older).unwrap().hosts().is_empty());
}

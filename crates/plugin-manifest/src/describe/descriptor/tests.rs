//! Reads foreign descriptors of various forms.
#![allow(
    clippy::undocumented_unsafe_blocks,
    clippy::multiple_unsafe_ops_per_block,
    clippy::disallowed_methods,
    reason = "tests of unsafe code, which read what C reads"
)]

use std::ffi::{c_char, c_void};
use std::path::Path;
use std::ptr;

use crate::describe::capabilities::dp_string;
use crate::describe::descriptor::{
    CTopology, DP_LIBRARY_BESIDE, DP_LIBRARY_COMPUTED, DP_LIBRARY_PATH, DP_LIBRARY_THIS, dp_descriptor, dp_sink,
    dp_topology, dp_variable,
};
use crate::process::{Before, DeviceShare, Position, SetMode};
use crate::{Capabilities, Descriptor, Environment, ErrorCode, Library, Manifest, ProcessTopology};

fn read(descriptor: *const dp_descriptor) -> Result<Descriptor, String> {
    unsafe { Descriptor::from_raw(descriptor) }.map_err(|faults| faults.to_string())
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

/// The first bytes of a descriptor at the end of an allocation, so that a sanitizer sees a read beyond them.
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

    fn read(&self) -> Result<Descriptor, String> {
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
            assert!(read.unwrap_err().contains(&format!("struct_size of the dp_descriptor is {size}")));
        } else if size < library + size_of::<dp_string>() {
            assert!(read.unwrap_err().contains("descriptor.library: "));
        } else {
            let read = read.unwrap();
            assert_eq!(read.manifest(), &Manifest::new("foreign"));
            // Without the hook the plan comes from the manifest and is empty.
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

unsafe extern "C" fn nowhere(_: dp_sink, _: *mut c_void) -> u32 {
    0
}

unsafe extern "C" fn bad_path(sink: dp_sink, user: *mut c_void) -> u32 {
    unsafe { sink.unwrap()(user, c"\xff".as_ptr(), 1) };
    0
}

unsafe extern "C" fn two_answers(sink: dp_sink, user: *mut c_void) -> u32 {
    let sink = sink.unwrap();
    unsafe { sink(user, c"/first".as_ptr(), 6) };
    unsafe { sink(user, c"/second".as_ptr(), 7) };
    0
}

unsafe extern "C" fn null_table() -> *const pjrt_sys::PJRT_Api {
    ptr::null()
}

#[test]
fn names_faults_of_foreign_descriptors() {
    assert!(read(ptr::null()).unwrap_err().contains("the dp_descriptor is null"));
    assert!(read(ptr::without_provenance(1)).unwrap_err().contains("not aligned"));
    let bad = dp_string { data: c"\xff\xfe".as_ptr(), size: 2 };
    let null = dp_string { data: ptr::null(), size: 3 };
    let huge = dp_string { data: c"x".as_ptr().cast::<c_char>(), size: usize::MAX };
    for (descriptor, says) in [
        (dp_descriptor { version: 2, ..foreign() }, "descriptor.version: version 2 "),
        (dp_descriptor { name: dp_string::EMPTY, ..foreign() }, "name: \"\" "),
        (dp_descriptor { name: dp_string::new("A b"), ..foreign() }, "name: \"A b\" "),
        (dp_descriptor { name: bad, ..foreign() }, "name is not UTF-8"),
        (dp_descriptor { name: null, ..foreign() }, "name is null, but its length is 3"),
        (dp_descriptor { manifest: huge, ..foreign() }, "manifest has the length "),
        (dp_descriptor { error: dp_string::new("no licence"), ..foreign() }, "no licence"),
        (dp_descriptor { manifest: dp_string::new("{}"), ..foreign() }, "missing field"),
        (
            dp_descriptor { manifest: dp_string::new(r#"{"format_version": "1.0", "name": "other"}"#), ..foreign() },
            "descriptor.name: ",
        ),
        (dp_descriptor { library: dp_string::EMPTY, ..foreign() }, "descriptor.library"),
        (dp_descriptor { library_kind: 0, ..foreign() }, "descriptor.library_kind: unknown value 0"),
        (dp_descriptor { library_kind: DP_LIBRARY_THIS, ..foreign() }, "descriptor.get_pjrt_api"),
        (dp_descriptor { library_kind: DP_LIBRARY_COMPUTED, ..foreign() }, "descriptor.library_path"),
        (
            dp_descriptor { library_kind: DP_LIBRARY_THIS, get_pjrt_api: Some(null_table), ..foreign() },
            "descriptor.get_pjrt_api: ",
        ),
    ] {
        let error = read(&raw const descriptor).unwrap_err();
        assert!(error.contains(says), "{says}: {error}");
    }
    // Reports both faults at once.
    let two = dp_descriptor { manifest: dp_string::new("{}"), library_kind: 7, ..foreign() };
    let error = read(&raw const two).unwrap_err();
    assert!(error.contains("missing field") && error.contains("descriptor.library_kind: unknown value 7"), "{error}");
}

#[test]
fn rejects_invalid_hook_results() {
    let path = |function| {
        let descriptor = dp_descriptor { library_kind: DP_LIBRARY_COMPUTED, library_path: Some(function), ..foreign() };
        let Library::Computed(path) = read(&raw const descriptor).unwrap().library().clone() else { panic!() };
        path()
    };
    for function in [nowhere, bad_path] {
        let error = path(function).unwrap_err();
        assert_eq!(error.code(), ErrorCode::INTERNAL);
        assert!(error.message().starts_with("library_path of foreign"), "{error}");
    }
    assert_eq!(path(two_answers).unwrap(), Path::new("/second"));
    let descriptor = dp_descriptor { configure: Some(no_plan), ..foreign() };
    let error = read(&raw const descriptor).unwrap().configure(&ProcessTopology::single(), &Environment::new());
    let error = error.unwrap_err();
    assert_eq!(error.code(), ErrorCode::FAILED_PRECONDITION);
    assert!(error.message().starts_with("configure of foreign"), "{error}");
}

unsafe extern "C" fn plan_that_cannot_be_set(
    topology: *const dp_topology,
    _: *const dp_variable,
    _: usize,
    sink: dp_sink,
    user: *mut c_void,
) -> u32 {
    // SAFETY: `Descriptor` keeps D4.
    let local_rank = unsafe { (*topology).local_rank };
    let steps = [r#""A=B", "value": "1""#, r#""", "value": "1""#, r#""A", "value": "1\u0000""#];
    let plan = format!(r#"{{"steps": [{{"variable": {}}}]}}"#, steps[local_rank as usize]);
    // SAFETY: D5.
    unsafe { sink.unwrap()(user, plan.as_ptr().cast(), plan.len()) };
    0
}

#[test]
fn rejects_impossible_plans() {
    let descriptor = dp_descriptor { configure: Some(plan_that_cannot_be_set), ..foreign() };
    let read = read(&raw const descriptor).unwrap();
    for (local_rank, says) in ["\"A=B\"", "\"\"", " of A "].iter().enumerate() {
        let place = |index| Position::new(index, 3).unwrap();
        let rank = u32::try_from(local_rank).unwrap();
        let topology = ProcessTopology::new(place(rank), place(rank), Position::new(0, 1).unwrap()).unwrap();
        let error = read.configure(&topology, &Environment::new()).unwrap_err();
        assert!(error.message().starts_with("configure of foreign") && error.message().contains(says), "{error}");
    }
}

#[test]
fn plans_of_newer_versions() {
    let plan = |json| super::plan::from_json(json, &Environment::new());
    assert!(plan("{}").unwrap().is_empty());
    let read = plan(r#"{"steps": [{"variable": "A", "value": "1", "current": 3}], "later": []}"#).unwrap();
    assert_eq!((read.steps()[0].set, read.steps()[0].before), (SetMode::Default, Before::Load));
    for (json, says) in [
        ("", "EOF"),
        (r#"{"steps": [{"variable": "A"}]}"#, "missing field `value`"),
        (r#"{"options": [{"name": "a", "type": "int64", "value": 1.5}]}"#, "option a is 1.5"),
        (r#"{"options": [{"name": "a", "type": "float", "value": "x"}]}"#, "option a is \"x\""),
    ] {
        let error = plan(json).unwrap_err();
        assert!(
            error.message().contains("the plan that configure returned") && error.message().contains(says),
            "{error}"
        );
    }
}

fn capabilities() -> Capabilities {
    Capabilities::builder().dense_gather_factor(8192).build()
}

#[test]
fn struct_capabilities_fill_manifest() {
    let own = crate::describe::capabilities::CCapabilities::new(&capabilities()).unwrap();
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
    for (raw, says) in [
        (dp_topology { struct_size: 40, ..two }, "struct_size of the dp_topology is 40"),
        (dp_topology { global_rank: 2, ..two }, "global_rank of the dp_topology: index: "),
        (dp_topology { local_world_size: 0, ..two }, "local_rank of the dp_topology"),
        (dp_topology { device_share: 3, ..two }, "device_share of the dp_topology is 3"),
        (dp_topology { num_hosts: 1, ..two }, "hosts is null, but its length is 1"),
        (dp_topology { coordinator: dp_string::new("a:b:c]"), ..two }, "a:b:c]"),
    ] {
        let error = wrong(raw);
        assert!(error.contains(says), "{says}: {error}");
    }
    // An older struct ends before the text fields.
    let older = dp_topology { struct_size: dp_topology::MIN_SIZE, num_hosts: 9, ..two };
    assert!(read(&raw const older).unwrap().hosts().is_empty());
}

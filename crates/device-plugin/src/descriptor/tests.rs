//! Tests that read the C descriptors of plugins written in Rust.
#![allow(
    unsafe_code,
    clippy::undocumented_unsafe_blocks,
    clippy::multiple_unsafe_ops_per_block,
    clippy::disallowed_methods,
    reason = "tests of unsafe code, which read what C reads"
)]

use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use expect_test::expect;

use crate::OptionType;
use crate::c_view::capabilities::dp_string;
use crate::c_view::descriptor::{DP_LIBRARY_COMPUTED, dp_descriptor};
use crate::descriptor::c_descriptor;
use crate::process::{Before, PlannedOption, Position, SetMode};
use crate::{
    Capabilities, Descriptor, DevicePlugin, EnvPlan, Environment, Error, ErrorCode, Library, NamedValue, NoBackend,
    OptionSchema, OptionSpec, Ownership, ProcessTopology, Result, Value,
};

pub(super) fn read(descriptor: *const dp_descriptor) -> Result<Descriptor, String> {
    unsafe { Descriptor::from_raw(descriptor) }.map_err(|faults| faults.to_string())
}

fn text(string: dp_string) -> &'static str {
    if string.size == 0 {
        return "";
    }
    let bytes = unsafe { std::ffi::CStr::from_ptr(string.data) }.to_bytes();
    assert_eq!(bytes.len(), string.size);
    std::str::from_utf8(bytes).unwrap()
}

/// A plugin that sets all properties of the description.
struct Full;

static SHUT_DOWN: AtomicU32 = AtomicU32::new(0);

impl DevicePlugin for Full {
    const NAME: &'static str = "full";
    const ALIASES: &'static [&'static str] = &["gpu"];
    type Backend = NoBackend;

    fn library() -> Library {
        // SAFETY: R1 (the library is trusted): it is this vendor's PJRT plugin.
        unsafe { Library::computed(|| Ok(PathBuf::from("/opt/full/lib.so"))) }
    }
    fn capabilities() -> Capabilities {
        Capabilities { dense_gather_factor: NonZeroU32::new(8192), ..Capabilities::default() }
    }
    fn options() -> OptionSchema {
        OptionSchema::only([OptionSpec::new("cores", OptionType::Int64, "how many").with_default(4i64)])
    }
    fn ownership() -> Ownership {
        Ownership::Exclusive
    }
    fn configure(topology: &ProcessTopology, environment: &Environment) -> Result<EnvPlan> {
        if topology.world_size() == 13 {
            return Err(Error::failed_precondition("13 processes do not divide"));
        }
        assert_ne!(topology.world_size(), 17, "seventeen");
        let mut plan = EnvPlan::default();
        let rank = format!("{}/{}@{:?}", topology.local_rank(), topology.hosts().join("+"), topology.coordinator);
        plan.add_variable("FULL_RANK", rank, (SetMode::Override, Before::Client), "why", environment);
        for (name, value, reason) in [("fraction", 0.1.into(), "share"), ("ids", [1, -2].into(), "")] {
            plan.options.push(PlannedOption { option: NamedValue { name: name.into(), value }, reason: reason.into() });
        }
        plan.coordinator = Some("node:1".parse()?);
        Ok(plan)
    }
    fn shutdown() {
        SHUT_DOWN.fetch_add(1, Ordering::Relaxed);
    }
}

fn place(index: u32, count: u32) -> Position {
    Position::new(index, count).unwrap()
}

#[test]
fn descriptor_round_trips() {
    let raw = c_descriptor::<Full>();
    assert_eq!(raw, c_descriptor::<Full>());
    let fields = unsafe { *raw };
    assert_eq!((text(fields.name), text(fields.error)), ("full", ""));
    assert_eq!(fields.library_kind, DP_LIBRARY_COMPUTED);
    let (own, read) = (crate::descriptor::<Full>().unwrap(), read(raw).unwrap());
    assert_eq!(read.manifest(), own.manifest());
    let Library::Computed { path, .. } = read.library() else { panic!("{read:?}") };
    assert_eq!(path().unwrap(), Path::new("/opt/full/lib.so"));

    let topology = ProcessTopology::new(place(3, 4), place(1, 2), place(1, 2)).unwrap();
    let mut topology = topology.with_hosts(vec!["h0".to_owned(), "h1".to_owned()]).unwrap();
    topology.coordinator = Some("n0:99".parse().unwrap());
    topology.attributes.insert("POD".to_owned(), "a b".to_owned());
    let environment = Environment::from([("FULL_RANK", "old"), ("B", "")]);
    let plan = read.configure(&topology, &environment).unwrap();
    assert_eq!(plan, own.configure(&topology, &environment).unwrap());
    assert!(plan.steps[0].value.contains("1/h0+h1"), "{plan}");
    assert_eq!(plan.steps[0].current.as_deref(), Some("old"));
    assert_eq!(plan.create_options()[0].value, Value::Float(0.1));

    let before = SHUT_DOWN.load(Ordering::Relaxed);
    read.shutdown().unwrap();
    assert_eq!(SHUT_DOWN.load(Ordering::Relaxed), before + 1);
}

#[test]
fn hook_errors_and_panics_become_errors() {
    let read = read(c_descriptor::<Full>()).unwrap();
    let with = |count| ProcessTopology::new(place(0, count), place(0, 1), place(0, count)).unwrap();
    let error = read.configure(&with(13), &Environment::new()).unwrap_err();
    assert_eq!(error.code(), ErrorCode::FAILED_PRECONDITION);
    assert!(error.message().contains("13 processes do not divide"), "{error}");
    let error = read.configure(&with(17), &Environment::new()).unwrap_err();
    assert_eq!(error.code(), ErrorCode::INTERNAL);
    assert!(error.message().contains("seventeen"), "{error}");
}

#[test]
fn faulty_descriptions_say_why() {
    struct Faulty;
    impl DevicePlugin for Faulty {
        const NAME: &'static str = "Faulty";
        type Backend = NoBackend;
        fn library() -> Library {
            // SAFETY: R1 (the library is trusted): it is this vendor's PJRT plugin.
            unsafe { Library::beside("libfaulty.so") }
        }
    }
    struct Neither;
    impl DevicePlugin for Neither {
        const NAME: &'static str = "neither";
        type Backend = NoBackend;
    }
    struct Panics;
    impl DevicePlugin for Panics {
        const NAME: &'static str = "panics";
        type Backend = NoBackend;
        fn capabilities() -> Capabilities {
            panic!("no capabilities")
        }
    }
    struct Nul;
    impl DevicePlugin for Nul {
        const NAME: &'static str = "nul";
        type Backend = NoBackend;
        fn library() -> Library {
            // SAFETY: R1 (the library is trusted): it is this vendor's PJRT plugin.
            unsafe { Library::beside("a\0b") }
        }
    }
    let mut messages = String::new();
    for (raw, name) in
        [(c_descriptor::<Neither>(), "neither"), (c_descriptor::<Panics>(), "panics"), (c_descriptor::<Nul>(), "nul")]
    {
        let fields = unsafe { *raw };
        assert_eq!(text(fields.name), name);
        messages += &format!("{name}: {}\n", text(fields.error));
        assert!(fields.manifest.data.is_null() && fields.capabilities.is_null() && fields.get_pjrt_api.is_none());
        let error = read(raw).unwrap_err();
        assert!(error.ends_with(text(fields.error)), "{error}");
        messages += &format!("{name}, read: {error}\n");
    }
    expect![[r#"
        neither: library: the plugin has neither a backend nor a library; write `type Backend = …;`, or `fn library() -> Library { unsafe { Library::beside("libexample.so") } }`
        neither, read: descriptor: the plugin "neither" reports: library: the plugin has neither a backend nor a library; write `type Backend = …;`, or `fn library() -> Library { unsafe { Library::beside("libexample.so") } }`
        panics: the plugin panicked: no capabilities
        panics, read: descriptor: the plugin "panics" reports: the plugin panicked: no capabilities
        nul: library: "a\0b" is not a file name; write the name or path of the library
        nul, read: descriptor: the plugin "nul" reports: library: "a\0b" is not a file name; write the name or path of the library
    "#]].assert_eq(&messages);
    // The plugin checks its manifest only if debug assertions are enabled. The reader checks it in every build.
    let raw = c_descriptor::<Faulty>();
    let fields = unsafe { *raw };
    assert_eq!(text(fields.error).contains("name: \"Faulty\""), cfg!(debug_assertions));
    let error = read(raw).unwrap_err();
    assert!(error.contains("\"Faulty\""), "{error}");
}

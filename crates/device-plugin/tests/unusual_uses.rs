//! Tests valid uses of `#[device_plugin]` that look unusual.
#![deny(unsafe_code)]
#![allow(
    missing_docs,
    missing_debug_implementations,
    unused_qualifications,
    clippy::non_minimal_cfg,
    clippy::unwrap_used,
    reason = "a test, which writes what plugins may contain"
)]

use device_plugin::{DevicePlugin, Library, NoBackend, device_plugin};

pub mod inner {
    pub struct Example;
}

// This implementation has a type with a path, a condition on the whole `impl`, a name that is not a literal, and every
// member of the trait.
#[device_plugin(export, prefix = "first", register = false)]
#[cfg(all())]
impl device_plugin::DevicePlugin for inner::Example {
    const NAME: &'static str = concat!("exam", "ple");
    const ALIASES: &'static [&'static str] = &["gpu", "example_1"];

    #[allow(unsafe_code, reason = "only the plugin itself names a library")]
    fn library() -> Library {
        // SAFETY: R1 (the library is trusted): it is this vendor's PJRT plugin.
        unsafe { Library::computed(|| Ok("libexample.so".into())) }
    }
    fn capabilities() -> device_plugin::Capabilities {
        device_plugin::Capabilities::default()
    }
    fn options() -> device_plugin::OptionSchema {
        device_plugin::OptionSchema::any()
    }
    fn process() -> device_plugin::ProcessPlan {
        device_plugin::ProcessPlan::default()
    }
    fn configure(
        _: &device_plugin::ProcessTopology,
        _: &device_plugin::Environment,
    ) -> device_plugin::Result<device_plugin::EnvPlan> {
        Ok(device_plugin::EnvPlan::default())
    }
    fn ownership() -> device_plugin::Ownership {
        device_plugin::Ownership::Shared
    }
    fn shutdown() {}
    fn manifest(manifest: device_plugin::Manifest) -> device_plugin::Manifest {
        manifest
    }
    fn initialize() -> device_plugin::Result<()> {
        Ok(())
    }
    fn stablehlo_versions() -> Option<device_plugin::StablehloVersions> {
        None
    }
    fn attributes() -> Vec<device_plugin::NamedValue> {
        Vec::new()
    }
}

pub struct Absent;

#[device_plugin(export)]
#[cfg(any())]
impl DevicePlugin for Absent {
    const NAME: &'static str = "absent";
    type Backend = Missing;
}

pub struct InWords;

#[device_plugin]
impl DevicePlugin for InWords {
    const NAME: &'static str = "in_words";
    type Backend = NoBackend;
    #[allow(unused, unsafe_code, reason = "only the plugin itself names a library")]
    fn library() -> Library {
        // SAFETY: R1 (the library is trusted): it is this vendor's PJRT plugin.
        unsafe { Library::path("/lib/libexample.so") }
    }
}

device_plugin::export!(InWords, prefix = "in_words", descriptor_only);

#[test]
fn unusual_uses_compile() {
    let names: Vec<&str> = device_plugin::registered().map(|plugin| plugin.name()).collect();
    assert_eq!(names, ["in_words"]);
    let descriptor = inner::Example::descriptor().unwrap();
    assert_eq!(descriptor.manifest().name, "example");
    assert!(descriptor.manifest().answers_to("GPU"));
}

//! Tests setting the environment variables that a plugin needs. This is the only test in its test binary, so no other
//! thread uses the environment.
#![allow(missing_docs, clippy::unwrap_used, reason = "a test")]

use device_plugin::process::{Before, EnvRule, Position, SetMode};
use device_plugin::{DevicePlugin, NoBackend, ProcessPlan, ProcessTopology};
use plugin_registry::{Error, PluginLoadOptions, PluginRegistry, ProcessEnvironment};

struct Ranked;

#[device_plugin::device_plugin]
impl DevicePlugin for Ranked {
    const NAME: &'static str = "ranked";
    type Backend = NoBackend;

    fn library() -> device_plugin::Library {
        // SAFETY: R1 (the library is trusted): it is this vendor's PJRT plugin.
        unsafe { device_plugin::Library::path("/nonexistent/libranked.so") }
    }

    fn process() -> ProcessPlan {
        let device = EnvRule { set: SetMode::Override, ..EnvRule::new("RANKED_TEST_DEVICE", "{local_rank}") };
        let late = EnvRule { before: Before::Client, ..EnvRule::new("RANKED_TEST_LATE", "late") };
        ProcessPlan { environment: vec![device, late], ..ProcessPlan::default() }
    }
}

#[test]
fn sets_variables_only_with_permission() {
    let place = Position::new(1, 2).unwrap();
    let topology = ProcessTopology::new(place, place, Position::SOLE).unwrap();
    let registry = PluginRegistry::empty();
    let refused = registry.register::<Ranked>().unwrap();
    // A missing library is reported before any variable is set.
    let Error::Refused { .. } = refused.load().unwrap_err() else { panic!("{refused:?}") };

    // A computed path is not checked in advance, so loading fails only after the variables are set.
    // SAFETY: R1 (the library is trusted): the file does not exist, so no code runs.
    let library = unsafe { device_plugin::Library::computed(|| Ok("/nonexistent/libranked.so".into())) };
    let manifest = refused.manifest().clone();
    let descriptor = device_plugin::Descriptor::new(manifest, library, std::sync::Arc::new(())).unwrap();
    let entry = registry.replace(refused.id(), descriptor).unwrap();
    let error = entry.load_with(&PluginLoadOptions::new().topology(topology.clone())).unwrap_err();
    assert!(matches!(error, Error::Setup { .. }), "{error}");
    assert!(std::env::var_os("RANKED_TEST_DEVICE").is_none());

    // SAFETY: R3 (no other thread uses the environment): this is the only test in its binary, and the test harness
    // reads no variables while it waits.
    let process = unsafe { ProcessEnvironment::sole_user() };
    let error = entry.load_with(&PluginLoadOptions::new().topology(topology).set_variables(&process)).unwrap_err();
    assert!(matches!(error, Error::Load(_)), "{error}");
    assert_eq!(std::env::var("RANKED_TEST_DEVICE").unwrap(), "1");
    assert_eq!(std::env::var("RANKED_TEST_LATE").unwrap(), "late");
}

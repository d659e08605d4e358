//! Tests plugins that a search finds.

use std::fs;
use std::path::{Path, PathBuf};

use device_plugin::Manifest;
use device_plugin::manifest::LibraryFile;
use plugin_registry::discovery::{Discovery, Refusal};
use plugin_registry::{Error, PluginRegistry, Policy, RejectReason, Status};

use crate::fakes::{closing_plugin, folder};

/// Creates a folder with a manifest for each name. Each manifest names a copy of the same library.
fn installed(test: &str, names: &[&str]) -> PathBuf {
    let folder = folder(test);
    for name in names {
        fs::copy(closing_plugin(), folder.join(format!("lib{name}.so"))).unwrap();
        install(&folder, name, |_| {});
    }
    folder
}

fn install(folder: &Path, name: &str, change: impl FnOnce(&mut Manifest)) {
    let mut manifest = Manifest::new(name);
    manifest.library.push(LibraryFile::new(folder.join(format!("lib{name}.so"))));
    change(&mut manifest);
    fs::write(folder.join(format!("{name}.json")), manifest.to_json()).unwrap();
}

fn machine(folder: &Path) -> Discovery {
    // The libraries depend on libraries of the system, so search the root of this machine.
    Discovery::isolated("/").variable("PJRT_REGISTRY_MANIFESTS", folder)
}

#[test]
fn selects_and_loads_discovered_plugins() {
    let folder = installed("found", &["found_a", "found_b"]);
    install(&folder, "found_missing", |_| {});
    let registry = PluginRegistry::with(machine(&folder));
    let entry = registry.select(&Policy::named("found_b")).unwrap();
    assert_eq!(entry.status(), Status::Available);
    entry.load().unwrap();
    assert_eq!(entry.status(), Status::Loaded(0));
    let missing = registry.entries().into_iter().find(|entry| entry.name() == "found_missing").unwrap();
    assert_eq!(missing.status(), Status::Refused);
    let error = missing.load().unwrap_err();
    let Error::Refused { refusals, .. } = &error else { panic!("{error}") };
    assert!(matches!(&refusals[..], [Refusal::Missing { path }] if path.ends_with("libfound_missing.so")), "{error}");
    // Linked plugins rank after the plugins that the user named.
    #[cfg(feature = "cpu")]
    assert_eq!(registry.select(&Policy::named("pjrt_cpu")).unwrap().name(), "pjrt_cpu");
    assert_eq!(registry.select(&Policy::any()).unwrap().name(), "found_a");
}

#[test]
fn environment_decides_if_policy_allows() {
    let folder = installed("hints", &["hint_a", "hint_b"]);
    let registry = PluginRegistry::with(machine(&folder).variable("PJRT_DEVICE", "HINT_B"));
    assert_eq!(registry.select(&Policy::any()).unwrap().name(), "hint_a");
    assert_eq!(registry.select(&Policy::any().environment_first()).unwrap().name(), "hint_b");
    let registry = PluginRegistry::with(machine(&folder).variable("PJRT_DEVICE", "TPU"));
    let error = registry.select(&Policy::any().environment_first()).unwrap_err();
    let hint = error.hint().unwrap();
    assert_eq!((&*hint.variable, &*hint.names), ("PJRT_DEVICE", &["tpu".to_owned()][..]));
}

#[test]
fn refresh_keeps_unchanged_handles() {
    let folder = installed("refresh", &["stays", "goes", "changes"]);
    let registry = PluginRegistry::with(machine(&folder));
    let of = |name: &str| registry.select(&Policy::named(name)).unwrap();
    let (stays, goes, changes) = (of("stays"), of("goes"), of("changes"));
    let off = registry.disable(of("stays").id(), "off").unwrap();
    fs::remove_file(folder.join("goes.json")).unwrap();
    install(&folder, "changes", |manifest| manifest.priority = 7);
    fs::copy(closing_plugin(), folder.join("libcomes.so")).unwrap();
    install(&folder, "comes", |_| {});
    registry.refresh();
    assert_eq!(registry.get(off).unwrap().status(), Status::Disabled("off".to_owned()));
    let stays_again = registry.enable(off).unwrap();
    assert!(stays_again.load().is_ok() && stays.load().is_err());
    assert!(goes.load().is_err() && changes.load().is_err());
    assert_eq!(of("changes").manifest().priority, 7);
    assert_eq!(of("comes").status(), Status::Available);
    assert!(registry.select(&Policy::named("goes")).is_err());
}

#[test]
fn users_change_capabilities() {
    let folder = installed("patched", &["patched"]);
    let variable = "PJRT_REGISTRY_CAPABILITIES_PATCHED";
    let registry = PluginRegistry::with(machine(&folder).variable(variable, r#"{"dense_gather_factor": 5}"#));
    let entry = registry.select(&Policy::named("patched")).unwrap();
    assert_eq!(entry.capabilities().dense_gather_factor.map(|factor| factor.get()), Some(5));
    let registry = PluginRegistry::with(machine(&folder).variable(variable, r#"{"dense": 5}"#));
    let error = registry.select(&Policy::named("patched")).unwrap_err();
    let rejected = error.rejected().iter().find(|rejected| rejected.name == "patched").unwrap();
    let RejectReason::Refused(refusals) = &rejected.reason else { panic!("{error}") };
    let [Refusal::BadEnvironmentItem { variable: named, message, .. }] = &refusals[..] else { panic!("{error}") };
    assert!(named == variable && message.contains("dense"), "{error}");
}

#[test]
fn elevated_privileges_ignore_user_capabilities() {
    let folder = folder("elevated");
    let variable = "PJRT_REGISTRY_CAPABILITIES_PJRT_CPU";
    let machine = Discovery::isolated(&folder).variable(variable, r#"{"dense_gather_factor": 5}"#);
    for (elevated, factor) in [(false, Some(5)), (true, None)] {
        let registry = PluginRegistry::builder().discovery(machine.clone().elevated(elevated)).build();
        let own = crate::fakes::of_file("pjrt_cpu", |_| {});
        let entry = registry.register_descriptor(own).unwrap();
        let found = entry.capabilities().dense_gather_factor.map(|factor| factor.get());
        assert_eq!(found, factor, "elevated: {elevated}");
    }
}

#[test]
fn libraries_without_manifest_are_named_after_file() {
    let folder = folder("builtin");
    let library = folder.join("libtpu.so");
    fs::copy(closing_plugin(), &library).unwrap();
    let discovery = Discovery::isolated("/").python(false).conventional(false).variable("TPU_LIBRARY_PATH", &library);
    let registry = PluginRegistry::with(discovery);
    let tpu = registry.select(&Policy::named("tpu")).unwrap();
    assert_eq!(tpu.capabilities().dense_gather_factor.map(|factor| factor.get()), Some(8192));
}

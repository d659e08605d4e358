//! Tests that a plugin is shut down once, after its last client is destroyed.

use std::fs;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use device_plugin::{OptionSchema, OptionSpec, OptionType};
use expect_test::expect;
use pjrt::ClientOptions;
use plugin_manifest::{Descriptor, EnvPlan, Environment, Hooks, ProcessTopology};
use plugin_registry::{Error, PluginEntry, Policy, RejectReason};
#[cfg(target_os = "linux")]
use plugin_registry::{FileChange, IfReplaced, LoadedPlugin, PluginLoadOptions};

use crate::fakes::{Count, closing_plugin, fake, folder, register_library, registry};

static DROPPED: Count = Count::new();
static ENDED: Count = Count::new();
static AWAITED: Count = Count::new();
static ABANDONED: Count = Count::new();
static UNLOADED: Count = Count::new();
static SHARED: Count = Count::new();

fake! {
    Dropped "dropped" { fn shutdown() { DROPPED.add(); } }
    Ended "ended" { fn shutdown() { ENDED.add(); } }
    Awaited "awaited" { fn shutdown() { AWAITED.add(); } }
    Abandoned "abandoned" { fn shutdown() { ABANDONED.add(); } }
    Unloaded "unloaded" { fn shutdown() { UNLOADED.add(); } }
    Shared "shared" { fn shutdown() { SHARED.add(); } }
    Panics "panics" { fn shutdown() { panic!("of the test"); } }
    Reenters "reenters" {}
    Options "options" {
        fn options() -> OptionSchema {
            OptionSchema::only([OptionSpec::new("size", OptionType::Int64, "").with_default(3i64)])
        }
    }
}

#[test]
fn hook_runs_with_registry_drop() {
    let registry = registry("dropped");
    let loaded = registry.register::<Dropped>().unwrap().load().unwrap();
    drop(registry);
    assert_eq!(DROPPED.get(), 0, "the handle keeps the registry");
    let client = loaded.client(&ClientOptions::new()).unwrap();
    let buffer = client.buffer_from_host(&[1f32, 2.0], &[2]).unwrap();
    drop(loaded);
    drop(client);
    assert_eq!(DROPPED.get(), 0, "the buffer keeps the client");
    drop(buffer);
    assert_eq!(DROPPED.get(), 1);
}

#[test]
fn hook_runs_at_shutdown_or_after_last_client() {
    let registry = registry("ended");
    let loaded = registry.register::<Ended>().unwrap().load().unwrap();
    let client = loaded.client(&ClientOptions::new()).unwrap();
    assert_eq!(registry.shutdown(), [("ended".to_owned(), 1)]);
    assert!(matches!(loaded.client(&ClientOptions::new()).unwrap_err(), Error::Stale { .. }));
    let error = registry.select(&Policy::any()).unwrap_err();
    let RejectReason::Disabled(reason) = &error.rejected()[0].reason else { panic!("{error}") };
    expect!["the registry was shut down"].assert_eq(reason);
    assert_eq!(ENDED.get(), 0);
    drop(client);
    assert_eq!(ENDED.get(), 1);
    assert_eq!(registry.shutdown(), []);
    drop((registry, loaded));
    assert_eq!(ENDED.get(), 1);
}

#[test]
fn shutdown_waits_for_clients_up_to_a_deadline() {
    let registry = registry("awaited");
    let loaded = registry.register::<Awaited>().unwrap().load().unwrap();
    let client = loaded.client(&ClientOptions::new()).unwrap();
    let other = registry.clone();
    let waiting = std::thread::spawn(move || other.shutdown_within(Duration::from_secs(600)));
    client.shutdown(Duration::from_secs(600)).unwrap();
    assert_eq!(waiting.join().unwrap(), []);
    assert_eq!(AWAITED.get(), 1, "the hook has run");
    assert_eq!(registry.shutdown_within(Duration::ZERO), []);
}

#[test]
fn shutdown_after_shutdown_waits_for_clients() {
    let registry = registry("abandoned");
    let loaded = registry.register::<Abandoned>().unwrap().load().unwrap();
    let client = loaded.client(&ClientOptions::new()).unwrap();
    let remaining = [("abandoned".to_owned(), 1)];
    assert_eq!(registry.shutdown(), remaining);
    assert_eq!(registry.shutdown_within(Duration::ZERO), remaining, "the client still exists");
    let other = registry.clone();
    let waiting = std::thread::spawn(move || other.shutdown_within(Duration::from_secs(600)));
    client.shutdown(Duration::from_secs(600)).unwrap();
    assert_eq!(waiting.join().unwrap(), []);
    assert_eq!(ABANDONED.get(), 1, "the hook has run");
    assert_eq!(registry.shutdown(), []);
}

#[test]
fn two_registries_share_a_plugin() {
    let (one, two) = (registry("shared-one"), registry("shared-two"));
    let first = one.register::<Shared>().unwrap().load().unwrap();
    let second = two.register::<Shared>().unwrap().load().unwrap();
    assert_eq!(first.plugin(), second.plugin());
    drop((one, first));
    assert_eq!(SHARED.get(), 0);
    second.client(&ClientOptions::new()).unwrap();
    drop((two, second));
    assert_eq!(SHARED.get(), 1);
}

#[test]
fn unloading_waits_for_nobody() {
    let registry = registry("unloaded");
    let entry = registry.register::<Unloaded>().unwrap();
    let loaded = entry.load().unwrap();
    let client = loaded.client(&ClientOptions::new()).unwrap();
    let error = registry.unload(entry.id()).unwrap_err();
    assert!(matches!(error, Error::InUse { clients: 1, .. }), "{error}");
    drop(client);
    let id = registry.unload(entry.id()).unwrap();
    assert_eq!(UNLOADED.get(), 1);
    assert!(matches!(loaded.client(&ClientOptions::new()).unwrap_err(), Error::Stale { .. }));
    // The function table stays mapped, so using an old plugin handle does not crash.
    assert!(loaded.plugin().attributes().is_ok());
    registry.get(id).unwrap().load().unwrap().client(&ClientOptions::new()).unwrap();
}

#[test]
fn contains_panic_in_hook() {
    let registry = registry("panics");
    registry.register::<Panics>().unwrap().load().unwrap();
    assert_eq!(registry.shutdown(), []);
}

/// The entry of another registry for the plugin that [`LoadsItself`] belongs to.
static OTHER_ENTRY: OnceLock<PluginEntry> = OnceLock::new();

/// Hooks that load their own plugin. Counts the loads that are rejected with [`Error::Reentered`].
struct LoadsItself(Arc<Count>);

impl LoadsItself {
    fn load(&self) {
        let error = OTHER_ENTRY.get().unwrap().load().unwrap_err();
        if matches!(&error, Error::Reentered { name } if name == "reenters") {
            self.0.add();
        }
    }
}

impl Hooks for LoadsItself {
    fn configure(&self, _: &ProcessTopology, _: &Environment) -> Option<Result<EnvPlan, plugin_manifest::Error>> {
        self.load();
        Some(Ok(EnvPlan::default()))
    }

    fn shutdown(&self) {
        self.load();
    }
}

#[test]
fn hook_that_loads_its_own_plugin_gets_an_error() {
    let rejected = Arc::new(Count::new());
    let own = device_plugin::descriptor::<Reenters>().unwrap();
    let describe = || {
        let hooks = Arc::new(LoadsItself(rejected.clone()));
        Descriptor::new(own.manifest().clone(), own.library().clone(), hooks).unwrap()
    };
    let (one, other) = (registry("reenters-one"), registry("reenters-other"));
    let entry = one.register_descriptor(describe()).unwrap();
    OTHER_ENTRY.set(other.register_descriptor(describe()).unwrap()).unwrap();
    entry.load().unwrap();
    assert_eq!(rejected.get(), 1);
    assert_eq!(one.shutdown(), []);
    assert_eq!(rejected.get(), 2);
    // The thread may load the plugin when no hook is running.
    OTHER_ENTRY.get().unwrap().load().unwrap();
}

#[test]
fn c_function_shuts_library_down_once() {
    if let Some(library) = std::env::var_os("CLOSING_PLUGIN_LIBRARY") {
        return in_a_child_process(&library);
    }
    // The library must not be shared with other tests, so load it from a file with a unique name.
    let folder = folder("closing");
    let (library, log) = (folder.join("libclosing_once.so"), folder.join("log"));
    fs::copy(closing_plugin(), &library).unwrap();
    let output = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["lifetime::c_function_shuts_library_down_once", "--exact", "--nocapture"])
        .env("CLOSING_PLUGIN_LIBRARY", &library)
        .env("CLOSING_PLUGIN_LOG", &log)
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    assert_eq!(fs::read_to_string(&log).unwrap(), "hook\nclosed\n");
}

/// Runs in the child process of `c_function_shuts_library_down_once`.
fn in_a_child_process(library: &std::ffi::OsStr) {
    let registry = registry("closing-child");
    let mut manifest = device_plugin::Manifest::new("closing");
    manifest.shutdown_symbol = Some("closing_plugin_shutdown".to_owned());
    let entry = register_library(&registry, library, Some(manifest)).unwrap();
    let client = entry.load().unwrap().client(&ClientOptions::new()).unwrap();
    drop(client);
    let id = registry.unload(entry.id()).unwrap();
    let error = registry.get(id).unwrap().load().unwrap_err();
    assert!(matches!(&error, Error::ShutDown { name } if name == "closing"), "{error}");
}

#[test]
fn library_without_manifest_describes_itself() {
    let registry = registry("own");
    let entry = register_library(&registry, closing_plugin(), None).unwrap();
    assert_eq!(entry.name(), format!("{}closing_plugin", std::env::consts::DLL_PREFIX));
    assert!(entry.manifest().create_options.open);
    let loaded = entry.load().unwrap();
    assert_eq!(loaded.descriptor().manifest().name, "closing");
    let error = loaded.client(&ClientOptions::new().with("bogus", 1i64)).unwrap_err();
    assert!(matches!(error, Error::Options(_)), "{error}");
}

#[test]
fn options_are_those_of_the_schema() {
    let registry = registry("options");
    let loaded = registry.register::<Options>().unwrap().load().unwrap();
    loaded.client(&ClientOptions::new().with("size", "12")).unwrap();
    let error = loaded.client(&ClientOptions::new().with("siz", 1i64).with("size", true)).unwrap_err();
    assert!(matches!(error, Error::Options(_)), "{error}");
    expect![[r#"INVALID_ARGUMENT: options of options: siz: unknown option; did you mean "size"?; size: this option has the type int64, but its value true has the type bool"#]]
        .assert_eq(&error.to_string());
}

#[cfg(target_os = "linux")]
#[test]
fn loads_replaced_library_beside_old_one() {
    let folder = folder("replaced");
    let (library, next) = (folder.join("libreplaced.so"), folder.join("next"));
    // Appending bytes to the library creates a different file with the same code.
    let put = |extra: &[u8]| {
        fs::write(&next, [&fs::read(closing_plugin()).unwrap(), extra].concat()).unwrap();
        fs::rename(&next, &library).unwrap();
    };
    let load = |choice: Option<IfReplaced>| {
        let registry = registry("replaced-registry");
        let entry = register_library(&registry, &library, None).unwrap();
        match choice {
            None => entry.load(),
            Some(choice) => entry.load_with(&PluginLoadOptions::new().if_replaced(choice)),
        }
    };
    let runs = |loaded: &LoadedPlugin| drop(loaded.client(&ClientOptions::new()).unwrap());
    put(b"");
    let first = load(None).unwrap();
    put(b"");
    assert_eq!(load(None).unwrap().plugin(), first.plugin(), "the same contents in another file");
    put(b"new");
    let error = load(None).unwrap_err();
    assert!(matches!(&error, Error::Replaced { change: FileChange::Replaced, .. }), "{error}");
    assert_eq!(load(Some(IfReplaced::KeepLoaded)).unwrap().plugin(), first.plugin());
    let second = load(Some(IfReplaced::LoadBeside)).unwrap();
    assert_ne!(second.plugin(), first.plugin());
    runs(&first);
    runs(&second);
    assert_eq!(load(None).unwrap().plugin(), second.plugin(), "the newest library serves who comes later");
    put(b"newer");
    assert!(matches!(load(None).unwrap_err(), Error::Replaced { .. }));
    let third = load(Some(IfReplaced::LoadBeside)).unwrap();
    assert_ne!(third.plugin(), second.plugin());
    runs(&third);
    std::io::Write::write_all(&mut fs::File::options().append(true).open(&library).unwrap(), b"!").unwrap();
    let error = load(Some(IfReplaced::LoadBeside)).unwrap_err();
    assert!(matches!(&error, Error::Replaced { change: FileChange::Overwritten, .. }), "{error}");
}

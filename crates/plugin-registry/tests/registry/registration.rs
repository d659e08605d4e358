//! Tests that a plugin is registered only once, and that the ids of removed plugins stay stale.

use std::fs;

use device_plugin::{Library, Manifest};
use pjrt::ClientOptions;
use plugin_registry::discovery::Refusal;
use plugin_registry::{Error, PluginId, PluginRegistry, Policy, Status};

use crate::fakes::{closing_plugin, described, fake, folder, of_file, register_library, registry};

fake! {
    Once "once" {}
    Other "other" {}
    Brief "brief" {}
    Back "back" {}
    Newcomer "newcomer" {}
}

#[test]
fn registering_twice_changes_nothing() {
    let registry = registry("idempotent");
    let first = registry.register::<Once>().unwrap();
    let again = registry.register::<Once>().unwrap();
    assert_eq!(first.id(), again.id());
    registry.register::<Other>().unwrap();
    assert_eq!(registry.entries().len(), 2);

    let library = closing_plugin();
    let by_path = register_library(&registry, &library, None).unwrap();
    #[cfg(unix)]
    {
        let link = folder("idempotent-link").join("another_name.so");
        std::os::unix::fs::symlink(&library, &link).unwrap();
        assert_eq!(register_library(&registry, &link, None).unwrap().id(), by_path.id());
    }
    assert_eq!(by_path.status(), Status::Available);
    assert!(by_path.candidate().facts.as_ref().unwrap().exports.get_pjrt_api);

    // Registering the same function table under another name is an error. So is registering another plugin under the
    // same name.
    let error = registry.register_descriptor(described::<Once>(|m| m.name = "twice".to_owned())).unwrap_err();
    assert!(matches!(&error, Error::DescribedOtherwise { name, .. } if name == "once"), "{error}");
    let error = registry.register_descriptor(of_file("once", |_| {})).unwrap_err();
    assert!(matches!(&error, Error::NameTaken { name, .. } if name == "once"), "{error}");
}

#[test]
fn opened_files_join_global_registry() {
    let library = folder("opened").join("libopened.so");
    fs::copy(closing_plugin(), &library).unwrap();
    // SAFETY: R1 (the library is trusted): it is a library of these tests.
    let open = || unsafe { plugin_registry::open_path(&library) }.unwrap();
    let opened = open();
    let global = PluginRegistry::global();
    assert!(opened.entry().registry().is(global));
    assert_eq!(open().entry().id(), opened.entry().id());
    // Listing the entries runs a search, which must not change the entry.
    assert!(global.entries().iter().any(|entry| entry.id() == opened.entry().id()));
    assert_eq!(open().plugin(), opened.plugin());
}

#[test]
fn files_tell_what_they_are() {
    let registry = registry("files");
    let folder = folder("files-of-it");
    let text = folder.join("libtext.so");
    fs::write(&text, "no library").unwrap();
    let entry = register_library(&registry, &text, None).unwrap();
    assert_eq!(entry.status(), Status::Refused);
    let error = entry.load().unwrap_err();
    let Error::Refused { name, refusals } = &error else { panic!("{error}") };
    assert!(name == "libtext" && matches!(refusals[..], [Refusal::NotALibrary { .. }]), "{error}");
}

#[test]
fn reads_manifest_beside_library() {
    let registry = registry("beside");
    let folder = folder("beside-of-it");
    let library = folder.join("libbeside.so");
    fs::copy(closing_plugin(), &library).unwrap();
    let mut manifest = Manifest::new("beside");
    manifest.library.push(device_plugin::manifest::LibraryFile::new("libbeside.so"));
    fs::write(folder.join("pjrt_plugin.json"), manifest.to_json()).unwrap();
    let entry = register_library(&registry, &library, None).unwrap();
    assert_eq!(entry.name(), "beside");
    fs::write(folder.join("pjrt_plugin.json"), "{}").unwrap();
    let other = register_library(&registry, folder.join("libother.so"), None).unwrap_err();
    let Error::Description { faults, .. } = &other else { panic!("{other}") };
    assert!(faults.all().iter().any(|fault| fault.message.contains("format_version")), "{other}");
}

#[test]
fn stale_handles_are_errors() {
    let registry = registry("stale");
    let entry = registry.register::<Brief>().unwrap();
    let loaded = entry.load().unwrap();
    let client = loaded.client(&ClientOptions::new()).unwrap();

    let disabled = registry.disable(entry.id(), "maintenance").unwrap();
    let stale = |error: Error| assert!(matches!(&error, Error::Stale { name, .. } if name == "brief"), "{error}");
    stale(entry.load().unwrap_err());
    stale(loaded.client(&ClientOptions::new()).unwrap_err());
    stale(registry.disable(entry.id(), "").unwrap_err());
    assert_eq!(entry.status(), Status::Stale);
    assert_eq!(registry.get(disabled).unwrap().status(), Status::Disabled("maintenance".to_owned()));
    let error = registry.get(disabled).unwrap().load().unwrap_err();
    assert!(matches!(&error, Error::Disabled { reason, .. } if reason == "maintenance"), "{error}");
    assert!(registry.select(&Policy::named("brief")).is_err());
    // Existing clients remain usable.
    assert_eq!(client.devices().unwrap().len(), 1);

    let enabled = registry.enable(disabled).unwrap();
    let again = enabled.load().unwrap();
    assert_eq!(again.plugin(), loaded.plugin());
    stale(registry.enable(disabled).unwrap_err());

    let replaced = registry.replace(enabled.id(), described::<Back>(|_| {})).unwrap();
    assert_eq!((replaced.name(), replaced.id().index()), ("back", entry.id().index()));
    stale(again.client(&ClientOptions::new()).unwrap_err());

    registry.remove(replaced.id()).unwrap();
    assert!(registry.entries().is_empty());
    assert!(matches!(replaced.load().unwrap_err(), Error::Stale { .. }));
    assert!(matches!(registry.get(PluginId::new(77, 0)).unwrap_err(), Error::Unknown { .. }));
    // Another plugin may use the row of a removed plugin. The old ids stay stale.
    let next = registry.register::<Back>().unwrap();
    assert_ne!(next.id(), replaced.id());
    assert!(replaced.load().is_err());

    // A plugin that was disabled and removed does not affect the plugin that takes its row.
    let disabled = registry.disable(next.id(), "maintenance").unwrap();
    registry.remove(disabled).unwrap();
    let newcomer = registry.register::<Newcomer>().unwrap();
    assert_eq!(newcomer.id().index(), next.id().index());
    assert_eq!(newcomer.status(), Status::Available);
    newcomer.load().unwrap();
}

#[test]
fn libraries_that_cannot_be_are_named() {
    let registry = registry("impossible");
    let missing = registry.register_descriptor(of_file("searched", |_| {})).unwrap();
    let error = missing.load().unwrap_err();
    let Error::Refused { name, refusals } = &error else { panic!("{error}") };
    let library = "libsearched_which_no_loader_finds.so";
    assert!(matches!(&refusals[..], [Refusal::NotInLibrarySearch { name }] if name == library), "{error}");
    assert_eq!(name, "searched");
    // SAFETY: R1 (the library is trusted): the function returns no path.
    let computed = unsafe { Library::computed(|| Err(device_plugin::Error::internal("SDK_HOME is not set"))) };
    let computed = device_plugin::Descriptor::new(Manifest::new("computed"), computed, std::sync::Arc::new(()));
    let error = registry.register_descriptor(computed.unwrap()).unwrap().load().unwrap_err();
    let Error::Path { name, error } = &error else { panic!("{error}") };
    assert_eq!((&**name, error.message()), ("computed", "SDK_HOME is not set"));
}

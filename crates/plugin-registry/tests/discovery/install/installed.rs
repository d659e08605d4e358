//! The folders of installed plugins: what discovery finds there, and what is removed.

use std::fs;

use plugin_registry::discovery::{Discovery, InstallRecord, SourceKind};
use plugin_registry::install::InstallError;

use super::index_server::IndexServer;
use super::wheels::{Here, Wheel, elf};
use crate::common::{line, list, named};

#[test]
fn discovery_finds_it() {
    let wheel = Wheel::plugin("1.5")
        .file("acme_pjrt-1.5.dist-info/entry_points.txt", "[jax_plugins]\nacme = jax_plugins.acme\n");
    let server = IndexServer::start(&[wheel]);
    let here = Here::new("found", &server.url());
    let installed = here.install("acme-pjrt").unwrap();
    assert!(!installed.unchanged && installed.missing.is_empty());
    let found = here.discovery().discover();
    let candidate = named(&found, "acme-pjrt");
    assert!(candidate.is_usable() && candidate.is_named("acme"), "{candidate}");
    assert_eq!(candidate.provenance.source, SourceKind::Installed);
    assert_eq!(candidate.location.path(), Some(installed.library().as_path()));
    let place = here.machine.relative(&candidate.provenance);
    assert_eq!(place, "installed: acme-pjrt 1.5 in ROOT/home/.local/share/pjrt/installed/acme-pjrt");
    // A process with elevated privileges does not use the user's plugins.
    assert!(here.discovery().elevated(true).candidates().is_empty());
    // Nothing was compiled or run, and the files have no right to run.
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let mode = fs::metadata(installed.library()).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o644);
    }
}

#[test]
fn folders_of_all_users() {
    let server = IndexServer::start(&[Wheel::plugin("1")]);
    let mut here = Here::new("all-users", &server.url());
    here.settings = here.settings.folder(here.machine.path("usr/local/share/pjrt/installed"));
    here.install("acme-pjrt").unwrap();
    assert_eq!(here.discovery().candidates().len(), 1);
    // The variable replaces the user's folder.
    here.settings = here.settings.folder(here.machine.path("elsewhere"));
    here.install("acme-pjrt").unwrap();
    assert_eq!(here.discovery().candidates().len(), 1);
    let with: Discovery = here.discovery().variable("PJRT_REGISTRY_INSTALL_DIR", here.machine.path("elsewhere"));
    assert_eq!(with.candidates().len(), 2);
}

#[test]
fn manifest_in_the_metadata() {
    let manifest = r#"{"format_version": "1.1", "name": "acme", "priority": 7,
        "library": [{"path": "../acme/acme.so", "os": "linux"}]}"#;
    let server = IndexServer::start(&[Wheel::plugin("1").file("acme_pjrt-1.dist-info/pjrt_plugin.json", manifest)]);
    let here = Here::new("manifest", &server.url());
    for unchanged in [false, true] {
        let installed = here.install("acme-pjrt").unwrap();
        assert_eq!((installed.library().extension().unwrap().to_str(), installed.unchanged), (Some("so"), unchanged));
    }
    let found = here.discovery().discover();
    let candidate = &found.candidates[0];
    assert!(candidate.is_usable() && candidate.is_named("acme") && candidate.is_named("acme-pjrt"), "{candidate}");
    assert_eq!(candidate.priority, Some(7));
    // A process with elevated privileges reads no manifest that others can change.
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let mut shared = here;
        shared.settings = shared.settings.folder(shared.machine.path("usr/local/share/pjrt/installed"));
        let installed = shared.install("acme-pjrt").unwrap();
        let manifest = installed.folder.join(installed.record.manifest.unwrap());
        fs::set_permissions(&manifest, fs::Permissions::from_mode(0o666)).unwrap();
        let found = shared.discovery().elevated(true).discover();
        assert_eq!(found.candidates[0].refusals[0].kind(), "insecure", "{}", found.candidates[0]);
    }
}

#[test]
fn libraries_are_where_the_loader_looks() {
    let plugin = elf()
        .exporting()
        .runpath("/bazel/lib:$ORIGIN/../../../../solib/_a:$ORIGIN/../../../..:$ORIGIN/../../../../solib/_b:$ORIGIN/x");
    let plugin = plugin.needing(&["libdata.so", "libone.so", "libtwo.so", "libnowhere.so"]);
    let server = IndexServer::start(&[
        Wheel::new("acme-pjrt", "1").library("jax_plugins/acme/acme.so", &plugin).requires("libs").requires("data"),
        Wheel::new("libs", "1")
            .library("vendor/one/lib/libone.so", &elf().runpath("$ORIGIN/../../base").needing(&["libbase.so"]))
            .library("vendor/two/libtwo.so", &elf())
            .library("vendor/base/libbase.so", &elf()),
        Wheel::new("data", "1").library("data-1.data/data/lib/libdata.so", &elf()),
    ]);
    let here = Here::new("loader", &server.url());
    let installed = here.install("acme-pjrt").unwrap();
    let missing: Vec<_> = installed.missing.iter().map(|missing| missing.name.as_str()).collect();
    if cfg!(unix) {
        assert_eq!(missing, ["libnowhere.so"]);
        let link = fs::read_link(installed.folder.join("lib/solib/_a")).unwrap();
        assert_eq!(link.to_str(), Some("../python3/site-packages/vendor/one/lib"));
    }
    let found = here.discovery().discover();
    assert_eq!(found.candidates[0].refusals[0].kind(), "dependencies");
    // The same in a folder whose path has `..`, and if nothing changes.
    let mut elsewhere = here;
    elsewhere.settings = elsewhere.settings.folder(elsewhere.machine.path("home/../plugins"));
    for _ in 0..2 {
        assert_eq!(elsewhere.install("acme-pjrt").unwrap().missing.len(), installed.missing.len());
    }
}

#[test]
fn another_version_replaces_it() {
    let server = IndexServer::start(&[Wheel::plugin("1").file("acme/old", ""), Wheel::plugin("2")]);
    let here = Here::new("replace", &server.url());
    let first = here.install("acme-pjrt==1").unwrap();
    assert!(first.folder.join("lib/python3/site-packages/acme/old").exists());
    assert!(here.install("acme-pjrt==1").unwrap().unchanged);
    let second = here.install("acme-pjrt").unwrap();
    assert_eq!((second.folder.clone(), second.record.version.as_str(), second.unchanged), (first.folder, "2", false));
    assert!(!second.folder.join("lib/python3/site-packages/acme/old").exists());
    // A failed installation keeps the installed version.
    let bad = IndexServer::start(&[Wheel::new("acme-pjrt", "3").file("acme/a.py", "")]);
    let settings = here.settings.clone().index(&bad.url()).unwrap();
    let other = Here { machine: crate::common::Machine::new("install-replace-bad"), settings };
    assert!(matches!(other.install("acme-pjrt"), Err(InstallError::NotAPlugin { .. })));
    assert_eq!(here.installer().installed()[0].version, "2");
    assert_eq!(here.left(), ["acme-pjrt"]);
}

#[test]
fn uninstall_removes_one_plugin() {
    let other = Wheel::new("other-pjrt", "1").library("other.so", &elf().exporting());
    let server = IndexServer::start(&[Wheel::plugin("1"), other]);
    let here = Here::new("uninstall", &server.url());
    here.install("acme-pjrt").unwrap();
    here.install("other-pjrt").unwrap();
    let names = || here.installer().installed().into_iter().map(|record| record.name).collect::<Vec<_>>();
    assert_eq!(names(), ["acme-pjrt", "other-pjrt"]);
    for name in ["acme", "../acme-pjrt", ".", "", "acme-pjrt/lib"] {
        let error = here.installer().uninstall(name, &mut |_| {}).unwrap_err();
        assert!(matches!(error, InstallError::NotInstalled { ref installed, .. } if installed.len() == 2), "{error}");
    }
    assert_eq!(here.installer().uninstall("Acme.PJRT", &mut |_| {}).unwrap().version, "1");
    assert_eq!((names(), here.left()), (vec!["other-pjrt".to_owned()], vec!["other-pjrt".to_owned()]));
}

#[test]
fn dry_run_changes_nothing() {
    let server =
        IndexServer::start(&[Wheel::plugin("1").requires("libs"), Wheel::new("libs", "1").library("l.so", &elf())]);
    let here = Here::new("dry-run", &server.url());
    assert_eq!(here.files("acme-pjrt").len(), 2);
    assert!(!here.folder().exists() && server.downloads().is_empty());
}

#[test]
fn interrupted_installations_are_removed() {
    let server = IndexServer::start(&[Wheel::plugin("1")]);
    let here = Here::new("interrupted", &server.url());
    for name in [".new-acme-pjrt/lib", ".old-other", ".new-other"] {
        fs::create_dir_all(here.folder().join(name)).unwrap();
    }
    assert!(here.discovery().candidates().is_empty() && here.installer().installed().is_empty());
    here.install("acme-pjrt").unwrap();
    assert_eq!(here.left(), ["acme-pjrt"]);
    // The earlier version returns if its replacement was interrupted.
    fs::rename(here.folder().join("acme-pjrt"), here.folder().join(".old-acme-pjrt")).unwrap();
    fs::create_dir(here.folder().join(".new-acme-pjrt")).unwrap();
    assert!(here.installer().uninstall("other", &mut |_| {}).is_err());
    assert_eq!((here.left(), here.installer().installed().len()), (vec!["acme-pjrt".to_owned()], 1));
    // A plugin with a damaged record can be installed again.
    fs::write(here.folder().join("acme-pjrt").join(InstallRecord::FILE_NAME), "{").unwrap();
    assert!(!here.install("acme-pjrt").unwrap().unchanged);
}

#[test]
fn folders_of_others_stay() {
    let server = IndexServer::start(&[Wheel::plugin("1")]);
    let here = Here::new("others", &server.url());
    fs::create_dir_all(here.folder().join("acme-pjrt/mine")).unwrap();
    assert!(matches!(here.install("acme-pjrt"), Err(InstallError::Foreign { .. })));
    assert!(here.folder().join("acme-pjrt/mine").exists());
    assert_eq!(list(&here.machine, &here.discovery().discover()), ["acme-pjrt - !missing"]);
}

#[test]
fn bad_records() {
    let here = Here::new("records", "http://127.0.0.1:9");
    let good = r#"{"format_version": 1, "name": "acme", "package": "a", "version": "1", "library": "lib/a.so"}"#;
    let write = |text: &str| {
        let folder = here.folder().join("acme");
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join(InstallRecord::FILE_NAME), text).unwrap();
        let found = here.discovery().discover();
        assert_eq!(found.candidates.len(), 1);
        line(&here.machine, &found.candidates[0])
    };
    assert_eq!(write(good), "acme home/.local/share/pjrt/installed/acme/lib/a.so !missing");
    for (from, to) in
        [("1,", "2,"), ("lib/a.so", "../a.so"), ("lib/a.so", "/a.so"), ("\"acme\"", "7"), ("{", ""), ("\"a\"", "\"\"")]
    {
        assert_eq!(write(&good.replacen(from, to, 1)), "acme - !manifest", "{to}");
    }
    assert_eq!(write(&good.replacen('}', r#", "manifest": "../a.json"}"#, 1)), "acme - !manifest");
    let refusal = InstallRecord::read(&here.folder().join("acme")).unwrap_err().to_string();
    assert!(refusal.ends_with("manifest: not a path below the plugin's folder: install the plugin again"), "{refusal}");
}

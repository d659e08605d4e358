//! Tests manifests in directories, and the variables that replace, add, select and disable plugins. Also tests elevated
//! privileges.

use crate::common::{Elf, Machine, list, named, names_and_paths};
use expect_test::expect;
use plugin_registry::discovery::{Candidate, Discovery, Refusal, SourceKind, verify_sha256};

fn manifest(name: &str, rest: &str) -> String {
    format!(r#"{{"format_version": "1.0", "name": "{name}"{rest}}}"#)
}

fn library(path: &str) -> String {
    // JSON escapes the backslashes of Windows paths in the same way as Rust.
    format!(r#", "library": {{"path": {path:?}}}"#)
}

fn discovery(machine: &Machine) -> Discovery {
    machine.discovery().python(false).conventional(false)
}

#[test]
fn directories_in_order() {
    let machine = Machine::new("man-order");
    let places = [
        ("home/.config", "c1"),
        ("etc/xdg", "c2"),
        ("etc", "c3"),
        ("home/.local/share", "d1"),
        ("usr/local/share", "d2"),
        ("usr/share", "d3"),
    ];
    for (place, name) in places {
        let plugin = machine.plugin(&format!("lib/{name}.so"));
        // Write the files in reverse order of their names.
        machine.file(&format!("{place}/pjrt/plugins.d/z.json"), "{}");
        machine.file(&format!("{place}/pjrt/plugins.d/a.json"), manifest(name, &library(plugin.to_str().unwrap())));
        machine.file(&format!("{place}/pjrt/plugins.d/readme.txt"), "not a manifest");
    }
    let found = discovery(&machine).discover();
    let good: Vec<&str> = found.candidates.iter().filter(|c| c.is_usable()).filter_map(Candidate::name).collect();
    assert_eq!(good, ["c1", "c2", "c3", "d1", "d2", "d3"]);
    assert_eq!(found.candidates.len(), 12, "each z.json is a refused candidate");
    assert_eq!(found.searched.iter().filter(|place| place.source == SourceKind::Manifest && place.exists).count(), 6);

    // The `XDG_*` variables replace the default folders. Relative paths are ignored.
    machine.plugin("x/l.so");
    machine.file("x/pjrt/plugins.d/x.json", manifest("x", &library("../../l.so")));
    let found = discovery(&machine)
        .variable("XDG_CONFIG_HOME", machine.path("x"))
        .variable("XDG_CONFIG_DIRS", "relative")
        .variable("XDG_DATA_HOME", "relative")
        .variable("XDG_DATA_DIRS", machine.path("none"))
        .discover();
    let good: Vec<&str> = found.candidates.iter().filter(|c| c.is_usable()).filter_map(Candidate::name).collect();
    assert_eq!(good, ["x", "c2", "c3", "d1"]);

    // A program's own data folder comes before those of the machine.
    machine.plugin("own/l.so");
    machine.file("own/pjrt/plugins.d/own.json", manifest("own", &library("../../l.so")));
    let found = discovery(&machine).data_folder(machine.path("own")).discover();
    let good: Vec<&str> = found.candidates.iter().filter(|c| c.is_usable()).filter_map(Candidate::name).collect();
    assert_eq!(good, ["c1", "c2", "c3", "d1", "own", "d2", "d3"]);
}

#[test]
fn library_location_of_manifest() {
    let machine = Machine::new("man-library");
    machine.plugin("etc/pjrt/plugins.d/beside.so");
    machine.plugin("etc/pjrt/lib/below.so");
    machine.plugin("usr/lib/libsearched.so");
    let absolute = machine.plugin("opt/absolute.so");
    let write = |name: &str, rest: String| {
        machine.file(&format!("etc/pjrt/plugins.d/{name}.json"), manifest(name, &rest));
    };
    write("a", library("beside.so"));
    write("b", library("../lib/below.so"));
    write("c", library("libsearched.so"));
    write("d", library(absolute.to_str().unwrap()));
    write("e", library("libnowhere.so"));
    write("f", library("./ghost.so"));
    write("g", String::new());
    let other = if cfg!(windows) { "linux" } else { "windows" };
    write("h", format!(r#", "library": [{{"path": "x.dll", "os": "{other}"}}, {{"path": "x.so", "arch": "vax"}}]"#));
    let here = format!(
        r#", "library": [{{"path": "x.dll", "os": "plan9"}}, {{"path": "beside.so", "os": "{}", "arch": "{}"}}]"#,
        std::env::consts::OS,
        std::env::consts::ARCH
    );
    write("i", here);
    let found = discovery(&machine).discover();
    let lines: Vec<String> =
        list(&machine, &found).iter().map(|line| line.replace("etc/pjrt/plugins.d", "P")).collect();
    let expected = [
        // `i.json` names the same file as `a.json`, so both manifests become one candidate.
        "a P/beside.so",
        // On Windows, `std::path::absolute` removes `..` and ignores links.
        if cfg!(windows) { "b etc/pjrt/lib/below.so" } else { "b P/../lib/below.so" },
        "c usr/lib/libsearched.so",
        "d opt/absolute.so",
        "e - !missing",
        "f P/ghost.so !missing",
        "g - !manifest",
        "h - !no library",
    ];
    let normal: Vec<String> = lines.iter().map(|line| line.replace("P/./", "P/")).collect();
    assert_eq!(normal, expected);
    assert!(found.candidates[0].is_named("i"));
    assert_eq!(found.candidates[0].provenances().count(), 2);
}

#[test]
fn malformed_manifests_name_path_and_field() {
    let machine = Machine::new("man-bad");
    for (name, content) in [
        ("empty", String::new()),
        ("list", "[]".to_owned()),
        ("name", manifest("Bad-Name", &library("x.so"))),
        ("major", r#"{"format_version": "9.0", "name": "x"}"#.to_owned()),
        ("typo", manifest("typo", r#", "libary": {"path": "x.so"}"#)),
    ] {
        machine.file(&format!("etc/pjrt/plugins.d/{name}.json"), content);
    }
    machine.file("etc/pjrt/plugins.d/utf8.json", [0xff, 0xfe]);
    machine.plugin("etc/pjrt/plugins.d/good.so");
    machine.file("etc/pjrt/plugins.d/zgood.json", manifest("good", &library("good.so")));
    let found = discovery(&machine).discover();
    for name in ["empty", "list", "name", "major", "typo", "utf8"] {
        let candidate = named(&found, name);
        assert!(!candidate.refusals.is_empty(), "{name}");
        for refusal in &candidate.refusals {
            let Refusal::MalformedManifest { path, .. } = refusal else { panic!("{refusal:?}") };
            assert!(path.ends_with(format!("plugins.d/{name}.json")));
        }
    }
    let field = |name: &str| match &named(&found, name).refusals[0] {
        Refusal::MalformedManifest { field, .. } => field.clone(),
        other => panic!("{other}"),
    };
    assert_eq!(
        (field("name").as_str(), field("major").as_str(), field("typo").as_str()),
        ("name", "format_version", "libary")
    );
    assert!(named(&found, "good").is_usable());
}

#[test]
fn beside_library_found_otherwise() {
    let machine = Machine::new("man-beside");
    let found = |content: &str| {
        machine.plugin("p/libone.so");
        machine.plugin("p/libtwo.so");
        machine.file("p/pjrt_plugin.json", content);
        let value = names_and_paths(&[("one", &machine.path("p/libone.so")), ("two", &machine.path("p/libtwo.so"))]);
        discovery(&machine).variable("PJRT_NAMES_AND_LIBRARY_PATHS", value).discover()
    };
    let good = found(&manifest("acme", &library("libone.so")));
    assert!(named(&good, "one").is_named("acme") && named(&good, "one").manifest.is_some());
    assert!(named(&good, "two").manifest.is_none() && named(&good, "two").is_usable());
    let broken = found("{");
    assert!(matches!(named(&broken, "one").refusals[..], [Refusal::MalformedManifest { .. }]));
}

#[test]
fn override_and_add() {
    let machine = Machine::new("man-override");
    for name in ["system", "a", "b", "added", "env"] {
        machine.plugin(&format!("lib/{name}.so"));
    }
    let write =
        |file: &str, name: &str| machine.file(file, manifest(name, &library(&machine.text(&format!("lib/{name}.so")))));
    write("etc/pjrt/plugins.d/system.json", "system");
    write("dir/2.json", "b");
    write("dir/1.json", "a");
    let added = write("added.json", "added");
    let names = |discovery: &Discovery| -> Vec<String> {
        discovery.candidates().iter().map(|c| format!("{} {}", c.provenance.source, c.name().unwrap())).collect()
    };
    let environment = names_and_paths(&[("env", &machine.path("lib/env.so"))]);
    let plain = discovery(&machine).variable("PJRT_NAMES_AND_LIBRARY_PATHS", environment);
    assert_eq!(names(&plain), ["environment env", "manifest system"]);
    let with_added = plain.clone().variable("PJRT_REGISTRY_ADD_MANIFESTS", &added);
    assert_eq!(names(&with_added), ["added manifest added", "environment env", "manifest system"]);
    let value = std::env::join_paths([machine.path("dir"), machine.path("none.json")]).unwrap();
    let overridden = with_added.variable("PJRT_REGISTRY_MANIFESTS", value);
    let found = overridden.discover();
    expect!["is set, so its manifests are the only source that was searched"]
        .assert_eq(&machine.relative(&found.notes[0].message));
    let lines = list(&machine, &found);
    assert_eq!(lines, ["a lib/a.so", "b lib/b.so", "? - !missing"]);
}

#[test]
fn select_and_disable() {
    let machine = Machine::new("man-filter");
    for name in ["cuda", "rocm", "cpu"] {
        machine.plugin(&format!("lib/{name}.so"));
        let rest = format!(
            r#"{}, "aliases": ["{}"]"#,
            library(&machine.text(&format!("lib/{name}.so"))),
            if name == "cpu" { "host" } else { "gpu" }
        );
        machine.file(&format!("etc/pjrt/plugins.d/file-{name}.json"), manifest(name, &rest));
    }
    let usable = |select: &str, disable: &str| -> Vec<String> {
        let found = discovery(&machine)
            .variable("PJRT_REGISTRY_SELECT", select)
            .variable("PJRT_REGISTRY_DISABLE", disable)
            .discover();
        assert_eq!(found.candidates.len(), 3, "filtered candidates stay in the list");
        found.candidates.iter().filter(|c| c.is_usable()).map(|c| c.name().unwrap().to_owned()).collect()
    };
    for (select, disable, expected) in [
        ("", "", &["cpu", "cuda", "rocm"][..]),
        ("cu*", "", &["cuda"]),
        ("CUDA, c?u", "", &["cpu", "cuda"]),
        ("gpu", "", &["cuda", "rocm"]),
        ("file-rocm.json", "", &["rocm"]),
        ("nothing", "", &[]),
        ("", "cuda", &["cpu", "rocm"]),
        ("", "*.json", &[]),
        ("", "~all~", &[]),
        ("rocm", "~ALL~", &["rocm"]),
        ("*", "gpu", &["cpu"]),
    ] {
        assert_eq!(usable(select, disable), expected, "select {select:?}, disable {disable:?}");
    }
    let found = discovery(&machine).variable("PJRT_REGISTRY_DISABLE", "ro*").discover();
    let by = |variable: &str, pattern: &str| {
        [Refusal::Disabled { variable: variable.to_owned(), pattern: pattern.to_owned() }]
    };
    assert_eq!(named(&found, "rocm").refusals, by("PJRT_REGISTRY_DISABLE", "ro*"));
    let found = discovery(&machine).variable("PJRT_REGISTRY_SELECT", "cpu").discover();
    assert_eq!(named(&found, "rocm").refusals, by("PJRT_REGISTRY_SELECT", ""));

    machine.file(
        "etc/pjrt/plugins.d/file-cpu.json",
        manifest("cpu", &format!(r#"{}, "disable_env": "NO_CPU""#, library(&machine.text("lib/cpu.so")))),
    );
    for (value, usable) in [("0", true), ("", true), ("1", false)] {
        let found = discovery(&machine).variable("NO_CPU", value).discover();
        assert_eq!(named(&found, "cpu").is_usable(), usable, "{value:?}");
    }
}

#[test]
fn hashes_and_the_allow_list() {
    let machine = Machine::new("man-hash");
    let (good, other) = (machine.plugin("good.so"), machine.library("other.so", &Elf::plugin().needing(&[])));
    std::fs::write(&other, [std::fs::read(&other).unwrap(), vec![0]].concat()).unwrap();
    let wrong = "0".repeat(64);
    let actual = match verify_sha256(&good, &wrong) {
        Err(Refusal::Sha256Mismatch { actual, expected, .. }) if expected == wrong => actual,
        other => panic!("{other:?}"),
    };
    assert_eq!(actual.len(), 64);
    assert_eq!(verify_sha256(&good, &actual.to_uppercase()), Ok(()));
    assert!(matches!(verify_sha256(&machine.path("none"), &actual), Err(Refusal::Unreadable { .. })));

    for (hash, fits) in [(&actual, true), (&wrong, false)] {
        let rest = format!(r#", "library": {{"path": "../../../good.so", "sha256": "{hash}"}}"#);
        machine.file("etc/pjrt/plugins.d/good.json", manifest("good", &rest));
        assert!(discovery(&machine).candidates()[0].is_usable(), "off by default");
        let found = discovery(&machine).verify_sha256(true).discover();
        assert_eq!(found.candidates[0].is_usable(), fits);
        assert_eq!(
            found.candidates[0].expected_sha256(plugin_registry::discovery::Target::host()).as_ref(),
            Some(hash)
        );
    }

    machine.file("etc/pjrt/plugins.d/good.json", manifest("good", &library("../../../good.so")));
    machine.file("etc/pjrt/plugins.d/other.json", manifest("other", &library("../../../other.so")));
    let list = machine.file("allow", format!("# trusted\n\n{actual}  good.so\n"));
    let found = discovery(&machine).variable("PJRT_REGISTRY_ALLOWLIST", &list).discover();
    assert!(named(&found, "good").is_usable());
    let refusal = &named(&found, "other").refusals[0];
    assert!(matches!(refusal, Refusal::NotAllowed { list: used, .. } if *used == list), "{refusal}");
    // If the allow-list is invalid or cannot be read, no library may be used.
    for bad in [machine.file("bad", "xyz good.so\n"), machine.path("nolist")] {
        let found = discovery(&machine).variable("PJRT_REGISTRY_ALLOWLIST", &bad).discover();
        assert!(found.candidates.iter().all(|candidate| !candidate.is_usable()), "{}", bad.display());
    }
    let found = discovery(&machine).variable("PJRT_REGISTRY_ALLOWLIST", machine.path("bad")).discover();
    let refusal = &found.candidates[0].refusals[0];
    assert!(matches!(refusal, Refusal::MalformedManifest { field, .. } if field == "line 1"), "{refusal}");
    // `/etc/pjrt/plugins.allow` is the allow-list of the machine.
    machine.file("etc/pjrt/plugins.allow", format!("{actual}\n"));
    let found = discovery(&machine).discover();
    assert!(named(&found, "good").is_usable() && !named(&found, "other").is_usable());
}

#[test]
fn elevated_privileges_trust_only_machine_folders() {
    let machine = Machine::new("man-secure");
    let plugin = machine.plugin("lib/p.so").display().to_string();
    let write = |file: &str, name: &str| machine.file(file, manifest(name, &library(&plugin)));
    let user = write("home/.config/pjrt/plugins.d/user.json", "user");
    write("etc/pjrt/plugins.d/system.json", "system");
    machine.plugin("home/.local/lib/gomlx/pjrt/pjrt_plugin_home.so");
    machine.plugin("ld/pjrt_plugin_ld.so");
    machine.file("site/jax_plugins/m/__init__.py", "");
    machine.plugin("site/jax_plugins/m/m.so");
    machine.file("venv/lib/python3.12/site-packages/jax_plugins/v/__init__.py", "");
    machine.plugin("venv/lib/python3.12/site-packages/jax_plugins/v/v.so");
    let allow = machine.file("allow", "");
    let variables = [
        ("PJRT_REGISTRY_MANIFESTS", user.display().to_string()),
        ("PJRT_REGISTRY_ADD_MANIFESTS", user.display().to_string()),
        ("PJRT_REGISTRY_ALLOWLIST", allow.display().to_string()),
        ("PJRT_NAMES_AND_LIBRARY_PATHS", names_and_paths(&[("x", plugin.as_ref())])),
        ("TPU_LIBRARY_PATH", plugin.clone()),
        ("TF_PLUGGABLE_DEVICE_LIBRARY_PATH", plugin.clone()),
    ];
    let quiet = [
        ("XDG_CONFIG_HOME", machine.text("home/.config")),
        ("XDG_CONFIG_DIRS", machine.text("home/.config")),
        ("LD_LIBRARY_PATH", machine.text("ld")),
        ("PYTHONPATH", machine.text("site")),
        ("VIRTUAL_ENV", machine.text("venv")),
        ("PATH", machine.text("bin")),
    ];
    let elevated = machine.discovery().environment(variables.iter().chain(&quiet).cloned()).elevated(true);
    assert!(elevated.is_elevated());
    let found = elevated.discover();
    assert_eq!(
        found.candidates.iter().map(|c| c.name().unwrap()).collect::<Vec<_>>(),
        ["system"],
        "{:#?}",
        found.candidates
    );
    for (variable, _) in &variables {
        let noted = found.notes.iter().any(|note| note.about == *variable && note.message.contains("elevated"));
        assert!(noted, "{variable}: {:?}", found.notes);
    }
    // `PJRT_REGISTRY_DISABLE` can only exclude plugins, so it applies with elevated privileges, too.
    let found = elevated.clone().variable("PJRT_REGISTRY_DISABLE", "*").discover();
    assert!(!found.candidates.iter().any(Candidate::is_usable));
}

/// Needs files and folders that only root can change. If the build's folders do not belong to root alone, checks only
/// that the manifest is refused.
#[cfg(unix)]
#[test]
fn elevated_privileges_reject_writable_files() {
    use std::os::unix::fs::{MetadataExt, PermissionsExt};
    let machine = Machine::new("man-insecure");
    let plugin = machine.plugin("lib/p.so");
    machine.file("etc/pjrt/plugins.d/p.json", manifest("p", &library(plugin.to_str().unwrap())));
    let refusal = || {
        let found = discovery(&machine).elevated(true).discover();
        found.candidates[0].refusals.first().cloned()
    };
    let owned = machine.root.ancestors().all(|folder| {
        let metadata = std::fs::metadata(folder).unwrap();
        metadata.uid() == 0 && (metadata.mode() & 0o022 == 0 || metadata.mode() & 0o1000 != 0)
    });
    if !owned {
        match refusal() {
            Some(Refusal::InsecureLocation { .. }) => {}
            other => panic!("{other:?}"),
        }
        println!("SKIPPED elevated_privileges_reject_writable_files: the build's folders do not belong to root alone");
        return;
    }
    assert_eq!(refusal(), None);
    for (path, mode) in
        [(plugin.clone(), 0o666), (machine.path("lib"), 0o777), (machine.path("etc/pjrt/plugins.d/p.json"), 0o664)]
    {
        let before = std::fs::metadata(&path).unwrap().permissions();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        match refusal() {
            Some(Refusal::InsecureLocation { path: told, .. }) => {
                assert_eq!(told, std::fs::canonicalize(&path).unwrap())
            }
            other => panic!("{}: {other:?}", path.display()),
        }
        // Without elevated privileges, the plugin is used. A note reports a file that every user can change.
        let found = discovery(&machine).discover();
        assert!(found.candidates[0].is_usable());
        match (&found.candidates[0].notes[..], mode) {
            ([note], 0o666) => {
                expect!["ROOT/lib/p.so can be changed by every user of the machine"].assert_eq(&machine.relative(note))
            }
            (notes, _) => assert_eq!((notes.len(), mode == 0o666), (0, false), "{notes:?}"),
        }
        std::fs::set_permissions(&path, before).unwrap();
    }
}

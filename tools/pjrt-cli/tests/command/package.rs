//! Tests `pjrt package` as a vendor uses it: the contents of a wheel, the correctness of its `RECORD`, and rejected
//! arguments.
#![allow(missing_docs, clippy::unwrap_used, reason = "a test")]

use std::collections::BTreeMap;
use std::fs;
use std::io::Read;

use crate::wheel_support::{Folder, PLUGIN, pjrt};
use base64::Engine;
use expect_test::expect_file;
use plugin_registry::discovery::{Discovery, Refusal};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

/// Messages for `messages/package.txt`. Strings that differ between machines are replaced.
struct Messages<'a> {
    folder: &'a Folder,
    text: String,
}

impl<'a> Messages<'a> {
    fn new(folder: &'a Folder) -> Self {
        Self { folder, text: String::new() }
    }

    fn add(&mut self, message: String) {
        let library = fs::read(self.folder.path("libexample.so")).unwrap();
        let digest: String = Sha256::digest(library).iter().map(|byte| format!("{byte:02x}")).collect();
        let folder = self.folder.path("").to_str().unwrap().trim_end_matches('/').to_owned();
        let message = message.replace(&folder, "<folder>").replace(&digest, "<sha256>");
        let target = format!("for {} on {}", std::env::consts::OS, std::env::consts::ARCH);
        self.text += &message.replace(&target, "for <target>");
    }
}

/// Returns the bytes and the permissions of each file in a wheel, by the file's name.
fn contents(wheel: &std::path::Path) -> BTreeMap<String, (Vec<u8>, u32)> {
    let mut archive = zip::ZipArchive::new(fs::File::open(wheel).unwrap()).unwrap();
    let mut files = BTreeMap::new();
    for index in 0..archive.len() {
        let mut file = archive.by_index(index).unwrap();
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).unwrap();
        let name = file.name().unwrap().into_owned();
        files.insert(name, (bytes, file.unix_mode().unwrap()));
    }
    files
}

#[test]
fn generated_files_are_not_replaced() {
    let folder = Folder::new("reserved");
    let library = folder.library("libexample.so", PLUGIN);
    for name in ["torch_xla.json", "Torch_XLA.json", "LIBEXAMPLE.so"] {
        folder.write(name, "{}");
        let include = folder.path(name);
        let args = ["--library", library.to_str().unwrap(), "--name", "example", "--version", "1"];
        let refused = folder.refused(&[&args[..], &["--include", include.to_str().unwrap()]].concat());
        assert!(refused.contains("in the wheel already"), "{refused}");
    }
}

#[test]
fn wheel_contents() {
    let folder = Folder::new("wheel");
    let library = folder.library("libexample.so", PLUGIN);
    folder.write("libmore.so.1", "data");
    let manifest = json!({
        "format_version": "1.0", "name": "example", "version": "1.2.0-rc.1", "vendor": "Acme\nand more",
        "description": "An example", "homepage": "https://example.org",
        "library": { "path": "elsewhere.dll", "os": "windows" },
        "capabilities": { "program_formats": ["mlir"], "dense_gather_factor": 64 },
    });
    folder.write("pjrt_plugin.json", &manifest.to_string());
    let include = folder.path("libmore.so.1");
    let wheel = folder.package(&["--library", library.to_str().unwrap(), "--include", include.to_str().unwrap()]);
    let name = wheel.file_name().unwrap().to_str().unwrap();
    assert!(name.starts_with("pjrt_plugin_example-1.2.0rc1-py3-none-"), "{name}");

    let files = contents(&wheel);
    let text = |name: &str| String::from_utf8(files[name].0.clone()).unwrap();
    let info = "pjrt_plugin_example-1.2.0rc1.dist-info";
    let expected = [
        "jax_plugins/example/__init__.py",
        "pjrt_plugin_example-1.2.0rc1.dist-info/METADATA",
        "pjrt_plugin_example-1.2.0rc1.dist-info/RECORD",
        "pjrt_plugin_example-1.2.0rc1.dist-info/WHEEL",
        "pjrt_plugin_example-1.2.0rc1.dist-info/entry_points.txt",
        "pjrt_plugin_example.pth",
        "pjrt_plugin_example/__init__.py",
        "pjrt_plugin_example/jax_callbacks.py",
        "pjrt_plugin_example/jax_export.py",
        "pjrt_plugin_example/jax_ffi.py",
        "pjrt_plugin_example/jax_lowerings.py",
        "pjrt_plugin_example/jax_plugin.py",
        "pjrt_plugin_example/libexample.so",
        "pjrt_plugin_example/libmore.so.1",
        "pjrt_plugin_example/options.py",
        "pjrt_plugin_example/pjrt_plugin.json",
        "pjrt_plugin_example/process.py",
        "pjrt_plugin_example/shutdown.py",
        "pjrt_plugin_example/torch_tpu_plugin.py",
        "pjrt_plugin_example/torch_xla.json",
        "pjrt_plugin_example/torch_xla_plugin.py",
        "pjrt_plugin_example/variants.py",
    ];
    assert_eq!(files.keys().map(String::as_str).collect::<Vec<_>>(), expected);

    assert_eq!(
        text(&format!("{info}/entry_points.txt")),
        "[jax_plugins]\nexample = jax_plugins.example\n\n\
         [torch_xla.plugins]\nexample = pjrt_plugin_example.torch_xla_plugin:Plugin\n\n\
         [torch.backends]\nexample = pjrt_plugin_example.torch_tpu_plugin:autoload\n\n"
    );
    assert!(
        text("pjrt_plugin_example.pth").starts_with("import os; os.environ.get(\"PJRT_DEVICE\", \"\").upper() in ")
    );
    let metadata = text(&format!("{info}/METADATA"));
    for line in [
        "Name: pjrt-plugin-example",
        "Version: 1.2.0rc1",
        "Summary: An example",
        "Author: Acme and more",
        "Project-URL: Homepage, https://example.org",
    ] {
        assert!(metadata.lines().any(|found| found == line), "{line}: {metadata}");
    }
    assert!(text(&format!("{info}/WHEEL")).contains("Root-Is-Purelib: false\nTag: py3-none-"));
    for module in files.keys().filter(|name| name.ends_with(".py")) {
        assert!(text(module).starts_with("# Written by `pjrt package` 0."), "{module}");
    }

    // `RECORD` has a line for every file, with the correct hash and size.
    let record = text(&format!("{info}/RECORD"));
    assert_eq!(record.lines().count(), files.len());
    for line in record.lines() {
        let [name, hash, size] = line.split(',').collect::<Vec<_>>().try_into().unwrap();
        if name.ends_with("/RECORD") {
            assert_eq!((hash, size), ("", ""));
            continue;
        }
        let bytes = &files[name].0;
        let encoded = base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(Sha256::digest(bytes));
        assert_eq!((hash, size), (format!("sha256={encoded}").as_str(), bytes.len().to_string().as_str()), "{name}");
    }
    for (name, (_, mode)) in &files {
        assert_eq!(mode & 0o777, if name.ends_with("libexample.so") { 0o755 } else { 0o644 }, "{name}");
    }

    // The manifest describes the library in the wheel, and its other fields are unchanged.
    let written: Value = serde_json::from_str(&text("pjrt_plugin_example/pjrt_plugin.json")).unwrap();
    let bytes = fs::read(&library).unwrap();
    let sha256: String = Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(files["pjrt_plugin_example/libexample.so"].0, bytes);
    assert_eq!(written["library"].as_array().unwrap().len(), 1);
    assert_eq!(written["library"][0]["path"], "libexample.so");
    assert_eq!(written["library"][0]["sha256"], sha256.as_str());
    assert_eq!(written["capabilities"]["dense_gather_factor"], 64);
    let legacy: Value = serde_json::from_str(&text("pjrt_plugin_example/torch_xla.json")).unwrap();
    assert_eq!(legacy["environment"][0]["variable"], "XLA_STABLEHLO_COMPILE");
    assert_eq!(legacy["unhonoured"], json!(["dense_gather_factor"]));
}

#[test]
fn wheel_is_reproducible() {
    let folder = Folder::new("same");
    let library = folder.library("libexample.so", PLUGIN);
    let args = ["--library", library.to_str().unwrap(), "--name", "example", "--version", "1"];
    let first = fs::read(folder.package(&args)).unwrap();
    // Replace the library with a file that has the same content but a later modification time.
    fs::copy(&library, folder.path("copy")).unwrap();
    fs::rename(folder.path("copy"), &library).unwrap();
    let again = folder.package(&[&args[..], &["--force"]].concat());
    assert_eq!(fs::read(again).unwrap(), first);
}

#[test]
fn without_one_framework() {
    let folder = Folder::new("without");
    let library = folder.library("libexample.so", PLUGIN);
    let args = ["--library", library.to_str().unwrap(), "--name", "example", "--version", "1"];
    let jax = contents(&folder.package(&[&args[..], &["--no-torch"]].concat()));
    assert!(jax.contains_key("pjrt_plugin_example/jax_plugin.py"));
    assert!(!jax.keys().any(|name| name.contains("torch")), "{:?}", jax.keys());
    let torch = contents(&folder.package(&[&args[..], &["--no-jax", "--force"]].concat()));
    assert!(torch.contains_key("pjrt_plugin_example/torch_xla_plugin.py"));
    assert!(!torch.keys().any(|name| name.contains("jax")), "{:?}", torch.keys());
    folder.refused(&[&args[..], &["--no-jax", "--no-torch"]].concat());
}

#[test]
fn errors_have_remedies() {
    let folder = Folder::new("refused");
    let library = folder.library("libexample.so", PLUGIN);
    let plain = folder.library("libplain.so", "#[unsafe(no_mangle)]\npub extern \"C\" fn other() {}");
    folder.write("text.so", "this is text and no library at all");
    let (library, plain, text) = (library.to_str().unwrap(), plain.to_str().unwrap(), folder.path("text.so"));
    let mut messages = Messages::new(&folder);
    let named = ["--library", library, "--name", "example", "--version", "1"];
    let with = |more: &[&str]| folder.refused(&[&named[..], more].concat());

    messages.add(folder.refused(&[]));
    messages.add(folder.refused(&["--library", "/absent/lib.so", "--name", "x"]));
    messages.add(folder.refused(&["--library", text.to_str().unwrap(), "--name", "x", "--version", "1"]));
    messages.add(folder.refused(&["--library", plain, "--name", "x", "--version", "1"]));
    let source = "#[unsafe(no_mangle)]\npub extern \"C\" fn acme_DevicePlugin_GetDescriptor() {}";
    let prefixed = folder.library("libprefixed.so", source);
    messages.add(folder.refused(&["--library", prefixed.to_str().unwrap(), "--version", "1"]));
    messages.add(folder.refused(&["--library", library, "--version", "1"]));
    messages.add(folder.refused(&["--library", library, "--name", "My-Device", "--version", "1"]));
    messages.add(folder.refused(&["--library", library, "--name", "example"]));
    for name in ["cpu", "tpu", "gpu"] {
        let args = ["--library", library, "--name", name, "--version", "1"];
        messages.add(folder.refused(&args));
        folder.package(&[&args[..], &["--no-jax"]].concat());
    }
    fs::remove_dir_all(folder.path("out")).unwrap();
    let output = pjrt(&[&["package"], &named[..], &["--output", library]].concat());
    messages.add(String::from_utf8(output.stderr).unwrap());
    messages.add(with(&["--platform-tag", "manylinux2014_s390x"]));
    messages.add(with(&["--platform-tag", "win_amd64"]));
    messages.add(with(&["--include", "/absent/file"]));
    messages.add(with(&["--include", library]));
    messages.add(with(&["--crate", "."]));
    messages.add(folder.refused(&["--crate", folder.path("").to_str().unwrap()]));

    let manifest = folder.path("faulty.json");
    let faulty = json!({
        "format_version": "1.0", "name": "Example", "version": "1", "aliases": ["A"],
        "shutdown_symbol": "example_shutdown",
    });
    fs::write(&manifest, faulty.to_string()).unwrap();
    messages.add(folder.refused(&["--library", library, "--manifest", manifest.to_str().unwrap()]));
    let faulty = json!({ "format_version": "1.0", "name": "example", "version": "1",
        "shutdown_symbol": "example_shutdown" });
    fs::write(&manifest, faulty.to_string()).unwrap();
    messages.add(folder.refused(&["--library", library, "--manifest", manifest.to_str().unwrap()]));
    let faulty = json!({ "format_version": "1.0", "name": "example", "version": "1",
        "library": { "path": "libexample.so", "sha256": "0".repeat(64) } });
    fs::write(&manifest, faulty.to_string()).unwrap();
    messages.add(folder.refused(&["--manifest", manifest.to_str().unwrap()]));
    let faulty = json!({ "format_version": "1.0", "name": "example", "version": "1",
        "supported_programs": { "operations": { "stablehlo.add": { "types": ["f33"] } } } });
    fs::write(&manifest, faulty.to_string()).unwrap();
    messages.add(folder.refused(&["--library", library, "--manifest", manifest.to_str().unwrap()]));
    fs::write(&manifest, "{ \"name\": ").unwrap();
    messages.add(folder.refused(&["--library", library, "--manifest", manifest.to_str().unwrap()]));

    let wheel = folder.package(&named);
    messages.add(with(&[]).replace(&wheel.display().to_string(), "<wheel>"));
    expect_file!["../messages/package.txt"].assert_eq(&messages.text);
    let left: Vec<_> = fs::read_dir(folder.path("out")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left.len(), 1, "{left:?}");
}

#[test]
fn package_of_crate() {
    let folder = Folder::new("crate");
    folder.write(
        "Cargo.toml",
        "[package]\nname = \"example-plugin\"\nversion = \"0.3.0-beta.2\"\nedition = \"2024\"\n\
         description = \"From the crate\"\n[lib]\nname = \"example\"\npath = \"lib.rs\"\ncrate-type = [\"cdylib\"]\n\
         [features]\ndefault = [\"broken\"]\nbroken = []\nspecial = []\n\
         [profile.small]\ninherits = \"release\"\n[workspace]\n",
    );
    // Only this build has no error.
    let wrong = "#[cfg(any(feature = \"broken\", not(feature = \"special\")))]\ncompile_error!(\"wrong features\");\n";
    folder.write("lib.rs", &format!("{wrong}{PLUGIN}"));
    let manifest = json!({ "format_version": "1.0", "name": "example" });
    folder.write("pjrt_plugin.json", &manifest.to_string());
    let place = folder.path("");
    let build = ["--crate", place.to_str().unwrap(), "--features", "special", "--no-default-features"];
    let wheel = folder.package(&[&build[..], &["--profile", "small"]].concat());
    assert!(folder.path("target/small").is_dir() && !folder.path("target/release").exists());
    let name = wheel.file_name().unwrap().to_str().unwrap();
    assert!(name.starts_with("pjrt_plugin_example-0.3.0b2-py3-none-"), "{name}");
    let files = contents(&wheel);
    assert!(files.contains_key("pjrt_plugin_example/libexample.so"), "{:?}", files.keys());
    let metadata = String::from_utf8(files["pjrt_plugin_example-0.3.0b2.dist-info/METADATA"].0.clone()).unwrap();
    assert!(metadata.contains("Summary: From the crate\n"), "{metadata}");

    folder.write(
        "Cargo.toml",
        "[package]\nname = \"example\"\nversion = \"1.0.0\"\n[lib]\npath = \"lib.rs\"\n[workspace]\n",
    );
    folder.refused(&["--crate", folder.path("").to_str().unwrap()]);
}

#[test]
fn help_lists_options() {
    let help = pjrt(&["package", "--help"]);
    assert!(help.status.success());
    let help = String::from_utf8(help.stdout).unwrap();
    for option in
        ["--library", "--crate", "--manifest", "--platform-tag", "--no-torch", "--include", "--force", "--profile"]
    {
        assert!(help.contains(option), "{option}: {help}");
    }
}

#[test]
fn wheel_is_found_without_python() {
    let folder = Folder::new("found");
    let library = folder.library("libexample.so", PLUGIN);
    let manifest = json!({
        "format_version": "1.0", "name": "example", "version": "1.2", "priority": 7, "aliases": ["other"],
    });
    folder.write("manifest.json", &manifest.to_string());
    let given = folder.path("manifest.json");
    let args = ["--library", library.to_str().unwrap(), "--manifest", given.to_str().unwrap()];
    let wheel = folder.package(&args);
    let environment = folder.path("environment");
    let packages = environment.join("lib/python3.11/site-packages");
    fs::create_dir_all(&packages).unwrap();
    fs::write(environment.join("pyvenv.cfg"), "home = /usr/bin\nversion = 3.11.7\n").unwrap();
    zip::ZipArchive::new(fs::File::open(wheel).unwrap()).unwrap().extract(&packages).unwrap();

    let search = Discovery::isolated(folder.path("")).verify_sha256(true);
    let candidates = search.variable("VIRTUAL_ENV", &environment).candidates();
    // There is one candidate, although two entry points announce it.
    assert_eq!(candidates.len(), 1, "{candidates:?}");
    let candidate = &candidates[0];
    // The simulated machine in the test's folder has no C library.
    let lacks = |refusal: &Refusal| matches!(refusal, Refusal::MissingDependencies { .. });
    assert!(candidate.refusals.iter().all(lacks), "{candidate:?}");
    assert_eq!(candidate.names[0].name, "example");
    assert_eq!(candidate.priority, Some(7));
    assert_eq!(candidate.location.path(), Some(packages.join("pjrt_plugin_example/libexample.so").as_path()));
    let manifest = candidate.manifest.as_ref().unwrap();
    assert!(manifest.answers_to("other"), "{manifest:?}");
}

#[test]
fn name_rules_match_pjrt_new() {
    let folder = Folder::new("names");
    let library = folder.library("libexample.so", PLUGIN);
    let manifest = json!({ "format_version": "1.0", "name": "example", "version": "1", "aliases": ["cpu", "other"] });
    folder.write("pjrt_plugin.json", &manifest.to_string());
    let said = |args: &[&str]| {
        let output = pjrt(&[&["package", "--library", library.to_str().unwrap(), "--name"], args].concat());
        assert!(!output.status.success(), "{args:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    // The message about `cpu` must not mention an alias, because the user did not give `cpu` as an alias.
    let messages: String = ["import", "self", "crate", "fn", "cpu"].map(|name| said(&[name])).concat();
    expect_file!["../messages/package_names.txt"].assert_eq(&messages);
    // The given name was an alias in the manifest. It must no longer be listed as an alias.
    folder.package(&["--library", library.to_str().unwrap(), "--name", "other", "--force"]);
}

//! Tests the files that `pjrt new` writes, and the arguments that it rejects. `cargo xtask vendor` builds and runs the
//! project.
#![allow(missing_docs, clippy::unwrap_used, reason = "a test")]

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::wheel_support::{Folder, pjrt};
use serde_json::Value;

/// Creates a project. Returns the output of the command and the project's folder.
fn new(folder: &Folder, name: &str, more: &[&str]) -> (String, std::path::PathBuf) {
    let path = folder.path("project");
    let output = pjrt(&[&["new", name, "--output", path.to_str().unwrap()], more].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    (String::from_utf8(output.stdout).unwrap(), path)
}

/// Runs a command that must not write a project, and returns its error message.
fn refused(folder: &Folder, args: &[&str]) -> String {
    let path = folder.path("refused");
    let output = pjrt(&[&["new", "--output", path.to_str().unwrap()], args].concat());
    let reason = String::from_utf8(output.stderr).unwrap();
    assert!(matches!(output.status.code(), Some(1 | 2)), "{args:?}: {:?}, {reason}", output.status);
    assert!(!path.exists(), "{args:?} left a folder");
    reason
}

/// Returns the packages in the workspace of a manifest. Cargo only reads manifests here, so the test needs no registry
/// and passes with an empty Cargo home. `cargo xtask vendor` resolves and builds such a project.
fn packages(manifest: &Path) -> Vec<Value> {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["metadata", "--offline", "--no-deps", "--format-version=1", "--manifest-path"]).arg(manifest);
    let metadata = cargo.output().unwrap();
    assert!(metadata.status.success(), "{}", String::from_utf8_lossy(&metadata.stderr));
    let metadata: Value = serde_json::from_slice(&metadata.stdout).unwrap();
    metadata["packages"].as_array().unwrap().clone()
}

fn package(manifest: &Path) -> Value {
    let packages = packages(manifest);
    let own = packages.iter().find(|package| package["manifest_path"] == manifest.to_str().unwrap());
    own.unwrap_or_else(|| panic!("{}: {packages:?}", manifest.display())).clone()
}

#[test]
fn project_depends_on_checkout() {
    let folder = Folder::new("new");
    let (told, project) = new(&folder, "acme_npu", &[]);
    assert!(told.contains("wrote the plugin acme_npu to") && !told.contains("warning"), "{told}");
    assert!(told.contains("the checkout this command was built from"), "{told}");

    let packages = packages(&project.join("Cargo.toml"));
    assert_eq!(packages.len(), 1, "{packages:?}");
    let own = &packages[0];
    assert_eq!(own["name"], "pjrt-plugin-acme-npu");
    assert_eq!(own["targets"][0]["name"], "pjrt_plugin_acme_npu");
    assert_eq!(own["targets"][0]["crate_types"], serde_json::json!(["cdylib"]));

    let dependencies = own["dependencies"].as_array().unwrap();
    for name in ["device-plugin", "pjrt-rs", "pjrt-conformance"] {
        assert!(dependencies.iter().any(|dependency| dependency["name"] == name), "{name}: {dependencies:?}");
    }
    for dependency in dependencies {
        let path = dependency["path"].as_str().unwrap_or_else(|| panic!("not in the checkout: {dependency}"));
        let there = package(&Path::new(path).join("Cargo.toml"));
        assert_eq!(there["name"], dependency["name"]);
        for feature in dependency["features"].as_array().unwrap() {
            assert!(there["features"][feature.as_str().unwrap()].is_array(), "{dependency} lacks {feature}");
        }
    }

    for file in ["src/lib.rs", "tests/plugin.rs", "tests/jax_add_one.py", "programs/add_one.mlir", "README.md"] {
        let text = fs::read_to_string(project.join(file)).unwrap();
        assert!(!text.contains("minimal"), "{file}");
    }
    assert!(fs::read_to_string(project.join("src/lib.rs")).unwrap().contains("NAME: &'static str = \"acme_npu\""));
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        assert_eq!(fs::metadata(project.join("ci.sh")).unwrap().permissions().mode() & 0o111, 0o111);
    }
}

#[test]
fn project_of_a_driver() {
    let folder = Folder::new("driver");
    let (told, project) = new(&folder, "acme_gpu", &["--driver"]);
    assert!(told.contains("wrote the plugin acme_gpu to") && !told.contains("ci.sh"), "{told}");
    let packages = packages(&project.join("Cargo.toml"));
    let [own] = &packages[..] else { panic!("{packages:?}") };
    assert_eq!(
        (&own["name"], &own["targets"][0]["name"]),
        (&"pjrt-plugin-acme-gpu".into(), &"pjrt_plugin_acme_gpu".into())
    );
    // Tests link the library, so they compile when it has several files.
    assert_eq!(own["targets"][0]["crate_types"], serde_json::json!(["cdylib", "rlib"]));
    let dependencies = own["dependencies"].as_array().unwrap();
    assert!(dependencies.iter().any(|dependency| dependency["name"] == "opencl3"), "{dependencies:?}");
    let of_sdk: Vec<_> = dependencies.iter().filter_map(|dependency| dependency["path"].as_str()).collect();
    assert!(of_sdk.iter().any(|path| path.ends_with("crates/device-runtime")), "{of_sdk:?}");
    for path in of_sdk {
        package(&Path::new(path).join("Cargo.toml"));
    }
    let source = fs::read_to_string(project.join("src/lib.rs")).unwrap();
    assert!(source.contains("NAME: &'static str = \"acme_gpu\""), "{source}");
    let manifest = fs::read_to_string(project.join("Cargo.toml")).unwrap();
    assert!(manifest.contains("opt-level = 3") && !manifest.contains("license"), "{manifest}");
}

#[test]
fn sdk_in_another_folder() {
    let dependencies = |more: &[&str]| {
        let folder = Folder::new("sdk");
        let (told, project) = new(&folder, "acme", more);
        let text = fs::read_to_string(project.join("Cargo.toml")).unwrap();
        let lines: Vec<String> = text.lines().filter(|line| line.contains(" = { ")).map(str::to_owned).collect();
        (told, lines)
    };
    let (told, lines) = dependencies(&["--sdk-git", "https://example.org/sdk", "--sdk-rev", "v1"]);
    assert!(told.contains("v1 of https://example.org/sdk"), "{told}");
    assert_eq!(
        lines,
        [
            r#"device-plugin = { git = "https://example.org/sdk", rev = "v1", default-features = false, features = ["stablehlo"] }"#,
            r#"device-plugin = { git = "https://example.org/sdk", rev = "v1", features = ["text"] }"#,
            r#"pjrt = { package = "pjrt-rs", git = "https://example.org/sdk", rev = "v1" }"#,
            r#"pjrt-conformance = { git = "https://example.org/sdk", rev = "v1", features = ["harness"] }"#,
        ]
    );
    let (_, lines) = dependencies(&["--sdk-version", "0.1"]);
    assert_eq!(lines[2], r#"pjrt = { package = "pjrt-rs", version = "0.1" }"#);
    let checkout = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap();
    let (_, lines) = dependencies(&["--sdk-path", checkout.to_str().unwrap()]);
    assert_eq!(lines[2], format!("pjrt = {{ package = \"pjrt-rs\", path = \"{}/crates/pjrt\" }}", checkout.display()));
}

/// The project does not inherit the SDK's license, because the vendor chooses the license.
#[test]
fn no_licence_is_chosen_for_the_vendor() {
    // Check first that the example has a license, so that there is a line to omit.
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/minimal-plugin/Cargo.toml");
    assert!(package(&example.canonicalize().unwrap())["license"].is_string());

    let folder = Folder::new("licence");
    let (_, project) = new(&folder, "acme_npu", &[]);
    let own = package(&project.canonicalize().unwrap().join("Cargo.toml"));
    assert_eq!((&own["license"], &own["license_file"]), (&Value::Null, &Value::Null));
    for entry in fs::read_dir(&project).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap().to_lowercase();
        assert!(!name.starts_with("licen") && !name.starts_with("copying"), "{name}");
    }
    let text = fs::read_to_string(project.join("Cargo.toml")).unwrap();
    assert!(!text.contains("MIT") && !text.contains("Apache"), "{text}");
}

#[test]
fn known_names_are_warned_of() {
    let folder = Folder::new("known");
    let (told, _) = new(&folder, "cuda", &[]);
    assert!(told.contains("warning: users who select \"cuda\""), "{told}");
}

#[test]
fn errors_write_no_files() {
    let folder = Folder::new("wrong");
    for (args, said) in [
        (&[][..], "<NAME>"),
        (&[""], "not a valid plugin name"),
        (&["Acme"], "such as \"acme\""),
        (&["my-device"], "such as \"my_device\""),
        (&["9lives"], "a lower-case letter"),
        (&["../x"], "such as \"x\""),
        (&["größe"], "a lower-case letter"),
        (&["a__b"], "single underscores"),
        (&["fn"], "a keyword of Rust or Python"),
        (&["class"], "a keyword of Rust or Python"),
        (&["tpu"], "a platform of JAX itself"),
        (&["acme", "more"], "unexpected argument"),
        (&["acme", "--sdk-path", "/absent"], "--sdk-path /absent"),
        (&["acme", "--sdk-path", "/"], "not a checkout of this SDK"),
        (&["acme", "--sdk-git", "not a url"], "a URL cannot contain spaces"),
        (&["acme", "--sdk-git", "https://h/r", "--sdk-rev", ""], "leave the option out"),
        (&["acme", "--sdk-rev", "v1"], "--sdk-git"),
        (&["acme", "--sdk-version", "newest"], "not a version"),
        (&["acme", "--sdk-version", "1", "--sdk-git", "https://h/r"], "cannot be used with"),
    ] {
        let reason = refused(&folder, args);
        assert!(reason.contains(said), "{args:?}: {reason}");
    }
}

#[test]
fn existing_files_stay() {
    let folder = Folder::new("there");
    folder.write("file", "mine");
    fs::create_dir(folder.path("full")).unwrap();
    folder.write("full/file", "mine");
    for (path, said) in [("file", "is a file"), ("full", "is not empty"), ("file/below", "cannot make the folder")] {
        let output = pjrt(&["new", "acme", "--output", folder.path(path).to_str().unwrap()]);
        let reason = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1));
        assert!(reason.contains(said), "{path}: {reason}");
    }
    let output = pjrt(&["new", "acme", "--output", ""]);
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(fs::read_to_string(folder.path("full/file")).unwrap(), "mine");
    // An empty folder is treated like a missing one.
    fs::create_dir(folder.path("empty")).unwrap();
    assert!(pjrt(&["new", "acme", "--output", folder.path("empty").to_str().unwrap()]).status.success());
}

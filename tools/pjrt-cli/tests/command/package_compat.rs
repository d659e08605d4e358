//! Tests `pjrt package --compat`: the library in the manifest is the one with the layer `compat`, which loads the
//! vendor's library from the same folder.
#![cfg(unix)]
#![allow(missing_docs, clippy::unwrap_used, reason = "a test")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::wheel_support::{Folder, PLUGIN};
use device_plugin_testing::library;
use serde_json::{Value, json};

/// Source of a vendor's library with a function that shuts the plugin down.
const WITH_SHUTDOWN: &str = "#[unsafe(no_mangle)]\npub extern \"C\" fn GetPjrtApi() -> *const u8 { std::ptr::null() }\n\
                             #[unsafe(no_mangle)]\npub extern \"C\" fn example_shutdown() {}\n";

/// Adds `--compat` and the path of the library with the layers to the arguments.
fn with_layers<'a>(args: &[&'a str], layers: &'a Path) -> Vec<&'a str> {
    [args, &["--version", "1", "--compat", "--layers-library", layers.to_str().unwrap()]].concat()
}

/// Unpacks a wheel, and returns the folder of its package.
fn unpacked(folder: &Folder, wheel: &Path) -> PathBuf {
    let content = folder.path("content");
    zip::ZipArchive::new(fs::File::open(wheel).unwrap()).unwrap().extract(&content).unwrap();
    content.join("pjrt_plugin_example")
}

#[test]
fn wheel_has_both_libraries() {
    let folder = Folder::new("compat");
    let vendor = folder.library("libexample.so", PLUGIN);
    let layers = library("layers_plugin");
    let args = ["--library", vendor.to_str().unwrap(), "--name", "example"];
    let package = unpacked(&folder, &folder.package(&with_layers(&args, &layers)));
    let name = layers.file_name().unwrap();
    assert_eq!(fs::read(package.join("libexample.so")).unwrap(), fs::read(&vendor).unwrap());
    assert_eq!(fs::read(package.join(name)).unwrap(), fs::read(&layers).unwrap());
    let settings: Value = serde_json::from_slice(&fs::read(package.join("pjrt_layers.json")).unwrap()).unwrap();
    assert_eq!(settings, json!({ "PJRT_LAYERS_PLUGIN": "libexample.so", "PJRT_LAYERS": "compat" }));
    let manifest: Value = serde_json::from_slice(&fs::read(package.join("pjrt_plugin.json")).unwrap()).unwrap();
    assert_eq!(manifest["library"].as_array().unwrap().len(), 1);
    assert_eq!(manifest["library"][0]["path"], name.to_str().unwrap());
    assert_eq!(manifest["library"][0]["arch"], std::env::consts::ARCH);
}

#[test]
fn plugin_runs_behind_the_layer() {
    let folder = Folder::new("compat-runs");
    let vendor = library("odd_plugin");
    let layers = library("layers_plugin");
    let manifest = json!({ "format_version": "1.0", "name": "example" });
    folder.write("manifest.json", &manifest.to_string());
    let manifest = folder.path("manifest.json");
    let args = ["--library", vendor.to_str().unwrap(), "--manifest", manifest.to_str().unwrap()];
    let package = unpacked(&folder, &folder.package(&with_layers(&args, &layers)));
    let mut devices = Command::new(env!("CARGO_BIN_EXE_pjrt"));
    devices.args(["devices", "--json", "--plugin"]).arg(package.join(layers.file_name().unwrap()));
    // The settings file in the library's folder takes precedence over the environment.
    devices.env("PJRT_LAYERS", "nonexistent").env("PJRT_REGISTRY_LOCK_DIR", folder.path("locks"));
    let output = devices.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let devices: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(devices["devices"][0]["kind"], "odd");
}

#[test]
fn tag_fits_both_libraries() {
    let folder = Folder::new("compat-tag");
    let vendor = folder.library("libexample.so", PLUGIN);
    let layers = library("layers_plugin");
    let args = ["--library", vendor.to_str().unwrap(), "--name", "example", "--platform-tag", "win_amd64"];
    folder.refused(&with_layers(&args, &layers));
}

#[test]
fn shutdown_symbol_is_refused() {
    let folder = Folder::new("compat-shutdown");
    let vendor = folder.library("libexample.so", WITH_SHUTDOWN);
    let manifest = json!({ "format_version": "1.0", "name": "example", "shutdown_symbol": "example_shutdown" });
    folder.write("pjrt_plugin.json", &manifest.to_string());
    let layers = library("layers_plugin");
    let args = ["--library", vendor.to_str().unwrap()];
    folder.package(&[&args[..], &["--version", "1"]].concat());
    let reason = folder.refused(&with_layers(&args, &layers));
    assert!(reason.contains("example_shutdown"), "{reason}");
}

#[test]
fn files_of_the_layers_have_their_names() {
    let folder = Folder::new("compat-names");
    let layers = library("layers_plugin");
    let same = folder.library(layers.file_name().unwrap().to_str().unwrap(), PLUGIN);
    folder.refused(&with_layers(&["--library", same.to_str().unwrap(), "--name", "example"], &layers));
    let vendor = folder.library("libexample.so", PLUGIN);
    folder.write("pjrt_layers.json", "{}");
    let file = folder.path("pjrt_layers.json");
    let args = ["--library", vendor.to_str().unwrap(), "--name", "example", "--include", file.to_str().unwrap()];
    folder.refused(&with_layers(&args, &layers));
    folder.package(&[&args[..], &["--version", "1"]].concat());
}

//! Tests which crates each feature adds to the dependencies.
#![allow(missing_docs, clippy::unwrap_used, reason = "a test")]

use std::path::Path;
use std::process::Command;

/// Returns the names of the crates in a build with these features.
fn crates(features: &str) -> Vec<String> {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml");
    let mut tree = Command::new(env!("CARGO"));
    tree.args(["tree", "--offline", "--no-default-features", "--edges", "normal,build", "--prefix", "none"]);
    tree.args(["--format", "{lib}", "--features", features, "--manifest-path"]).arg(manifest);
    let output = tree.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

#[test]
fn discovery_builds_without_stablehlo_and_cpu() {
    let has = |features: &str, name: &str| crates(features).iter().any(|krate| krate == name);
    assert!(has("", "pjrt") && has("", "plugin_manifest"));
    for krate in ["stablehlo", "device_plugin", "pjrt_cpu", "redis", "ureq", "zip"] {
        assert!(!has("", krate), "{krate}");
    }
    assert!(has("stablehlo", "stablehlo") && has("hazards", "stablehlo"));
    assert!(has("device-plugin", "device_plugin") && !has("device-plugin", "pjrt_cpu"));
    assert!(has("cpu", "pjrt_cpu") && has("redis", "redis") && has("etcd", "ureq"));
    assert!(has("install", "rustls") && has("install", "zip") && !has("etcd", "rustls"));
}

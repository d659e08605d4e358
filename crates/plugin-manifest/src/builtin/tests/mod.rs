//! Tests of the manifests. Comments name the source of each value.

mod cpu;
mod cuda;
mod gpu;
mod neuron;
mod oneapi;
mod plans;
mod rocm;
mod tenstorrent;
mod tpu;

use super::*;

/// Returns the manifest with this name.
fn known(name: &str) -> Manifest {
    all().into_iter().find(|manifest| manifest.name == name).unwrap()
}

#[test]
fn every_manifest_is_read() {
    assert_eq!(all().len(), MANIFESTS.len());
}

#[test]
fn valid_and_json_round_trip() {
    for manifest in all() {
        assert_eq!(manifest.validate(), Ok(()), "{}", manifest.name);
        assert_eq!(Manifest::from_json(&manifest.to_json()).unwrap(), manifest);
        assert!(!manifest.display_name.is_empty() && !manifest.vendor.is_empty(), "{}", manifest.name);
    }
}

#[test]
fn found_by_name() {
    let name = |asked: &str| find(asked).map(|manifest| manifest.name);
    for (asked, found) in [
        ("TPU", "tpu"),
        // JAX xla_bridge.py:702-706: `gpu` is an alias of cuda, rocm and oneapi, in this order.
        ("gpu", "cuda"),
        ("NEURON", "neuron"),
        // PyTorch/XLA calls the device XPU, Intel's JAX plugin calls it sycl, and JAX calls it oneapi.
        ("XPU", "oneapi"),
        ("sycl", "oneapi"),
        ("tenstorrent", "tt"),
        ("cpu", "cpu"),
    ] {
        assert_eq!(name(asked).as_deref(), Some(found), "{asked}");
    }
    assert_eq!(name("example"), None);
    let gpus: Vec<String> = all().into_iter().filter(|known| known.answers_to("gpu")).map(|gpu| gpu.name).collect();
    assert_eq!(gpus, ["cuda", "rocm", "oneapi"]);
}

#[test]
fn plans_use_schema_options() {
    for manifest in all() {
        for rule in &manifest.process.options {
            let spec = manifest.create_options.options.iter().find(|spec| spec.name == rule.name);
            assert_eq!(spec.map(|spec| spec.ty), Some(rule.ty), "{}: {}", manifest.name, rule.name);
        }
    }
}

#[test]
fn priorities_match_jax() {
    // JAX xla_bridge.py:363-365 and 378-380, and the packages jax_plugins.cuda, .rocm and .oneapi. JAX's default is
    // 400.
    let priorities: Vec<(String, i32)> = all().into_iter().map(|known| (known.name, known.priority)).collect();
    let expected =
        [("tpu", 300), ("cuda", 500), ("rocm", 500), ("oneapi", 500), ("neuron", 400), ("tt", 400), ("cpu", 0)];
    assert_eq!(priorities, expected.map(|(name, priority)| (name.to_owned(), priority)));
}

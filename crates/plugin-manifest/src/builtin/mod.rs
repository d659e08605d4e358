//! Manifests of the devices that frameworks support by name, including the frameworks' rules for these devices.
//!
//! The vendors of these devices ship plugin libraries without a manifest, and PyTorch/XLA and JAX hard-code rules for
//! these devices. This module expresses the rules as data, so that a framework can treat these devices like devices
//! with their own manifest. A comment in the tests names the source of each value. `PyTorch/XLA 2.8.1` is the last
//! release with CUDA support, `PyTorch/XLA` without a version is commit 41398bff of April 2026, and `JAX` is commit
//! cec06d11 of August 2026.
//!
//! ```
//! use plugin_manifest::builtin;
//!
//! let tpu = builtin::find("TPU").unwrap();
//! assert_eq!(tpu.capabilities.dense_gather_factor.unwrap().get(), 8192);
//! ```
//!
//! # The process plan of TPU
//!
//! The mesh of processes is the axis-by-axis product of the mesh of hosts and the mesh of the chips of a host.
//! `TPU_HOST_BOUNDS` and `TPU_CHIPS_PER_HOST_BOUNDS` must therefore be known, from the environment or from the metadata
//! of the TPU VM. A single host has the bounds `1,1,1`. For generations before v4, whose metadata lacks the bounds, set
//! the variables by hand. The mesh of TPU v7 has a fourth axis, of size 2. If you set the variables by hand,
//! `TPU_HOST_BOUNDS` ends in `,1` and `TPU_CHIPS_PER_HOST_BOUNDS` in `,2`. Values from the metadata lack this axis, so
//! the detection of the topology appends it.

mod cpu;
mod cuda;
mod gpu;
mod lists;
mod neuron;
mod oneapi;
mod rocm;
mod tenstorrent;
mod tpu;

use cpu::cpu;
use cuda::cuda;
use neuron::neuron;
use oneapi::oneapi;
use rocm::rocm;
use tenstorrent::tenstorrent;
use tpu::tpu;

use crate::Manifest;

/// Returns all manifests. Manifests that share an alias, such as `gpu`, are in the order in which JAX tries them.
pub fn all() -> Vec<Manifest> {
    vec![tpu(), cuda(), rocm(), oneapi(), neuron(), tenstorrent(), cpu()]
}

/// Returns the first manifest with this name, alias or platform name. Letter case is ignored.
pub fn find(name: &str) -> Option<Manifest> {
    all().into_iter().find(|manifest| manifest.answers_to(name))
}

#[cfg(test)]
mod tests {
    use super::*;

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
}

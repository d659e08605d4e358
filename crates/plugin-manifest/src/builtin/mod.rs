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
//! # Notes
//!
//! - TPU: by default, libtpu locks a file so that only one process per host can use the TPU. The process plan assigns a
//!   chip to each process of a host. libtpu does not publish a list of its options, so the schema is open.
//! - GPUs: XLA builds the CUDA, ROCm and oneAPI plugins from one source, so they have the same options. Only the
//!   options that every version of the client accepts have a default here. PyTorch/XLA's rules for CUDA are those of
//!   release 2.8.1. PyTorch/XLA has no rules for AMD GPUs, and applies its default rules to Intel GPUs.
//! - Neuron: Amazon's disks and network cards have the same PCI vendor ID, so the manifest lists the device IDs of the
//!   accelerators. Only one process at a time can use a NeuronCore.
//! - Tenstorrent: a board hangs if a process ends without releasing it.
//!
//! # Process plans
//!
//! The plans of TPU, Neuron and CUDA replace functions of PyTorch/XLA: `configure_one_chip_topology` and
//! `configure_topology` of `tpu.py`; `initialize_env`, `num_local_processes` and `set_rt_root_comm_id` of `neuron.py`;
//! and `client_create_options`, `physical_chip_count` and `requires_xla_coordinator` of the CUDA plugin of release 2.8.
//!
//! A TPU process that uses all chips of its host needs no variables, because libtpu itself reads the shape of the
//! slice. A process that uses one chip needs the index of its chip and the addresses of the other processes. Port 8476
//! is the port of the first process on each host. If `NEURON_RT_VISIBLE_CORES` contains a list such as `4-7`, the list
//! contains the cores of all processes of the host, and the plan replaces it with the core of one process.
//!
//! The mesh of processes is the axis-by-axis product of the mesh of hosts and the mesh of the chips of a host.
//! `TPU_HOST_BOUNDS` and `TPU_CHIPS_PER_HOST_BOUNDS` must therefore be known, from the environment or from the metadata
//! of the TPU VM. A single host has the bounds `1,1,1`. For generations before v4, whose metadata lacks the bounds, set
//! the variables by hand. The mesh of TPU v7 has a fourth axis, of size 2. If you set the variables by hand,
//! `TPU_HOST_BOUNDS` ends in `,1` and `TPU_CHIPS_PER_HOST_BOUNDS` in `,2`. Values from the metadata lack this axis, so
//! the detection of the topology appends it.

use crate::Manifest;

/// The content of each `pjrt_plugin.json`. Manifests that share an alias, such as `gpu`, are in the order in which JAX
/// tries them.
const MANIFESTS: [&str; 7] = [
    include_str!("tpu.json"),
    include_str!("cuda.json"),
    include_str!("rocm.json"),
    include_str!("oneapi.json"),
    include_str!("neuron.json"),
    include_str!("tenstorrent.json"),
    include_str!("cpu.json"),
];

/// Returns all manifests. Manifests that share an alias, such as `gpu`, are in the order in which JAX tries them.
pub fn all() -> Vec<Manifest> {
    // A test reads each of them.
    MANIFESTS.iter().filter_map(|json| Manifest::from_json(json).ok()).collect()
}

/// Returns the first manifest with this name, alias or platform name. Letter case is ignored.
pub fn find(name: &str) -> Option<Manifest> {
    all().into_iter().find(|manifest| manifest.answers_to(name))
}

#[cfg(test)]
mod tests;

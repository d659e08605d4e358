//! Manifest of AMD GPUs, through XLA's ROCm plugin.

use super::gpu;
use super::lists::{linux, owned, pci};
use crate::Manifest;
use crate::capabilities::{Capabilities, DlpackDevice, HostCallbacks, MemoryKinds, MemoryStatsReport};
use crate::manifest::Hardware;
use crate::process::builtin_plans;

/// Returns the manifest for AMD GPUs, with JAX's rules. PyTorch/XLA does not have rules for AMD GPUs.
pub(super) fn rocm() -> Manifest {
    let mut rocm = Manifest::new("rocm");
    rocm.aliases = owned(&["gpu"]);
    rocm.display_name = "AMD ROCm".to_owned();
    rocm.vendor = "AMD".to_owned();
    rocm.description = "AMD GPUs through XLA's ROCm plugin".to_owned();
    rocm.homepage = "https://github.com/ROCm/rocm-jax".to_owned();
    rocm.library = linux(&["xla_rocm_plugin.so"]);
    rocm.priority = 500;
    rocm.hardware = Hardware { device_nodes: owned(&["/dev/kfd"]), pci: vec![pci("1002", &[], &["03", "12"])] };
    rocm.create_options = gpu::options("ROCM");
    rocm.process = builtin_plans::rocm();
    rocm.capabilities = Capabilities {
        donation: true,
        persistent_cache: true,
        cache_key_strip_device_assignment: true,
        host_callbacks: Some(HostCallbacks::default()),
        dlpack_device: Some(DlpackDevice::Rocm),
        dlpack_host_device: Some(DlpackDevice::RocmHost),
        memory_kinds: MemoryKinds { host_offload: true, ..MemoryKinds::new(["device", "pinned_host"]) },
        memory_stats: MemoryStatsReport::WithLimit,
        ..Capabilities::default()
    };
    rocm
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capabilities::legacy;

    #[test]
    fn execution_matches_jax() {
        let capabilities = rocm().capabilities;
        // JAX interpreters/mlir.py:1174; compilation_cache.py:89-95, where the platform is `gpu` (py_client.h:104-116).
        assert!(capabilities.donation && capabilities.persistent_cache);
        // JAX cache_key.py:121.
        assert!(capabilities.cache_key_strip_device_assignment);
        // JAX callback.py:800-846.
        assert_eq!(capabilities.host_callbacks, Some(HostCallbacks::default()));
        // JAX dlpack.cc:133-163.
        assert_eq!(capabilities.dlpack_device, Some(DlpackDevice::Rocm));
        assert_eq!(capabilities.dlpack_host_device, Some(DlpackDevice::RocmHost));
        // JAX tests/memories_test.py:197.
        assert_eq!(capabilities.memory_kinds.names, ["device", "pinned_host"]);
    }

    #[test]
    fn rest_matches_package() {
        let rocm = rocm();
        // JAX jax_plugins/rocm/__init__.py: the options of the CUDA plugin, with the platform name ROCM.
        gpu::tests::assert_options(&rocm.create_options, "ROCM");
        // zml rocm.zig:17-22 checks for the device node of AMD's compute driver.
        assert_eq!(rocm.hardware.device_nodes, ["/dev/kfd"]);
        // PyTorch/XLA treats ROCm as an unknown device, so none of the environment variables that PyTorch/XLA reads
        // corresponds to these capabilities.
        assert_eq!(legacy::environment(&rocm.capabilities, "rocm"), []);
    }
}

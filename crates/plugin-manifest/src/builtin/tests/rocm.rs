//! AMD GPUs.

use super::gpu;
use crate::Manifest;
use crate::capabilities::{DlpackDevice, HostCallbacks, legacy};

fn rocm() -> Manifest {
    super::known("rocm")
}

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
    gpu::assert_options(&rocm.create_options, "ROCM");
    // zml rocm.zig:17-22 checks for the device node of AMD's compute driver.
    assert_eq!(rocm.hardware.device_nodes, ["/dev/kfd"]);
    // PyTorch/XLA treats ROCm as an unknown device, so none of the environment variables that PyTorch/XLA reads
    // corresponds to these capabilities.
    assert_eq!(legacy::environment(&rocm.capabilities, "rocm"), []);
}

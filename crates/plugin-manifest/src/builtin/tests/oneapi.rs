//! Intel GPUs.

use super::gpu;
use crate::capabilities::DlpackDevice;
use crate::{Manifest, ProcessPlan};

fn oneapi() -> Manifest {
    super::known("oneapi")
}

#[test]
fn jax_platform_is_gpu() {
    let capabilities = oneapi().capabilities;
    // JAX py_client.h:104-116 returns the platform `gpu`, for which compilation_cache.py:89-95 and cache_key.py:121
    // check.
    assert!(capabilities.persistent_cache && capabilities.cache_key_strip_device_assignment);
    // JAX dlpack.cc:133-163: device memory has a DLPack device type, and pinned host memory does not.
    assert_eq!((capabilities.dlpack_device, capabilities.dlpack_host_device), (Some(DlpackDevice::OneApi), None));
    // JAX interpreters/mlir.py:1174 and callback.py:800-846 do not list oneAPI.
    assert!(!capabilities.donation && capabilities.host_callbacks.is_none());
}

#[test]
fn pytorch_xla_defaults() {
    let oneapi = oneapi();
    // PyTorch/XLA _internal/xpu.py:6-9 sets only the library path.
    assert_eq!(oneapi.process, ProcessPlan::default());
    let by_pytorch = ["autocast", "dense_gather_factor", "rng_bit_generator", "remapped_dtypes", "layout"];
    assert!(oneapi.capabilities.changes().iter().all(|(field, _)| !by_pytorch.contains(field)));
    // PyTorch/XLA csrc/runtime/pjrt_registry.cpp:147-156.
    assert!(oneapi.library.iter().any(|file| file.path.to_str() == Some("libxpu.so")));
    // JAX jax_plugins/oneapi/__init__.py: the options of the CUDA plugin, with the platform name SYCL.
    gpu::assert_options(&oneapi.create_options, "SYCL");
    // JAX xla_bridge.py:297.
    assert!(oneapi.experimental);
}

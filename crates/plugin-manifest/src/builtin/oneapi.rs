//! Manifest of Intel GPUs, through XLA's oneAPI plugin.

use super::gpu;
use super::lists::{linux, owned, pci};
use crate::Manifest;
use crate::capabilities::{Capabilities, DlpackDevice};
use crate::manifest::Hardware;

/// Returns the manifest for Intel GPUs. PyTorch/XLA calls these devices XPU and applies its default rules to them.
pub(super) fn oneapi() -> Manifest {
    let mut oneapi = Manifest::new("oneapi");
    oneapi.aliases = owned(&["gpu", "xpu"]);
    oneapi.platform_names = owned(&["sycl"]);
    oneapi.display_name = "Intel oneAPI".to_owned();
    oneapi.vendor = "Intel".to_owned();
    oneapi.description = "Intel GPUs through XLA's oneAPI plugin".to_owned();
    oneapi.homepage = "https://github.com/intel/intel-extension-for-openxla".to_owned();
    oneapi.library = linux(&["xla_oneapi_plugin.so", "libxpu.so"]);
    oneapi.priority = 500;
    oneapi.experimental = true;
    oneapi.hardware = Hardware { device_nodes: Vec::new(), pci: vec![pci("8086", &[], &["03"])] };
    oneapi.create_options = gpu::options("SYCL");
    oneapi.capabilities = Capabilities {
        persistent_cache: true,
        cache_key_strip_device_assignment: true,
        dlpack_device: Some(DlpackDevice::OneApi),
        ..Capabilities::default()
    };
    oneapi
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ProcessPlan;

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
        gpu::tests::assert_options(&oneapi.create_options, "SYCL");
        // JAX xla_bridge.py:297.
        assert!(oneapi.experimental);
    }
}

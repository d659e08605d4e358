//! NVIDIA GPUs.

use std::collections::BTreeSet;

use super::gpu;
use crate::capabilities::{Autocast, AutocastKind, DlpackDevice, HostCallbacks, MemoryStatsReport, RngBitGenerator};
use crate::process::CoordinatorNeed;
use crate::{ElementType, Manifest, Value};

fn cuda() -> Manifest {
    super::known("cuda")
}

fn autocast() -> Autocast {
    Autocast { kind: AutocastKind::Cuda, ..Autocast::xla([ElementType::F16, ElementType::Bf16]) }
}

#[test]
fn lowering_matches_pytorch_xla() {
    let capabilities = cuda().capabilities;
    // PyTorch/XLA 2.8.1 csrc/random.cpp:19-28.
    assert_eq!(capabilities.rng_bit_generator, RngBitGenerator::ThreeFry);
    // PyTorch/XLA 2.8.1 amp/autocast_mode.py:28-68: f16 unless the caller specifies bf16.
    assert_eq!(capabilities.autocast, Some(autocast()));
    // PyTorch/XLA 2.8.1 csrc/tensor_impl.cpp:74-83.
    assert_eq!(capabilities.features["autocast_dispatch_key"], Value::from("autocast_cuda"));
    // PyTorch/XLA 2.8.1 csrc/aten_fallback.cpp:68-100.
    assert_eq!(capabilities.features["eager_fallback"], Value::from("cuda"));
    // PyTorch/XLA 2.8.1 csrc/data_ops.cpp:31-49 and csrc/xla_lower_util.cpp:75-87: no rule for CUDA.
    assert_eq!((capabilities.dense_gather_factor, capabilities.dense_scatter_factor), (None, None));
    // PyTorch/XLA csrc/aten_xla_type.cpp:3997-4007 and 4052-4063: the gradients of upsampling run on the host.
    assert!(!capabilities.features.keys().any(|name| name.starts_with("upsample")));
}

#[test]
fn memory_shared_with_torch() {
    let capabilities = cuda().capabilities;
    // PyTorch/XLA 2.8.1 csrc/dl_convertor.cpp:45-53; JAX dlpack.cc:133-163.
    assert_eq!(capabilities.dlpack_device, Some(DlpackDevice::Cuda));
    assert_eq!(capabilities.dlpack_host_device, Some(DlpackDevice::CudaHost));
    // PyTorch/XLA 2.8.1 _dynamo/dynamo_bridge.py:152-158: XLA and torch CUDA tensors share memory in both
    // directions.
    let cuda = BTreeSet::from([DlpackDevice::Cuda]);
    assert_eq!((&capabilities.zero_copy_import, &capabilities.zero_copy_export), (&cuda, &cuda));
    // JAX tests/memories_test.py:197: unpinned_host does not work on GPUs.
    assert_eq!(capabilities.memory_kinds.names, ["device", "pinned_host"]);
    // PyTorch/XLA csrc/runtime/pjrt_computation_client.cpp:1038-1044 reads the limit without checking that it is
    // set.
    assert_eq!(capabilities.memory_stats, MemoryStatsReport::WithLimit);
}

#[test]
fn execution_matches_jax() {
    let capabilities = cuda().capabilities;
    // JAX interpreters/mlir.py:1174; compilation_cache.py:89-95.
    assert!(capabilities.donation && capabilities.persistent_cache);
    // JAX cache_key.py:121.
    assert!(capabilities.cache_key_strip_device_assignment);
    // JAX callback.py:800-846 does not restrict callbacks on CUDA.
    assert_eq!(capabilities.host_callbacks, Some(HostCallbacks::default()));
    // JAX dispatch.py:217-224.
    assert_eq!(capabilities.tuple_args_threshold, None);
}

#[test]
fn rest_matches_plugin_classes() {
    let cuda = cuda();
    gpu::assert_options(&cuda.create_options, "cuda");
    // PyTorch/XLA 2.8.1 plugins/cuda requires a coordinator if WORLD_SIZE is greater than 1, and passes these
    // options.
    assert_eq!(cuda.process.coordinator.need, CoordinatorNeed::MultiProcess);
    let options: Vec<_> = cuda.process.options.iter().map(|rule| rule.name.as_str()).collect();
    assert_eq!(options, ["visible_devices", "node_id", "num_nodes"]);
    // JAX hardware_utils.py:24-28.
    assert_eq!(cuda.hardware.device_nodes, ["/dev/nvidia0", "/dev/nvidiactl", "/dev/dxg"]);
}

//! Google TPUs.

use std::num::NonZeroU32;

use crate::capabilities::{
    Autocast, DlpackDevice, HostCallbacks, Int64Policy, LayoutPolicy, MemoryStatsReport, MixedDot,
};
use crate::{ElementType, Manifest, Ownership, Value};

const TILE: [NonZeroU32; 2] = [NonZeroU32::new(8).unwrap(), NonZeroU32::new(128).unwrap()];

fn tpu() -> Manifest {
    super::known("tpu")
}

#[test]
fn lowering_matches_pytorch_xla() {
    let capabilities = tpu().capabilities;
    // PyTorch/XLA csrc/data_ops.cpp:31-49: a gather is dense if the dimension has at most 10 * 8192 elements.
    assert_eq!(capabilities.dense_gather_factor, NonZeroU32::new(8192));
    assert!(capabilities.gathers_densely(81_920) && !capabilities.gathers_densely(81_921));
    // PyTorch/XLA csrc/xla_lower_util.cpp:75-87.
    assert_eq!(capabilities.dense_scatter_factor, NonZeroU32::new(100));
    // PyTorch/XLA amp/autocast_mode.py:26-42: only bf16.
    assert_eq!(capabilities.autocast, Some(Autocast::xla([ElementType::Bf16])));
    // PyTorch/XLA csrc/aten_xla_type.cpp:1619-1630: an integer dot with a 64-bit operand runs on the host.
    assert_eq!(capabilities.int64, Int64Policy::DotOnHost);
    // PyTorch/XLA csrc/layout_manager.cpp:141-156: tiles of 8 by 128 elements, padding factor 1.25.
    assert_eq!(TILE.map(NonZeroU32::get), [8, 128]);
    assert_eq!(capabilities.layout, LayoutPolicy::Tiled { tile: TILE, max_padding: 1.25 });
    // PyTorch/XLA csrc/resize_ops.cpp:273-291.
    assert_eq!(capabilities.features["resize_custom_call"], Value::Bool(true));
    // PyTorch/XLA csrc/aten_xla_type.cpp:3997-4007 and 4052-4063.
    assert_eq!(capabilities.features["upsample_bilinear_backward"], Value::Bool(true));
    assert_eq!(capabilities.features["upsample_nearest_backward"], Value::Bool(true));
    // PyTorch/XLA csrc/random.cpp:20-43: no rule for TPU.
    assert_eq!(capabilities.rng_bit_generator, Default::default());
    // PyTorch/XLA csrc/dtype.cpp:145-161: no rule for TPU.
    assert!(capabilities.remapped_dtypes.is_empty());
}

#[test]
fn meshes_match_pytorch_xla() {
    let capabilities = tpu().capabilities;
    // PyTorch/XLA distributed/spmd/xla_sharding.py:414.
    assert_eq!(capabilities.features["mesh_coordinates"], Value::from("coords"));
    // PyTorch/XLA distributed/xla_multiprocessing.py:134-196.
    assert_eq!(capabilities.features["replica_order.v5p.2x2x2"], Value::from([0, 1, 3, 2, 6, 7, 5, 4]));
    assert_eq!(capabilities.features["replica_order.v6e.2x4x1"], Value::from([0, 2, 4, 6, 7, 5, 3, 1]));
    // PyTorch/XLA runtime.py:237-247.
    assert_eq!(capabilities.features["master_address"], Value::from("metadata"));
}

#[test]
fn execution_matches_jax() {
    let capabilities = tpu().capabilities;
    // JAX interpreters/mlir.py:1174; compilation_cache.py:89-95.
    assert!(capabilities.donation && capabilities.persistent_cache);
    // JAX cache_key.py:121 strips the device assignment only for the platform `gpu`.
    assert!(!capabilities.cache_key_strip_device_assignment);
    // JAX callback.py:800-846: partitioned programs cannot contain callbacks, and callbacks cannot take empty
    // arrays.
    assert_eq!(capabilities.host_callbacks, Some(HostCallbacks { partitioned: false, empty_arrays: false }));
    // JAX dispatch.py:217-224.
    assert_eq!(capabilities.tuple_args_threshold, NonZeroU32::new(2000));
    // JAX lax/lax.py:6207-6222.
    assert_eq!(capabilities.mixed_dot, MixedDot::FloatAndInteger);
    // JAX dlpack.cc:146-163: pinned host memory has a DLPack device type, and device memory does not.
    assert_eq!((capabilities.dlpack_device, capabilities.dlpack_host_device), (None, Some(DlpackDevice::TpuHost)));
    // JAX tests/memories_test.py:128-300 uses both host memories on TPU.
    assert_eq!(capabilities.memory_kinds.names, ["device", "pinned_host", "unpinned_host"]);
    // PyTorch/XLA csrc/runtime/pjrt_computation_client.cpp:1038-1044 reads the limit without checking that it is
    // set.
    assert_eq!(capabilities.memory_stats, MemoryStatsReport::WithLimit);
}

#[test]
fn rest_matches_plugin_class() {
    let tpu = tpu();
    // PyTorch/XLA _internal/tpu.py:353-385.
    let options = tpu.create_options.options.iter();
    let defaults: Vec<_> = options.map(|spec| (spec.name.as_str(), spec.default.as_ref())).collect();
    assert_eq!(
        defaults,
        [
            ("max_inflight_computations", Some(&Value::Int64(32))),
            ("ml_framework_name", None),
            ("ml_framework_version", None)
        ]
    );
    // PyTorch/XLA _internal/tpu.py:245-299, which the process plan reproduces.
    assert!(tpu.process.environment.iter().any(|rule| rule.variable == "TPU_PROCESS_ADDRESSES"));
    // PyTorch/XLA _internal/tpu.py `_GOOGLE_PCI_VENDOR_ID`; JAX hardware_utils.py `_TPU_PCI_DEVICE_IDS`.
    assert_eq!((tpu.hardware.pci[0].vendor.as_str(), tpu.hardware.pci[0].devices.len()), ("1ae0", 9));
    // PyTorch/XLA csrc/runtime/pjrt_registry.cpp:137-146.
    assert_eq!(tpu.library[0].path.to_str(), Some("libtpu.so"));
    // libtpu locks the file /tmp/libtpu_lockfile.
    assert_eq!(tpu.ownership, Ownership::PerProcess);
}

//! XLA's CPU plugin.

use std::collections::BTreeSet;

use crate::capabilities::{DlpackDevice, DotAlgorithm, HostCallbacks};
use crate::{Manifest, NamedValue};

fn cpu() -> Manifest {
    super::known("cpu")
}

#[test]
fn execution_matches_jax() {
    let capabilities = cpu().capabilities;
    // JAX interpreters/mlir.py:1174; compilation_cache.py:89-95.
    assert!(capabilities.donation && capabilities.persistent_cache);
    // JAX callback.py:800-846.
    assert_eq!(capabilities.host_callbacks, Some(HostCallbacks::default()));
    // JAX lax/lax.py:6181-6189 lists seven algorithms.
    let algorithms = capabilities.dot_algorithms.unwrap();
    assert_eq!(algorithms.len(), 7);
    assert!(algorithms.contains(&DotAlgorithm::Bf16Bf16F32X6) && !algorithms.contains(&DotAlgorithm::Bf16Bf16F32X9));
}

#[test]
fn memory_is_host_memory() {
    let capabilities = cpu().capabilities;
    // PyTorch/XLA csrc/dl_convertor.cpp:52-58; JAX dlpack.cc:133-163.
    assert_eq!(capabilities.dlpack_device, Some(DlpackDevice::Cpu));
    // JAX array.py: a NumPy view of a CPU array shares the array's memory, and a CPU array can share aligned NumPy
    // memory.
    let host = BTreeSet::from([DlpackDevice::Cpu]);
    assert_eq!((&capabilities.zero_copy_import, &capabilities.zero_copy_export), (&host, &host));
}

#[test]
fn no_pytorch_xla_rules() {
    let capabilities = cpu().capabilities;
    // PyTorch/XLA csrc/data_ops.cpp:31-49, csrc/xla_lower_util.cpp:75-87, amp/autocast_mode.py:26-42,
    // csrc/dtype.cpp:145-161.
    assert_eq!((capabilities.dense_gather_factor, capabilities.dense_scatter_factor), (None, None));
    assert!(capabilities.autocast.is_none() && capabilities.remapped_dtypes.is_empty());
}

#[test]
fn client_has_one_option() {
    // XLA's CPU plugin with version 0.115 of the PJRT C API rejects every other option.
    let options = cpu().create_options;
    assert!(options.resolve(&[NamedValue::new("cpu_device_count", "8")]).is_ok());
    assert!(options.resolve(&[NamedValue::new("node_id", 0)]).is_err());
    assert_eq!(options.resolve(&[]), Ok(Vec::new()));
}

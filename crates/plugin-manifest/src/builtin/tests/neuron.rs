//! AWS Inferentia and Trainium.

use std::num::NonZeroU32;

use crate::capabilities::{Autocast, Spmd};
use crate::{ElementType, Manifest, Value};

fn neuron() -> Manifest {
    super::known("neuron")
}

#[test]
fn lowering_matches_pytorch_xla() {
    let capabilities = neuron().capabilities;
    // PyTorch/XLA csrc/data_ops.cpp:31-49.
    assert_eq!(capabilities.dense_gather_factor, NonZeroU32::new(8192));
    // PyTorch/XLA csrc/xla_lower_util.cpp:75-87: TPU only.
    assert_eq!(capabilities.dense_scatter_factor, None);
    // PyTorch/XLA amp/autocast_mode.py:26-42.
    assert_eq!(capabilities.autocast, Some(Autocast::xla([ElementType::Bf16])));
    // PyTorch/XLA csrc/dtype.cpp:145-161.
    use ElementType::{F32, F64, S16, S32, S64, U16, U32};
    assert_eq!([F64, U16, S16, S64].map(|ty| capabilities.stored_as(ty)), [F32, U32, S32, S64]);
    // PyTorch/XLA csrc/resize_ops.cpp:273-291.
    assert_eq!(capabilities.features["resize_custom_call"], Value::Bool(true));
    // PyTorch/XLA csrc/aten_xla_type.cpp:4052-4063 (nearest) and 3997-4007 (bilinear).
    assert_eq!(capabilities.features["upsample_nearest_backward"], Value::Bool(true));
    assert!(!capabilities.features.contains_key("upsample_bilinear_backward"));
}

#[test]
fn set_up_matches_pytorch_xla() {
    let neuron = neuron();
    // PyTorch/XLA runtime.py:221-228: torch_neuronx is initialized again.
    assert_eq!(neuron.capabilities.spmd, Spmd::Reinitialize);
    // PyTorch/XLA runtime.py:237-247 and _internal/neuron.py `get_master_worker_ip`.
    assert_eq!(neuron.capabilities.features["master_address_variable"], Value::from("MASTER_ADDR"));
    // PyTorch/XLA _internal/neuron.py:16-112, which the process plan reproduces.
    assert!(neuron.process.environment.iter().any(|rule| rule.variable == "NEURON_RT_ROOT_COMM_ID"));
    // PyTorch/XLA csrc/runtime/pjrt_registry.cpp:157-163.
    assert_eq!(neuron.library[0].path.to_str(), Some("libneuronpjrt.so"));
}

#[test]
fn execution_matches_jax() {
    let capabilities = neuron().capabilities;
    // JAX interpreters/mlir.py:1174; compilation_cache.py:89-95.
    assert!(capabilities.donation && capabilities.persistent_cache);
    // JAX callback.py:800-846 does not list Neuron.
    assert_eq!(capabilities.host_callbacks, None);
    // JAX dlpack.cc:133-163 does not list Neuron.
    assert_eq!(capabilities.dlpack_device, None);
}

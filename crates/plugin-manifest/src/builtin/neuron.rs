//! Manifest of AWS Inferentia and Trainium, through libneuronpjrt.

use std::collections::BTreeMap;
use std::num::NonZeroU32;

use super::lists::{linux, owned, pci};
use crate::capabilities::{Autocast, Capabilities, Spmd};
use crate::manifest::Hardware;
use crate::process::builtin_plans;
use crate::{ElementType, Manifest, Ownership};

/// Returns the manifest for AWS Inferentia and Trainium.
pub(super) fn neuron() -> Manifest {
    let mut neuron = Manifest::new("neuron");
    neuron.display_name = "AWS Neuron".to_owned();
    neuron.vendor = "Amazon Web Services".to_owned();
    neuron.description = "AWS Inferentia and Trainium through libneuronxla".to_owned();
    neuron.homepage = "https://github.com/aws-neuron/aws-neuron-sdk".to_owned();
    neuron.library = linux(&["libneuronpjrt.so"]);
    // Amazon's disks and network cards have the same PCI vendor ID, so list the device IDs of the accelerators.
    let devices = ["7064", "7065", "7066", "7067", "7164", "7264", "7364", "7564", "7565"];
    neuron.hardware = Hardware { device_nodes: owned(&["/dev/neuron*"]), pci: vec![pci("1d0f", &devices, &[])] };
    neuron.process = builtin_plans::neuron();
    // Only one process at a time can use a NeuronCore.
    neuron.ownership = Ownership::PerProcess;
    neuron.capabilities = Capabilities {
        dense_gather_factor: NonZeroU32::new(8192),
        autocast: Some(Autocast::xla([ElementType::Bf16])),
        spmd: Spmd::Reinitialize,
        donation: true,
        persistent_cache: true,
        remapped_dtypes: BTreeMap::from([
            (ElementType::F64, ElementType::F32),
            (ElementType::U16, ElementType::U32),
            (ElementType::S16, ElementType::S32),
        ]),
        features: BTreeMap::from([
            ("resize_custom_call".to_owned(), true.into()),
            ("upsample_nearest_backward".to_owned(), true.into()),
            ("master_address_variable".to_owned(), "MASTER_ADDR".into()),
        ]),
        ..Capabilities::default()
    };
    neuron
}

#[cfg(test)]
mod tests {
    use crate::Value;
    use std::num::NonZeroU32;

    use super::*;

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
        // PyTorch/XLA _internal/neuron.py:16-112, which the process plan in process::builtin_plans reproduces.
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
}

//! Connects `burn-router` to the devices.

use burn_backend::{DType, Shape, TensorData};
use burn_ir::TensorIr;
use burn_router::{MultiBackendBridge, RouterTensor, RunnerChannel, RunnerClient};

use crate::client::PjrtClient;
use crate::device::PjrtDevice;

/// The channel of [`crate::Pjrt`]. All clients of a device share its engine.
#[derive(Clone, Debug)]
pub struct PjrtChannel;

/// Moves tensors between devices by copying them through host memory.
#[derive(Debug)]
pub struct HostBridge;

impl MultiBackendBridge for HostBridge {
    type TensorHandle = TensorData;
    type Device = PjrtDevice;

    fn change_backend_float(tensor: TensorData, _: Shape, _: &PjrtDevice) -> TensorData {
        tensor
    }

    fn change_backend_int(tensor: TensorData, _: Shape, _: &PjrtDevice) -> TensorData {
        tensor
    }

    fn change_backend_bool(tensor: TensorData, _: Shape, _: &PjrtDevice) -> TensorData {
        tensor
    }
}

impl RunnerChannel for PjrtChannel {
    type Device = PjrtDevice;
    type Bridge = HostBridge;
    type Client = PjrtClient;
    type FloatElem = f32;
    type IntElem = i32;
    type BoolElem = bool;

    fn name(device: &PjrtDevice) -> String {
        format!("pjrt:{}", device.engine().plugin())
    }

    fn init_client(device: &PjrtDevice) -> PjrtClient {
        PjrtClient::new(device.engine())
    }

    /// # Panics
    ///
    /// Panics if the tensor cannot be computed or read, because Burn's function does not return a `Result`.
    fn get_tensor_handle(tensor: &TensorIr, client: &PjrtClient) -> TensorData {
        client.read(tensor).unwrap_or_else(|error| panic!("cannot move a tensor to another device: {error}"))
    }

    fn register_tensor(client: &PjrtClient, data: TensorData, _: Shape, _: DType) -> RouterTensor<PjrtClient> {
        client.register_tensor_data(data)
    }
}

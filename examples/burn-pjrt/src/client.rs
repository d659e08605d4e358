//! The client through which `burn-router` uses a device.

use std::sync::Arc;

use burn_backend::backend::ExecutionError;
use burn_backend::{DType, DTypeUsageSet, TensorData};
use burn_ir::{OperationIr, TensorId, TensorIr};
use burn_router::{RouterTensor, RunnerClient};
use burn_std::future::DynFut;

use crate::device::PjrtDevice;
use crate::engine::Engine;
use crate::error::Error;

/// A client that records the operations of a device. Clones use the same device.
#[derive(Clone, Debug)]
pub struct PjrtClient(Arc<Engine>);

impl PjrtClient {
    pub(crate) fn new(engine: Arc<Engine>) -> Self {
        Self(engine)
    }

    pub(crate) fn read(&self, tensor: &TensorIr) -> Result<TensorData, Error> {
        self.0.read(tensor)
    }
}

fn execution_error(error: &Error) -> ExecutionError {
    ExecutionError::WithContext { reason: error.to_string() }
}

impl RunnerClient for PjrtClient {
    type Device = PjrtDevice;

    /// # Panics
    ///
    /// Panics if this backend or the device does not support the operation. The message names the operation.
    fn register_op(&self, op: OperationIr) {
        if let Err(error) = self.0.record(op) {
            panic!("{error}");
        }
    }

    fn read_tensor_async(&self, tensor: TensorIr) -> DynFut<Result<TensorData, ExecutionError>> {
        let data = self.0.read(&tensor).map_err(|error| execution_error(&error));
        Box::pin(std::future::ready(data))
    }

    fn sync(&self) -> Result<(), ExecutionError> {
        self.0.synchronize().map_err(|error| execution_error(&error))
    }

    fn create_empty_handle(&self) -> TensorId {
        Engine::new_id()
    }

    /// # Panics
    ///
    /// Panics if the device does not support the element type, or if the transfer fails, because Burn's function does
    /// not return a `Result`.
    fn register_tensor_data(&self, data: TensorData) -> RouterTensor<Self> {
        let (shape, dtype) = (data.shape.clone(), data.dtype);
        match self.0.upload(data) {
            Ok(id) => RouterTensor::new(id, shape, dtype, self.clone()),
            Err(error) => panic!("cannot send a tensor to the device: {error}"),
        }
    }

    fn device(&self) -> PjrtDevice {
        self.0.device()
    }

    fn seed(&self, seed: u64) {
        self.0.seed(seed);
    }

    fn dtype_usage(&self, dtype: DType) -> DTypeUsageSet {
        self.0.types().usage(dtype)
    }
}

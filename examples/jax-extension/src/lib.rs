//! A Python module that runs StableHLO programs on the client and the arrays of JAX.

mod jax;

use std::ops::Deref;
use std::sync::Arc;

use dlpark::ffi::DLDevice;
use dlpark::versioned::Dlpack;
use pjrt::raw::{adopt_client, export_dlpack};
use pjrt::stablehlo::ForPlugin;
use pjrt::{Buffer, Client, CompileOptions, Device, DeviceAssignment, ExecuteOptions, Input, LoadedExecutable};
use pyo3::exceptions::{PyBufferError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use stablehlo::VerifyLevel;

/// The Python module `jax_pjrt`.
#[pymodule(name = "jax_pjrt")]
mod module {
    #[pymodule_export]
    use super::{Program, Tensor};
}

/// A StableHLO program, compiled for a device of JAX.
#[pyclass(frozen)]
struct Program {
    // Dropped before the client.
    executable: LoadedExecutable,
    device: Device,
    client: JaxClient,
}

/// JAX's client. It lives as long as this value, and so do handles that come from the adopted client.
struct JaxClient(Py<PyAny>);

#[pymethods]
impl Program {
    /// Compiles StableHLO text for a device, such as `jax.devices()[0]`.
    #[new]
    fn new(py: Python<'_>, text: String, device: &Bound<'_, PyAny>) -> PyResult<Self> {
        let client = device.getattr("client")?;
        let (plugin, pointer) = jax::client(&client)?;
        let id: i32 = device.getattr("id")?.extract()?;
        // SAFETY: A1 (adopted clients): the pointer is JAX's client. Each value that contains a handle also contains
        // the Python object, which owns the client.
        let adopted = unsafe { adopt_client(&plugin, pointer) }.map_err(failed)?;
        // A compiler may call Python on its own threads.
        let (executable, device) = py.detach(|| compile(&adopted, text, id))?;
        Ok(Self { executable, device, client: JaxClient(client.unbind()) })
    }

    /// Runs the program on arrays that are on the device, without a copy, and waits until it has ended. During the
    /// call, no other thread may donate or delete the arrays.
    #[pyo3(signature = (*arrays))]
    fn __call__(&self, py: Python<'_>, arrays: Vec<Bound<'_, PyAny>>) -> PyResult<Vec<Tensor>> {
        let client = self.client.0.bind(py);
        let view = |(position, array)| {
            jax::view(array, client, &self.device).map_err(|error| in_argument(py, position, &error))
        };
        let inputs = arrays.iter().enumerate().map(view).collect::<PyResult<Vec<_>>>()?;
        // The device may have to finish work of JAX that calls Python.
        let outputs = py.detach(|| self.run(&inputs)).map_err(failed)?;
        let tensor = |buffer| Tensor(Arc::new(Output { buffer, _client: self.client.clone(py) }));
        Ok(outputs.into_iter().map(tensor).collect())
    }
}

impl Program {
    /// Returns the outputs after the program has ended and no longer reads the inputs.
    fn run(&self, inputs: &[Buffer]) -> Result<Vec<Buffer>, pjrt::Error> {
        let options = ExecuteOptions::new();
        let run = self.executable.execute_with(inputs.iter().map(Input::Borrow), &options)?;
        run.done.wait()?;
        let outputs = run.outputs.into_vec();
        outputs.iter().try_for_each(Buffer::wait)?;
        Ok(outputs)
    }
}

/// Compiles a program for the device with an id.
fn compile(client: &Client, text: String, id: i32) -> PyResult<(LoadedExecutable, Device)> {
    let mut devices = client.addressable_devices().map_err(failed)?.into_iter();
    let device = devices.find(|device| device.id().is_ok_and(|other| other == id));
    let device = device.ok_or_else(|| PyValueError::new_err(format!("this process has no device {id}")))?;
    let module = stablehlo::parse(text, VerifyLevel::FULL).map_err(|error| PyValueError::new_err(error.to_string()))?;
    let program = pjrt::Program::for_plugin(&module, &client.plugin()).map_err(failed)?;
    let assignment = DeviceAssignment::new(1, 1, vec![id.into()]);
    let assignment = assignment.ok_or_else(|| PyValueError::new_err("the device has no valid id"))?;
    let options = CompileOptions::default().with_device_assignment(assignment);
    Ok((client.compile(&program, &options).map_err(failed)?, device))
}

/// A result on JAX's device. `jax.dlpack.from_dlpack` and `numpy.from_dlpack` read it without a copy if the device uses
/// the host's memory.
#[pyclass(frozen)]
struct Tensor(Arc<Output>);

struct Output {
    // Dropped before the client.
    buffer: Buffer,
    _client: JaxClient,
}

/// What a DLPack tensor keeps alive.
struct Exported(Arc<Output>);

impl Deref for Exported {
    type Target = Buffer;

    fn deref(&self) -> &Buffer {
        &self.0.buffer
    }
}

#[pymethods]
impl Tensor {
    /// Returns a capsule with the tensor. The arguments are those of the array API standard.
    #[pyo3(signature = (*, stream=None, max_version=None, dl_device=None, copy=None))]
    fn __dlpack__(
        &self,
        stream: Option<&Bound<'_, PyAny>>,
        max_version: Option<(u32, u32)>,
        dl_device: Option<(i32, i32)>,
        copy: Option<bool>,
    ) -> PyResult<Dlpack> {
        if stream.is_some() || copy == Some(true) || dl_device.is_some_and(|device| device != self.device()) {
            return Err(PyBufferError::new_err("the tensor is exported from the host's memory, and is not copied"));
        }
        if max_version.is_none_or(|(major, _)| major < 1) {
            return Err(PyBufferError::new_err(
                "the library that reads the tensor supports only versions before DLPack 1.0",
            ));
        }
        if !self.0.buffer.is_on_cpu().map_err(failed)? {
            return Err(PyBufferError::new_err("the tensor is not in memory that the host can read"));
        }
        // SAFETY: P4 (exported tensors): the plugin reports that the buffer is in the host's memory. `Exported` always
        // dereferences to the buffer that it owns.
        unsafe { export_dlpack(Exported(Arc::clone(&self.0)), DLDevice::CPU) }.map_err(failed)
    }

    /// Returns the type and the number of DLPack's device: the CPU.
    fn __dlpack_device__(&self) -> (i32, i32) {
        self.device()
    }

    fn __repr__(&self) -> PyResult<String> {
        Ok(format!("<jax_pjrt.Tensor {}>", self.0.buffer.shape().map_err(failed)?))
    }
}

impl Tensor {
    fn device(&self) -> (i32, i32) {
        (DLDevice::CPU.device_type.0 as i32, DLDevice::CPU.device_id)
    }
}

impl JaxClient {
    fn clone(&self, py: Python<'_>) -> Self {
        Self(self.0.clone_ref(py))
    }
}

fn failed(error: pjrt::Error) -> PyErr {
    PyRuntimeError::new_err(error.to_string())
}

/// Adds the position of the argument to an error.
fn in_argument(py: Python<'_>, position: usize, error: &PyErr) -> PyErr {
    PyErr::from_type(error.get_type(py), format!("argument {position}: {}", error.value(py)))
}

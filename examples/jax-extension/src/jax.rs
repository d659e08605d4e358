//! The objects of JAX behind Python's objects.

use std::ffi::c_void;

use pjrt::raw::adopt_plugin;
use pjrt::{Buffer, Device, ElementType, Plugin, Shape};
use pjrt_sys::{PJRT_Api, PJRT_Client};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;

use crate::failed;

/// Returns the plugin and the address of JAX's client `client`.
pub(crate) fn client(client: &Bound<'_, PyAny>) -> PyResult<(Plugin, *mut PJRT_Client)> {
    let address: usize = client
        .getattr("unsafe_client_pointer")
        .map_err(|_| PyTypeError::new_err("this JAX has no Client.unsafe_client_pointer; JAX 0.12 has it"))?
        .extract()?;
    let platform: String = client.getattr("platform")?.extract()?;
    if address == 0 {
        return Err(PyValueError::new_err(format!(
            "the platform {platform} is built into jaxlib and has no PJRT client; use a device of a plugin"
        )));
    }
    // The structs of XLA's plugins of API 0.115 begin with the function table. So do those of the SDK.
    let pointer = std::ptr::with_exposed_provenance_mut::<PJRT_Client>(address);
    // SAFETY: the address is that of a client, which has at least the size of a pointer.
    let table = unsafe { pointer.cast::<*const PJRT_Api>().read() };
    // Older clients begin with the address of an object on the heap.
    if !is_in_library(table.cast()) {
        return Err(PyValueError::new_err(format!(
            "the client of {platform} does not begin with its function table, as clients of newer plugins do; use a \
             plugin of PJRT API 0.115 or newer"
        )));
    }
    // SAFETY: C1 (table): JAX has initialized the plugin and uses this table.
    let plugin = unsafe { adopt_plugin(table) }.map_err(|error| PyValueError::new_err(error.to_string()))?;
    Ok((plugin, pointer))
}

/// Returns whether the address is in a library or program that is loaded.
fn is_in_library(address: *const c_void) -> bool {
    let mut found = std::mem::MaybeUninit::<libc::Dl_info>::uninit();
    // SAFETY: the function accepts any address, and writes only to `found`.
    unsafe { libc::dladdr(address, found.as_mut_ptr()) != 0 }
}

/// An array of JAX on one device.
pub(crate) struct Array<'py> {
    object: Bound<'py, PyAny>,
    shape: Shape,
    memory_kind: String,
    address: usize,
}

impl<'py> Array<'py> {
    /// Waits for the contents of an array. Returns an error if the array is not of the client, on several devices, or
    /// not in row-major order.
    pub(crate) fn new(array: &Bound<'py, PyAny>, client: &Bound<'py, PyAny>) -> PyResult<Self> {
        if !array.hasattr("unsafe_buffer_pointer")? {
            return Err(PyTypeError::new_err(format!("expected an array of JAX, found {}", array.get_type())));
        }
        let device = array.getattr("device")?;
        if !device.hasattr("client")? {
            return Err(PyValueError::new_err("the array is on several devices"));
        }
        if !device.getattr("client")?.is(client) {
            return Err(PyValueError::new_err(format!("the array is on {device}, which belongs to another client")));
        }
        let dimensions: Vec<i64> = array.getattr("shape")?.extract()?;
        let order: Vec<usize> = array.getattr("format")?.getattr("layout")?.getattr("major_to_minor")?.extract()?;
        if !order.iter().copied().eq(0..dimensions.len()) {
            return Err(PyValueError::new_err("the array is not in row-major order"));
        }
        let name: String = array.getattr("dtype")?.getattr("name")?.extract()?;
        let element_type = element_type(&name)
            .ok_or_else(|| PyTypeError::new_err(format!("this module has no element type for {name}")))?;
        array.call_method0("block_until_ready")?;
        Ok(Self {
            object: array.clone(),
            shape: Shape::new(element_type, dimensions),
            memory_kind: array.getattr("sharding")?.getattr("memory_kind")?.extract()?,
            address: array.call_method0("unsafe_buffer_pointer")?.extract()?,
        })
    }

    /// Returns a buffer in the memory of the array, which it keeps alive.
    pub(crate) fn view(self, device: &Device) -> PyResult<Buffer> {
        let id: i32 = self.object.getattr("device")?.getattr("id")?.extract()?;
        if device.id().map_err(failed)? != id {
            return Err(PyValueError::new_err(format!("the array is on device {id}, and the program on another one")));
        }
        let memories = device.memories().map_err(failed)?;
        let memory = memories.iter().find(|memory| memory.kind().is_ok_and(|kind| kind == self.memory_kind));
        let memory = memory.ok_or_else(|| {
            PyValueError::new_err(format!("the device has no memory of the kind {}", self.memory_kind))
        })?;
        let address = std::ptr::with_exposed_provenance_mut::<c_void>(self.address);
        // SAFETY: A4 (views of device memory): JAX reports the address, the shape and the memory of an array whose
        // contents are ready. The array keeps the memory, and JAX does not write to it. By the contract of `__call__`,
        // no thread donates it.
        unsafe { memory.buffer(&self.shape).view(address, None, self.object.unbind()) }.map_err(failed)
    }
}

/// Returns the element type with a name of NumPy or ml_dtypes.
fn element_type(name: &str) -> Option<ElementType> {
    Some(match name {
        "bool" => ElementType::Pred,
        "int8" => ElementType::S8,
        "int16" => ElementType::S16,
        "int32" => ElementType::S32,
        "int64" => ElementType::S64,
        "uint8" => ElementType::U8,
        "uint16" => ElementType::U16,
        "uint32" => ElementType::U32,
        "uint64" => ElementType::U64,
        "float16" => ElementType::F16,
        "bfloat16" => ElementType::Bf16,
        "float32" => ElementType::F32,
        "float64" => ElementType::F64,
        "complex64" => ElementType::C64,
        "complex128" => ElementType::C128,
        _ => return None,
    })
}

//! The objects of JAX behind Python's objects.

use std::collections::BTreeSet;
use std::ffi::c_void;

use libc::RTLD_NOLOAD;
use libloading::os::unix::{Library, RTLD_LAZY};
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
    // SAFETY: A1 (adopted clients): the address is that of a client, which has at least the size of a pointer.
    let table = unsafe { pointer.cast::<*const PJRT_Api>().read() };
    // Clients of older plugins begin with something else, so look for a plugin with this table.
    if !loaded_tables().any(|other| std::ptr::eq(other, table)) {
        return Err(PyValueError::new_err(format!(
            "the client of {platform} does not begin with the function table of its plugin, as clients of newer plugins \
             do; use a plugin of PJRT API 0.115 or newer"
        )));
    }
    // SAFETY: C1 (table): a plugin returned this table, and JAX has initialized the plugin.
    let plugin = unsafe { adopt_plugin(table) }.map_err(|error| PyValueError::new_err(error.to_string()))?;
    Ok((plugin, pointer))
}

/// Returns the function tables of the plugins that are loaded in this process.
fn loaded_tables() -> impl Iterator<Item = *const PJRT_Api> {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let files = maps.lines().filter_map(|line| line.find('/').map(|start| line[start..].to_owned()));
    files.collect::<BTreeSet<_>>().into_iter().filter_map(|file| {
        // SAFETY: C1 (table): the flag allows only libraries that are loaded, so that no code of the file runs.
        let library = unsafe { Library::open(Some(file), RTLD_LAZY | RTLD_NOLOAD) }.ok()?;
        // SAFETY: C1 (table): the symbol has this type in all plugins.
        let get = unsafe { library.get::<unsafe extern "C" fn() -> *const PJRT_Api>(b"GetPjrtApi") }.ok()?;
        // SAFETY: C1 (table): frameworks may call the function at any time and more than once.
        Some(unsafe { get() })
    })
}

/// Waits for the contents of an array, and returns a buffer in its memory, which the buffer keeps alive. Returns an
/// error if the array is not on this device of this client, on several devices, or not in row-major order.
pub(crate) fn view(array: &Bound<'_, PyAny>, client: &Bound<'_, PyAny>, device: &Device) -> PyResult<Buffer> {
    if !array.hasattr("unsafe_buffer_pointer")? {
        return Err(PyTypeError::new_err(format!("expected an array of JAX, found {}", array.get_type())));
    }
    let place = array.getattr("device")?;
    if !place.hasattr("client")? {
        return Err(PyValueError::new_err("the array is on several devices"));
    }
    if !place.getattr("client")?.is(client) {
        return Err(PyValueError::new_err(format!("the array is on {place}, which belongs to another client")));
    }
    let id: i32 = place.getattr("id")?.extract()?;
    if device.id().map_err(failed)? != id {
        return Err(PyValueError::new_err(format!("the array is on device {id}, and the program on another one")));
    }
    let dimensions: Vec<i64> = array.getattr("shape")?.extract()?;
    let layout = array.getattr("format")?.getattr("layout")?;
    if !layout.is_none() {
        let order: Vec<usize> = layout.getattr("major_to_minor")?.extract()?;
        if !order.iter().copied().eq(0..dimensions.len()) || layout.getattr("tiling")?.is_truthy()? {
            return Err(PyValueError::new_err(format!("the array is not in row-major order: {layout}")));
        }
    }
    let name: String = array.getattr("dtype")?.getattr("name")?.extract()?;
    let element_type = element_type(&name)
        .ok_or_else(|| PyTypeError::new_err(format!("this module has no element type for {name}")))?;
    let kind: String = array.getattr("sharding")?.getattr("memory_kind")?.extract()?;
    let memories = device.memories().map_err(failed)?;
    let memory = memories.iter().find(|memory| memory.kind().is_ok_and(|other| other == kind));
    let memory = memory.ok_or_else(|| PyValueError::new_err(format!("the device has no memory of the kind {kind}")))?;
    array.call_method0("block_until_ready")?;
    let address: usize = array.call_method0("unsafe_buffer_pointer")?.extract()?;
    let address = std::ptr::with_exposed_provenance_mut::<c_void>(address);
    let shape = Shape::new(element_type, dimensions);
    // SAFETY: A4 (views of device memory): JAX reports the address, the shape and the memory of an array whose contents
    // are ready. The array keeps the memory, and JAX does not write to it, unless it donates the array. By the contract
    // of `__call__`, no thread does that during the call, at whose end the plugin no longer reads it.
    unsafe { memory.buffer(&shape).view(address, None, array.clone().unbind()) }.map_err(failed)
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

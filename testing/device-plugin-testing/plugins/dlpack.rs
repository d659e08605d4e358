//! A test library, not a plugin, that exchanges DLPack tensors between a Python process and buffers of the embedded CPU
//! device. The JAX tests load it with `ctypes`.
#![allow(missing_debug_implementations, reason = "a test plugin")]
#![allow(missing_docs, clippy::unwrap_used, reason = "a tool of tests, whose callers pass what it expects")]

use std::ffi::c_void;
use std::sync::{Arc, OnceLock};

use dlpark::ffi::{DLManagedTensor, DLManagedTensorVersioned};
use dlpark::{Managed, ManagedTensorBase};
use pjrt::{Client, ClientOptions, Plugin, Upload};

fn client() -> &'static Client {
    static CLIENT: OnceLock<Client> = OnceLock::new();
    CLIENT.get_or_init(|| Plugin::from_static(pjrt_cpu::Cpu::api()).unwrap().client(&ClientOptions::new()).unwrap())
}

fn export<M: ManagedTensorBase>(start: f32) -> *mut c_void {
    let numbers: Vec<f32> = (0..6u8).map(|number| start + f32::from(number)).collect();
    let buffer = Arc::new(client().buffer_from_host(&numbers, &[2, 3]).unwrap());
    buffer.to_dlpack::<M>().unwrap().into_raw().cast()
}

/// # Safety
///
/// `tensor` is a tensor in the format of `M` that this function takes over. No code writes its elements afterwards.
unsafe fn import<M: ManagedTensorBase + 'static>(tensor: *mut M, columns: &mut [f64; 3]) -> i64 {
    // SAFETY: this function's caller gives up the tensor.
    let tensor = unsafe { Managed::from_raw(tensor) }.unwrap();
    // SAFETY: no code writes the elements, by this function's contract.
    let buffer = unsafe { Upload::dlpack(tensor) }.and_then(|upload| client().upload(upload));
    let Ok(buffer) = buffer else { return -1 };
    let numbers = buffer.to_host::<f32>().unwrap();
    for (index, number) in numbers.iter().enumerate() {
        columns[index % 3] += f64::from(*number);
    }
    i64::try_from(numbers.len()).unwrap()
}

/// Exports a 2x3 buffer of `start`, `start + 1`, … as a tensor in the format of DLPack 1.0.
#[unsafe(no_mangle)]
pub extern "C" fn dlpack_export_versioned(start: f32) -> *mut c_void {
    export::<DLManagedTensorVersioned>(start)
}

/// Exports the same tensor as [`dlpack_export_versioned`] in the format before DLPack 1.0.
#[unsafe(no_mangle)]
pub extern "C" fn dlpack_export(start: f32) -> *mut c_void {
    export::<DLManagedTensor>(start)
}

/// Imports a tensor of three columns, adds the sum of each column to `columns`, and drops the tensor. Returns the
/// number of elements, or -1 if the tensor is rejected.
///
/// # Safety
///
/// The caller gives up the tensor, and no code writes its elements afterwards.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dlpack_import_versioned(tensor: *mut DLManagedTensorVersioned, columns: &mut [f64; 3]) -> i64 {
    // SAFETY: the requirements are those of this function.
    unsafe { import(tensor, columns) }
}

/// Imports a tensor in the format before DLPack 1.0, like [`dlpack_import_versioned`].
///
/// # Safety
///
/// The caller gives up the tensor, and no code writes its elements afterwards.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dlpack_import(tensor: *mut DLManagedTensor, columns: &mut [f64; 3]) -> i64 {
    // SAFETY: the requirements are those of this function.
    unsafe { import(tensor, columns) }
}

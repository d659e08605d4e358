//! DLPack: exchanges tensors with other libraries without copies.

use std::ops::Deref;

use dlpark::ffi::{DLDevice, DLDeviceType, DLManagedTensor, DLManagedTensorVersioned};
use dlpark::{Managed, ManagedTensorBase};
use pjrt::{Buffer, Upload};
use pjrt_c_macros::c_function;

use crate::border::error::{dp_code, dp_error};
use crate::border::failure::{Failure, Outcome};
use crate::border::handle::{Held, Owned};
use crate::buffer::buffer::dp_buffer;
use crate::client::objects::placement;
use crate::client::{dp_client, dp_device, dp_memory};

impl Deref for Held<dp_buffer> {
    type Target = Buffer;

    fn deref(&self) -> &Buffer {
        &self.object().inner
    }
}

/// Waits for the contents, and exports the buffer as a DLPack tensor without a copy. The buffer must be row-major.
/// `device_type` and `device_id` name the DLPack device in whose memory it is; 0 and 0 mean host memory, and are
/// checked. The tensor is read-only, and keeps the buffer until its deleter is called; meanwhile the buffer can be
/// neither donated nor deleted.
#[c_function]
pub fn dp_buffer_to_dlpack(
    buffer: Held<dp_buffer>,
    device_type: u32,
    device_id: i32,
) -> Outcome<*mut DLManagedTensorVersioned> {
    Ok(export::<DLManagedTensorVersioned>(buffer, device_type, device_id)?.into_raw())
}

/// Exports the buffer like `dp_buffer_to_dlpack`, for libraries that support only DLPack before 1.0.
#[c_function]
pub fn dp_buffer_to_dlpack_unversioned(
    buffer: Held<dp_buffer>,
    device_type: u32,
    device_id: i32,
) -> Outcome<*mut DLManagedTensor> {
    Ok(export::<DLManagedTensor>(buffer, device_type, device_id)?.into_raw())
}

fn export<M: ManagedTensorBase>(buffer: Held<dp_buffer>, device_type: u32, device_id: i32) -> Outcome<Managed<M>> {
    let device = match (device_type, device_id) {
        (0, 0) => {
            if !buffer.is_on_cpu()? {
                return Err(Failure::new(
                    pjrt::ErrorCode::UNIMPLEMENTED,
                    "the buffer is not in memory that the host can read; name its DLPack device",
                ));
            }
            DLDevice::CPU
        }
        _ => DLDevice { device_type: DLDeviceType(device_type), device_id },
    };
    // SAFETY: K5 (the caller names the device of the buffer's memory).
    Ok(unsafe { pjrt::raw::export_dlpack(buffer, device) }?)
}

/// Makes a buffer from a DLPack tensor in host memory, without a copy if the device can use the memory in place. Takes
/// the tensor, also if the function fails, and calls its deleter when it is no longer used. Nobody may write the
/// elements before. At most one of `device` and `memory` is not NULL.
#[c_function]
pub fn dp_client_from_dlpack(
    client: &dp_client,
    tensor: Tensor<DLManagedTensorVersioned>,
    device: *const dp_device,
    memory: *const dp_memory,
) -> Outcome<Owned<dp_buffer>> {
    import(client, tensor, device, memory)
}

/// Makes a buffer from a tensor of DLPack before 1.0, like `dp_client_from_dlpack`.
#[c_function]
pub fn dp_client_from_dlpack_unversioned(
    client: &dp_client,
    tensor: Tensor<DLManagedTensor>,
    device: *const dp_device,
    memory: *const dp_memory,
) -> Outcome<Owned<dp_buffer>> {
    import(client, tensor, device, memory)
}

fn import<M: ManagedTensorBase + 'static>(
    client: &dp_client,
    tensor: Tensor<M>,
    device: *const dp_device,
    memory: *const dp_memory,
) -> Outcome<Owned<dp_buffer>> {
    // SAFETY: K5 (nobody writes the elements of a tensor).
    let upload = unsafe { Upload::dlpack(tensor.0) }?;
    // SAFETY: K2 (exclusive use).
    let placement = unsafe { placement(device, memory) }?;
    Ok(Owned(dp_buffer::new(client.inner.upload(upload.to(placement))?)))
}

/// A tensor of the caller, whose deleter is called when this value is dropped.
pub(crate) struct Tensor<M: ManagedTensorBase>(Managed<M>);

/// Takes a tensor of the caller.
///
/// # Safety
///
/// The caller must keep contract K5 (a tensor is valid, and belongs to the caller).
pub(crate) unsafe fn take_tensor<M: ManagedTensorBase>(tensor: *mut M) -> Outcome<Tensor<M>> {
    if tensor.is_null() || !tensor.is_aligned() {
        return Err(Failure::argument("`tensor` is not the address of a DLPack tensor"));
    }
    // SAFETY: K5 (a tensor is valid, and belongs to the caller).
    let tensor = unsafe { Managed::from_raw(tensor) };
    tensor.map(Tensor).map_err(|error| Failure::argument(format!("`tensor` is not a DLPack tensor: {error}")))
}

//! Queries, transfers and deletions that always call the plugin. The objects of `pjrt` remember some answers of the
//! plugin, and then return these answers without a call.

use pjrt::raw::AsRaw;
use pjrt::{Buffer, Client, Device, LoadedExecutable};
use pjrt_sys::{
    AbiStruct, PJRT_Buffer_Delete_Args, PJRT_Buffer_Destroy_Args, PJRT_Buffer_Device_Args, PJRT_Buffer_IsDeleted_Args,
    PJRT_Buffer_ToHostBuffer_Args, PJRT_Buffer_Type, PJRT_Client_BufferFromHostBuffer_Args,
    PJRT_Executable_Destroy_Args, PJRT_HostBufferSemantics, PJRT_LoadedExecutable_Delete_Args,
    PJRT_LoadedExecutable_GetExecutable_Args, PJRT_LoadedExecutable_IsDeleted_Args, slot,
};

use super::events::RawEvent;
use super::failure::{Failure, call, called};
use crate::stop::Stop;

/// Returns whether the plugin reports that a buffer is on a device.
pub(crate) fn is_on(buffer: &Buffer, device: &Device) -> Result<bool, Stop> {
    let mut args = PJRT_Buffer_Device_Args::new();
    args.buffer = buffer.as_raw();
    // SAFETY: C2 (calls): the buffer is live.
    let result = unsafe { call::<slot::PJRT_Buffer_Device>(&buffer.client().plugin(), &raw mut args) };
    called(result, "PJRT_Buffer_Device")??;
    Ok(args.device == device.as_raw())
}

/// Deletes a buffer, even if `pjrt` would refuse because the buffer is in use.
pub(crate) fn delete(buffer: &Buffer) -> Result<(), Stop> {
    let mut args = PJRT_Buffer_Delete_Args::new();
    args.buffer = buffer.as_raw();
    // SAFETY: C2 (calls): the buffer is live.
    let result = unsafe { call::<slot::PJRT_Buffer_Delete>(&buffer.client().plugin(), &raw mut args) };
    Ok(called(result, "PJRT_Buffer_Delete")??)
}

/// Returns whether the plugin reports that a buffer is deleted.
pub(crate) fn is_deleted(buffer: &Buffer) -> Result<bool, Stop> {
    let mut args = PJRT_Buffer_IsDeleted_Args::new();
    args.buffer = buffer.as_raw();
    // SAFETY: C2 (calls): the buffer is live.
    let result = unsafe { call::<slot::PJRT_Buffer_IsDeleted>(&buffer.client().plugin(), &raw mut args) };
    called(result, "PJRT_Buffer_IsDeleted")??;
    Ok(args.is_deleted.get())
}

/// Copies `size` bytes of a buffer to the host, and waits for the end of the copy. The inner result is the outcome that
/// the plugin reported. The memory is leaked, because the plugin may use it after an error.
pub(crate) fn read(buffer: &Buffer, size: usize) -> Result<Result<Vec<u8>, Failure>, Stop> {
    let plugin = buffer.client().plugin();
    let memory = Box::leak(vec![0u8; size].into_boxed_slice());
    let mut args = PJRT_Buffer_ToHostBuffer_Args::new();
    args.src = buffer.as_raw();
    args.dst = memory.as_mut_ptr().cast();
    args.dst_size = size;
    // SAFETY: C5 (host memory): the destination stays writable until the process ends.
    let result = unsafe { call::<slot::PJRT_Buffer_ToHostBuffer>(&plugin, &raw mut args) };
    if let Err(failure) = called(result, "PJRT_Buffer_ToHostBuffer")? {
        return Ok(Err(failure));
    }
    let done = RawEvent::of(&plugin, args.event, "PJRT_Buffer_ToHostBuffer")?.wait()?;
    Ok(done.map(|()| memory.to_vec()))
}

/// Returns the arguments of an upload of `f32` elements to the default device.
fn upload(
    client: &Client,
    data: &'static [f32],
    dims: &[i64; 1],
) -> Result<PJRT_Client_BufferFromHostBuffer_Args, Stop> {
    let mut args = PJRT_Client_BufferFromHostBuffer_Args::new();
    args.client = client.as_raw();
    args.data = data.as_ptr().cast();
    args.type_ = PJRT_Buffer_Type(pjrt::ElementType::F32.as_raw());
    args.dims = dims.as_ptr();
    args.num_dims = 1;
    args.device = client.default_device()?.as_raw();
    Ok(args)
}

fn destroy(client: &Client, buffer: *mut pjrt_sys::PJRT_Buffer) -> Result<(), Stop> {
    let mut args = PJRT_Buffer_Destroy_Args::new();
    args.buffer = buffer;
    // SAFETY: C3 (objects): the buffer is live, and the caller does not use it afterwards.
    let result = unsafe { call::<slot::PJRT_Buffer_Destroy>(&client.plugin(), &raw mut args) };
    Ok(called(result, "PJRT_Buffer_Destroy")??)
}

/// Uploads an array with the given host-buffer semantics. Returns whether the plugin returned a `done_with_host_buffer`
/// event, after waiting for the event.
pub(crate) fn upload_reports_end(client: &Client, semantics: pjrt::HostBufferSemantics) -> Result<bool, Stop> {
    static DATA: [f32; 64] = [1.0; 64];
    let dims = [64];
    let mut args = upload(client, &DATA, &dims)?;
    args.host_buffer_semantics = PJRT_HostBufferSemantics(semantics as u32);
    let plugin = client.plugin();
    // SAFETY: C5 (host memory): the data lives until the process ends.
    let result = unsafe { call::<slot::PJRT_Client_BufferFromHostBuffer>(&plugin, &raw mut args) };
    called(result, "PJRT_Client_BufferFromHostBuffer")??;
    destroy(client, args.buffer)?;
    if args.done_with_host_buffer.is_null() {
        return Ok(false);
    }
    RawEvent::of(&plugin, args.done_with_host_buffer, "PJRT_Client_BufferFromHostBuffer")?.wait()??;
    Ok(true)
}

/// Uploads an array, starts a read of the buffer, destroys the buffer, and waits for the read. Returns the bytes.
pub(crate) fn read_destroyed(client: &Client, data: &'static [f32]) -> Result<Vec<u8>, Stop> {
    let plugin = client.plugin();
    let dims = [i64::try_from(data.len()).unwrap_or(0)];
    let mut args = upload(client, data, &dims)?;
    // SAFETY: C5 (host memory): the data lives until the process ends.
    let result = unsafe { call::<slot::PJRT_Client_BufferFromHostBuffer>(&plugin, &raw mut args) };
    called(result, "PJRT_Client_BufferFromHostBuffer")??;
    let memory = Box::leak(vec![0u8; size_of_val(data)].into_boxed_slice());
    let mut copy = PJRT_Buffer_ToHostBuffer_Args::new();
    copy.src = args.buffer;
    copy.dst = memory.as_mut_ptr().cast();
    copy.dst_size = memory.len();
    // SAFETY: C5 (host memory): the destination stays writable until the process ends.
    let result = unsafe { call::<slot::PJRT_Buffer_ToHostBuffer>(&plugin, &raw mut copy) };
    called(result, "PJRT_Buffer_ToHostBuffer")??;
    destroy(client, args.buffer)?;
    RawEvent::of(&plugin, copy.event, "PJRT_Buffer_ToHostBuffer")?.wait()??;
    if !args.done_with_host_buffer.is_null() {
        drop(RawEvent::of(&plugin, args.done_with_host_buffer, "PJRT_Client_BufferFromHostBuffer")?);
    }
    Ok(memory.to_vec())
}

/// Gets the `PJRT_Executable` of a loaded executable, and destroys this `PJRT_Executable`.
pub(crate) fn get_executable(executable: &LoadedExecutable) -> Result<(), Stop> {
    let plugin = executable.client().plugin();
    let mut get = PJRT_LoadedExecutable_GetExecutable_Args::new();
    get.loaded_executable = executable.as_raw();
    // SAFETY: C2 (calls): the executable is live.
    let result = unsafe { call::<slot::PJRT_LoadedExecutable_GetExecutable>(&plugin, &raw mut get) };
    called(result, "PJRT_LoadedExecutable_GetExecutable")??;
    let mut destroy = PJRT_Executable_Destroy_Args::new();
    destroy.executable = get.executable;
    // SAFETY: C3 (objects): this function owns the executable, and does not use it afterwards.
    let result = unsafe { call::<slot::PJRT_Executable_Destroy>(&plugin, &raw mut destroy) };
    Ok(called(result, "PJRT_Executable_Destroy")??)
}

/// Deletes a loaded executable with a direct call. The object of `pjrt` does not record this deletion.
pub(crate) fn delete_executable(executable: &LoadedExecutable) -> Result<(), Stop> {
    let mut args = PJRT_LoadedExecutable_Delete_Args::new();
    args.executable = executable.as_raw();
    let plugin = executable.client().plugin();
    // SAFETY: C2 (calls): the executable is live.
    let result = unsafe { call::<slot::PJRT_LoadedExecutable_Delete>(&plugin, &raw mut args) };
    Ok(called(result, "PJRT_LoadedExecutable_Delete")??)
}

/// Returns whether the plugin reports that an executable is deleted.
pub(crate) fn is_executable_deleted(executable: &LoadedExecutable) -> Result<bool, Stop> {
    let mut args = PJRT_LoadedExecutable_IsDeleted_Args::new();
    args.executable = executable.as_raw();
    let plugin = executable.client().plugin();
    // SAFETY: C2 (calls): the executable is live.
    let result = unsafe { call::<slot::PJRT_LoadedExecutable_IsDeleted>(&plugin, &raw mut args) };
    called(result, "PJRT_LoadedExecutable_IsDeleted")??;
    Ok(args.is_deleted.get())
}

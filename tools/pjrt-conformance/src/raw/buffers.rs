//! Direct calls for transfers, external references and executions. Most of them have arguments that `pjrt` would
//! reject.

use std::ptr::null_mut;

use pjrt::raw::{AsRaw, own_buffer};
use pjrt::{Buffer, Client, ElementType, LoadedExecutable};
use pjrt_sys::{
    AbiStruct, PJRT_Buffer, PJRT_Buffer_CopyRawToHost_Args, PJRT_Buffer_CopyRawToHostFuture_Args,
    PJRT_Buffer_CopyRawToHostFuture_Callback_Args, PJRT_Buffer_DecreaseExternalReferenceCount_Args,
    PJRT_Buffer_IncreaseExternalReferenceCount_Args, PJRT_Buffer_OpaqueDeviceMemoryDataPointer_Args,
    PJRT_Buffer_ToHostBuffer_Args, PJRT_Buffer_Type, PJRT_Client_BufferFromHostBuffer_Args, PJRT_Error_Code,
    PJRT_ExecuteOptions, PJRT_LoadedExecutable_Execute_Args, slot,
};

use super::events::RawEvent;
use super::failure::{Failure, call, called};
use crate::stop::Stop;

/// Queries the size of a buffer on the host with `PJRT_Buffer_ToHostBuffer` and a null destination.
pub(crate) fn host_size(buffer: &Buffer) -> Result<usize, Stop> {
    let plugin = buffer.client().plugin();
    let mut args = PJRT_Buffer_ToHostBuffer_Args::new();
    args.src = buffer.as_raw();
    // SAFETY: C5 (host memory): without a destination, the function only writes the size.
    let result = unsafe { call::<slot::PJRT_Buffer_ToHostBuffer>(&plugin, &raw mut args) };
    called(result, "PJRT_Buffer_ToHostBuffer")??;
    Ok(args.dst_size)
}

/// Reads a buffer into memory of `len` bytes, but passes `announced` as the size of the memory. `announced` must not
/// exceed `len`. The inner result is the result of the call. This function does not wait for the copy, so it leaks the
/// memory.
pub(crate) fn read_with_size(buffer: &Buffer, len: usize, announced: usize) -> Result<Result<(), Failure>, Stop> {
    let plugin = buffer.client().plugin();
    let memory = Box::leak(vec![0u8; len].into_boxed_slice());
    let mut args = PJRT_Buffer_ToHostBuffer_Args::new();
    args.src = buffer.as_raw();
    args.dst = memory.as_mut_ptr().cast();
    args.dst_size = announced.min(len);
    // SAFETY: C5 (host memory): the destination stays writable until the process ends.
    let result = unsafe { call::<slot::PJRT_Buffer_ToHostBuffer>(&plugin, &raw mut args) };
    called(result, "PJRT_Buffer_ToHostBuffer")
}

/// Allocates `size` bytes, followed by `size` bytes that the plugin must not write. All bytes have the value [`GUARD`].
/// The memory is leaked, because the plugin may use it after an error.
fn guarded(size: usize) -> &'static mut [u8] {
    Box::leak(vec![GUARD; 2 * size].into_boxed_slice())
}

/// Initial value of the bytes of a destination. If a byte has another value, the plugin has written it.
pub(crate) const GUARD: u8 = 0xa5;

/// Reads a buffer of `size` bytes into a larger destination, but announces only `size` bytes. Returns the bytes after
/// the first `size` bytes. If the plugin wrote only `size` bytes, each of the returned bytes is [`GUARD`].
pub(crate) fn read_guarded(buffer: &Buffer, size: usize) -> Result<Vec<u8>, Stop> {
    let plugin = buffer.client().plugin();
    let memory = guarded(size);
    let mut args = PJRT_Buffer_ToHostBuffer_Args::new();
    args.src = buffer.as_raw();
    args.dst = memory.as_mut_ptr().cast();
    args.dst_size = size;
    // SAFETY: C5 (host memory): the destination stays writable until the process ends.
    let result = unsafe { call::<slot::PJRT_Buffer_ToHostBuffer>(&plugin, &raw mut args) };
    called(result, "PJRT_Buffer_ToHostBuffer")??;
    RawEvent::of(&plugin, args.event, "PJRT_Buffer_ToHostBuffer")?.wait()??;
    Ok(memory[size..].to_vec())
}

/// Copies `size` bytes from a byte offset of a buffer into a larger destination, with `PJRT_Buffer_CopyRawToHost`. Like
/// [`read_guarded`], returns the bytes after the first `size` bytes.
pub(crate) fn copy_raw_guarded(buffer: &Buffer, offset: i64, size: usize) -> Result<Vec<u8>, Stop> {
    let plugin = buffer.client().plugin();
    let memory = guarded(size);
    let mut args = PJRT_Buffer_CopyRawToHost_Args::new();
    args.buffer = buffer.as_raw();
    args.dst = memory.as_mut_ptr().cast();
    args.offset = offset;
    args.transfer_size = i64::try_from(size).unwrap_or(0);
    // SAFETY: C5 (host memory): the destination stays writable until the process ends.
    let result = unsafe { call::<slot::PJRT_Buffer_CopyRawToHost>(&plugin, &raw mut args) };
    called(result, "PJRT_Buffer_CopyRawToHost")??;
    RawEvent::of(&plugin, args.event, "PJRT_Buffer_CopyRawToHost")?.wait()??;
    Ok(memory[size..].to_vec())
}

/// Copies `size` bytes from `offset` with `PJRT_Buffer_CopyRawToHost`, without checking the range. The inner result is
/// the error of the call, or the outcome of its event. The memory is leaked, because the plugin may use it after an
/// error.
pub(crate) fn copy_raw_unchecked(buffer: &Buffer, offset: i64, size: i64) -> Result<Result<(), Failure>, Stop> {
    let plugin = buffer.client().plugin();
    let memory = guarded(usize::try_from(size).unwrap_or(0));
    let mut args = PJRT_Buffer_CopyRawToHost_Args::new();
    args.buffer = buffer.as_raw();
    args.dst = memory.as_mut_ptr().cast();
    args.offset = offset;
    args.transfer_size = size;
    // SAFETY: C5 (host memory): the destination stays writable until the process ends.
    let result = unsafe { call::<slot::PJRT_Buffer_CopyRawToHost>(&plugin, &raw mut args) };
    if let Err(failure) = called(result, "PJRT_Buffer_CopyRawToHost")? {
        return Ok(Err(failure));
    }
    RawEvent::of(&plugin, args.event, "PJRT_Buffer_CopyRawToHost")?.wait()
}

/// Begins a copy of the first `size` bytes of a buffer, without a destination. Then reports an error with this code and
/// message instead of providing the destination. Returns the outcome of the copy's event.
pub(crate) fn fail_copy(buffer: &Buffer, size: i64, code: u32, message: &str) -> Result<Result<(), Failure>, Stop> {
    let plugin = buffer.client().plugin();
    let mut args = PJRT_Buffer_CopyRawToHostFuture_Args::new();
    args.buffer = buffer.as_raw();
    args.transfer_size = size;
    // SAFETY: C2 (calls): the buffer is live.
    let result = unsafe { call::<slot::PJRT_Buffer_CopyRawToHostFuture>(&plugin, &raw mut args) };
    called(result, "PJRT_Buffer_CopyRawToHostFuture")??;
    let event = RawEvent::of(&plugin, args.event, "PJRT_Buffer_CopyRawToHostFuture")?;
    let Some(callback) = args.future_ready_callback else { fail!("future_ready_callback is null") };
    let mut outcome = PJRT_Buffer_CopyRawToHostFuture_Callback_Args::new();
    outcome.callback_data = args.callback_data;
    outcome.error_code = PJRT_Error_Code(code);
    outcome.error_message = message.as_ptr().cast();
    outcome.error_message_size = message.len();
    // SAFETY: C2 (calls), C5 (host memory): the callback is called once, with the `callback_data` of this copy, and the
    // message is readable during the call.
    unsafe { callback(&raw mut outcome) };
    event.wait()
}

/// Decreases the external reference count of a buffer. The inner result is the outcome that the plugin reported.
pub(crate) fn release_reference(buffer: &Buffer) -> Result<Result<(), Failure>, Stop> {
    let mut args = PJRT_Buffer_DecreaseExternalReferenceCount_Args::new();
    args.buffer = buffer.as_raw();
    let plugin = buffer.client().plugin();
    // SAFETY: C2 (calls): the buffer is live. A case may call this without holding a reference, which the plugin must
    // reject.
    let result = unsafe { call::<slot::PJRT_Buffer_DecreaseExternalReferenceCount>(&plugin, &raw mut args) };
    called(result, "PJRT_Buffer_DecreaseExternalReferenceCount")
}

/// Holds an external reference to a buffer in host memory while it calls `run`. The argument of `run` is a function
/// that reads the first `len` bytes of the memory.
pub(crate) fn with_reference<T>(
    buffer: &Buffer,
    len: usize,
    run: impl FnOnce(&dyn Fn() -> Vec<u8>) -> Result<T, Stop>,
) -> Result<T, Stop> {
    ensure!(len <= buffer.on_device_size()?, "the buffer has less than {len} bytes");
    let plugin = buffer.client().plugin();
    let mut increase = PJRT_Buffer_IncreaseExternalReferenceCount_Args::new();
    increase.buffer = buffer.as_raw();
    // SAFETY: C2 (calls): the buffer is live.
    let result = unsafe { call::<slot::PJRT_Buffer_IncreaseExternalReferenceCount>(&plugin, &raw mut increase) };
    called(result, "PJRT_Buffer_IncreaseExternalReferenceCount")??;
    let mut address = PJRT_Buffer_OpaqueDeviceMemoryDataPointer_Args::new();
    address.buffer = buffer.as_raw();
    // SAFETY: C2 (calls): the buffer is live.
    let result = unsafe { call::<slot::PJRT_Buffer_OpaqueDeviceMemoryDataPointer>(&plugin, &raw mut address) };
    called(result, "PJRT_Buffer_OpaqueDeviceMemoryDataPointer")??;
    let memory = address.device_memory_ptr.cast_const().cast::<u8>();
    let read = || {
        let mut copy = vec![0; len];
        // SAFETY: C5 (host memory): the reference keeps the memory readable, and the memory has at least `len` bytes.
        unsafe { std::ptr::copy_nonoverlapping(memory, copy.as_mut_ptr(), len) };
        copy
    };
    let outcome = run(&read);
    release_reference(buffer)??;
    outcome
}

/// Writes bytes to the memory of a buffer, from a byte offset, and waits for the end of the write. `alias` refers to
/// the buffer. Nothing else may use the buffer meanwhile.
pub(crate) fn write_raw(alias: &pjrt::extensions::RawBuffer, offset: usize, bytes: Vec<u8>) -> Result<(), Stop> {
    // SAFETY: C5 (host memory): the case that owns the buffer uses it only before and after this call.
    let event = unsafe { alias.write(offset, bytes) }?;
    Ok(event.wait()?)
}

/// Uploads `f32` elements with strides in bytes. Fails the case if the strides reach beyond the end of `data`.
pub(crate) fn write_with_stride(
    client: &Client,
    data: &'static [f32],
    dimensions: &[i64],
    strides: &[i64],
) -> Result<Buffer, Stop> {
    let last: i64 = dimensions.iter().zip(strides).map(|(dimension, stride)| (dimension - 1) * stride).sum();
    let bytes = i64::try_from(size_of_val(data)).unwrap_or(i64::MAX);
    ensure!(last >= 0 && last + 4 <= bytes, "the strides of the case exceed its data");
    let plugin = client.plugin();
    let device = client.default_device()?;
    let mut args = PJRT_Client_BufferFromHostBuffer_Args::new();
    args.client = client.as_raw();
    args.data = data.as_ptr().cast();
    args.type_ = PJRT_Buffer_Type(ElementType::F32.as_raw());
    args.dims = dimensions.as_ptr();
    args.num_dims = dimensions.len();
    args.byte_strides = strides.as_ptr();
    args.num_byte_strides = strides.len();
    args.device = device.as_raw();
    // SAFETY: C5 (host memory): the data lives until the process ends, and contains every element that the strides
    // reach.
    let result = unsafe { call::<slot::PJRT_Client_BufferFromHostBuffer>(&plugin, &raw mut args) };
    called(result, "PJRT_Client_BufferFromHostBuffer")??;
    if !args.done_with_host_buffer.is_null() {
        drop(RawEvent::of(&plugin, args.done_with_host_buffer, "PJRT_Client_BufferFromHostBuffer")?);
    }
    // SAFETY: A2 (adopted buffers): the plugin returned the buffer to this function, which is its only owner.
    Ok(unsafe { own_buffer(client, args.buffer) }?)
}

/// Executes a program for one device with any number of arguments, and without donation. `outputs` is the number of the
/// program's outputs.
///
/// The inner result is the outcome that the plugin reported.
pub(crate) fn execute_unchecked(
    executable: &LoadedExecutable,
    arguments: &[&Buffer],
    outputs: usize,
) -> Result<Result<Vec<Buffer>, Failure>, Stop> {
    let kept: Vec<i64> = (0..arguments.len()).filter_map(|at| i64::try_from(at).ok()).collect();
    execute_keeping(executable, arguments, outputs, &kept)
}

/// Executes a program like [`execute_unchecked`], but prevents donation only for the arguments whose indices are in
/// `kept`.
pub(crate) fn execute_keeping(
    executable: &LoadedExecutable,
    arguments: &[&Buffer],
    outputs: usize,
    kept: &[i64],
) -> Result<Result<Vec<Buffer>, Failure>, Stop> {
    let client = executable.client();
    let plugin = client.plugin();
    let inputs: Vec<*mut PJRT_Buffer> = arguments.iter().map(|buffer| buffer.as_raw()).collect();
    let mut results: Vec<*mut PJRT_Buffer> = vec![null_mut(); outputs];
    let mut options = PJRT_ExecuteOptions::new();
    set_size(&mut options, plugin.api_version().minor);
    options.non_donatable_input_indices = kept.as_ptr();
    options.num_non_donatable_input_indices = kept.len();
    let lists = [inputs.as_ptr()];
    let places = [results.as_mut_ptr()];
    let mut args = PJRT_LoadedExecutable_Execute_Args::new();
    args.executable = executable.as_raw();
    args.options = &raw mut options;
    args.argument_lists = lists.as_ptr();
    args.num_devices = 1;
    args.num_args = inputs.len();
    args.output_lists = places.as_ptr();
    // SAFETY: C7 (runs): the lists have the announced lengths, and the objects are live.
    let result = unsafe { call::<slot::PJRT_LoadedExecutable_Execute>(&plugin, &raw mut args) };
    if let Err(failure) = called(result, "PJRT_LoadedExecutable_Execute")? {
        return Ok(Err(failure));
    }
    let mut buffers = Vec::new();
    for buffer in results {
        // SAFETY: C7 (runs), A2 (adopted buffers): the plugin wrote a new buffer to each element, which this function
        // owns.
        buffers.push(unsafe { own_buffer(&client, buffer) }?);
    }
    Ok(Ok(buffers))
}

/// Sets the field `struct_size` to the size that the struct has in the API version with this minor number. Some plugins
/// accept only the size of their own version.
pub(super) fn set_size<T: AbiStruct>(args: &mut T, minor: i32) {
    let size = T::size_at(u32::try_from(minor).unwrap_or(0));
    // SAFETY: `AbiStruct`: the struct begins with its size.
    unsafe { std::ptr::from_mut(args).cast::<usize>().write(size) };
}

/// Loads bytes as an executable, and destroys the executable. The inner result is the outcome that the plugin reported.
pub(crate) fn load_bytes(client: &Client, bytes: &[u8]) -> Result<Result<(), String>, Stop> {
    // SAFETY: P2 (executables): the bytes may be damaged. The case runs in a process of its own, and the runner reports
    // a crash.
    let loaded = unsafe { client.deserialize_and_load_unchecked(bytes) };
    Ok(loaded.map(drop).map_err(|error| error.to_string()))
}

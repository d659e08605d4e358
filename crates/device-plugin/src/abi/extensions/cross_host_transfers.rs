//! The cross-host transfers extension: sends buffers to devices of other processes, and receives buffers from these
//! devices.
//!
//! The extension has two interfaces. Frameworks use the older interface, which exchanges descriptors, only if the newer
//! interface is not implemented. The functions of the older interface therefore report `UNIMPLEMENTED`.
//! `PJRT_Buffer_CopyToRemoteDevice` also frees the descriptor that it receives.

use std::ffi::{c_char, c_int};
use std::sync::Arc;

use pjrt_sys::{Bool, PJRT_Buffer, PJRT_Event, PJRT_Transfers_DescriptorDestructor, Slot, extension_slot};
use plugin_macros::entry;

use crate::abi::extensions::link::extension;
use crate::abi::objects::client::handle::{BufferHandle, Client};
use crate::abi::objects::client::value::Value;
use crate::abi::reclaim::refcount::Counted;
use crate::abi::table::event_handle::{EventHandle, EventRef, get, into_raw};
use crate::abi::table::{error_handle, ffi_read};
use crate::backend::functions;
use crate::contain::{contain_in, drop_contained};
use crate::event::Waiting;
use crate::features::CrossHostTransfer;
use crate::{Backend, Completer, DevicePlugin, Error, Event, Placement, Result, Shape, TaskIncarnation};

extension! {
    /// The cross-host transfers extension. A plugin offers it if the backend implements the feature
    /// `CrossHostTransfers`.
    CrossHostTransfers = PJRT_CrossHostTransfers_Extension if P::Backend::FEATURES.cross_host_transfers.is_some();
    PJRT_Transfers_PJRT_Client_MakeCrossHostReceiveBuffers: PJRT_Transfers_PJRT_Client_MakeCrossHostReceiveBuffers,
    PJRT_Transfers_PJRT_Buffer_CopyToRemoteDevice: PJRT_Buffer_CopyToRemoteDevice,
    PJRT_Transfers_PJRT_Client_CrossHostReceiveBuffers: PJRT_Transfers_PJRT_Client_CrossHostReceiveBuffers,
    PJRT_Transfers_PJRT_Client_CrossHostSendBuffers: PJRT_Transfers_PJRT_Client_CrossHostSendBuffers,
}

fn transfers<B: Backend>() -> Result<functions::CrossHostTransfers<B>> {
    // A plugin offers the extension only if the backend has the feature, so this error does not occur.
    B::FEATURES
        .cross_host_transfers
        .ok_or_else(|| Error::unimplemented("the backend does not support transfers between processes"))
}

/// Returns the error of the functions that exchange descriptors.
fn older_interface() -> Error {
    let message = "transfers by descriptors are not supported; use PJRT_Transfers_PJRT_Client_CrossHostSendBuffers and \
                   PJRT_Transfers_PJRT_Client_CrossHostReceiveBuffers";
    Error::unimplemented(message).unnamed()
}

/// The owned data of a [`CrossHostTransfer`]. It may outlive the framework's call.
struct Transfer {
    shape: Shape,
    here: Placement,
    peer: i32,
    key: i64,
    alive: Vec<TaskIncarnation>,
}

impl Transfer {
    fn get(&self) -> CrossHostTransfer<'_> {
        CrossHostTransfer {
            shape: self.shape.clone(),
            here: self.here,
            peer: self.peer,
            key: self.key,
            alive: &self.alive,
        }
    }
}

/// Reads the list of live processes. If a process occurs more than once, its first incarnation is used.
///
/// # Safety
///
/// V3 (arrays and text) holds for both arrays.
unsafe fn alive(tasks: *const c_int, incarnations: *const i64, len: usize) -> Result<Vec<TaskIncarnation>> {
    // SAFETY: V3 (arrays and text), which the caller promises.
    let tasks = unsafe { ffi_read::slice(tasks, len, "task_ids") }?;
    // SAFETY: V3 (arrays and text), which the caller promises.
    let incarnations = unsafe { ffi_read::slice(incarnations, len, "incarnation_ids") }?;
    let mut alive: Vec<TaskIncarnation> = Vec::with_capacity(len);
    for (task, incarnation) in tasks.iter().zip(incarnations) {
        if !alive.iter().any(|other| other.task_id == *task) {
            alive.push(TaskIncarnation { task_id: *task, incarnation: *incarnation });
        }
    }
    Ok(alive)
}

/// Sends a buffer at once if it is ready, or else when it becomes ready.
fn send<B: Backend>(buffer: &BufferHandle<B>, transfer: Transfer) -> Result<Event> {
    let held = buffer.hold()?;
    let (event, completer) = Event::pending();
    let client = buffer.client.share();
    match buffer.ready.result() {
        Some(ready) => begin(&client.backend, held.value(), &ready, &transfer, completer),
        None => {
            // Keep the client and the value alive, because the framework may destroy the buffer before it is ready.
            let value = held.value().clone();
            buffer.ready.on_ready_off_thread(move |ready| {
                begin(&client.backend, &value, ready, &transfer, completer);
                drop_contained((value, client));
            });
        }
    }
    Ok(event)
}

/// Sends a ready buffer. If the buffer failed, sends its error. `ready` is the result of the buffer's event, and
/// `completer` completes the event of the transfer.
fn begin<B: Backend>(
    backend: &B,
    value: &Value<B::Buffer>,
    ready: &Result<()>,
    transfer: &Transfer,
    completer: Completer,
) {
    let begun = contain_in(extension_slot::PJRT_Transfers_PJRT_Client_CrossHostSendBuffers::NAME, || {
        let functions = transfers::<B>()?;
        match ready {
            Ok(()) => (functions.send_buffer)(backend, value.available()?, &transfer.get()),
            Err(error) => {
                (functions.send_error)(backend, error, &transfer.get());
                Err(error.clone())
            }
        }
    });
    match begun {
        Ok(event) => event.on_ready(move |result| completer.complete_internally(result.clone())),
        Err(error) => completer.complete_internally(Err(error)),
    }
}

/// The descriptor of a transfer in the older interface. The framework fills the descriptor and then completes `event`.
struct Descriptor {
    event: *mut PJRT_Event,
    data: *mut *mut c_char,
    size: *mut usize,
    destructor: PJRT_Transfers_DescriptorDestructor,
}

// SAFETY: V4 (callbacks): the destructor may be called from any thread, and only this value uses the other pointers.
unsafe impl Send for Descriptor {}

impl Descriptor {
    /// Frees the descriptor and its event, which the framework passed.
    fn free(self) {
        if let Some(destructor) = self.destructor {
            // SAFETY: V4 (callbacks): the framework lends the descriptor until this call.
            unsafe { destructor(self.data, self.size) };
        }
        // SAFETY: V2 (handles): the framework no longer uses the event.
        if let Ok(EventRef::State(_)) = unsafe { get(self.event) } {
            // SAFETY: V2 (handles): every `EventHandle` is boxed, and the framework no longer uses this event.
            drop(unsafe { Box::from_raw(self.event.cast::<EventHandle>()) });
        }
    }
}

#[entry(extension, traced)]
unsafe fn PJRT_Transfers_PJRT_Client_CrossHostSendBuffers<P: DevicePlugin>(
    args: &mut pjrt_sys::PJRT_Transfers_PJRT_Client_CrossHostSendBuffers_Args,
    client: &Counted<Client<P::Backend>>,
) -> Result<()> {
    let count = args.num_buffers;
    // SAFETY: V3 (arrays and text).
    let handles = unsafe { ffi_read::slice(args.buffers.cast_const(), count, "buffers") }?;
    // SAFETY: V3 (arrays and text).
    let peers = unsafe { ffi_read::slice(args.dst_global_device_ids, count, "dst_global_device_ids") }?;
    // SAFETY: V3 (arrays and text).
    let keys = unsafe { ffi_read::slice(args.transfer_keys, count, "transfer_keys") }?;
    // SAFETY: V3 (arrays and text).
    let events = unsafe { ffi_read::slice_mut(args.send_events, count, "send_events") }?;
    // SAFETY: V3 (arrays and text).
    let alive = unsafe { alive(args.task_ids, args.incarnation_ids, args.num_tasks) }?;
    let mut sends = Vec::with_capacity(count);
    for ((handle, peer), key) in handles.iter().zip(peers).zip(keys) {
        // SAFETY: V2 (handles).
        let buffer: &BufferHandle<P::Backend> =
            unsafe { ffi_read::handle::<P, *mut PJRT_Buffer>(*handle, "buffers[i]") }?;
        if !buffer.client.is(client) {
            return Err(Error::argument("a buffer to send belongs to another client"));
        }
        // Check every buffer before the first transfer begins. If one buffer is deleted, the call then fails
        // without any transfer.
        drop(buffer.hold()?);
        let (peer, key, alive) = (*peer, *key, alive.clone());
        sends.push((buffer, Transfer { shape: buffer.stored_shape(), here: buffer.placement, peer, key, alive }));
    }
    for (event, (buffer, transfer)) in events.iter_mut().zip(sends) {
        *event = into_raw(send(buffer, transfer).unwrap_or_else(Event::failed));
    }
    Ok(())
}

#[entry(extension, traced)]
unsafe fn PJRT_Transfers_PJRT_Client_CrossHostReceiveBuffers<P: DevicePlugin>(
    args: &mut pjrt_sys::PJRT_Transfers_PJRT_Client_CrossHostReceiveBuffers_Args,
    client: &Counted<Client<P::Backend>>,
) -> Result<()> {
    let count = args.num_shapes;
    let here = client.default_placement(client.device_index(args.device)?)?;
    // SAFETY: V3 (arrays and text).
    let ranks = unsafe { ffi_read::slice(args.shape_num_dims.cast_const(), count, "shape_num_dims") }?;
    // SAFETY: V3 (arrays and text).
    let dims = unsafe { ffi_read::slice(args.num_dims.cast_const(), count, "num_dims") }?;
    // SAFETY: V3 (arrays and text).
    let types = unsafe { ffi_read::slice(args.element_types.cast_const(), count, "element_types") }?;
    // SAFETY: V3 (arrays and text).
    let requested = unsafe { ffi_read::slice(args.layouts.cast_const(), count, "layouts") }?;
    // SAFETY: V3 (arrays and text).
    let peers = unsafe { ffi_read::slice(args.src_global_device_ids, count, "src_global_device_ids") }?;
    // SAFETY: V3 (arrays and text).
    let keys = unsafe { ffi_read::slice(args.transfer_keys, count, "transfer_keys") }?;
    // SAFETY: V3 (arrays and text).
    let buffers = unsafe { ffi_read::slice_mut(args.buffers, count, "buffers") }?;
    // SAFETY: V3 (arrays and text).
    let alive = unsafe { alive(args.task_ids, args.incarnation_ids, args.num_tasks) }?;
    let mut layouts = Vec::with_capacity(count);
    let mut receives = Vec::with_capacity(count);
    for i in 0..count {
        // SAFETY: V3 (arrays and text).
        let shape = unsafe { ffi_read::shape(types[i].0, dims[i], ranks[i]) }?;
        // SAFETY: V3 (arrays and text).
        let layout = unsafe { client.array_layout(&shape, requested[i], "layouts[i]") }?;
        let shape = layout.stored_shape();
        receives.push(CrossHostTransfer { shape, here, peer: peers[i], key: keys[i], alive: &alive });
        layouts.push(layout);
    }
    let received = (transfers::<P::Backend>()?.receive_buffers)(&client.backend, &receives)?;
    if received.len() != count {
        let given = received.len();
        return Err(Error::internal(format!("the backend returned {given} buffers for {count} transfers")));
    }
    for ((place, layout), (value, ready)) in buffers.iter_mut().zip(&layouts).zip(received) {
        *place = BufferHandle::give(client.share(), Value::Now(value), layout, here, ready);
    }
    Ok(())
}

#[entry(extension)]
unsafe fn PJRT_Transfers_PJRT_Client_MakeCrossHostReceiveBuffers<P: DevicePlugin>(
    args: &mut pjrt_sys::PJRT_Transfers_PJRT_Client_MakeCrossHostReceiveBuffers_Args,
) -> Result<()> {
    let _ = args;
    Err(older_interface())
}

#[entry(extension)]
unsafe fn PJRT_Buffer_CopyToRemoteDevice<P: DevicePlugin>(
    args: &mut pjrt_sys::PJRT_Transfers_PJRT_Buffer_CopyToRemoteDevice_Args,
) -> Result<()> {
    let descriptor = Descriptor {
        event: args.event,
        data: args.serialized_descriptor,
        size: args.serialized_descriptor_size,
        destructor: args.descriptor_destructor,
    };
    // SAFETY: V2 (handles).
    if let Ok(EventRef::State(event)) = unsafe { get(args.event) } {
        let state = Arc::clone(&event.state);
        state.when_ready(Waiting::OffThread(Box::new(move |_| descriptor.free())));
    } else {
        descriptor.free();
    }
    if let Some(on_done) = args.on_done.on_done {
        // SAFETY: V4 (callbacks).
        unsafe { on_done(error_handle::into_raw(older_interface()), Bool::from(false), args.on_done.user_arg) };
    }
    Ok(())
}

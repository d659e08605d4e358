//! `PJRT_CrossHostTransfers_Extension`: sends buffers to devices of other processes.

use std::ffi::c_int;
use std::ptr::{NonNull, null_mut};

use pjrt_sys::extension_slot as function;
use pjrt_sys::*;
use pjrt_types::Shape;

use super::functions::Functions;
use super::plugin_extension::plugin_extension;
use crate::element;
use crate::error::Error;
use crate::objects::buffer::Buffer;
use crate::objects::device::Device;
use crate::objects::event::Event;
use crate::objects::owners::Client;
use crate::table::read;

/// Transfers buffers between devices of different processes, over the network that connects the devices.
///
/// The sender and the receiver of a transfer must use the same key. They must agree on keys by other means, such as the
/// key-value store.
#[derive(Clone, Debug)]
#[doc(alias = "PJRT_CrossHostTransfers_Extension")]
pub struct CrossHostTransfers(Functions<PJRT_CrossHostTransfers_Extension>);

plugin_extension!(CrossHostTransfers(PJRT_CrossHostTransfers_Extension));

/// A buffer to send.
#[derive(Clone, Copy, Debug)]
pub struct Send<'a> {
    /// The buffer to send. Its contents must stay unchanged until the event of the transfer is ready.
    pub buffer: &'a Buffer,
    /// The global id of the receiving device.
    pub to: i32,
    /// The key of the transfer, which must equal the receiver's [`Receive::key`].
    pub key: i64,
}

/// A buffer to receive.
#[derive(Clone, Debug)]
pub struct Receive {
    /// Element type and extents of the buffer.
    pub shape: Shape,
    /// The global id of the sending device.
    pub from: i32,
    /// The key of the transfer, which must equal the sender's [`Send::key`].
    pub key: i64,
}

/// A process and the id of its incarnation. The id changes each time the process restarts. Plugins end transfers with
/// processes that have restarted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TaskIncarnation {
    /// Index of the process.
    pub task: i32,
    /// Incarnation id of the process.
    pub incarnation: i64,
}

impl CrossHostTransfers {
    /// Starts sending buffers. Returns an event for each element of `sends`, in the same order. The event becomes ready
    /// when the plugin has sent the buffer. `alive` lists the processes that were alive recently. The list may be
    /// empty. A plugin ignores the list if its version of this extension is older than 8.
    ///
    /// # Errors
    ///
    /// Returns an error if the client belongs to another plugin, or if a buffer belongs to another client or has been
    /// deleted.
    #[doc(alias = "PJRT_Transfers_PJRT_Client_CrossHostSendBuffers")]
    pub fn send(&self, client: &Client, sends: &[Send<'_>], alive: &[TaskIncarnation]) -> Result<Vec<Event>, Error> {
        type Function = function::PJRT_Transfers_PJRT_Client_CrossHostSendBuffers;
        self.0.check(client.api())?;
        let mut buffers = Vec::with_capacity(sends.len());
        for send in sends {
            if send.buffer.client() != *client {
                return Err(Error::invalid("a buffer to send belongs to another client"));
            }
            buffers.push(send.buffer.live()?.as_ptr());
        }
        let ids: Vec<i32> = sends.iter().map(|send| send.to).collect();
        let keys: Vec<i64> = sends.iter().map(|send| send.key).collect();
        let (tasks, incarnations) = split(alive);
        let mut events = vec![null_mut::<PJRT_Event>(); sends.len()];
        let mut args = PJRT_Transfers_PJRT_Client_CrossHostSendBuffers_Args::new();
        args.client = client.inner().raw().as_ptr();
        args.num_buffers = buffers.len();
        args.buffers = buffers.as_mut_ptr();
        args.dst_global_device_ids = ids.as_ptr();
        args.transfer_keys = keys.as_ptr();
        args.send_events = events.as_mut_ptr();
        args.num_tasks = tasks.len();
        args.task_ids = tasks.as_ptr();
        args.incarnation_ids = incarnations.as_ptr();
        // SAFETY: C2 (calls): the client and buffers are live and belong to this plugin. The arrays have the given
        // lengths and live through the call.
        unsafe { self.0.call::<Function>(&mut args) }?;
        // Take ownership of all events before returning an error, so that the error path destroys them.
        let taken: Vec<Result<Event, Error>> = events
            .into_iter()
            .map(|raw| {
                let raw = read::object(raw).map_err(|broken| Error::malformed(Function::NAME, broken))?;
                // SAFETY: C3 (objects): the plugin created the event for this caller.
                Ok(unsafe { Event::new(raw, client.inner().clone()) })
            })
            .collect();
        taken.into_iter().collect()
    }

    /// Starts receiving buffers on a device. A returned buffer becomes ready when its contents have arrived. For
    /// `alive`, see [`CrossHostTransfers::send`].
    ///
    /// # Errors
    ///
    /// Returns an error if the device belongs to another plugin, if an extent is negative, or if the plugin's API
    /// version lacks an element type.
    #[doc(alias = "PJRT_Transfers_PJRT_Client_CrossHostReceiveBuffers")]
    pub fn receive(
        &self,
        device: &Device,
        receives: &[Receive],
        alive: &[TaskIncarnation],
    ) -> Result<Vec<Buffer>, Error> {
        type Function = function::PJRT_Transfers_PJRT_Client_CrossHostReceiveBuffers;
        self.0.check(device.handle().api())?;
        if let Some(receive) = receives.iter().find(|receive| receive.shape.dimensions.iter().any(|extent| *extent < 0))
        {
            return Err(Error::invalid(format!("the shape {} has a negative extent", receive.shape)));
        }
        for receive in receives {
            element::check_data(receive.shape.element_type, device.handle().api().version())?;
        }
        let mut ranks: Vec<usize> = receives.iter().map(|receive| receive.shape.dimensions.len()).collect();
        let mut extents: Vec<*const i64> = receives.iter().map(|receive| receive.shape.dimensions.as_ptr()).collect();
        let mut types: Vec<PJRT_Buffer_Type> =
            receives.iter().map(|receive| PJRT_Buffer_Type(receive.shape.element_type.as_raw())).collect();
        // Null requests the default layout.
        let mut layouts = vec![null_mut::<PJRT_Buffer_MemoryLayout>(); receives.len()];
        let ids: Vec<i32> = receives.iter().map(|receive| receive.from).collect();
        let keys: Vec<i64> = receives.iter().map(|receive| receive.key).collect();
        let (tasks, incarnations) = split(alive);
        let mut buffers = vec![null_mut::<PJRT_Buffer>(); receives.len()];
        let client = device.handle().owner();
        let mut args = PJRT_Transfers_PJRT_Client_CrossHostReceiveBuffers_Args::new();
        args.client = client.raw().as_ptr();
        args.num_shapes = receives.len();
        args.shape_num_dims = ranks.as_mut_ptr();
        args.num_dims = extents.as_mut_ptr();
        args.element_types = types.as_mut_ptr();
        args.layouts = layouts.as_mut_ptr();
        args.device = device.handle().as_ptr();
        args.src_global_device_ids = ids.as_ptr();
        args.transfer_keys = keys.as_ptr();
        args.buffers = buffers.as_mut_ptr();
        args.num_tasks = tasks.len();
        args.task_ids = tasks.as_ptr();
        args.incarnation_ids = incarnations.as_ptr();
        // SAFETY: C2 (calls): the client and device are live and belong to this plugin. The arrays have the given
        // lengths and live through the call.
        unsafe { self.0.call::<Function>(&mut args) }.map_err(|error| client.describe_memory(error))?;
        let taken: Vec<Result<Buffer, Error>> = buffers
            .into_iter()
            .map(|raw: *mut PJRT_Buffer| {
                let raw: NonNull<PJRT_Buffer> =
                    read::object(raw).map_err(|broken| Error::malformed(Function::NAME, broken))?;
                // SAFETY: C3 (objects): the plugin created the buffer for this caller.
                Ok(unsafe { Buffer::new(raw, client.clone(), Some(device.raw())) })
            })
            .collect();
        taken.into_iter().collect()
    }
}

fn split(alive: &[TaskIncarnation]) -> (Vec<c_int>, Vec<i64>) {
    alive.iter().map(|task| (task.task, task.incarnation)).unzip()
}

//! Callbacks of a run, for values that a program sends to the host, receives from the host, or outputs while it runs.

use std::ffi::c_void;
use std::fmt;
use std::ptr::NonNull;
use std::sync::Arc;

use pjrt_sys::*;
use pjrt_types::{ElementType, ErrorCode, Shape};

use crate::objects::key_value::finish;
use crate::objects::owners::ClientInner;
use crate::run::copy_to_device_stream::CopyToDeviceStream;
use crate::table::callback::contain;
use crate::table::read;

/// A chunk of a value that a running program sends to the host. See
/// [`ExecuteOptions::with_send_callback`](crate::ExecuteOptions::with_send_callback).
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct SentChunk<'a> {
    /// Index of the sending device among the devices of the run.
    pub device_index: usize,
    /// The bytes of this chunk. The chunks of a value arrive in order.
    pub bytes: &'a [u8],
    /// Size of the whole value, in bytes.
    pub total_size: usize,
    /// Whether this is the last chunk of the value.
    pub is_last: bool,
}

/// A value that a program outputs while it runs. See
/// [`ExecuteOptions::with_output_callback`](crate::ExecuteOptions::with_output_callback).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ProgramOutput<'a> {
    /// Id of the replica that outputs the value.
    pub replica_id: i64,
    /// Id of the partition that outputs the value.
    pub partition_id: i64,
    /// Index of the value among the operands of the output operation.
    pub operand_index: i64,
    /// Shape of the value.
    pub shape: Shape,
    /// The elements in row-major order. Elements that are smaller than a byte are packed.
    pub bytes: &'a [u8],
}

type SendFn = dyn Fn(SentChunk<'_>) -> Result<(), (ErrorCode, String)> + Send + Sync;
type ReceiveFn = dyn Fn(usize, CopyToDeviceStream) + Send + Sync;
type OutputFn = dyn Fn(ProgramOutput<'_>) + Send + Sync;

/// The callbacks of a run, as the caller registered them.
#[derive(Clone, Default)]
pub(crate) struct Callbacks {
    pub(crate) sends: Vec<(i64, Arc<SendFn>)>,
    pub(crate) receives: Vec<(i64, Arc<ReceiveFn>)>,
    /// Callback id, number of operands, and function.
    pub(crate) outputs: Vec<(i64, usize, Arc<OutputFn>)>,
}

impl Callbacks {
    pub(crate) fn is_empty(&self) -> bool {
        self.sends.is_empty() && self.receives.is_empty() && self.outputs.is_empty()
    }
}

impl fmt::Debug for Callbacks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ids = |ids: &mut dyn Iterator<Item = i64>| ids.collect::<Vec<_>>();
        f.debug_struct("Callbacks")
            .field("sends", &ids(&mut self.sends.iter().map(|(id, _)| *id)))
            .field("receives", &ids(&mut self.receives.iter().map(|(id, _)| *id)))
            .field("outputs", &ids(&mut self.outputs.iter().map(|(id, ..)| *id)))
            .finish()
    }
}

/// The user arguments of the C callbacks. They must live until the run has ended.
pub(crate) struct CallbackArguments {
    sends: Vec<(usize, Arc<SendFn>)>,
    receives: Vec<(usize, Arc<ReceiveFn>, Arc<ClientInner>)>,
    outputs: Vec<Arc<OutputFn>>,
}

/// The arrays of C callbacks for the plugin. They must live until the call that starts the run returns.
pub(crate) struct CallbackLists {
    sends: Vec<PJRT_SendCallbackInfo>,
    receives: Vec<PJRT_RecvCallbackInfo>,
    outputs: Vec<PJRT_HloOutputCallbackInfo>,
    sends_of_devices: Vec<*mut PJRT_SendCallbackInfo>,
    receives_of_devices: Vec<*mut PJRT_RecvCallbackInfo>,
    pub(crate) arguments: Arc<CallbackArguments>,
}

impl CallbackLists {
    /// Creates the arrays for a run on `devices` devices.
    pub(crate) fn new(callbacks: &Callbacks, client: &Arc<ClientInner>, devices: usize) -> Self {
        let of_devices = || 0..devices;
        let arguments = Arc::new(CallbackArguments {
            sends: of_devices().flat_map(|at| callbacks.sends.iter().map(move |(_, f)| (at, f.clone()))).collect(),
            receives: of_devices()
                .flat_map(|at| callbacks.receives.iter().map(move |(_, f)| (at, f.clone(), client.clone())))
                .collect(),
            outputs: callbacks.outputs.iter().map(|(.., f)| f.clone()).collect(),
        });
        let sends = arguments.sends.iter().zip(callbacks.sends.iter().cycle());
        let receives = arguments.receives.iter().zip(callbacks.receives.iter().cycle());
        let outputs = arguments.outputs.iter().zip(&callbacks.outputs);
        let mut lists = Self {
            sends: sends
                .map(|(argument, (channel_id, _))| PJRT_SendCallbackInfo {
                    channel_id: *channel_id,
                    user_arg: pointer(argument),
                    send_callback: Some(send),
                })
                .collect(),
            receives: receives
                .map(|(argument, (channel_id, _))| PJRT_RecvCallbackInfo {
                    channel_id: *channel_id,
                    user_arg: pointer(argument),
                    recv_callback: Some(receive),
                })
                .collect(),
            outputs: outputs
                .map(|(argument, (callback_id, num_operands, _))| PJRT_HloOutputCallbackInfo {
                    user_arg: pointer(argument),
                    callback: Some(output),
                    callback_id: *callback_id,
                    num_operands: *num_operands,
                })
                .collect(),
            sends_of_devices: Vec::new(),
            receives_of_devices: Vec::new(),
            arguments,
        };
        let (sends, receives) = (callbacks.sends.len().max(1), callbacks.receives.len().max(1));
        lists.sends_of_devices = lists.sends.chunks_mut(sends).map(<[_]>::as_mut_ptr).collect();
        lists.receives_of_devices = lists.receives.chunks_mut(receives).map(<[_]>::as_mut_ptr).collect();
        lists
    }

    /// Sets the callbacks in `options`. The fields of `options` then point into `self`.
    pub(crate) fn fill(&mut self, callbacks: &Callbacks, options: &mut PJRT_ExecuteOptions) {
        options.num_send_ops = callbacks.sends.len();
        options.num_recv_ops = callbacks.receives.len();
        if !self.sends.is_empty() {
            options.send_callbacks = self.sends_of_devices.as_mut_ptr();
        }
        if !self.receives.is_empty() {
            options.recv_callbacks = self.receives_of_devices.as_mut_ptr();
        }
        options.num_hlo_output_callbacks = self.outputs.len();
        if !self.outputs.is_empty() {
            options.hlo_output_callbacks = self.outputs.as_mut_ptr();
        }
    }
}

fn pointer<T>(argument: &T) -> *mut c_void {
    std::ptr::from_ref(argument).cast_mut().cast::<c_void>()
}

/// A chunk of a sent value. Dropping this value calls the chunk's deleter.
struct Chunk(PJRT_Chunk);

impl Drop for Chunk {
    fn drop(&mut self) {
        if let Some(deleter) = self.0.deleter {
            // SAFETY: C10 (callbacks of a run): the callback owns the chunk, and its deleter runs once.
            unsafe { deleter(self.0.data, self.0.deleter_arg) };
        }
    }
}

/// The C callback of type `PJRT_SendCallback`. Passes a chunk to the caller's function.
unsafe extern "C" fn send(
    chunk: *mut PJRT_Chunk,
    callback_error: *mut PJRT_CallbackError,
    total_size: usize,
    is_last: Bool,
    user_arg: *mut c_void,
) -> *mut PJRT_Error {
    let mut answer = Err((ErrorCode::INTERNAL, "the callback panicked".to_owned()));
    contain(|| {
        // SAFETY: C10 (callbacks of a run): the chunk is valid during the callback.
        let chunk = Chunk(unsafe { *chunk });
        // SAFETY: C10 (callbacks of a run): the callback receives its registered argument, which lives until the run
        // has ended.
        let (device_index, callback) = unsafe { &*user_arg.cast::<(usize, Arc<SendFn>)>() };
        // SAFETY: C10 (callbacks of a run): the bytes live until the deleter runs.
        let bytes = unsafe { read::slice(chunk.0.data.cast_const().cast::<u8>(), chunk.0.size) };
        answer = match bytes {
            Ok(bytes) => callback(SentChunk { device_index: *device_index, bytes, total_size, is_last: is_last.get() }),
            Err(broken) => Err((ErrorCode::INVALID_ARGUMENT, broken.0.to_owned())),
        };
    });
    // SAFETY: C10 (callbacks of a run): the plugin passed this function to create errors.
    unsafe { finish(callback_error, answer) }
}

/// The C callback of type `PJRT_RecvCallback`. Passes the stream to the caller's function.
unsafe extern "C" fn receive(stream: *mut PJRT_CopyToDeviceStream, user_arg: *mut c_void) {
    contain(|| {
        // SAFETY: C10 (callbacks of a run): the callback receives its registered argument, which lives until the run
        // has ended.
        let (device_index, callback, client) =
            unsafe { &*user_arg.cast::<(usize, Arc<ReceiveFn>, Arc<ClientInner>)>() };
        let Some(stream) = NonNull::new(stream) else {
            tracing::warn!("a plugin passed a null stream to a receive callback");
            return;
        };
        // SAFETY: C10 (callbacks of a run): the callback owns the stream.
        callback(*device_index, unsafe { CopyToDeviceStream::new(stream, client.clone()) });
    });
}

/// The C callback of type `PJRT_HloOutputCallback`. Passes the value to the caller's function. Ignores a value whose
/// shape or data is invalid.
unsafe extern "C" fn output(
    replica_id: i64,
    partition_id: i64,
    data: *const c_void,
    shape_dims: *const i64,
    shape_num_dims: usize,
    shape_element_type: PJRT_Buffer_Type,
    operand_index: i64,
    user_arg: *mut c_void,
) {
    contain(|| {
        // SAFETY: C10 (callbacks of a run): the callback receives its registered argument, which lives until the run
        // has ended.
        let callback = unsafe { &*user_arg.cast::<Arc<OutputFn>>() };
        // SAFETY: C10 (callbacks of a run): the dimensions are valid during the callback.
        let dimensions = unsafe { read::slice(shape_dims, shape_num_dims) };
        let shape = ElementType::from_raw(shape_element_type.0)
            .and_then(|element_type| Some(Shape::new(element_type, dimensions.ok()?)));
        let size = shape.as_ref().and_then(|shape| {
            let bits = shape.num_elements()?.checked_mul(shape.element_type.bits())?;
            Some(bits.div_ceil(8))
        });
        let (Some(shape), Some(size)) = (shape, size) else {
            tracing::warn!(ty = shape_element_type.0, "an output of unknown shape is ignored");
            return;
        };
        // SAFETY: C10 (callbacks of a run): the elements are valid during the callback.
        match unsafe { read::slice(data.cast::<u8>(), size) } {
            Ok(bytes) => callback(ProgramOutput { replica_id, partition_id, operand_index, shape, bytes }),
            Err(broken) => tracing::warn!(%broken, "an output is ignored"),
        }
    });
}

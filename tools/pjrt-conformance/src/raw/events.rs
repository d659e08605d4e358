//! Events without the bookkeeping of `pjrt::Event`. The type `pjrt::Event` keeps an event alive while callbacks are
//! pending.

use std::ffi::c_void;
use std::ptr::NonNull;

use pjrt::raw::AsRaw;
use pjrt::{Buffer, Plugin};
use pjrt_sys::{
    AbiStruct, PJRT_Buffer_ReadyEvent_Args, PJRT_Error, PJRT_Error_Code, PJRT_Event, PJRT_Event_Await_Args,
    PJRT_Event_Create_Args, PJRT_Event_Destroy_Args, PJRT_Event_Error_Args, PJRT_Event_IsReady_Args,
    PJRT_Event_OnReady_Args, PJRT_Event_Set_Args, slot,
};

use super::failure::{Failure, call};
use crate::stop::Stop;

/// Owner of a plugin's event. Dropping it destroys the event.
pub(crate) struct RawEvent {
    plugin: Plugin,
    event: NonNull<PJRT_Event>,
}

// SAFETY: C4 (threads): functions may be called on any thread, and an event may be destroyed on another thread.
unsafe impl Send for RawEvent {}
// SAFETY: C4 (threads): several threads may use one object at the same time, except while it is destroyed.
unsafe impl Sync for RawEvent {}

type Callback = Box<dyn FnOnce(Result<(), Failure>) + Send>;

/// The `user_arg` of a callback.
struct Pending {
    plugin: Plugin,
    callback: Callback,
}

fn missing<T>(called: Option<Result<T, Failure>>, function: &str) -> Result<T, Stop> {
    called.ok_or_else(|| Stop::Unsupported(format!("the plugin lacks {function}")))?.map_err(Stop::from)
}

impl RawEvent {
    /// Takes ownership of an event that the plugin's `function` returned.
    pub(super) fn of(plugin: &Plugin, event: *mut PJRT_Event, function: &str) -> Result<Self, Stop> {
        let event = NonNull::new(event).ok_or_else(|| Stop::Fail(format!("{function} returned a null event")))?;
        Ok(Self { plugin: plugin.clone(), event })
    }

    /// Returns the event that becomes ready when the contents of a buffer are ready.
    pub(crate) fn of_buffer(buffer: &Buffer) -> Result<Self, Stop> {
        let plugin = buffer.client().plugin();
        let mut args = PJRT_Buffer_ReadyEvent_Args::new();
        args.buffer = buffer.as_raw();
        // SAFETY: C2 (calls): the buffer is live.
        let called = unsafe { call::<slot::PJRT_Buffer_ReadyEvent>(&plugin, &raw mut args) };
        missing(called, "PJRT_Buffer_ReadyEvent")?;
        Self::of(&plugin, args.event, "PJRT_Buffer_ReadyEvent")
    }

    /// Creates an event that becomes ready when [`RawEvent::set`] is called.
    pub(crate) fn create(plugin: &Plugin) -> Result<Self, Stop> {
        let mut args = PJRT_Event_Create_Args::new();
        // SAFETY: C2 (calls): the function has no inputs.
        let called = unsafe { call::<slot::PJRT_Event_Create>(plugin, &raw mut args) };
        missing(called, "PJRT_Event_Create")?;
        Self::of(plugin, args.event, "PJRT_Event_Create")
    }

    /// Makes the event ready. Unless `code` is 0, the event then has an error with this code and message.
    pub(crate) fn set(&self, code: u32, message: &str) -> Result<(), Stop> {
        let mut args = PJRT_Event_Set_Args::new();
        args.event = self.event.as_ptr();
        args.error_code = PJRT_Error_Code(code);
        args.error_message = message.as_ptr().cast();
        args.error_message_size = message.len();
        // SAFETY: C6 (events): the event is live, and the message is readable during the call.
        let called = unsafe { call::<slot::PJRT_Event_Set>(&self.plugin, &raw mut args) };
        missing(called, "PJRT_Event_Set")
    }

    /// Returns whether the event is ready.
    pub(crate) fn is_ready(&self) -> Result<bool, Stop> {
        let mut args = PJRT_Event_IsReady_Args::new();
        args.event = self.event.as_ptr();
        // SAFETY: C2 (calls): the event is live.
        let called = unsafe { call::<slot::PJRT_Event_IsReady>(&self.plugin, &raw mut args) };
        missing(called, "PJRT_Event_IsReady")?;
        Ok(args.is_ready.get())
    }

    /// Waits until the event is ready. The inner result is the outcome of the event's operation.
    pub(crate) fn wait(&self) -> Result<Result<(), Failure>, Stop> {
        let mut args = PJRT_Event_Await_Args::new();
        args.event = self.event.as_ptr();
        // SAFETY: C2 (calls): the event is live.
        let called = unsafe { call::<slot::PJRT_Event_Await>(&self.plugin, &raw mut args) };
        called.ok_or_else(|| Stop::Unsupported("the plugin lacks PJRT_Event_Await".to_owned()))
    }

    /// Returns the outcome of an event that is ready. The inner result is the event's error, if any.
    pub(crate) fn error(&self) -> Result<Result<(), Failure>, Stop> {
        let mut args = PJRT_Event_Error_Args::new();
        args.event = self.event.as_ptr();
        // SAFETY: C2 (calls): the event is live.
        let called = unsafe { call::<slot::PJRT_Event_Error>(&self.plugin, &raw mut args) };
        called.ok_or_else(|| Stop::Unsupported("the plugin lacks PJRT_Event_Error".to_owned()))
    }

    /// Registers a callback that the plugin calls when the event is ready.
    pub(crate) fn on_ready(&self, callback: impl FnOnce(Result<(), Failure>) + Send + 'static) -> Result<(), Stop> {
        let pending = Box::into_raw(Box::new(Pending { plugin: self.plugin.clone(), callback: Box::new(callback) }));
        let mut args = PJRT_Event_OnReady_Args::new();
        args.event = self.event.as_ptr();
        args.callback = Some(fire);
        args.user_arg = pending.cast();
        // SAFETY: C6 (events): the event is live, and the callback owns its argument whenever it is called.
        let called = unsafe { call::<slot::PJRT_Event_OnReady>(&self.plugin, &raw mut args) };
        missing(called, "PJRT_Event_OnReady")
    }
}

impl Drop for RawEvent {
    fn drop(&mut self) {
        let mut args = PJRT_Event_Destroy_Args::new();
        args.event = self.event.as_ptr();
        // SAFETY: C3 (objects), C6 (events): the event is live, and nothing uses it afterwards.
        let _ = unsafe { call::<slot::PJRT_Event_Destroy>(&self.plugin, &raw mut args) };
    }
}

/// `PJRT_Event_OnReadyCallback` that runs the callback to which `user_arg` points.
unsafe extern "C" fn fire(error: *mut PJRT_Error, user_arg: *mut c_void) {
    // SAFETY: C6 (events): a callback is called at most once, with the argument that `on_ready` registered.
    let pending = unsafe { Box::from_raw(user_arg.cast::<Pending>()) };
    let result = match NonNull::new(error) {
        None => Ok(()),
        // SAFETY: C6 (events): the callback owns its error.
        Some(error) => Err(unsafe { Failure::new(&pending.plugin, error) }),
    };
    (pending.callback)(result);
}

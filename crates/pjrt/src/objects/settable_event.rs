//! `PJRT_Event_Create` and `PJRT_Event_Set`: events that the caller makes ready.

use std::ffi::c_char;

use pjrt_sys::*;
use pjrt_types::ErrorCode;

use crate::error::Error;
use crate::objects::event::Event;
use crate::objects::owners::Client;
use crate::table::read;

/// An event that the caller makes ready, so that other code can wait for an operation of the caller. If the
/// `SettableEvent` is dropped before the event is ready, the event becomes ready with an error of code `CANCELLED`.
///
/// ```
/// # use pjrt::{ClientOptions, SettableEvent};
/// # let client = plugin_registry::open("cpu")?.client(&ClientOptions::new())?;
/// let upload = SettableEvent::new(&client)?;
/// upload.event().on_ready(|result| assert!(result.is_ok()))?;
/// let event = upload.set()?;
/// assert!(event.is_ready()?);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct SettableEvent {
    /// `None` after the event was set.
    event: Option<Event>,
}

impl SettableEvent {
    /// Creates an event of `client` that the caller makes ready.
    #[doc(alias = "PJRT_Event_Create")]
    pub fn new(client: &Client) -> Result<Self, Error> {
        type Function = slot::PJRT_Event_Create;
        let mut args = PJRT_Event_Create_Args::new();
        // SAFETY: C2 (calls): the function takes no input.
        unsafe { client.api().call::<Function>(&mut args) }?;
        let raw = read::object(args.event).map_err(|broken| Error::malformed(Function::NAME, broken))?;
        // SAFETY: C3 (objects): the plugin created the event for this caller.
        Ok(Self { event: Some(unsafe { Event::new(raw, client.inner().clone()) }) })
    }

    /// Returns the event, for example to register callbacks.
    pub fn event(&self) -> &Event {
        self.event.as_ref().unwrap_or_else(|| unreachable!("only functions that take `self` end the event"))
    }

    /// Makes the event ready without an error.
    ///
    /// # Errors
    ///
    /// Returns an error if the plugin cannot set the event. The event may then never become ready.
    #[doc(alias = "PJRT_Event_Set")]
    pub fn set(self) -> Result<Event, Error> {
        self.end(ErrorCode::OK, "")
    }

    /// Makes the event ready with an error.
    ///
    /// # Errors
    ///
    /// Returns an error if the code is `OK`.
    pub fn set_error(self, code: ErrorCode, message: &str) -> Result<Event, Error> {
        if code == ErrorCode::OK {
            return Err(Error::invalid("an event cannot end with an error whose code is OK"));
        }
        self.end(code, message)
    }

    fn end(mut self, code: ErrorCode, message: &str) -> Result<Event, Error> {
        let Some(event) = self.event.take() else { unreachable!("only functions that take `self` end the event") };
        set(&event, code, message)?;
        Ok(event)
    }
}

impl Drop for SettableEvent {
    fn drop(&mut self) {
        if let Some(event) = &self.event
            && let Err(error) = set(event, ErrorCode::CANCELLED, "the event was dropped before it was set")
        {
            tracing::warn!(%error, "an event that was dropped could not be ended");
        }
    }
}

fn set(event: &Event, code: ErrorCode, message: &str) -> Result<(), Error> {
    let mut args = PJRT_Event_Set_Args::new();
    args.event = event.handle().as_ptr();
    args.error_code = PJRT_Error_Code(code.as_raw());
    args.error_message = message.as_ptr().cast::<c_char>();
    args.error_message_size = message.len();
    // SAFETY: C2 (calls): the event is live, was created by `SettableEvent::new` and is set only once. The message
    // lives through the call.
    unsafe { event.handle().api().call::<slot::PJRT_Event_Set>(&mut args) }
}

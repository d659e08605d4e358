//! The plugin to which a stack of layers forwards calls.

use std::fmt;
use std::time::Duration;

use pjrt_sys::{PJRT_Error, PJRT_Extension_Type};

use super::errors;
use crate::core::events::{Gates, wait};
use crate::core::tables::Copies;
use crate::function::ForwardedFunction;
use crate::layer_error::LayerError;

/// The plugin to which a stack of layers forwards calls. Layers query it about the objects of a call.
pub struct Plugin {
    pub(in crate::core) tables: Copies,
    /// The events that become ready for the framework later than in the plugin, or never.
    pub(in crate::core) gates: Gates,
}

impl fmt::Debug for Plugin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Plugin").field("version", &self.version()).finish_non_exhaustive()
    }
}

impl Plugin {
    pub(in crate::core) fn new(tables: Copies) -> Self {
        Self { tables, gates: Gates::default() }
    }

    /// Returns the major and minor version in the plugin's table.
    #[must_use]
    pub fn version(&self) -> (u32, u32) {
        self.tables.version()
    }

    /// Returns whether the plugin has an extension.
    pub(crate) fn has_extension(&self, extension: PJRT_Extension_Type) -> bool {
        self.tables.has_extension(extension)
    }

    /// Returns the plugin's function `S`, if the plugin has it.
    #[inline]
    pub(in crate::core) fn function<S: ForwardedFunction>(
        &self,
    ) -> Option<unsafe extern "C" fn(*mut S::Args) -> S::Return> {
        self.tables.function::<S>()
    }

    /// Waits until an event that the current call returned is ready. Returns whether it became ready within `limit`.
    pub(crate) fn wait_for_event(&'static self, event: usize, limit: Duration) -> bool {
        // SAFETY: L2 (arguments): the current call returned the event, which the framework does not have yet.
        unsafe { wait::event(&self.tables, event, limit) }
    }

    /// Waits until a buffer that the current call returned is ready. Returns whether it became ready within `limit`.
    pub(crate) fn wait_for_buffer(&'static self, buffer: usize, limit: Duration) -> bool {
        // SAFETY: L2 (arguments): the current call returned the buffer, which the framework does not have yet.
        unsafe { wait::buffer(&self.tables, buffer, limit) }
    }

    /// Opens the gate of an event. `handle` is a handle that [`Call::close_events`](crate::Call::close_events)
    /// returned.
    pub(crate) fn open_event(&self, handle: usize) {
        self.gates.open(&self.tables, handle);
    }

    /// Runs a closure when an event that the current call returned is ready. Returns whether the plugin accepted the
    /// callback.
    pub(crate) fn when_ready(&'static self, event: usize, run: Box<dyn FnOnce() + Send>) -> bool {
        // SAFETY: L2 (arguments): the current call returned the event, which the framework does not have yet.
        unsafe { wait::when_ready(&self.tables, event, run) }
    }

    /// Returns the code and message of a live error, or `None` if `error` is 0.
    pub(crate) fn describe(&self, error: usize) -> Option<LayerError> {
        let error = std::ptr::with_exposed_provenance_mut::<PJRT_Error>(error);
        // SAFETY: L4 (errors): the error lives until the framework, which does not have it yet, destroys it.
        (!error.is_null()).then(|| unsafe { errors::describe(&self.tables, error) })
    }
}

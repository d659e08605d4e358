//! Calls of custom call handlers with device memory.

use crate::Result;
use crate::abi::extensions::foreign_handler;
use crate::ffi::registry::wrong_memory;
use crate::ffi::{DeviceCall, Handler};

impl Handler {
    /// Calls the handler with device memory. A handler in C receives the buffers, the attributes, the user data, the
    /// stream and the index of the device. If it requests state, temporary memory, threads or a future, the request
    /// fails with `UNIMPLEMENTED`.
    ///
    /// # Errors
    ///
    /// Returns the errors of the handler, `INTERNAL` if a handler in Rust panics, and `UNIMPLEMENTED` for a handler in
    /// Rust of host memory. For a handler in C, also returns `UNIMPLEMENTED` or `INVALID_ARGUMENT` if the call cannot
    /// be passed to it, and `FAILED_PRECONDITION` if the execution of the call's context has ended. The handler reports
    /// only errors that it knows at once, and may have enqueued work before.
    ///
    /// # Safety
    ///
    /// This is contract V11 of `docs/safety.md`. The stream and the memory exist, and belong to the device. Until the
    /// work that the handler enqueues on the stream has ended, or the handler has returned if it enqueues nothing, each
    /// array has as many bytes as the device uses for its shape, nothing writes the operands, and nothing else uses the
    /// results. A result may have the address of an operand only if the program declares that both share memory. The
    /// context is that of the execution, or has no data. The event of the execution becomes ready after the work has
    /// ended, because the framework may then free the user data.
    pub unsafe fn call_on_device(&self, call: &DeviceCall<'_>) -> Result<()> {
        match self {
            Self::RustOnDevice(handler) => handler.call(call),
            // SAFETY: V11 (device calls), which the caller promises.
            Self::Foreign(handler) => unsafe { foreign_handler::call_on_device(handler.address(), call) },
            Self::Rust(_) => Err(wrong_memory(call.target, "host", "device")),
        }
    }
}

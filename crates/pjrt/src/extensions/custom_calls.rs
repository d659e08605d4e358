//! `PJRT_Gpu_Custom_Call`: custom calls of XLA's GPU plugins.

use std::ffi::{c_char, c_int, c_void};
use std::ptr::{NonNull, null_mut};

use pjrt_sys::extension_slot as function;
use pjrt_sys::*;
use pjrt_types::HandlerTraits;

use super::functions::Functions;
use super::plugin_extension::plugin_extension;
use crate::error::Error;

/// Functions that register custom calls with XLA's GPU plugins. Other plugins and newer GPU plugins support
/// [`Ffi`](super::Ffi) instead.
#[derive(Clone, Debug)]
#[doc(alias = "PJRT_Gpu_Custom_Call")]
pub struct GpuCustomCalls(Functions<PJRT_Gpu_Custom_Call>);

plugin_extension!(GpuCustomCalls(PJRT_Gpu_Custom_Call));

/// The handlers of a typed custom call: pointers to `XLA_FFI_Handler` functions, one for each stage of an execution.
#[derive(Clone, Copy, Debug)]
pub struct GpuHandlers {
    /// Handler of the stage that creates the state of the call.
    pub instantiate: Option<NonNull<c_void>>,
    /// Handler of the stage that requests resources for an execution.
    pub prepare: Option<NonNull<c_void>>,
    /// Handler of the stage that initializes the requested resources.
    pub initialize: Option<NonNull<c_void>>,
    /// Handler of the stage that executes the call.
    pub execute: NonNull<c_void>,
}

/// `api_version` of a custom call with the untyped calling convention.
const UNTYPED: c_int = 0;
/// `api_version` of a typed custom call.
const TYPED: c_int = 1;

impl GpuCustomCalls {
    /// Registers a typed custom call for the whole process. `target` is the name of the call in programs.
    ///
    /// # Errors
    ///
    /// Returns an error if the plugin ignores traits and `traits` is not the default. A plugin ignores traits if its
    /// version of this extension is older than 3.
    ///
    /// # Safety
    ///
    /// The handlers are `XLA_FFI_Handler*` for the version of XLA's FFI that the plugin uses. They stay callable, from
    /// any thread, until the process ends. `traits` describes the handlers correctly.
    #[doc(alias = "PJRT_Gpu_Register_Custom_Call")]
    pub unsafe fn register(&self, target: &str, handlers: GpuHandlers, traits: HandlerTraits) -> Result<(), Error> {
        if traits != HandlerTraits::default() && !self.0.table.0.custom_call_handles_traits.get() {
            return Err(Error::unsupported(format!(
                "the plugin's {} ignores the traits of handlers; register {target:?} without traits",
                PJRT_Gpu_Custom_Call::NAME
            )));
        }
        // SAFETY: this function's contract: the handlers are valid for typed calls.
        unsafe { self.call(TYPED, target, handlers, traits) }
    }

    /// Registers a custom call with the untyped calling convention. The registration applies to the whole process.
    /// `target` is the name of the call in programs.
    ///
    /// # Safety
    ///
    /// `function` is a function with the signature of XLA's untyped custom calls. It stays callable, from any thread,
    /// until the process ends.
    #[doc(alias = "PJRT_Gpu_Register_Custom_Call")]
    pub unsafe fn register_untyped(&self, target: &str, function: NonNull<c_void>) -> Result<(), Error> {
        let handlers = GpuHandlers { instantiate: None, prepare: None, initialize: None, execute: function };
        // SAFETY: this function's contract: `function` is valid for untyped calls.
        unsafe { self.call(UNTYPED, target, handlers, HandlerTraits::default()) }
    }

    /// # Safety
    ///
    /// The requirements of [`GpuCustomCalls::register`] apply if `api_version` is [`TYPED`], and those of
    /// [`GpuCustomCalls::register_untyped`] if it is [`UNTYPED`].
    unsafe fn call(
        &self,
        api_version: c_int,
        target: &str,
        handlers: GpuHandlers,
        traits: HandlerTraits,
    ) -> Result<(), Error> {
        let raw = |handler: Option<NonNull<c_void>>| handler.map_or(null_mut(), NonNull::as_ptr);
        let mut args = PJRT_Gpu_Register_Custom_Call_Args::new();
        args.function_name = target.as_ptr().cast::<c_char>();
        args.function_name_size = target.len();
        args.api_version = api_version;
        args.handler_instantiate = raw(handlers.instantiate);
        args.handler_prepare = raw(handlers.prepare);
        args.handler_initialize = raw(handlers.initialize);
        args.handler_execute = handlers.execute.as_ptr();
        args.traits = traits.0;
        // SAFETY: C2 (calls): the name lives through the call. The handlers are valid by this function's contract.
        unsafe { self.0.register::<function::PJRT_Gpu_Register_Custom_Call>(&mut args) }
    }
}

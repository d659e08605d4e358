//! `PJRT_Callback_Extension`: functions that a plugin calls when its hardware or its process fails.

use std::ffi::c_void;

use pjrt_sys::extension_slot as function;
use pjrt_sys::*;
use pjrt_types::ErrorCode;

use super::functions::Functions;
use super::plugin_extension::plugin_extension;
use crate::error::Error;
use crate::objects::owners::Client;
use crate::table::callback::contain;
use crate::table::read;

/// Functions that register callbacks, or call registered callbacks for a test. The plugin calls the callbacks when a
/// TPU slice fails, or before it ends the process.
#[derive(Clone, Debug)]
#[doc(alias = "PJRT_Callback_Extension")]
pub struct Callbacks(Functions<PJRT_Callback_Extension>);

plugin_extension!(Callbacks(PJRT_Callback_Extension));

/// The reason for the failure of a TPU slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[doc(alias = "PJRT_Callback_Tpu_SliceFailureType")]
pub struct SliceFailure(pub i32);

impl SliceFailure {
    /// The reason is unknown.
    pub const UNKNOWN: Self = Self(0);
    /// The network between the chips could not be initialized.
    pub const INIT_ERROR: Self = Self(1);
    /// A worker's heartbeat is missing.
    pub const WORKER_UNAVAILABLE: Self = Self(2);
    /// A task restarts repeatedly.
    pub const FLAPPING_TASK: Self = Self(3);
    /// Software injected the failure.
    pub const INJECTED: Self = Self(4);
    /// A chip's driver reports an error.
    pub const CHIP_DRIVER_ERROR: Self = Self(5);
}

/// A type of callback: its constant in the C API, the C struct of its arguments, and the conversion of this struct.
trait Kind {
    const TYPE: PJRT_Callback_Type;
    type Args: AbiStruct;
    type Event<'a>;

    /// Converts the arguments of a callback from the C struct.
    fn event(args: &Self::Args) -> Self::Event<'_>;
}

struct SliceBuilder;

impl Kind for SliceBuilder {
    const TYPE: PJRT_Callback_Type = PJRT_Callback_Type::PJRT_Callback_Type_Tpu_SliceBuilder;
    type Args = PJRT_Callback_Tpu_SliceBuilderArgs;
    type Event<'a> = SliceFailure;

    fn event(args: &PJRT_Callback_Tpu_SliceBuilderArgs) -> SliceFailure {
        SliceFailure(args.failure_type.0)
    }
}

struct Prefatal;

impl Kind for Prefatal {
    const TYPE: PJRT_Callback_Type = PJRT_Callback_Type::PJRT_Callback_Type_Prefatal;
    type Args = PJRT_Callback_PrefatalArgs;
    type Event<'a> = (ErrorCode, String);

    fn event(args: &PJRT_Callback_PrefatalArgs) -> (ErrorCode, String) {
        // SAFETY: C11 (callbacks of an extension): the message is valid during the callback.
        let message = unsafe { read::text(args.error_message, args.error_message_size) };
        let message = message.map_or_else(|broken| format!("<{broken}>"), String::from);
        (ErrorCode::from_raw(args.error_code.0), message)
    }
}

impl Callbacks {
    /// Registers a callback for failures of the client's TPU slice. The plugin calls `callback` on one of its threads.
    ///
    /// The PJRT API cannot unregister a callback, so `callback` lives until the process ends.
    ///
    /// # Errors
    ///
    /// Returns an error if the client belongs to another plugin.
    #[doc(alias = "PJRT_Register_Callback")]
    pub fn on_slice_failure(
        &self,
        client: &Client,
        callback: impl Fn(SliceFailure) + Send + Sync + 'static,
    ) -> Result<(), Error> {
        self.register::<SliceBuilder, _>(client, callback)
    }

    /// Registers a callback for fatal errors. Before the plugin ends the process because of an error, it calls
    /// `callback` with the error's code and message, on one of its threads.
    ///
    /// The PJRT API cannot unregister a callback, so `callback` lives until the process ends.
    ///
    /// # Errors
    ///
    /// Returns an error if the client belongs to another plugin.
    #[doc(alias = "PJRT_Register_Callback")]
    pub fn on_fatal_error(
        &self,
        client: &Client,
        callback: impl Fn(ErrorCode, &str) + Send + Sync + 'static,
    ) -> Result<(), Error> {
        self.register::<Prefatal, _>(client, move |(code, message): (ErrorCode, String)| callback(code, &message))
    }

    /// Calls the client's registered callbacks for slice failures, for example to test these callbacks.
    ///
    /// # Errors
    ///
    /// Returns an error if the client belongs to another plugin.
    #[doc(alias = "PJRT_Callback_InvokeCallback")]
    pub fn report_slice_failure(&self, client: &Client, failure: SliceFailure) -> Result<(), Error> {
        let mut args = PJRT_Callback_Tpu_SliceBuilderArgs::new();
        args.failure_type = PJRT_Callback_Tpu_SliceFailureType(failure.0);
        self.invoke::<SliceBuilder>(client, &mut args)
    }

    /// Calls the client's registered callbacks for fatal errors, for example to test these callbacks.
    ///
    /// # Errors
    ///
    /// Returns an error if the client belongs to another plugin.
    #[doc(alias = "PJRT_Callback_InvokeCallback")]
    pub fn report_fatal_error(&self, client: &Client, code: ErrorCode, message: &str) -> Result<(), Error> {
        let mut args = PJRT_Callback_PrefatalArgs::new();
        args.error_code = PJRT_Error_Code(code.as_raw());
        args.error_message = message.as_ptr().cast();
        args.error_message_size = message.len();
        self.invoke::<Prefatal>(client, &mut args)
    }

    fn register<K: Kind, F>(&self, client: &Client, callback: F) -> Result<(), Error>
    where
        F: for<'a> Fn(K::Event<'a>) + Send + Sync + 'static,
    {
        self.0.check(client.api())?;
        // Leak the callback even if the call fails, because it is unknown whether the plugin has kept the pointer.
        let callback = Box::into_raw(Box::new(callback));
        let mut args = PJRT_Callback_RegisterCallback_Args::new();
        args.client = client.inner().raw().as_ptr();
        args.type_ = K::TYPE;
        args.callback = Some(call::<K, F>);
        args.user_arg = callback.cast();
        // SAFETY: C2 (calls), C11 (callbacks of an extension): the client is live and belongs to this plugin. The
        // callback lives until the process ends.
        unsafe { self.0.call::<function::PJRT_Register_Callback>(&mut args) }
    }

    fn invoke<K: Kind>(&self, client: &Client, given: &mut K::Args) -> Result<(), Error> {
        self.0.check(client.api())?;
        let mut args = PJRT_Callback_InvokeCallback_Args::new();
        args.client = client.inner().raw().as_ptr();
        args.type_ = K::TYPE;
        args.args = (&raw mut *given).cast();
        // SAFETY: C2 (calls): the client is live and belongs to this plugin. The arguments of this type live through
        // the call.
        unsafe { self.0.call::<function::PJRT_Callback_InvokeCallback>(&mut args) }
    }
}

/// Calls the closure that `user_arg` points to. Does nothing if the arguments are null, misaligned or too short. This
/// function is a `PJRT_Callback_Function`.
unsafe extern "C" fn call<K: Kind, F: for<'a> Fn(K::Event<'a>)>(args: *mut c_void, user_arg: *mut c_void) {
    contain(|| {
        if args.is_null() || !args.cast::<K::Args>().is_aligned() {
            return;
        }
        // SAFETY: C11 (callbacks of an extension): the arguments begin with their size.
        let size = unsafe { args.cast::<usize>().read() };
        if size < K::Args::STRUCT_SIZE {
            tracing::warn!(size, struct_name = K::Args::NAME, "a callback's arguments are too short; it is ignored");
            return;
        }
        let mut copy = K::Args::new();
        // SAFETY: C11 (callbacks of an extension): the arguments are readable for their size, which is at least that of
        // the copy.
        unsafe { (&raw mut copy).cast::<u8>().copy_from_nonoverlapping(args.cast(), K::Args::STRUCT_SIZE) };
        // SAFETY: C11 (callbacks of an extension): `user_arg` is the registered argument, a closure that is never
        // freed.
        let callback = unsafe { &*user_arg.cast::<F>() };
        callback(K::event(&copy));
    });
}

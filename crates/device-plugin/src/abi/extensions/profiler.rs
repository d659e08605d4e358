//! The profiler extension, which has its own function table and its own error type.

use std::marker::PhantomData;
use std::mem::offset_of;
use std::ptr::{NonNull, null_mut};
use std::sync::{Mutex, MutexGuard, PoisonError};

use pjrt_sys::*;
use plugin_macros::entry;

use crate::abi::extensions::link::{Link, base};
use crate::abi::table::entry::{Outcome, Shim, entry};
use crate::abi::table::error_handle::{ErrorHandle, into_raw};
use crate::abi::table::ffi_read;
use crate::abi::table::handles::handles;
use crate::contain::contain;
use crate::profiler::{self, Recording};
use crate::{Backend, DevicePlugin, Error, Result};

/// The object behind a `PLUGIN_Profiler*`, which records one profile.
pub(crate) struct Profiler(Mutex<State>);

struct State {
    /// The framework's serialized `ProfileOptions` message.
    options: Vec<u8>,
    phase: Phase,
}

enum Phase {
    Idle,
    Running,
    /// The profile has ended. The field is the serialized `XSpace` message.
    Stopped(Vec<u8>),
}

/// The object behind a `PLUGIN_Profiler_ConsumeResult*`: the serialized `XSpace` message.
pub(crate) struct Consumed(Vec<u8>);

handles! {
    PLUGIN_Profiler => Profiler;
    PLUGIN_Profiler_Error => ErrorHandle;
    PLUGIN_Profiler_ConsumeResult => Consumed;
}

impl Outcome for *mut PLUGIN_Profiler_Error {
    #[inline]
    fn from_result(result: Result<()>) -> Self {
        match result {
            Ok(()) => null_mut(),
            Err(error) => into_raw(error).cast(),
        }
    }
}

/// Declares marker types for the functions of the profiler's table. `pjrt-sys` generates no markers for this table.
macro_rules! functions {
    ($($index:literal $name:ident = $field:ident($args:ident) -> $outcome:ty;)*) => {
        #[allow(non_camel_case_types, reason = "the markers carry the header's names")]
        pub(crate) mod function {
            use pjrt_sys::*;

            $(
                pub(crate) enum $name {}

                // SAFETY: the field is a nullable pointer to a function of this type.
                unsafe impl Slot for $name {
                    type Table = PLUGIN_Profiler_Api;
                    type Args = $args;
                    type Return = $outcome;
                    const NAME: &'static str = concat!("PLUGIN_Profiler_", stringify!($name));
                    const INDEX: usize = $index;
                    const OFFSET: usize = super::offset_of!(PLUGIN_Profiler_Api, $field);
                    const SINCE: u32 = 0;

                    fn get(table: &Self::Table) -> Option<unsafe extern "C" fn(*mut Self::Args) -> Self::Return> {
                        table.$field
                    }
                }
            )*
        }
    };
}

functions! {
    0 Error_Destroy = error_destroy(PLUGIN_Profiler_Error_Destroy_Args) -> ();
    1 Error_Message = error_message(PLUGIN_Profiler_Error_Message_Args) -> ();
    2 Error_GetCode = error_get_code(PLUGIN_Profiler_Error_GetCode_Args) -> *mut PLUGIN_Profiler_Error;
    3 Create = create(PLUGIN_Profiler_Create_Args) -> *mut PLUGIN_Profiler_Error;
    4 Destroy = destroy(PLUGIN_Profiler_Destroy_Args) -> *mut PLUGIN_Profiler_Error;
    5 Start = start(PLUGIN_Profiler_Start_Args) -> *mut PLUGIN_Profiler_Error;
    6 Stop = stop(PLUGIN_Profiler_Stop_Args) -> *mut PLUGIN_Profiler_Error;
    7 CollectData = collect_data(PLUGIN_Profiler_CollectData_Args) -> *mut PLUGIN_Profiler_Error;
    8 Consume = consume(PLUGIN_Profiler_Consume_Args) -> *mut PLUGIN_Profiler_Error;
    9 ConsumeResult_Destroy = consume_result_destroy(PLUGIN_Profiler_ConsumeResult_Destroy_Args) -> ();
    10 Serialize = serialize(PLUGIN_Profiler_Serialize_Args) -> *mut PLUGIN_Profiler_Error;
}

/// The `struct_size` that the profiler's table declares. This is the size of the table's first version, which lacks the
/// functions `consume` to `serialize`. JAX up to 0.10.2 rejects any other size, continues with a null table and
/// crashes. Newer versions of JAX require at least this size.
const ANNOUNCED: usize = offset_of!(PLUGIN_Profiler_Api, consume);

/// The profiler extension. A plugin offers it if the backend implements the feature `Profiler`.
pub(crate) struct ProfilerExtension<P, Next>(PhantomData<(P, Next)>);

impl<P: DevicePlugin, Next: Link> ProfilerExtension<P, Next> {
    const TABLE: &'static PLUGIN_Profiler_Api = &PLUGIN_Profiler_Api {
        struct_size: ANNOUNCED,
        priv_: null_mut(),
        error_destroy: Some(entry::<Shim<P>, function::Error_Destroy>),
        error_message: Some(entry::<Shim<P>, function::Error_Message>),
        error_get_code: Some(entry::<Shim<P>, function::Error_GetCode>),
        create: Some(entry::<Shim<P>, function::Create>),
        destroy: Some(entry::<Shim<P>, function::Destroy>),
        start: Some(entry::<Shim<P>, function::Start>),
        stop: Some(entry::<Shim<P>, function::Stop>),
        collect_data: Some(entry::<Shim<P>, function::CollectData>),
        consume: Some(entry::<Shim<P>, function::Consume>),
        consume_result_destroy: Some(entry::<Shim<P>, function::ConsumeResult_Destroy>),
        serialize: Some(entry::<Shim<P>, function::Serialize>),
    };
    const EXTENSION: &'static PJRT_Profiler_Extension = &PJRT_Profiler_Extension {
        base: base::<PJRT_Profiler_Extension>(Next::POINTER),
        profiler_api: (&raw const *Self::TABLE).cast_mut(),
        traceme_context_id: 0,
    };
}

impl<P: DevicePlugin, Next: Link> Link for ProfilerExtension<P, Next> {
    const POINTER: *mut PJRT_Extension_Base = if P::Backend::FEATURES.profiler.is_some() {
        (&raw const *Self::EXTENSION).cast_mut().cast()
    } else {
        Next::POINTER
    };
}

impl Profiler {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn start<P: DevicePlugin>(&self) -> Result<()> {
        let mut state = self.state();
        if matches!(state.phase, Phase::Running) {
            return Err(Error::failed_precondition("a profile is already running; stop it first"));
        }
        profiler::begin()?;
        state.phase = Phase::Running;
        let started =
            P::Backend::FEATURES.profiler.map_or(Ok(()), |hooks| contain(|| (hooks.profile_started)(&state.options)));
        if started.is_err() {
            drop(Recording::end());
            state.phase = Phase::Idle;
        }
        started
    }

    fn stop<P: DevicePlugin>(&self) -> Result<()> {
        let mut state = self.state();
        if !matches!(state.phase, Phase::Running) {
            return Err(Error::failed_precondition("no profile is running; start one first"));
        }
        let stopping = P::Backend::FEATURES.profiler.map_or(Ok(()), |hooks| contain(hooks.profile_stopping));
        let space = Recording::end().map(|recording| recording.encode(P::name()));
        state.phase = Phase::Stopped(space.unwrap_or_default());
        stopping
    }
}

fn not_stopped(phase: &Phase) -> Error {
    Error::failed_precondition(match phase {
        Phase::Running => "the profile is still running; stop it first",
        _ => "no profile was recorded; start and stop one first",
    })
}

#[entry(module = function, fixed_size, destroys)]
unsafe fn Error_Destroy<P: DevicePlugin>(args: &mut PLUGIN_Profiler_Error_Destroy_Args) -> Result<()> {
    if !args.error.is_null() {
        // SAFETY: V2 (handles): every error is a boxed `ErrorHandle`, and the framework no longer uses this error.
        drop(unsafe { Box::from_raw(args.error.cast::<ErrorHandle>()) });
    }
    Ok(())
}

#[entry(module = function, fixed_size)]
unsafe fn Error_Message<P: DevicePlugin>(
    args: &mut PLUGIN_Profiler_Error_Message_Args,
    error: &ErrorHandle,
) -> Result<()> {
    args.message = error.error.message().as_ptr().cast();
    args.message_size = error.error.message().len();
    Ok(())
}

#[entry(module = function, fixed_size)]
unsafe fn Error_GetCode<P: DevicePlugin>(
    args: &mut PLUGIN_Profiler_Error_GetCode_Args,
    error: &ErrorHandle,
) -> Result<()> {
    args.code = error.error.code().as_raw().cast_signed();
    Ok(())
}

#[entry(module = function, fixed_size)]
unsafe fn Create<P: DevicePlugin>(args: &mut PLUGIN_Profiler_Create_Args) -> Result<()> {
    // SAFETY: V3 (arrays and text).
    let options = unsafe { ffi_read::slice(args.options.cast::<u8>(), args.options_size, "options") }?.to_vec();
    let profiler = Profiler(Mutex::new(State { options, phase: Phase::Idle }));
    args.profiler = Box::into_raw(Box::new(profiler)).cast();
    Ok(())
}

#[entry(module = function, fixed_size, destroys)]
unsafe fn Destroy<P: DevicePlugin>(args: &mut PLUGIN_Profiler_Destroy_Args) -> Result<()> {
    let Some(profiler) = NonNull::new(args.profiler.cast::<Profiler>()) else { return Ok(()) };
    // SAFETY: V2 (handles): `Create` boxed the profiler, and the framework no longer uses it.
    let profiler = unsafe { Box::from_raw(profiler.as_ptr()) };
    let running = matches!(profiler.state().phase, Phase::Running);
    if running && let Err(error) = profiler.stop::<P>() {
        // Log the error instead of returning it, because frameworks end the process if destroying an object fails.
        tracing::warn!(%error, "a profile was destroyed while it was running, and stopping it failed");
    }
    Ok(())
}

#[entry(module = function, fixed_size)]
unsafe fn Start<P: DevicePlugin>(args: &mut PLUGIN_Profiler_Start_Args, profiler: &Profiler) -> Result<()> {
    profiler.start::<P>()
}

#[entry(module = function, fixed_size)]
unsafe fn Stop<P: DevicePlugin>(args: &mut PLUGIN_Profiler_Stop_Args, profiler: &Profiler) -> Result<()> {
    profiler.stop::<P>()
}

#[entry(module = function, fixed_size)]
unsafe fn CollectData<P: DevicePlugin>(args: &mut PLUGIN_Profiler_CollectData_Args, profiler: &Profiler) -> Result<()> {
    let state = profiler.state();
    let Phase::Stopped(space) = &state.phase else { return Err(not_stopped(&state.phase)) };
    args.buffer_size_in_bytes = space.len();
    if args.buffer.is_null() {
        // The header specifies that the framework calls this function again with its own memory. JAX reads the
        // plugin's memory instead, so return its address.
        args.buffer = space.as_ptr().cast_mut();
    } else if args.buffer.cast_const() != space.as_ptr() {
        // SAFETY: V3 (arrays and text): the buffer has the size that an earlier call returned, and the size of the
        // profile has not changed since that call.
        unsafe { ffi_read::slice_mut(args.buffer, space.len(), "buffer") }?.copy_from_slice(space);
    }
    Ok(())
}

#[entry(module = function, fixed_size)]
unsafe fn Consume<P: DevicePlugin>(args: &mut PLUGIN_Profiler_Consume_Args, profiler: &Profiler) -> Result<()> {
    let mut state = profiler.state();
    let Phase::Stopped(space) = &mut state.phase else { return Err(not_stopped(&state.phase)) };
    args.result = Box::into_raw(Box::new(Consumed(std::mem::take(space)))).cast();
    Ok(())
}

#[entry(module = function, fixed_size, destroys)]
unsafe fn ConsumeResult_Destroy<P: DevicePlugin>(args: &mut PLUGIN_Profiler_ConsumeResult_Destroy_Args) -> Result<()> {
    if !args.consume_result.is_null() {
        // SAFETY: V2 (handles): `Consume` boxed the result, and the framework no longer uses it.
        drop(unsafe { Box::from_raw(args.consume_result.cast::<Consumed>()) });
    }
    Ok(())
}

#[entry(module = function, fixed_size)]
unsafe fn Serialize<P: DevicePlugin>(
    args: &mut PLUGIN_Profiler_Serialize_Args,
    consume_result: &Consumed,
) -> Result<()> {
    args.serialized_bytes = consume_result.0.as_ptr();
    args.serialized_size = consume_result.0.len();
    Ok(())
}

//! The profiler extension: a table of its own, with errors of its own.

use std::mem::offset_of;
use std::ptr::{NonNull, null_mut};
use std::sync::{Mutex, MutexGuard, PoisonError};

use pjrt_sys::*;

use crate::abi::extensions::streams;
use crate::abi::objects::error::{ErrorHandle, into_raw};
use crate::abi::table::entry::{Entry, Outcome, Shim, contain, entry};
use crate::abi::table::ffi_read::{self, handle, handles};
use crate::profiler::{self, Recording};
use crate::{Backend, DevicePlugin, Error, Result};

/// What a `PLUGIN_Profiler*` points to.
pub(crate) struct Profiler(Mutex<State>);

struct State {
    /// The framework's `ProfileOptions`.
    options: Vec<u8>,
    phase: Phase,
}

enum Phase {
    Idle,
    Running,
    /// The serialized `XSpace`.
    Stopped(Vec<u8>),
}

/// What a `PLUGIN_Profiler_ConsumeResult*` points to: the serialized `XSpace`.
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

/// Markers of the table's functions, which the generated ones do not cover.
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

/// The size the table announces: that of its first version, without the functions that give a profile away at once.
/// JAX up to 0.10.2 takes no other and then goes on with no table at all, which ends the process; newer ones ask for at
/// least this.
const ANNOUNCED: usize = offset_of!(PLUGIN_Profiler_Api, consume);

/// Where the extension lies, or the next one where the backend does not offer it.
pub(crate) const fn pointer<P: DevicePlugin>() -> *mut PJRT_Extension_Base {
    struct Constant<P>(std::marker::PhantomData<P>);
    impl<P: DevicePlugin> Constant<P> {
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
            base: PJRT_Extension_Base {
                struct_size: PJRT_Profiler_Extension::STRUCT_SIZE,
                type_: PJRT_Profiler_Extension::TYPE,
                next: streams::pointer::<P>(),
            },
            profiler_api: (&raw const *Self::TABLE).cast_mut(),
            traceme_context_id: 0,
        };
    }
    if P::Backend::EXTENSIONS.profiler.is_none() {
        return streams::pointer::<P>();
    }
    let pointer: *const PJRT_Profiler_Extension = Constant::<P>::EXTENSION;
    pointer.cast_mut().cast()
}

impl Profiler {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn start<P: DevicePlugin>(&self) -> Result<()> {
        let mut state = self.state();
        if matches!(state.phase, Phase::Running) {
            return Err(Error::failed_precondition("the profile runs already"));
        }
        profiler::begin()?;
        state.phase = Phase::Running;
        let started =
            P::Backend::EXTENSIONS.profiler.map_or(Ok(()), |hooks| contain(|| (hooks.started)(&state.options)));
        if started.is_err() {
            drop(Recording::end());
            state.phase = Phase::Idle;
        }
        started
    }

    fn stop<P: DevicePlugin>(&self) -> Result<()> {
        let mut state = self.state();
        if !matches!(state.phase, Phase::Running) {
            return Err(Error::failed_precondition("the profile does not run; start it first"));
        }
        let stopping = P::Backend::EXTENSIONS.profiler.map_or(Ok(()), |hooks| contain(hooks.stopping));
        let space = Recording::end().map(|recording| recording.encode(P::NAME));
        state.phase = Phase::Stopped(space.unwrap_or_default());
        stopping
    }
}

fn not_stopped(phase: &Phase) -> Error {
    Error::failed_precondition(match phase {
        Phase::Running => "the profile still runs; stop it first",
        _ => "there is no profile; start and stop one first",
    })
}

impl<P: DevicePlugin> Entry<function::Error_Destroy> for Shim<P> {
    const PLUGIN: &'static str = P::NAME;

    unsafe fn call(args: &mut PLUGIN_Profiler_Error_Destroy_Args) -> Result<()> {
        if !args.error.is_null() {
            // SAFETY: V2, errors are such boxes, and this one is given up.
            drop(unsafe { Box::from_raw(args.error.cast::<ErrorHandle>()) });
        }
        Ok(())
    }
}

impl<P: DevicePlugin> Entry<function::Error_Message> for Shim<P> {
    const PLUGIN: &'static str = P::NAME;

    unsafe fn call(args: &mut PLUGIN_Profiler_Error_Message_Args) -> Result<()> {
        // SAFETY: V2.
        let error = unsafe { handle::<P, _>(args.error, "error") }?;
        args.message = error.error.message().as_ptr().cast();
        args.message_size = error.error.message().len();
        Ok(())
    }
}

impl<P: DevicePlugin> Entry<function::Error_GetCode> for Shim<P> {
    const PLUGIN: &'static str = P::NAME;

    unsafe fn call(args: &mut PLUGIN_Profiler_Error_GetCode_Args) -> Result<()> {
        // SAFETY: V2.
        let error = unsafe { handle::<P, _>(args.error, "error") }?;
        args.code = error.error.code().as_raw().cast_signed();
        Ok(())
    }
}

impl<P: DevicePlugin> Entry<function::Create> for Shim<P> {
    const PLUGIN: &'static str = P::NAME;

    unsafe fn call(args: &mut PLUGIN_Profiler_Create_Args) -> Result<()> {
        // SAFETY: V3.
        let options = unsafe { ffi_read::slice(args.options.cast::<u8>(), args.options_size, "options") }?.to_vec();
        let profiler = Profiler(Mutex::new(State { options, phase: Phase::Idle }));
        args.profiler = Box::into_raw(Box::new(profiler)).cast();
        Ok(())
    }
}

impl<P: DevicePlugin> Entry<function::Destroy> for Shim<P> {
    const PLUGIN: &'static str = P::NAME;

    unsafe fn call(args: &mut PLUGIN_Profiler_Destroy_Args) -> Result<()> {
        let Some(profiler) = NonNull::new(args.profiler.cast::<Profiler>()) else { return Ok(()) };
        // SAFETY: V2, this came from the box of `Create` and is given up.
        let profiler = unsafe { Box::from_raw(profiler.as_ptr()) };
        let running = matches!(profiler.state().phase, Phase::Running);
        if running && let Err(error) = profiler.stop::<P>() {
            // What the profile would have shown is lost, as the framework wants it, and so is why it did not end well:
            // frameworks end the process when something cannot be destroyed.
            tracing::warn!(%error, "a profile that was destroyed while it ran did not end well");
        }
        Ok(())
    }
}

impl<P: DevicePlugin> Entry<function::Start> for Shim<P> {
    const PLUGIN: &'static str = P::NAME;

    unsafe fn call(args: &mut PLUGIN_Profiler_Start_Args) -> Result<()> {
        // SAFETY: V2.
        unsafe { handle::<P, _>(args.profiler, "profiler") }?.start::<P>()
    }
}

impl<P: DevicePlugin> Entry<function::Stop> for Shim<P> {
    const PLUGIN: &'static str = P::NAME;

    unsafe fn call(args: &mut PLUGIN_Profiler_Stop_Args) -> Result<()> {
        // SAFETY: V2.
        unsafe { handle::<P, _>(args.profiler, "profiler") }?.stop::<P>()
    }
}

impl<P: DevicePlugin> Entry<function::CollectData> for Shim<P> {
    const PLUGIN: &'static str = P::NAME;

    unsafe fn call(args: &mut PLUGIN_Profiler_CollectData_Args) -> Result<()> {
        // SAFETY: V2.
        let profiler = unsafe { handle::<P, _>(args.profiler, "profiler") }?;
        let state = profiler.state();
        let Phase::Stopped(space) = &state.phase else { return Err(not_stopped(&state.phase)) };
        args.buffer_size_in_bytes = space.len();
        if args.buffer.is_null() {
            // The header tells the framework to come again with memory of its own; JAX reads the plugin's instead.
            args.buffer = space.as_ptr().cast_mut();
        } else if args.buffer.cast_const() != space.as_ptr() {
            // SAFETY: V3, a buffer of the size that an earlier call gave, which stays what it was.
            unsafe { ffi_read::slice_mut(args.buffer, space.len(), "buffer") }?.copy_from_slice(space);
        }
        Ok(())
    }
}

impl<P: DevicePlugin> Entry<function::Consume> for Shim<P> {
    const PLUGIN: &'static str = P::NAME;

    unsafe fn call(args: &mut PLUGIN_Profiler_Consume_Args) -> Result<()> {
        // SAFETY: V2.
        let profiler = unsafe { handle::<P, _>(args.profiler, "profiler") }?;
        let mut state = profiler.state();
        let Phase::Stopped(space) = &mut state.phase else { return Err(not_stopped(&state.phase)) };
        args.result = Box::into_raw(Box::new(Consumed(std::mem::take(space)))).cast();
        Ok(())
    }
}

impl<P: DevicePlugin> Entry<function::ConsumeResult_Destroy> for Shim<P> {
    const PLUGIN: &'static str = P::NAME;

    unsafe fn call(args: &mut PLUGIN_Profiler_ConsumeResult_Destroy_Args) -> Result<()> {
        if !args.consume_result.is_null() {
            // SAFETY: V2, this came from the box of `Consume` and is given up.
            drop(unsafe { Box::from_raw(args.consume_result.cast::<Consumed>()) });
        }
        Ok(())
    }
}

impl<P: DevicePlugin> Entry<function::Serialize> for Shim<P> {
    const PLUGIN: &'static str = P::NAME;

    unsafe fn call(args: &mut PLUGIN_Profiler_Serialize_Args) -> Result<()> {
        // SAFETY: V2.
        let consumed = unsafe { handle::<P, _>(args.consume_result, "consume_result") }?;
        args.serialized_bytes = consumed.0.as_ptr();
        args.serialized_size = consumed.0.len();
        Ok(())
    }
}

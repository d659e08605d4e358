//! `PJRT_Xla_Transform_Extension`: changes programs within XLA's pipeline of passes.

use std::ffi::c_char;

use pjrt_sys::extension_slot as function;
use pjrt_sys::*;
use pjrt_types::ErrorCode;

use super::functions::Functions;
use super::lent_results::{CallbackError, LentResults};
use super::plugin_extension::plugin_extension;
use crate::error::Error;
use crate::table::read;

/// The version of the structs that the plugin and a transformation exchange.
const VERSION: i64 = 1;

/// Functions that register transformations of programs, and a function that returns the passes that XLA runs.
#[derive(Clone, Debug)]
#[doc(alias = "PJRT_Xla_Transform_Extension")]
pub struct XlaTransforms(Functions<PJRT_Xla_Transform_Extension>);

plugin_extension!(XlaTransforms(PJRT_Xla_Transform_Extension));

/// The position of a transformation in XLA's pipeline of passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[doc(alias = "PJRT_XlaTransform_PipelineStage")]
pub enum PipelineStage {
    /// Before the scheduler orders the instructions.
    PreScheduler,
    /// After the scheduler has ordered the instructions.
    PostScheduler,
}

impl PipelineStage {
    fn raw(self) -> PJRT_XlaTransform_PipelineStage {
        match self {
            Self::PreScheduler => PJRT_XlaTransform_PipelineStage::PJRT_XlaTransform_PipelineStage_kPreScheduler,
            Self::PostScheduler => PJRT_XlaTransform_PipelineStage::PJRT_XlaTransform_PipelineStage_kPostScheduler,
        }
    }
}

/// Callbacks followed by the transformation that they call. The callbacks receive the address of this struct.
#[repr(C)]
struct Registered<F> {
    callbacks: PJRT_XlaTransform_Callbacks,
    transform: F,
}

impl XlaTransforms {
    /// Registers a transformation for the whole process. `transform` takes a serialized `xla.HloModuleProto` message
    /// and returns the changed message, or `None` if it changes nothing. The plugin calls `transform` during
    /// compilation, on any thread.
    ///
    /// The plugin owns `transform` after this call. It drops `transform` when it no longer needs it, and may keep it
    /// until the process ends.
    ///
    /// # Errors
    ///
    /// The plugin may return an error if the name is already registered.
    #[doc(alias = "PJRT_Register_Xla_Transform_Fn")]
    pub fn register<F>(&self, name: &str, stage: PipelineStage, transform: F) -> Result<(), Error>
    where
        F: Fn(&[u8]) -> Result<Option<Vec<u8>>, CallbackError> + Send + Sync + 'static,
    {
        let callbacks = PJRT_XlaTransform_Callbacks {
            version: VERSION,
            dtor: Some(destroy::<F>),
            transform_hlo_module: Some(call::<F>),
        };
        let mut args = PJRT_Register_Xla_Transform_Args::new();
        args.name = name.as_ptr().cast::<c_char>();
        args.name_size = name.len();
        args.stage = stage.raw();
        args.callbacks = Box::into_raw(Box::new(Registered { callbacks, transform })).cast();
        // If the call fails, it is unknown whether the plugin has kept the callbacks, so they are leaked.
        // SAFETY: C2 (calls), C11 (callbacks of an extension): the name lives through the call, and the callbacks until
        // the plugin destroys them.
        unsafe { self.0.register::<function::PJRT_Register_Xla_Transform_Fn>(&mut args) }
    }

    /// Removes the transformation of the given name and stage. Returns whether such a transformation was registered.
    #[doc(alias = "PJRT_Clear_Xla_Transform_Fn")]
    pub fn clear(&self, name: &str, stage: PipelineStage) -> Result<bool, Error> {
        let mut args = PJRT_Clear_Xla_Transform_Args::new();
        args.stage = stage.raw();
        args.name = name.as_ptr().cast::<c_char>();
        args.name_size = name.len();
        // SAFETY: C2 (calls): the name lives through the call.
        unsafe { self.0.register::<function::PJRT_Clear_Xla_Transform_Fn>(&mut args) }?;
        Ok(args.cleared.get())
    }

    /// Runs XLA's passes on a serialized `xla.HloModuleProto` message. Returns the passes that ran, as a serialized
    /// `xla.HloModuleMetadataProto` message.
    ///
    /// # Errors
    ///
    /// Returns an error of kind [`Unsupported`](crate::ErrorKind::Unsupported) if the plugin's extension lacks the
    /// function.
    #[doc(alias = "PJRT_Xla_Transform_Get_Hlo_Pass_Pipeline_Trace_Fn")]
    #[doc(alias = "PJRT_Xla_Transform_Destroy_Hlo_Pass_Pipeline_Trace_Fn")]
    pub fn pass_pipeline_trace(&self, hlo_module: &[u8]) -> Result<Vec<u8>, Error> {
        type Function = function::PJRT_Xla_Transform_Get_Hlo_Pass_Pipeline_Trace_Fn;
        type Destroy = function::PJRT_Xla_Transform_Destroy_Hlo_Pass_Pipeline_Trace_Fn;
        let Some(destroy) = Destroy::get(&self.0.table.0) else {
            let version = self.0.plugin.api_version();
            return Err(Error::missing_in(Destroy::NAME, PJRT_Xla_Transform_Extension::NAME, version));
        };
        let mut args = PJRT_Xla_Transform_Get_Hlo_Pass_Pipeline_Trace_Args::new();
        args.hlo_module = PJRT_XlaTransform_string { data: hlo_module.as_ptr().cast(), size: hlo_module.len() };
        // SAFETY: C2 (calls): the module lives through the call.
        unsafe { self.0.call::<Function>(&mut args) }?;
        let mut trace = args.trace;
        // SAFETY: C3 (objects): the trace lives until it is destroyed below.
        let bytes = unsafe { read::slice(trace.serialized_trace.cast::<u8>(), trace.serialized_trace_size) };
        let bytes = bytes.map(<[u8]>::to_vec).map_err(|broken| Error::malformed(Function::NAME, broken));
        let mut args = PJRT_Xla_Transform_Destroy_Hlo_Pass_Pipeline_Trace_Args::new();
        args.trace = &raw mut trace;
        // SAFETY: C2 (calls): the trace is live and not used afterwards.
        unsafe { destroy(&mut args) };
        bytes
    }
}

/// # Safety
///
/// `data` points to callbacks that [`XlaTransforms::register`] created, and the plugin no longer uses them.
unsafe extern "C" fn destroy<F>(data: *mut PJRT_XlaTransform_Callbacks) {
    crate::table::callback::contain(|| {
        // SAFETY: C11 (callbacks of an extension): the callbacks came from `register` and are destroyed once.
        drop(unsafe { Box::from_raw(data.cast::<Registered<F>>()) });
    });
}

/// # Safety
///
/// `data` points to callbacks that [`XlaTransforms::register`] created for the type `F`. `args` and the data that it
/// points to are valid during the call.
unsafe extern "C" fn call<F>(data: *mut PJRT_XlaTransform_Callbacks, args: *mut PJRT_XlaTransform_Args)
where
    F: Fn(&[u8]) -> Result<Option<Vec<u8>>, CallbackError>,
{
    // SAFETY: C11 (callbacks of an extension): the arguments begin with their size.
    let size = unsafe { args.cast::<usize>().read() };
    if size < PJRT_XlaTransform_Args::STRUCT_SIZE {
        tracing::warn!(size, "the arguments of a transformation are too short; it is ignored");
        return;
    }
    // SAFETY: C11 (callbacks of an extension): the arguments are valid during the call, and have the fields that this
    // crate knows.
    let args = unsafe { &mut *args };
    let version = args.header.api_version;
    let answer = CallbackError::contain(|| {
        if version != VERSION {
            let message = format!("transformations have version {VERSION}, but the plugin uses version {version}");
            return Err(CallbackError::new(ErrorCode::UNIMPLEMENTED, message));
        }
        // SAFETY: C11 (callbacks of an extension): the module is valid during the call.
        let module = unsafe { read::slice(args.hlo_module.data.cast::<u8>(), args.hlo_module.size) };
        let module = module.map_err(|broken| {
            CallbackError::new(ErrorCode::INVALID_ARGUMENT, format!("the plugin passed {broken} to a transformation"))
        })?;
        // SAFETY: C11 (callbacks of an extension): the plugin passes registered callbacks, which are the first field of
        // the struct that contains the closure.
        let transform = unsafe { &(*data.cast::<Registered<F>>()).transform };
        transform(module)
    });
    let mut results = LentResults::default();
    let mut error = None;
    args.changed = false.into();
    match answer {
        Err(given) => error = Some(given),
        Ok(None) => {}
        Ok(Some(module)) => {
            let (data, size) = results.keep(module);
            args.transformed_hlo_module = PJRT_XlaTransform_string { data, size };
            args.changed = true.into();
        }
    }
    args.header.has_error = error.is_some().into();
    args.header.code = PJRT_Error_Code(0);
    if let Some(error) = error {
        let (data, size) = results.keep(error.message.into_bytes());
        args.header.error_msg = PJRT_XlaTransform_string { data, size };
        args.header.code = PJRT_Error_Code(error.code.as_raw());
    }
    args.header.data = results.into_raw();
    args.header.cleanup_fn = Some(LentResults::free);
}

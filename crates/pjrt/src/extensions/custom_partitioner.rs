//! `PJRT_Custom_Partitioner_Extension`: lets a framework say how a custom call is split over devices.

use std::ffi::c_char;

use pjrt_sys::extension_slot as function;
use pjrt_sys::*;
use pjrt_types::ErrorCode;

use super::functions::Functions;
use super::lent_results::{CallbackError, LentResults};
use super::plugin_extension::plugin_extension;
use crate::error::Error;
use crate::read;
use crate::send_ptr::SendPtr;

/// The version of the structs that are exchanged with a partitioner.
const VERSION: i64 = 1;

/// Registers rules by which XLA's partitioner splits custom calls over devices.
#[derive(Clone, Debug)]
#[doc(alias = "PJRT_Custom_Partitioner_Extension")]
pub struct CustomPartitioners(Functions<PJRT_Custom_Partitioner_Extension>);

plugin_extension!(CustomPartitioners(PJRT_Custom_Partitioner_Extension));

/// An array that a custom call takes or returns.
#[derive(Clone, Debug, PartialEq, Eq)]
#[doc(alias = "JAX_CustomCallPartitioner_aval")]
pub struct PartitionedArray {
    /// The shape: a serialized `xla.ShapeProto` message.
    pub shape: Vec<u8>,
    /// The sharding: a serialized `xla.OpSharding` message. `None` if the array has no sharding yet.
    pub sharding: Option<Vec<u8>>,
}

/// How a custom call is split.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Partitioned {
    /// The program of one device, as an MLIR module. Its arguments and results have the shapes of one device.
    pub mlir_module: Vec<u8>,
    /// The sharding that each argument needs, as a serialized `xla.OpSharding` message.
    pub argument_shardings: Vec<Vec<u8>>,
    /// The sharding of the result, as a serialized `xla.OpSharding` message.
    pub result_sharding: Vec<u8>,
}

/// The rules of one custom call. The plugin calls them while it compiles, on any thread.
pub trait CustomPartitioner: Send + Sync + 'static {
    /// Splits a call. `backend_config` is the text of the call's attribute.
    ///
    /// # Errors
    ///
    /// An error ends the compilation, which reports it.
    fn partition(
        &self,
        arguments: &[PartitionedArray],
        result: &PartitionedArray,
        backend_config: &[u8],
    ) -> Result<Partitioned, CallbackError>;

    /// Infers the sharding of the result from those of the arguments. `None` if they do not determine it.
    ///
    /// # Errors
    ///
    /// An error ends the compilation, which reports it.
    fn infer_sharding(
        &self,
        arguments: &[PartitionedArray],
        result_shape: &[u8],
        backend_config: &[u8],
    ) -> Result<Option<Vec<u8>>, CallbackError>;

    /// Changes the sharding that a use of the result asks for. By default it is kept.
    ///
    /// # Errors
    ///
    /// An error ends the compilation, which reports it.
    fn propagate_user_sharding(
        &self,
        sharding: Vec<u8>,
        result_shape: &[u8],
        backend_config: &[u8],
    ) -> Result<Vec<u8>, CallbackError> {
        let _ = (result_shape, backend_config);
        Ok(sharding)
    }

    /// Whether a call with side effects may be replicated. By default it may not.
    fn can_side_effecting_have_replicated_sharding(&self) -> bool {
        false
    }
}

impl CustomPartitioners {
    /// Registers the rules of a custom call for the process. `target` is its name in programs.
    ///
    /// The plugin owns `partitioner` from then on and drops it when it does not need it any more, which may be never.
    ///
    /// # Errors
    ///
    /// An error of the plugin, such as a name that is registered already.
    #[doc(alias = "PJRT_Register_Custom_Partitioner")]
    pub fn register<P: CustomPartitioner>(&self, target: &str, partitioner: P) -> Result<(), Error> {
        let may_replicate = partitioner.can_side_effecting_have_replicated_sharding();
        let callbacks = JAX_CustomCallPartitioner_Callbacks {
            version: VERSION,
            private_data: Box::into_raw(Box::new(partitioner)).cast(),
            dtor: Some(destroy::<P>),
            partition: Some(partition::<P>),
            infer_sharding: Some(infer_sharding::<P>),
            propagate_user_sharding: Some(propagate_user_sharding::<P>),
            can_side_effecting_have_replicated_sharding: may_replicate.into(),
        };
        let mut args = PJRT_Register_Custom_Partitioner_Args::new();
        args.name = target.as_ptr().cast::<c_char>();
        args.name_size = target.len();
        args.callbacks = Box::into_raw(Box::new(callbacks));
        // If the call fails, it is unknown whether the plugin kept the callbacks, so they are leaked then.
        // SAFETY: C2, C11: the name lives through the call, and the callbacks until the plugin destroys them.
        unsafe { self.0.call::<function::PJRT_Register_Custom_Partitioner>(&mut args) }
    }

    /// Declares for the process that a custom call treats the elements of a batch independently, so that the partitioner
    /// may split it along the batch dimensions.
    #[doc(alias = "PJRT_Register_Batch_Partitionable")]
    pub fn register_batch_partitionable(&self, target: &str) -> Result<(), Error> {
        let mut args = PJRT_Register_Batch_Partitionable_Args::new();
        args.name = target.as_ptr().cast::<c_char>();
        args.name_size = target.len();
        // SAFETY: C2: the name lives through the call.
        unsafe { self.0.call::<function::PJRT_Register_Batch_Partitionable>(&mut args) }
    }
}

type Header = JAX_CustomCallPartitioner_version_and_error;
type Text = JAX_CustomCallPartitioner_string;

fn malformed(broken: read::Malformed) -> CallbackError {
    CallbackError::new(ErrorCode::INVALID_ARGUMENT, format!("the plugin passed {broken} to a custom partitioner"))
}

/// # Safety
///
/// The text is valid during the call.
unsafe fn bytes(text: &Text) -> Result<Vec<u8>, CallbackError> {
    // SAFETY: C11: this function's contract.
    unsafe { read::slice(text.data.cast::<u8>(), text.size) }.map(<[u8]>::to_vec).map_err(malformed)
}

/// # Safety
///
/// The texts are valid during the call.
unsafe fn array(raw: &JAX_CustomCallPartitioner_aval) -> Result<PartitionedArray, CallbackError> {
    // SAFETY: C11: this function's contract.
    let shape = unsafe { bytes(&raw.shape) }?;
    // SAFETY: C11: this function's contract.
    let sharding = raw.has_sharding.get().then(|| unsafe { bytes(&raw.sharding) }).transpose()?;
    Ok(PartitionedArray { shape, sharding })
}

/// # Safety
///
/// The array has `len` elements, and their texts are valid during the call.
unsafe fn arrays(
    raw: *const JAX_CustomCallPartitioner_aval,
    len: usize,
) -> Result<Vec<PartitionedArray>, CallbackError> {
    // SAFETY: C11: this function's contract.
    let raw = unsafe { read::slice(raw, len) }.map_err(malformed)?;
    // SAFETY: C11: this function's contract.
    raw.iter().map(|raw| unsafe { array(raw) }).collect()
}

/// Finds the partitioner behind the callbacks.
///
/// # Safety
///
/// `data` are callbacks that [`CustomPartitioners::register`] created for this type and that are not destroyed.
unsafe fn partitioner<'a, P>(data: *const JAX_CustomCallPartitioner_Callbacks) -> &'a P {
    // SAFETY: C11: this function's contract.
    let address = unsafe { (*data).private_data };
    // SAFETY: C11: this function's contract.
    unsafe { &*address.cast::<P>() }
}

fn check(version: i64) -> Result<(), CallbackError> {
    if version == VERSION {
        return Ok(());
    }
    let message = format!("custom partitioners have version {VERSION}, but the plugin uses version {version}");
    Err(CallbackError::new(ErrorCode::UNIMPLEMENTED, message))
}

fn text((data, size): (*const c_char, usize)) -> Text {
    Text { data, size }
}

/// The header of results. They live until the plugin calls its cleanup function.
fn header(api_version: i64, mut results: LentResults, error: Option<CallbackError>) -> Header {
    let (has_error, code, message) = match error {
        None => (false, PJRT_Error_Code(0), Text { data: std::ptr::null(), size: 0 }),
        Some(error) => {
            let message = text(results.keep(error.message.into_bytes()));
            (true, PJRT_Error_Code(error.code.as_raw()), message)
        }
    };
    Header {
        api_version,
        data: results.into_raw(),
        cleanup_fn: Some(LentResults::free),
        has_error: has_error.into(),
        code,
        error_msg: message,
    }
}

/// # Safety
///
/// The plugin passes callbacks that it does not use afterwards.
unsafe extern "C" fn destroy<P: CustomPartitioner>(data: *mut JAX_CustomCallPartitioner_Callbacks) {
    crate::api::contain(|| {
        // SAFETY: C11: the callbacks came from `register` and are destroyed once.
        let callbacks = unsafe { Box::from_raw(data) };
        // SAFETY: C11: as above.
        drop(unsafe { Box::from_raw(callbacks.private_data.cast::<P>()) });
    });
}

/// # Safety
///
/// The plugin passes registered callbacks, and arguments that are valid during the call.
unsafe extern "C" fn partition<P: CustomPartitioner>(
    data: *mut JAX_CustomCallPartitioner_Callbacks,
    args: *mut JAX_CustomCallPartitioner_Partition_Args,
) {
    // SAFETY: C11: the arguments are valid during the call.
    let args = unsafe { &mut *args };
    let version = args.header.api_version;
    let answer = CallbackError::contain(|| {
        check(version)?;
        // SAFETY: C11: the arguments are valid during the call.
        let arguments = unsafe { arrays(args.op_args, args.num_args) }?;
        // SAFETY: C11: as above.
        let result = unsafe { array(&args.op_result) }?;
        // SAFETY: C11: as above.
        let config = unsafe { bytes(&args.backend_config) }?;
        // SAFETY: C11: the plugin passes registered callbacks.
        let answer = unsafe { partitioner::<P>(data) }.partition(&arguments, &result, &config)?;
        if answer.argument_shardings.len() != arguments.len() {
            let (given, needed) = (answer.argument_shardings.len(), arguments.len());
            let message = format!("{given} shardings were returned for {needed} arguments");
            return Err(CallbackError::new(ErrorCode::INVALID_ARGUMENT, message));
        }
        Ok(answer)
    });
    let mut results = LentResults::default();
    let error = match answer {
        Err(error) => Some(error),
        Ok(answer) => {
            args.mlir_module = text(results.keep(answer.mlir_module));
            args.result_sharding = text(results.keep(answer.result_sharding));
            let shardings: Vec<Text> =
                answer.argument_shardings.into_iter().map(|sharding| text(results.keep(sharding))).collect();
            let mut shardings = shardings.into_boxed_slice();
            args.args_sharding = shardings.as_mut_ptr();
            results.keep_array(Box::new(SendPtr(shardings)));
            None
        }
    };
    args.header = header(version, results, error);
}

/// # Safety
///
/// As for [`partition`].
unsafe extern "C" fn infer_sharding<P: CustomPartitioner>(
    data: *mut JAX_CustomCallPartitioner_Callbacks,
    args: *mut JAX_CustomCallPartitioner_InferShardingFromOperands_Args,
) {
    // SAFETY: C11: the arguments are valid during the call.
    let args = unsafe { &mut *args };
    let version = args.header.api_version;
    let answer = CallbackError::contain(|| {
        check(version)?;
        // SAFETY: C11: the arguments are valid during the call.
        let arguments = unsafe { arrays(args.op_args, args.num_args) }?;
        // SAFETY: C11: as above.
        let shape = unsafe { bytes(&args.result_shape) }?;
        // SAFETY: C11: as above.
        let config = unsafe { bytes(&args.backend_config) }?;
        // SAFETY: C11: the plugin passes registered callbacks.
        unsafe { partitioner::<P>(data) }.infer_sharding(&arguments, &shape, &config)
    });
    let mut results = LentResults::default();
    args.has_result_sharding = false.into();
    let error = match answer {
        Err(error) => Some(error),
        Ok(sharding) => {
            if let Some(sharding) = sharding {
                args.has_result_sharding = true.into();
                args.result_sharding = text(results.keep(sharding));
            }
            None
        }
    };
    args.header = header(version, results, error);
}

/// # Safety
///
/// As for [`partition`].
unsafe extern "C" fn propagate_user_sharding<P: CustomPartitioner>(
    data: *mut JAX_CustomCallPartitioner_Callbacks,
    args: *mut JAX_CustomCallPartitioner_PropagateUserSharding_Args,
) {
    // SAFETY: C11: the arguments are valid during the call.
    let args = unsafe { &mut *args };
    let version = args.header.api_version;
    let answer = CallbackError::contain(|| {
        check(version)?;
        // SAFETY: C11: the arguments are valid during the call.
        let sharding = unsafe { bytes(&args.result_sharding) }?;
        // SAFETY: C11: as above.
        let shape = unsafe { bytes(&args.result_shape) }?;
        // SAFETY: C11: as above.
        let config = unsafe { bytes(&args.backend_config) }?;
        // SAFETY: C11: the plugin passes registered callbacks.
        unsafe { partitioner::<P>(data) }.propagate_user_sharding(sharding, &shape, &config)
    });
    let mut results = LentResults::default();
    let error = match answer {
        Err(error) => Some(error),
        Ok(sharding) => {
            args.result_sharding = text(results.keep(sharding));
            None
        }
    };
    args.header = header(version, results, error);
}

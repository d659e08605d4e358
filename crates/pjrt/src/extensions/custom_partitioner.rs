//! `PJRT_Custom_Partitioner_Extension`: lets a framework define how a custom call is split over devices.

use std::ffi::c_char;

use pjrt_sys::extension_slot as function;
use pjrt_sys::*;
use pjrt_types::ErrorCode;

use super::functions::Functions;
use super::lent_results::{CallbackError, LentResults};
use super::plugin_extension::plugin_extension;
use crate::error::Error;
use crate::table::read;
use crate::table::send_ptr::SendPtr;

/// The version of the structs that the plugin and a partitioner exchange.
const VERSION: i64 = 1;

/// Functions that register rules by which XLA's partitioner splits custom calls over devices.
#[derive(Clone, Debug)]
#[doc(alias = "PJRT_Custom_Partitioner_Extension")]
pub struct CustomPartitioners(Functions<PJRT_Custom_Partitioner_Extension>);

plugin_extension!(CustomPartitioners(PJRT_Custom_Partitioner_Extension));

/// The shape and the sharding of an argument or of the result of a custom call.
#[derive(Clone, Debug, PartialEq, Eq)]
#[doc(alias = "JAX_CustomCallPartitioner_aval")]
pub struct PartitionedArray {
    /// The shape: a serialized `xla.ShapeProto` message.
    pub shape: Vec<u8>,
    /// The sharding: a serialized `xla.OpSharding` message. `None` if the array has no sharding yet.
    pub sharding: Option<Vec<u8>>,
}

/// The result of splitting a custom call over devices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Partitioned {
    /// The program that replaces the call on each device, as an MLIR module. The arguments and results of this program
    /// have the shapes of one device's shards.
    pub mlir_module: Vec<u8>,
    /// The sharding that the program requires for each argument, as a serialized `xla.OpSharding` message.
    pub argument_shardings: Vec<Vec<u8>>,
    /// The sharding of the result, as a serialized `xla.OpSharding` message.
    pub result_sharding: Vec<u8>,
}

/// The partitioning rules of one custom call. [`CustomPartitioners::register`] calls
/// `can_side_effecting_have_replicated_sharding` once. The plugin calls the other methods during compilation, on any
/// thread.
pub trait CustomPartitioner: Send + Sync + 'static {
    /// Splits a call over devices. `backend_config` is the value of the call's `backend_config` attribute.
    ///
    /// # Errors
    ///
    /// Returns an error if the call cannot be split. The compilation then fails with this error.
    fn partition(
        &self,
        arguments: &[PartitionedArray],
        result: &PartitionedArray,
        backend_config: &[u8],
    ) -> Result<Partitioned, CallbackError>;

    /// Infers the sharding of the result from the shardings of the arguments, and returns it as a serialized
    /// `xla.OpSharding` message. Returns `None` if the arguments do not determine the sharding. `result_shape` is a
    /// serialized `xla.ShapeProto` message.
    ///
    /// # Errors
    ///
    /// Returns an error if the arguments are invalid. The compilation then fails with this error.
    fn infer_sharding(
        &self,
        arguments: &[PartitionedArray],
        result_shape: &[u8],
        backend_config: &[u8],
    ) -> Result<Option<Vec<u8>>, CallbackError>;

    /// Returns the sharding of the call's result, given the `sharding` that another operation requests for the result.
    /// Both are serialized `xla.OpSharding` messages. The default implementation returns `sharding` unchanged.
    ///
    /// # Errors
    ///
    /// Returns an error if the call does not support the requested sharding. The compilation then fails with this
    /// error.
    fn propagate_user_sharding(
        &self,
        sharding: Vec<u8>,
        result_shape: &[u8],
        backend_config: &[u8],
    ) -> Result<Vec<u8>, CallbackError> {
        let _ = (result_shape, backend_config);
        Ok(sharding)
    }

    /// Returns whether a call with side effects may have a replicated sharding. The default is `false`.
    fn can_side_effecting_have_replicated_sharding(&self) -> bool {
        false
    }
}

impl CustomPartitioners {
    /// Registers the partitioning rules of a custom call for the whole process. `target` is the call's name in
    /// programs.
    ///
    /// The plugin owns `partitioner` after this call. It drops `partitioner` when it no longer needs it, and may keep
    /// it until the process ends.
    ///
    /// # Errors
    ///
    /// The plugin may return an error if the name is already registered.
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
        // If the call fails, it is unknown whether the plugin has kept the callbacks, so they are leaked.
        // SAFETY: C2 (calls), C11 (callbacks of an extension): the name lives through the call, and the callbacks until
        // the plugin destroys them.
        unsafe { self.0.register::<function::PJRT_Register_Custom_Partitioner>(&mut args) }
    }

    /// Declares for the whole process that the custom call `target` computes the elements of a batch independently. The
    /// partitioner may then split the call along the batch dimensions.
    #[doc(alias = "PJRT_Register_Batch_Partitionable")]
    pub fn register_batch_partitionable(&self, target: &str) -> Result<(), Error> {
        let mut args = PJRT_Register_Batch_Partitionable_Args::new();
        args.name = target.as_ptr().cast::<c_char>();
        args.name_size = target.len();
        // SAFETY: C2 (calls): the name lives through the call.
        unsafe { self.0.register::<function::PJRT_Register_Batch_Partitionable>(&mut args) }
    }
}

type Header = JAX_CustomCallPartitioner_version_and_error;
type Text = JAX_CustomCallPartitioner_string;

fn malformed(broken: read::Malformed) -> CallbackError {
    CallbackError::new(ErrorCode::INVALID_ARGUMENT, format!("the plugin passed {broken} to a custom partitioner"))
}

/// # Safety
///
/// The bytes that `text` points to are valid during the call.
unsafe fn bytes(text: &Text) -> Result<Vec<u8>, CallbackError> {
    // SAFETY: C11 (callbacks of an extension): this function's contract: the bytes are valid during the call.
    unsafe { read::slice(text.data.cast::<u8>(), text.size) }.map(<[u8]>::to_vec).map_err(malformed)
}

/// # Safety
///
/// The bytes that `raw` points to are valid during the call.
unsafe fn array(raw: &JAX_CustomCallPartitioner_aval) -> Result<PartitionedArray, CallbackError> {
    // SAFETY: C11 (callbacks of an extension): this function's contract: the shape is valid during the call.
    let shape = unsafe { bytes(&raw.shape) }?;
    // SAFETY: C11 (callbacks of an extension): this function's contract: the sharding is valid during the call.
    let sharding = raw.has_sharding.get().then(|| unsafe { bytes(&raw.sharding) }).transpose()?;
    Ok(PartitionedArray { shape, sharding })
}

/// # Safety
///
/// The array has `len` elements, and the bytes that the elements point to are valid during the call.
unsafe fn arrays(
    raw: *const JAX_CustomCallPartitioner_aval,
    len: usize,
) -> Result<Vec<PartitionedArray>, CallbackError> {
    // SAFETY: C11 (callbacks of an extension): this function's contract: the array has `len` elements.
    let raw = unsafe { read::slice(raw, len) }.map_err(malformed)?;
    // SAFETY: C11 (callbacks of an extension): this function's contract: the bytes of each element are valid during the
    // call.
    raw.iter().map(|raw| unsafe { array(raw) }).collect()
}

/// Returns the partitioner to which the callbacks belong.
///
/// # Safety
///
/// `data` points to callbacks that [`CustomPartitioners::register`] created for the type `P` and that have not been
/// destroyed.
unsafe fn partitioner<'a, P>(data: *const JAX_CustomCallPartitioner_Callbacks) -> &'a P {
    // SAFETY: C11 (callbacks of an extension): this function's contract: the callbacks have not been destroyed.
    let address = unsafe { (*data).private_data };
    // SAFETY: C11 (callbacks of an extension): this function's contract: `register` stored the address of a `P`, which
    // has not been destroyed.
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

/// Returns the header of a callback's results. The results live until the plugin calls the header's cleanup function.
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
/// `data` points to callbacks that [`CustomPartitioners::register`] created, and the plugin no longer uses them.
unsafe extern "C" fn destroy<P: CustomPartitioner>(data: *mut JAX_CustomCallPartitioner_Callbacks) {
    crate::table::callback::contain(|| {
        // SAFETY: C11 (callbacks of an extension): the callbacks came from `register` and are destroyed once.
        let callbacks = unsafe { Box::from_raw(data) };
        // SAFETY: C11 (callbacks of an extension): the partitioner came from `register`, too, and is destroyed once.
        drop(unsafe { Box::from_raw(callbacks.private_data.cast::<P>()) });
    });
}

/// # Safety
///
/// `data` points to callbacks that [`CustomPartitioners::register`] created for the type `P`. `args` and the data that
/// it points to are valid during the call.
unsafe extern "C" fn partition<P: CustomPartitioner>(
    data: *mut JAX_CustomCallPartitioner_Callbacks,
    args: *mut JAX_CustomCallPartitioner_Partition_Args,
) {
    // SAFETY: C11 (callbacks of an extension): the arguments are valid during the call.
    let args = unsafe { &mut *args };
    let version = args.header.api_version;
    let answer = CallbackError::contain(|| {
        check(version)?;
        // SAFETY: C11 (callbacks of an extension): the arguments are valid during the call.
        let arguments = unsafe { arrays(args.op_args, args.num_args) }?;
        // SAFETY: C11 (callbacks of an extension): the result is valid during the call.
        let result = unsafe { array(&args.op_result) }?;
        // SAFETY: C11 (callbacks of an extension): the configuration is valid during the call.
        let config = unsafe { bytes(&args.backend_config) }?;
        // SAFETY: C11 (callbacks of an extension): the plugin passes registered callbacks.
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
/// The requirements of [`partition`] apply.
unsafe extern "C" fn infer_sharding<P: CustomPartitioner>(
    data: *mut JAX_CustomCallPartitioner_Callbacks,
    args: *mut JAX_CustomCallPartitioner_InferShardingFromOperands_Args,
) {
    // SAFETY: C11 (callbacks of an extension): the arguments are valid during the call.
    let args = unsafe { &mut *args };
    let version = args.header.api_version;
    let answer = CallbackError::contain(|| {
        check(version)?;
        // SAFETY: C11 (callbacks of an extension): the arguments are valid during the call.
        let arguments = unsafe { arrays(args.op_args, args.num_args) }?;
        // SAFETY: C11 (callbacks of an extension): the shape is valid during the call.
        let shape = unsafe { bytes(&args.result_shape) }?;
        // SAFETY: C11 (callbacks of an extension): the configuration is valid during the call.
        let config = unsafe { bytes(&args.backend_config) }?;
        // SAFETY: C11 (callbacks of an extension): the plugin passes registered callbacks.
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
/// The requirements of [`partition`] apply.
unsafe extern "C" fn propagate_user_sharding<P: CustomPartitioner>(
    data: *mut JAX_CustomCallPartitioner_Callbacks,
    args: *mut JAX_CustomCallPartitioner_PropagateUserSharding_Args,
) {
    // SAFETY: C11 (callbacks of an extension): the arguments are valid during the call.
    let args = unsafe { &mut *args };
    let version = args.header.api_version;
    let answer = CallbackError::contain(|| {
        check(version)?;
        // SAFETY: C11 (callbacks of an extension): the arguments are valid during the call.
        let sharding = unsafe { bytes(&args.result_sharding) }?;
        // SAFETY: C11 (callbacks of an extension): the shape is valid during the call.
        let shape = unsafe { bytes(&args.result_shape) }?;
        // SAFETY: C11 (callbacks of an extension): the configuration is valid during the call.
        let config = unsafe { bytes(&args.backend_config) }?;
        // SAFETY: C11 (callbacks of an extension): the plugin passes registered callbacks.
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

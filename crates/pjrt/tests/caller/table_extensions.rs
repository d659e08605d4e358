//! Tests extensions that no plugin for ordinary CPUs provides. The tests implement these extensions themselves.

#![allow(clippy::multiple_unsafe_ops_per_block, clippy::undocumented_unsafe_blocks, reason = "a C plugin, in Rust")]
#![allow(clippy::disallowed_methods, reason = "a C plugin, in Rust")]

use expect_test::{Expect, expect};
use std::ffi::{c_char, c_void};
use std::ptr::{NonNull, null_mut};
use std::sync::Mutex;
use std::sync::atomic::{AtomicIsize, AtomicUsize, Ordering::SeqCst};

use crate::plain::Plain;
use pjrt::extensions::{
    CallbackError, CustomPartitioner, CustomPartitioners, ExecutableMetadata, GpuCustomCalls, GpuHandlers,
    HandlerTraits, Partitioned, PartitionedArray, PipelineStage, TpuTopology, XlaTransforms,
};
use pjrt::{Client, ClientOptions, ErrorCode, ErrorKind, Plugin};
use pjrt_sys::*;

/// Creates a plugin with one extension. `struct_size` of the extension is `size` bytes, so `pjrt` must not read the
/// fields beyond `size`.
fn plugin<E: Extension>(mut extension: E, size: usize) -> Plugin {
    let base = (&raw mut extension).cast::<PJRT_Extension_Base>();
    unsafe { *base = PJRT_Extension_Base { struct_size: size, type_: E::TYPE, next: null_mut() } };
    let mut table = unsafe { *Plain::api().as_raw() };
    table.extension_start = (&raw mut *Box::leak(Box::new(extension))).cast();
    Plugin::from_static(unsafe { StaticApi::new(Box::leak(Box::new(table))) }).unwrap()
}

pub(crate) fn client(plugin: &Plugin) -> Client {
    plugin.client(&ClientOptions::new()).unwrap()
}

unsafe fn bytes(data: *const c_char, size: usize) -> Vec<u8> {
    if size == 0 { Vec::new() } else { unsafe { std::slice::from_raw_parts(data.cast::<u8>(), size) }.to_vec() }
}

pub(crate) fn assert_missing<T: std::fmt::Debug>(result: Result<T, pjrt::Error>, expected: Expect) {
    let error = result.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    expected.assert_eq(&error.to_string());
}

mod unknown {
    use super::*;

    /// An extension whose type number no PJRT header defines.
    #[derive(Clone, Copy)]
    #[repr(C)]
    struct New {
        base: PJRT_Extension_Base,
        rest: [usize; 5],
    }

    #[test]
    fn extensions_are_listed_by_number_and_size() {
        let base = PJRT_Extension_Base { struct_size: 64, type_: PJRT_Extension_Type(77), next: null_mut() };
        let new = Box::leak(Box::new(New { base, rest: [0; 5] }));
        let mut table = unsafe { *Plain::api().as_raw() };
        table.extension_start = (&raw mut *new).cast();
        let plugin = Plugin::from_static(unsafe { StaticApi::new(Box::leak(Box::new(table))) }).unwrap();
        let [found] = plugin.extensions()[..] else { panic!("{:?}", plugin.extensions()) };
        assert_eq!((found.number, found.name, found.struct_size), (77, None, 64));
        assert_eq!(new.rest, [0; 5]);
    }
}

mod executable_metadata {
    use super::*;

    static LIVE: AtomicIsize = AtomicIsize::new(0);

    unsafe extern "C" fn get(args: *mut PJRT_ExecutableMetadata_GetExecutableMetadata_Args) -> *mut PJRT_Error {
        LIVE.fetch_add(1, SeqCst);
        let metadata = PJRT_ExecutableMetadata { serialized_metadata: c"meta".as_ptr(), serialized_metadata_size: 4 };
        unsafe { (*args).metadata = Box::into_raw(Box::new(metadata)) };
        null_mut()
    }

    unsafe extern "C" fn destroy(args: *mut PJRT_ExecutableMetadata_DestroySerializedMetadata_Args) {
        LIVE.fetch_sub(1, SeqCst);
        drop(unsafe { Box::from_raw((*args).metadata) });
    }

    #[test]
    fn is_hidden_beyond_the_struct() {
        let mut extension = PJRT_ExecutableMetadata_Extension::new();
        extension.get_executable_metadata = Some(get);
        extension.destroy_serialized_metadata = Some(destroy);
        for size in [24, 32, 40] {
            let plugin = plugin(extension, size);
            assert!(plugin.extension::<ExecutableMetadata>().is_some(), "{size}");
            assert_eq!(plugin.extensions()[0].struct_size, size);
        }
        assert_eq!(LIVE.load(SeqCst), 0);
    }
}

mod gpu_custom_calls {
    use super::*;

    /// Name, API version, address of the execute handler, and traits of a registered custom call.
    type Registration = (Vec<u8>, i32, usize, u32);

    static SEEN: Mutex<Vec<Registration>> = Mutex::new(Vec::new());

    unsafe extern "C" fn register(args: *mut PJRT_Gpu_Register_Custom_Call_Args) -> *mut PJRT_Error {
        let args = unsafe { &*args };
        assert!(args.handler_prepare.is_null() && args.handler_initialize.is_null());
        let name = unsafe { bytes(args.function_name, args.function_name_size) };
        SEEN.lock().unwrap().push((name, args.api_version, args.handler_execute.addr(), args.traits));
        null_mut()
    }

    #[test]
    fn traits_need_a_plugin_that_reads_them() {
        let mut extension = PJRT_Gpu_Custom_Call::new();
        extension.custom_call = Some(register);
        extension.custom_call_handles_traits = true.into();
        let execute = NonNull::<c_void>::dangling();
        let handlers = GpuHandlers { instantiate: None, prepare: None, initialize: None, execute };
        let traits = HandlerTraits::COMMAND_BUFFER_COMPATIBLE;

        let newer = plugin(extension, PJRT_Gpu_Custom_Call::STRUCT_SIZE).extension::<GpuCustomCalls>().unwrap();
        unsafe { newer.register("typed", handlers, traits) }.unwrap();
        unsafe { newer.register_untyped("plain", execute) }.unwrap();
        let address = execute.as_ptr().addr();
        let expected = [(b"typed".to_vec(), 1, address, 1), (b"plain".to_vec(), 0, address, 0)];
        assert_eq!(*SEEN.lock().unwrap(), expected);

        // Before version 3 of the extension, the struct does not contain the flag `custom_call_handles_traits`.
        let older = plugin(extension, 32).extension::<GpuCustomCalls>().unwrap();
        let error = unsafe { older.register("typed", handlers, traits) }.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        unsafe { older.register("typed", handlers, HandlerTraits::default()) }.unwrap();
        let none = plugin(extension, 24).extension::<GpuCustomCalls>().unwrap();
        assert_missing(
            unsafe { none.register_untyped("plain", execute) },
            expect![
                "PJRT_Gpu_Register_Custom_Call: UNIMPLEMENTED: the plugin has API 0.117 and lacks this function in its PJRT_Gpu_Custom_Call"
            ],
        );
    }
}

mod custom_partitioner {
    use super::*;

    static CALLBACKS: Mutex<Vec<usize>> = Mutex::new(Vec::new());
    static BATCHED: Mutex<Vec<Vec<u8>>> = Mutex::new(Vec::new());
    static DROPPED: AtomicUsize = AtomicUsize::new(0);

    unsafe extern "C" fn register(args: *mut PJRT_Register_Custom_Partitioner_Args) -> *mut PJRT_Error {
        let args = unsafe { &*args };
        assert_eq!(unsafe { bytes(args.name, args.name_size) }, b"mine");
        CALLBACKS.lock().unwrap().push(args.callbacks.expose_provenance());
        null_mut()
    }

    unsafe extern "C" fn batch(args: *mut PJRT_Register_Batch_Partitionable_Args) -> *mut PJRT_Error {
        let args = unsafe { &*args };
        BATCHED.lock().unwrap().push(unsafe { bytes(args.name, args.name_size) });
        null_mut()
    }

    /// A partitioner that keeps the shardings and returns the backend configuration as the partitioned program.
    struct Mine;

    impl CustomPartitioner for Mine {
        fn partition(
            &self,
            arguments: &[PartitionedArray],
            result: &PartitionedArray,
            backend_config: &[u8],
        ) -> Result<Partitioned, CallbackError> {
            if backend_config == b"panic" {
                panic!("on purpose");
            }
            let mut argument_shardings: Vec<_> =
                arguments.iter().map(|argument| argument.sharding.clone().unwrap_or_default()).collect();
            if backend_config == b"short" {
                argument_shardings.pop();
            }
            let result_sharding = result.sharding.clone().unwrap_or_default();
            Ok(Partitioned { mlir_module: backend_config.to_vec(), argument_shardings, result_sharding })
        }

        fn infer_sharding(
            &self,
            arguments: &[PartitionedArray],
            result_shape: &[u8],
            _: &[u8],
        ) -> Result<Option<Vec<u8>>, CallbackError> {
            match result_shape {
                b"unknown" => Ok(None),
                b"bad" => Err(CallbackError::new(ErrorCode::INVALID_ARGUMENT, "a bad shape")),
                _ => Ok(arguments[0].sharding.clone()),
            }
        }
    }

    impl Drop for Mine {
        fn drop(&mut self) {
            DROPPED.fetch_add(1, SeqCst);
        }
    }

    fn text(text: &'static str) -> JAX_CustomCallPartitioner_string {
        JAX_CustomCallPartitioner_string { data: text.as_ptr().cast(), size: text.len() }
    }

    fn array(shape: &'static str, sharding: Option<&'static str>) -> JAX_CustomCallPartitioner_aval {
        JAX_CustomCallPartitioner_aval {
            shape: text(shape),
            has_sharding: sharding.is_some().into(),
            sharding: text(sharding.unwrap_or_default()),
        }
    }

    fn header(api_version: i64) -> JAX_CustomCallPartitioner_version_and_error {
        JAX_CustomCallPartitioner_version_and_error {
            api_version,
            data: null_mut(),
            cleanup_fn: None,
            has_error: true.into(),
            code: PJRT_Error_Code(99),
            error_msg: text(""),
        }
    }

    /// Returns the error in the header of a callback's arguments, and calls the cleanup function.
    fn finish(header: &JAX_CustomCallPartitioner_version_and_error) -> Result<(), (u32, String)> {
        let message = unsafe { bytes(header.error_msg.data, header.error_msg.size) };
        let result =
            if header.has_error.get() { Err((header.code.0, String::from_utf8(message).unwrap())) } else { Ok(()) };
        unsafe { header.cleanup_fn.unwrap()(header.data) };
        result
    }

    type Results = (Vec<u8>, Vec<Vec<u8>>, Vec<u8>);

    fn partition(
        callbacks: *mut JAX_CustomCallPartitioner_Callbacks,
        config: &'static str,
        version: i64,
    ) -> Result<Results, (u32, String)> {
        let mut arrays = [array("f32[4]", Some("split")), array("f32[]", None)];
        let mut args = JAX_CustomCallPartitioner_Partition_Args {
            header: header(version),
            num_args: arrays.len(),
            op_args: arrays.as_mut_ptr(),
            op_result: array("f32[4]", Some("whole")),
            backend_config: text(config),
            mlir_module: text(""),
            args_sharding: null_mut(),
            result_sharding: text(""),
        };
        unsafe { (*callbacks).partition.unwrap()(callbacks, &raw mut args) };
        let read = |text: &JAX_CustomCallPartitioner_string| unsafe { bytes(text.data, text.size) };
        let results = (!args.header.has_error.get()).then(|| {
            let shardings = unsafe { std::slice::from_raw_parts(args.args_sharding, args.num_args) };
            (read(&args.mlir_module), shardings.iter().map(read).collect(), read(&args.result_sharding))
        });
        finish(&args.header).map(|()| results.unwrap())
    }

    fn infer(
        callbacks: *mut JAX_CustomCallPartitioner_Callbacks,
        shape: &'static str,
    ) -> Result<Option<Vec<u8>>, (u32, String)> {
        let mut arrays = [array("f32[4]", Some("split"))];
        let mut args = JAX_CustomCallPartitioner_InferShardingFromOperands_Args {
            header: header(1),
            num_args: arrays.len(),
            op_args: arrays.as_mut_ptr(),
            result_shape: text(shape),
            backend_config: text(""),
            has_result_sharding: true.into(),
            result_sharding: text(""),
        };
        unsafe { (*callbacks).infer_sharding.unwrap()(callbacks, &raw mut args) };
        let sharding = args
            .has_result_sharding
            .get()
            .then(|| unsafe { bytes(args.result_sharding.data, args.result_sharding.size) });
        finish(&args.header).map(|()| sharding)
    }

    #[test]
    fn answer_is_destroyed_once() {
        let mut extension = PJRT_Custom_Partitioner_Extension::new();
        extension.register_custom_partitioner = Some(register);
        extension.register_batch_partitionable = Some(batch);
        let partitioners = plugin(extension, 40).extension::<CustomPartitioners>().unwrap();
        partitioners.register("mine", Mine).unwrap();
        partitioners.register_batch_partitionable("rows").unwrap();
        assert_eq!(*BATCHED.lock().unwrap(), [b"rows"]);
        let callbacks: *mut JAX_CustomCallPartitioner_Callbacks =
            std::ptr::with_exposed_provenance_mut(CALLBACKS.lock().unwrap()[0]);
        assert_eq!(unsafe { (*callbacks).version }, 1);

        let expected: Results = (b"module".to_vec(), vec![b"split".to_vec(), Vec::new()], b"whole".to_vec());
        assert_eq!(partition(callbacks, "module", 1), Ok(expected));
        let (code, message) = partition(callbacks, "short", 1).unwrap_err();
        assert_eq!(code, 3);
        expect!["1 shardings were returned for 2 arguments"].assert_eq(&message);
        let (code, message) = partition(callbacks, "module", 2).unwrap_err();
        assert_eq!(code, 12);
        expect!["custom partitioners have version 1, but the plugin uses version 2"].assert_eq(&message);
        assert_eq!(partition(callbacks, "panic", 1), Err((13, "the callback panicked".to_owned())));

        assert_eq!(infer(callbacks, "f32[4]"), Ok(Some(b"split".to_vec())));
        assert_eq!(infer(callbacks, "unknown"), Ok(None));
        assert_eq!(infer(callbacks, "bad"), Err((3, "a bad shape".to_owned())));

        let mut args = JAX_CustomCallPartitioner_PropagateUserSharding_Args {
            header: header(1),
            backend_config: text(""),
            result_shape: text("f32[4]"),
            result_sharding: text("kept"),
        };
        unsafe { (*callbacks).propagate_user_sharding.unwrap()(callbacks, &raw mut args) };
        assert_eq!(unsafe { bytes(args.result_sharding.data, args.result_sharding.size) }, b"kept");
        finish(&args.header).unwrap();

        assert_eq!(DROPPED.load(SeqCst), 0);
        unsafe { (*callbacks).dtor.unwrap()(callbacks) };
        assert_eq!(DROPPED.load(SeqCst), 1);

        let older = plugin(extension, 32).extension::<CustomPartitioners>().unwrap();
        assert_missing(
            older.register_batch_partitionable("rows"),
            expect![
                "PJRT_Register_Batch_Partitionable: UNIMPLEMENTED: the plugin has API 0.117 and lacks this function in its PJRT_Custom_Partitioner_Extension"
            ],
        );
    }
}

mod xla_transform {
    use super::*;

    static CALLBACKS: Mutex<Vec<(usize, u32)>> = Mutex::new(Vec::new());
    static TRACES: AtomicIsize = AtomicIsize::new(0);

    unsafe extern "C" fn register(args: *mut PJRT_Register_Xla_Transform_Args) -> *mut PJRT_Error {
        let args = unsafe { &*args };
        assert_eq!(unsafe { bytes(args.name, args.name_size) }, b"upper");
        CALLBACKS.lock().unwrap().push((args.callbacks.expose_provenance(), args.stage.0));
        null_mut()
    }

    unsafe extern "C" fn clear(args: *mut PJRT_Clear_Xla_Transform_Args) -> *mut PJRT_Error {
        let args = unsafe { &mut *args };
        for (callbacks, _) in CALLBACKS.lock().unwrap().drain(..) {
            let callbacks: *mut PJRT_XlaTransform_Callbacks = std::ptr::with_exposed_provenance_mut(callbacks);
            unsafe { (*callbacks).dtor.unwrap()(callbacks) };
            args.cleared = true.into();
        }
        null_mut()
    }

    unsafe extern "C" fn trace(args: *mut PJRT_Xla_Transform_Get_Hlo_Pass_Pipeline_Trace_Args) -> *mut PJRT_Error {
        let args = unsafe { &mut *args };
        TRACES.fetch_add(1, SeqCst);
        let text = unsafe { bytes(args.hlo_module.data, args.hlo_module.size) };
        args.trace.serialized_trace_size = text.len();
        args.trace.serialized_trace = Box::into_raw(text.into_boxed_slice()).cast_const().cast();
        null_mut()
    }

    unsafe extern "C" fn end(args: *mut PJRT_Xla_Transform_Destroy_Hlo_Pass_Pipeline_Trace_Args) {
        TRACES.fetch_sub(1, SeqCst);
        let trace = unsafe { &*(*args).trace };
        let text = std::ptr::slice_from_raw_parts_mut(
            trace.serialized_trace.cast::<u8>().cast_mut(),
            trace.serialized_trace_size,
        );
        drop(unsafe { Box::from_raw(text) });
    }

    fn run(module: &'static str) -> Result<Option<Vec<u8>>, (u32, Vec<u8>)> {
        let callbacks: *mut PJRT_XlaTransform_Callbacks =
            std::ptr::with_exposed_provenance_mut(CALLBACKS.lock().unwrap()[0].0);
        let mut args = PJRT_XlaTransform_Args::new();
        args.header.api_version = 1;
        args.hlo_module = PJRT_XlaTransform_string { data: module.as_ptr().cast(), size: module.len() };
        unsafe { (*callbacks).transform_hlo_module.unwrap()(callbacks, &raw mut args) };
        let read = |text: &PJRT_XlaTransform_string| unsafe { bytes(text.data, text.size) };
        let result = if args.header.has_error.get() {
            Err((args.header.code.0, read(&args.header.error_msg)))
        } else {
            Ok(args.changed.get().then(|| read(&args.transformed_hlo_module)))
        };
        unsafe { args.header.cleanup_fn.unwrap()(args.header.data) };
        result
    }

    #[test]
    fn transforms_programs_until_cleared() {
        let mut extension = PJRT_Xla_Transform_Extension::new();
        extension.register_xla_transform = Some(register);
        extension.clear_xla_transform = Some(clear);
        extension.get_hlo_pass_pipeline_trace = Some(trace);
        extension.destroy_hlo_pass_pipeline_trace = Some(end);
        let transforms = plugin(extension, 56).extension::<XlaTransforms>().unwrap();
        let upper = |module: &[u8]| match module {
            b"same" => Ok(None),
            b"bad" => Err(CallbackError::new(ErrorCode::NOT_FOUND, "a bad module")),
            module => Ok(Some(module.to_ascii_uppercase())),
        };
        transforms.register("upper", PipelineStage::PostScheduler, upper).unwrap();
        assert_eq!(CALLBACKS.lock().unwrap()[0].1, 1);
        assert_eq!(run("same"), Ok(None));
        assert_eq!(run("module"), Ok(Some(b"MODULE".to_vec())));
        assert_eq!(run("bad"), Err((5, b"a bad module".to_vec())));
        assert!(transforms.clear("upper", PipelineStage::PostScheduler).unwrap());
        assert!(!transforms.clear("upper", PipelineStage::PostScheduler).unwrap());
        assert_eq!(transforms.pass_pipeline_trace(b"passes").unwrap(), b"passes");
        assert_eq!(TRACES.load(SeqCst), 0);

        let older = plugin(extension, 40).extension::<XlaTransforms>().unwrap();
        assert_missing(
            older.pass_pipeline_trace(b"passes"),
            expect![
                "PJRT_Xla_Transform_Destroy_Hlo_Pass_Pipeline_Trace_Fn: UNIMPLEMENTED: the plugin has API 0.117 and lacks this function in its PJRT_Xla_Transform_Extension"
            ],
        );
    }
}

mod tpu_topology {
    use super::*;

    unsafe extern "C" fn processes(args: *mut PJRT_TpuTopology_ProcessCount_Args) -> *mut PJRT_Error {
        assert!(unsafe { !(*args).topology.is_null() });
        unsafe { (*args).process_count = 2 };
        null_mut()
    }

    unsafe extern "C" fn ids(args: *mut PJRT_TpuTopology_ProcessIds_Args) -> *mut PJRT_Error {
        let args = unsafe { &mut *args };
        assert_eq!(args.max_process_ids, 2);
        unsafe { std::slice::from_raw_parts_mut(args.process_ids, 2) }.copy_from_slice(&[4, 6]);
        args.num_process_ids = 2;
        null_mut()
    }

    unsafe extern "C" fn bounds(args: *mut PJRT_TpuTopology_ChipBounds_Args) -> *mut PJRT_Error {
        let args = unsafe { &mut *args };
        assert!(args.chip_bounds_max_dims >= 3);
        unsafe { std::slice::from_raw_parts_mut(args.chip_bounds, 3) }.copy_from_slice(&[4, 4, 8]);
        args.chip_bounds_num_dims = 3;
        null_mut()
    }

    unsafe extern "C" fn limited(args: *mut PJRT_TpuTopology_HasLimitedIciConnectivity_Args) -> *mut PJRT_Error {
        unsafe { (*args).has_limited_ici_connectivity = true.into() };
        null_mut()
    }

    unsafe extern "C" fn config(args: *mut PJRT_TpuTopology_GetSliceConfig_Args) -> *mut PJRT_Error {
        let args = unsafe { &mut *args };
        assert_eq!(unsafe { bytes(args.slice_name, args.slice_name_len) }, b"2x2x1");
        let config = unsafe { &mut *args.slice_config };
        // Report five dimensions, although the struct contains only four. `pjrt` must not read beyond the array.
        config.dim_size = 5;
        config.dimensions = [2, 2, 1, 1];
        config.wrap[1] = true.into();
        null_mut()
    }

    #[test]
    fn reads_numbers_arrays_and_configurations() {
        let mut extension = PJRT_TpuTopology_Extension::new();
        extension.process_count = Some(processes);
        extension.process_ids = Some(ids);
        extension.chip_bounds = Some(bounds);
        extension.has_limited_ici_connectivity = Some(limited);
        extension.get_slice_config = Some(config);
        let plugin = plugin(extension, PJRT_TpuTopology_Extension::STRUCT_SIZE);
        let tpu = plugin.extension::<TpuTopology>().unwrap();
        let topology = client(&plugin).topology().unwrap();
        assert_eq!(tpu.process_count(&topology).unwrap(), 2);
        assert_eq!(tpu.process_ids(&topology).unwrap(), [4, 6]);
        assert_eq!(tpu.chip_bounds(&topology).unwrap(), [4, 4, 8]);
        assert!(tpu.has_limited_connectivity(&topology).unwrap());
        let config = tpu.slice_config("v5", "2x2x1").unwrap();
        assert_eq!((config.dimensions, config.wrap), (vec![2, 2, 1, 1], vec![false, true, false, false]));
        assert_missing(
            tpu.chip_count(&topology),
            expect![
                "PJRT_TpuTopology_ChipCount: UNIMPLEMENTED: the plugin has API 0.117 and lacks this function in its PJRT_TpuTopology_Extension"
            ],
        );
        let theirs = client(&Plugin::from_static(Plain::api()).unwrap()).topology().unwrap();
        assert_eq!(tpu.process_count(&theirs).unwrap_err().kind(), ErrorKind::InvalidArgument);
    }
}

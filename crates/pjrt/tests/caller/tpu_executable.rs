//! Tests the extension that reads serialized TPU executables. The tests implement the extension themselves.

#![allow(clippy::multiple_unsafe_ops_per_block, clippy::undocumented_unsafe_blocks, reason = "a C plugin, in Rust")]
#![allow(clippy::disallowed_methods, reason = "a C plugin, in Rust")]

use std::ffi::c_char;
use std::ptr::null_mut;
use std::sync::Mutex;
use std::sync::atomic::{AtomicIsize, Ordering::SeqCst};

use crate::fake::{Fake, plugin_of, table};
use crate::table_extensions::assert_missing;
use expect_test::expect;
use pjrt::extensions::TpuExecutables;
use pjrt::{Client, CompileOptions, ErrorKind, NamedValue, Program, SerializedExecutable};
use pjrt_sys::*;

/// Number of returned buffers that are not freed.
static LIVE: AtomicIsize = AtomicIsize::new(0);
/// Serializes the tests, because they share the counter `LIVE`.
static TEST: Mutex<()> = Mutex::new(());

unsafe fn read(data: *const c_char, size: usize) -> Vec<u8> {
    if size == 0 { Vec::new() } else { unsafe { std::slice::from_raw_parts(data.cast::<u8>(), size) }.to_vec() }
}

/// Moves bytes to the heap, for an output of an extension function. Returns their address, their number, and the object
/// that owns them and that [`free`] frees.
fn own<T>(bytes: Vec<u8>) -> (*const c_char, usize, *mut T) {
    LIVE.fetch_add(1, SeqCst);
    let owner = Box::into_raw(Box::new(bytes));
    let bytes = unsafe { &*owner };
    (bytes.as_ptr().cast(), bytes.len(), owner.cast())
}

unsafe extern "C" fn free<T>(owner: *mut T) {
    LIVE.fetch_sub(1, SeqCst);
    drop(unsafe { Box::from_raw(owner.cast::<Vec<u8>>()) });
}

/// Defines a function of the extension that returns `$text`, followed by the bytes that the function received.
macro_rules! answers {
    ($name:ident, $Args:ident, $text:literal, $input:ident, $input_size:ident,
     $output:ident, $output_size:ident, $owner:ident, $deleter:ident) => {
        unsafe extern "C" fn $name(args: *mut $Args) -> *mut PJRT_Error {
            let args = unsafe { &mut *args };
            let answer = [&$text[..], &unsafe { read(args.$input, args.$input_size) }].concat();
            (args.$output, args.$output_size, args.$owner) = own(answer);
            args.$deleter = Some(free);
            null_mut()
        }
    };
}

answers!(
    target,
    PJRT_TpuExecutable_GetTargetArguments_Args,
    b"target of ",
    serialized_executable,
    serialized_executable_size,
    target_arguments,
    target_arguments_size,
    target_arguments_ptr,
    target_arguments_deleter
);
answers!(
    module,
    PJRT_TpuExecutable_GetHloModuleWithConfig_Args,
    b"module of ",
    serialized_executable,
    serialized_executable_size,
    hlo_module_with_config,
    hlo_module_with_config_size,
    hlo_module_with_config_ptr,
    hlo_module_with_config_deleter
);
answers!(
    memory,
    PJRT_TpuExecutable_GetCompiledMemoryStats_Args,
    b"memory of ",
    serialized_executable,
    serialized_executable_size,
    compiled_memory_stats,
    compiled_memory_stats_size,
    compiled_memory_stats_ptr,
    compiled_memory_stats_deleter
);
answers!(
    environment,
    PJRT_TpuExecutable_SetTpuCompilationEnv_Args,
    b"complete ",
    serialized_compilation_environments,
    serialized_compilation_environments_size,
    result_compilation_environments,
    result_compilation_environments_size,
    result_compilation_environments_ptr,
    result_compilation_environments_deleter
);
answers!(
    field,
    PJRT_TpuExecutable_GetTpuCompilationEnvFieldAsString_Args,
    b"value of ",
    field_name,
    field_name_size,
    field_value,
    field_value_size,
    field_value_ptr,
    field_value_deleter
);

/// Returns the total size of the modules and the target arguments as the cost `flops`.
unsafe extern "C" fn costs(args: *mut PJRT_TpuExecutable_RunHloCostAnalysis_Args) -> *mut PJRT_Error {
    let args = unsafe { &mut *args };
    let sizes = unsafe { std::slice::from_raw_parts(args.hlo_module_size, args.num_hlo_modules) };
    let modules = unsafe { std::slice::from_raw_parts(args.hlo_module, args.num_hlo_modules) };
    let read_all = modules.iter().zip(sizes).map(|(module, size)| unsafe { read(*module, *size) }.len());
    let total = read_all.sum::<usize>() + args.target_arguments_size;
    let mut value = PJRT_NamedValue::new();
    (value.name, value.name_size) = (c"flops".as_ptr(), 5);
    value.type_ = PJRT_NamedValue_Type::PJRT_NamedValue_kInt64;
    value.__bindgen_anon_1.int64_value = i64::try_from(total).unwrap();
    value.value_size = 1;
    LIVE.fetch_add(1, SeqCst);
    let values = Box::into_raw(Box::new(value));
    (args.analysis_results, args.num_analysis_results, args.analysis_results_ptr) = (values, 1, values.cast());
    args.analysis_results_deleter = Some(free_costs);
    null_mut()
}

unsafe extern "C" fn free_costs(values: *mut PJRT_TpuExecutable_CostAnalysisResult) {
    LIVE.fetch_sub(1, SeqCst);
    drop(unsafe { Box::from_raw(values.cast::<PJRT_NamedValue>()) });
}

unsafe extern "C" fn predetermined(args: *mut PJRT_TpuExecutable_IsTpuPredeterminedError_Args) -> *mut PJRT_Error {
    let args = unsafe { &mut *args };
    args.is_predetermined = (unsafe { read(args.serialized_status, args.serialized_status_size) } == b"always").into();
    null_mut()
}

unsafe extern "C" fn serialize(args: *mut PJRT_Executable_Serialize_Args) -> *mut PJRT_Error {
    unsafe { ((*args).serialized_bytes, (*args).serialized_bytes_size) = (c"code".as_ptr(), 4) };
    null_mut()
}

/// Creates a client of a plugin with the extension. `change` modifies the extension before the plugin is created. The
/// API version is part of a plugin's identity, so plugins with different `minor` versions reject each other's
/// executables.
fn changed(minor: i32, change: impl FnOnce(&mut PJRT_TpuExecutable_Extension)) -> Client {
    let mut extension = PJRT_TpuExecutable_Extension::new();
    extension.base.type_ = PJRT_TpuExecutable_Extension::TYPE;
    extension.get_target_arguments = Some(target);
    extension.get_hlo_module_with_config = Some(module);
    extension.get_compiled_memory_stats = Some(memory);
    extension.run_hlo_cost_analysis = Some(costs);
    extension.set_tpu_compilation_env = Some(environment);
    extension.get_tpu_compilation_env_field_as_string = Some(field);
    extension.is_tpu_predetermined_error = Some(predetermined);
    change(&mut extension);
    let mut table = table();
    table.pjrt_api_version.minor_version = minor;
    table.PJRT_Executable_Serialize = Some(serialize);
    table.extension_start = (&raw mut *Box::leak(Box::new(extension))).cast();
    Fake::new().client_of(&plugin_of(table).unwrap())
}

fn serialized(client: &Client) -> SerializedExecutable {
    let executable = client.compile(&Program::mlir(""), &CompileOptions::default()).unwrap();
    executable.executable().serialize().unwrap()
}

#[test]
fn serialized_executables_are_read() {
    let _test = TEST.lock().unwrap();
    let client = changed(114, |_| {});
    let tpu = client.plugin().extension::<TpuExecutables>().unwrap();
    let executable = serialized(&client);
    let module = tpu.hlo_module(&executable).unwrap();
    assert_eq!((module.format(), &module.code()[..]), ("hlo_with_config", &b"module of code"[..]));
    assert_eq!(tpu.compiled_memory_stats(&executable).unwrap(), b"memory of code");
    let target = tpu.target_arguments(&executable).unwrap();
    assert_eq!(target, b"target of code");
    let costs = tpu.cost_analysis(&target, &[b"one", b"", b"three"]).unwrap();
    assert_eq!(costs, [NamedValue::new("flops", 22i64)]);
    assert_eq!(tpu.set_compilation_environment(b"environment").unwrap(), b"complete environment");
    assert_eq!(tpu.compilation_environment_field(b"environment", "a field").unwrap(), "value of a field");
    assert!(tpu.is_predetermined_error(b"always").unwrap() && !tpu.is_predetermined_error(b"").unwrap());
    assert_eq!(LIVE.load(SeqCst), 0, "all results are freed");
}

#[test]
fn executables_of_other_plugins_are_refused() {
    let _test = TEST.lock().unwrap();
    let executable = serialized(&changed(113, |_| {}));
    let tpu = changed(114, |_| {}).plugin().extension::<TpuExecutables>().unwrap();
    let kinds = [
        tpu.hlo_module(&executable).unwrap_err().kind(),
        tpu.compiled_memory_stats(&executable).unwrap_err().kind(),
        tpu.target_arguments(&executable).unwrap_err().kind(),
    ];
    assert_eq!(kinds, [ErrorKind::InvalidArgument; 3]);
    let client = changed(114, |extension| extension.get_target_arguments = None);
    let tpu = client.plugin().extension::<TpuExecutables>().unwrap();
    assert_missing(
        tpu.target_arguments(&serialized(&client)),
        expect![
            "PJRT_TpuExecutable_GetTargetArguments: UNIMPLEMENTED: the plugin has API 0.114 and lacks this function in its PJRT_TpuExecutable_Extension"
        ],
    );
}

#[test]
fn failed_functions_return_their_error() {
    unsafe extern "C" fn fail(_: *mut PJRT_TpuExecutable_SetTpuCompilationEnv_Args) -> *mut PJRT_Error {
        crate::fake::make_error(Some(3))
    }
    unsafe extern "C" fn null(args: *mut PJRT_TpuExecutable_RunHloCostAnalysis_Args) -> *mut PJRT_Error {
        unsafe { (*args).num_analysis_results = 2 };
        null_mut()
    }
    let client = changed(114, |extension| {
        extension.set_tpu_compilation_env = Some(fail);
        extension.run_hlo_cost_analysis = Some(null);
    });
    let tpu = client.plugin().extension::<TpuExecutables>().unwrap();
    assert_eq!(tpu.set_compilation_environment(b"").unwrap_err().kind(), ErrorKind::Plugin);
    assert_eq!(tpu.cost_analysis(b"", &[]).unwrap_err().kind(), ErrorKind::Malformed);
}

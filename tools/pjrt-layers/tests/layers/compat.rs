//! Tests of the layer `compat`: the compile options of programs with several replicas, and the options of clients.

use std::cell::RefCell;
use std::ptr::{null_mut, without_provenance_mut};

use pjrt_layers::compat::Compat;
use pjrt_layers::{Instance, Stack, instance};
use pjrt_sys::{
    AbiStruct, PJRT_Api, PJRT_Client_Compile_Args, PJRT_Client_Create_Args, PJRT_Client_PlatformName_Args, PJRT_Error,
    PJRT_Extension_Base, PJRT_Extension_Type, PJRT_NamedValue, PJRT_NamedValue_Type, PJRT_Program,
};
use pjrt_types::{CompileOptions, DeviceAssignment};

use crate::setup;

thread_local! {
    /// The options of the last program that reached the fake plugin in this thread.
    static COMPILED: RefCell<Option<CompileOptions>> = const { RefCell::new(None) };
    /// The name of the fake plugin's platform in this thread.
    static PLATFORM: RefCell<&'static str> = const { RefCell::new("cpu") };
}

#[expect(clippy::disallowed_methods, reason = "a test reads the options as a plugin does")]
unsafe extern "C" fn compile(args: *mut PJRT_Client_Compile_Args) -> *mut PJRT_Error {
    // SAFETY: V1: the test passes arguments of this size, which only this call uses.
    let args = unsafe { &mut *args };
    // SAFETY: V1: the options are readable for their length.
    let options = unsafe { std::slice::from_raw_parts(args.compile_options.cast(), args.compile_options_size) };
    COMPILED.with(|compiled| *compiled.borrow_mut() = Some(CompileOptions::decode(options).unwrap()));
    args.executable = without_provenance_mut(0x40);
    null_mut()
}

unsafe extern "C" fn platform_name(args: *mut PJRT_Client_PlatformName_Args) -> *mut PJRT_Error {
    // SAFETY: V1: the layer passes arguments of this size, which only this call uses.
    let args = unsafe { &mut *args };
    let name = PLATFORM.with(|name| *name.borrow());
    args.platform_name = name.as_ptr().cast();
    args.platform_name_size = name.len();
    null_mut()
}

/// Starts the layer in front of a fake plugin.
fn start<I: Instance>(single_replica: Option<bool>) -> &'static PJRT_Api {
    let plugin = setup::fake(115, |table| {
        table.PJRT_Client_PlatformName = Some(platform_name);
        table.PJRT_Client_Compile = Some(compile);
    });
    let layer = Compat { single_replica, ..Compat::default() };
    // SAFETY: the table lives as long as the process.
    unsafe { &*Stack::start::<I>(plugin, vec![Box::new(layer)]).as_raw() }
}

/// Returns the compile options that PyTorch/XLA uses for a client with four devices.
fn four_replicas() -> CompileOptions {
    let devices = DeviceAssignment::new(4, 1, vec![0, 1, 2, 3]).unwrap();
    CompileOptions::default().with_num_replicas(4).with_device_assignment(devices)
}

/// Compiles a program and returns the compile options that the fake plugin receives.
fn compiled(table: &PJRT_Api, format: &str, code: &str, options: &CompileOptions) -> CompileOptions {
    let options = options.encode();
    let mut code = code.as_bytes().to_vec();
    let mut program = PJRT_Program::new();
    (program.code, program.code_size) = (code.as_mut_ptr().cast(), code.len());
    (program.format, program.format_size) = (format.as_ptr().cast(), format.len());
    let mut args = PJRT_Client_Compile_Args::new();
    args.program = &raw const program;
    (args.compile_options, args.compile_options_size) = (options.as_ptr().cast(), options.len());
    // SAFETY: C2: `new` has set the sizes of the structs, and the fake plugin reads no handle.
    assert!(unsafe { table.PJRT_Client_Compile.unwrap()(&raw mut args) }.is_null());
    // The framework receives the output, and the layer does not change the framework's arguments.
    assert_eq!(args.executable.addr(), 0x40);
    assert_eq!((args.compile_options.addr(), args.compile_options_size), (options.as_ptr().addr(), options.len()));
    COMPILED.with(|compiled| compiled.borrow_mut().take()).unwrap()
}

mod create_options {
    use super::*;

    thread_local! {
        /// The names and the values of the options of the last client.
        static SEEN: RefCell<Vec<(String, i64)>> = const { RefCell::new(Vec::new()) };
    }

    #[expect(clippy::disallowed_methods, reason = "a test reads the options as a plugin does")]
    unsafe extern "C" fn create(args: *mut PJRT_Client_Create_Args) -> *mut PJRT_Error {
        // SAFETY: V1: the test passes arguments of this size, which only this call uses.
        let args = unsafe { &mut *args };
        // SAFETY: V1: the options have this number.
        let options = unsafe { std::slice::from_raw_parts(args.create_options, args.num_options) };
        let seen = options.iter().map(|option| {
            // SAFETY: V1: the name is readable for its length.
            let name = unsafe { std::slice::from_raw_parts(option.name.cast(), option.name_size) };
            // SAFETY: V1: the test passes integers.
            (String::from_utf8(name.to_vec()).unwrap(), unsafe { option.__bindgen_anon_1.int64_value })
        });
        SEEN.set(seen.collect());
        args.client = without_provenance_mut(0x50);
        null_mut()
    }

    /// Returns the options that the fake plugin receives.
    fn seen(table: &PJRT_Api, options: &[(&str, i64)]) -> Vec<(String, i64)> {
        let options: Vec<_> = options.iter().map(|(name, value)| named_integer(name, *value)).collect();
        let mut args = PJRT_Client_Create_Args::new();
        (args.create_options, args.num_options) = (options.as_ptr(), options.len());
        // SAFETY: C2: `new` has set the sizes of the structs, and the options live until the call returns.
        assert!(unsafe { table.PJRT_Client_Create.unwrap()(&raw mut args) }.is_null());
        assert_eq!((args.client.addr(), args.num_options), (0x50, options.len()));
        SEEN.take()
    }

    fn named_integer(name: &str, value: i64) -> PJRT_NamedValue {
        let mut option = PJRT_NamedValue::new();
        (option.name, option.name_size) = (name.as_ptr().cast(), name.len());
        option.type_ = PJRT_NamedValue_Type::PJRT_NamedValue_kInt64;
        (option.__bindgen_anon_1.int64_value, option.value_size) = (value, 1);
        option
    }

    const TORCH_TPU: &str = "premapped_buffer_size";

    fn start<I: Instance>(extension: Option<&'static PJRT_Extension_Base>) -> &'static PJRT_Api {
        let plugin = setup::fake(115, |table| {
            table.PJRT_Client_Create = Some(create);
            table.extension_start = extension.map_or(null_mut(), |extension| (&raw const *extension).cast_mut());
        });
        // SAFETY: the table lives as long as the process.
        unsafe { &*Stack::start::<I>(plugin, vec![Box::<Compat>::default()]).as_raw() }
    }

    #[test]
    fn of_libtpu_reach_libtpu_alone() {
        instance!(Other);
        let other = start::<Other>(None);
        assert_eq!(seen(other, &[("a", 1), (TORCH_TPU, 0), ("b", 2)]), [("a".to_owned(), 1), ("b".to_owned(), 2)]);
        assert_eq!(seen(other, &[(TORCH_TPU, 0)]), []);
        assert_eq!(seen(other, &[("a", 1)]), [("a".to_owned(), 1)]);
        instance!(Tpu);
        let extension = Box::leak(Box::new(PJRT_Extension_Base {
            struct_size: size_of::<PJRT_Extension_Base>(),
            type_: PJRT_Extension_Type::PJRT_Extension_Type_TpuTopology,
            next: null_mut(),
        }));
        assert_eq!(seen(start::<Tpu>(Some(extension)), &[(TORCH_TPU, 0)]), [(TORCH_TPU.to_owned(), 0)]);
    }
}

mod replicas {
    use super::*;

    #[test]
    fn independent_ones_run_on_one_device() {
        instance!(Alone);
        let received = compiled(start::<Alone>(None), "hlo", "add multiply", &four_replicas());
        let expected = CompileOptions::default().with_portable_executable(true);
        assert_eq!(received, expected);
    }

    #[test]
    fn communicating_ones_stay_together() {
        instance!(Together);
        let table = start::<Together>(None);
        for code in ["add all-reduce", "replica-id", "collective-permute-start"] {
            assert_eq!(compiled(table, "hlo", code, &four_replicas()), four_replicas(), "{code}");
        }
        let partitions = CompileOptions::default().with_num_partitions(4);
        assert_eq!(compiled(table, "hlo", "add", &partitions), partitions);
    }

    #[test]
    fn other_frameworks_and_platforms_are_left_alone() {
        instance!(Others);
        let table = start::<Others>(None);
        assert_eq!(compiled(table, "mlir", "stablehlo.add", &four_replicas()), four_replicas());
        PLATFORM.with(|name| *name.borrow_mut() = "acme");
        assert_eq!(compiled(table, "hlo", "add", &four_replicas()), four_replicas());
    }

    #[test]
    fn setting_decides_for_any_framework() {
        instance!(Forced);
        let table = start::<Forced>(Some(true));
        assert_eq!(compiled(table, "mlir", "stablehlo.add", &four_replicas()).num_replicas, 1);
        assert_eq!(compiled(table, "mlir", "stablehlo.all_reduce", &four_replicas()), four_replicas());
        instance!(Never);
        let table = start::<Never>(Some(false));
        assert_eq!(compiled(table, "hlo", "add", &four_replicas()), four_replicas());
    }
}

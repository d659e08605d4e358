//! Tests of the layer `compat`: the compile options of programs with several replicas.

use std::cell::RefCell;
use std::ptr::{null_mut, without_provenance_mut};

use pjrt_layers::compat::Compat;
use pjrt_layers::{Instance, Stack, instance};
use pjrt_sys::{
    AbiStruct, PJRT_Api, PJRT_Client_Compile_Args, PJRT_Client_PlatformName_Args, PJRT_Error, PJRT_Program,
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

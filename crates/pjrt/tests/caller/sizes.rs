//! Tests a plugin that accepts only the struct sizes of its own API version. Some real plugins have this restriction.

#![allow(clippy::multiple_unsafe_ops_per_block, clippy::undocumented_unsafe_blocks, reason = "a C plugin, in Rust")]

use std::ptr::null_mut;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::sync::{Mutex, OnceLock};

use pjrt::{
    Client, ClientOptions, CompileOptions, ElementType, ErrorCode, ExecuteOptions, Input, Plugin, Program, Shape,
    StaticApi,
};
use pjrt_sys::{AbiStruct, PJRT_Api, PJRT_Error, PJRT_LoadedExecutable_Execute_Args, Slot, for_each_slot, slot};

/// Minor API version whose struct sizes the plugin accepts.
static MINOR: AtomicU32 = AtomicU32::new(0);
/// Descriptions of the structs that the plugin rejected because of their sizes.
static REFUSED: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Returns the function table of the embedded device, which accepts the struct sizes of every API version.
fn inner() -> &'static PJRT_Api {
    static CLIENT: OnceLock<Client> = OnceLock::new();
    let client = CLIENT.get_or_init(|| plugin_registry::open("cpu").unwrap().client(&ClientOptions::new()).unwrap());
    // SAFETY: the table of the embedded device lives until the process ends.
    unsafe { &*client.plugin().api().as_raw() }
}

fn accepts<T: AbiStruct>(args: *const T) -> bool {
    let size = unsafe { args.cast::<usize>().read() };
    let expected = T::size_at(MINOR.load(SeqCst));
    if size != expected {
        REFUSED.lock().unwrap().push(format!("{} of {size} bytes instead of {expected}", T::NAME));
    }
    size == expected
}

unsafe extern "C" fn strict<S: Slot<Table = PJRT_Api>>(args: *mut S::Args) -> S::Return {
    let function = S::get(inner()).unwrap();
    // The embedded device returns an error for a null pointer, so pass one to reject the arguments.
    unsafe { function(if accepts(args) { args } else { null_mut() }) }
}

unsafe extern "C" fn strict_execute(args: *mut PJRT_LoadedExecutable_Execute_Args) -> *mut PJRT_Error {
    let accepted = accepts(args) && accepts(unsafe { (*args).options });
    unsafe { inner().PJRT_LoadedExecutable_Execute.unwrap()(if accepted { args } else { null_mut() }) }
}

macro_rules! strict_table {
    ($($slot:ident),* $(,)?) => {
        /// Returns the function table of a plugin of API version 0.`minor`.
        fn table(minor: u32) -> PJRT_Api {
            let mut table = *inner();
            table.extension_start = null_mut();
            table.pjrt_api_version.minor_version = i32::try_from(minor).unwrap();
            $(table.$slot = (slot::$slot::SINCE <= minor).then_some(strict::<slot::$slot>);)*
            table.PJRT_LoadedExecutable_Execute = Some(strict_execute);
            table
        }
    };
}
for_each_slot!(strict_table);

const PROGRAM: &str = "func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
    %y = stablehlo.add %x, %x : tensor<2xf32>
    return %y : tensor<2xf32>
}";

#[test]
fn every_call_has_the_size_of_the_plugins_version() {
    for minor in [60, 66, 72, 81, 95, 106, 114, 116, 117] {
        MINOR.store(minor, SeqCst);
        let table = Box::leak(Box::new(table(minor)));
        // SAFETY: the functions forward to those of the embedded device.
        let plugin = Plugin::from_static(unsafe { StaticApi::new(table) }).unwrap();
        plugin.attributes().unwrap();
        let client = plugin.client(&ClientOptions::new()).unwrap();
        let device = client.default_device().unwrap();
        device.memory_stats().unwrap();
        let double = client.compile(&Program::mlir(PROGRAM), &CompileOptions::default()).unwrap();
        double.executable().compiled_memory_stats().unwrap();
        let x = client.buffer_from_host(&[1.0f32, 2.0], &[2]).unwrap();
        assert_eq!(double.execute(&[&x]).unwrap()[0].to_host::<f32>().unwrap(), [2.0, 4.0]);
        let run = double.execute_with([Input::Borrow(&x)], &ExecuteOptions::new().with_launch_id(5)).unwrap();
        run.done.wait().unwrap();
        let bytes = double.executable().serialize().unwrap();
        drop(client.deserialize_and_load(&bytes).unwrap());
        let shape = Shape::new(ElementType::F32, [2]);
        let memory = device.default_memory().unwrap();
        if minor >= 82 {
            memory.buffer(&shape).error(ErrorCode::ABORTED, "no").unwrap();
        }
        if minor >= 85 {
            device.poison_execution(77, ErrorCode::ABORTED, "no").unwrap();
        }
        assert_eq!(*REFUSED.lock().unwrap(), [""; 0], "0.{minor}");
    }
    // Check that the plugin of this test does reject structs of other sizes.
    MINOR.store(81, SeqCst);
    let table = table(81);
    let mut args = pjrt_sys::PJRT_Device_MemoryStats_Args::new();
    let error = unsafe { table.PJRT_Device_MemoryStats.unwrap()(&raw mut args) };
    assert!(!error.is_null());
    assert_eq!(*REFUSED.lock().unwrap(), ["PJRT_Device_MemoryStats_Args of 201 bytes instead of 185"]);
    let mut args = pjrt_sys::PJRT_Error_Destroy_Args::new();
    args.error = error;
    unsafe { inner().PJRT_Error_Destroy.unwrap()(&raw mut args) };
}

//! Tests less common options of a run: incarnations, custom options, multi-slice configurations, and callbacks of a
//! running program. The plugin of these tests records the options and calls the callbacks itself.

#![allow(clippy::multiple_unsafe_ops_per_block, clippy::undocumented_unsafe_blocks, reason = "a C plugin, in Rust")]
#![allow(clippy::disallowed_methods, reason = "a C plugin, in Rust")]

use expect_test::expect;
use std::ffi::{c_char, c_void};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::fake::{Fake, make_error, plugin_of, table};
use pjrt::extensions::Megascale;
use pjrt::{Buffer, Client, CompileOptions, ErrorCode, ErrorKind, ExecuteOptions, Execution, Input, Plugin, Program};
use pjrt_sys::*;

/// Log of a run, in order: the options that the plugin received, and the calls of callbacks and deleters.
static SEEN: Mutex<Vec<String>> = Mutex::new(Vec::new());
/// Whether the plugin returns an error for runs.
static FAILS: AtomicBool = AtomicBool::new(false);

/// Locks a mutex and resets the plugin's records. Each test holds the returned guard, because the tests share these
/// records.
fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    SEEN.lock().unwrap().clear();
    FAILS.store(false, SeqCst);
    turn
}

fn saw(event: impl Into<String>) {
    SEEN.lock().unwrap().push(event.into());
}

fn seen() -> Vec<String> {
    std::mem::take(&mut *SEEN.lock().unwrap())
}

unsafe fn list<'a, T>(data: *const T, len: usize) -> &'a [T] {
    if len == 0 { &[] } else { unsafe { std::slice::from_raw_parts(data, len) } }
}

unsafe extern "C" fn fail(code: PJRT_Error_Code, message: *const c_char, len: usize) -> *mut PJRT_Error {
    let message = String::from_utf8_lossy(unsafe { list(message.cast::<u8>(), len) }).into_owned();
    saw(format!("error {} {message}", code.0));
    null_mut()
}

unsafe extern "C" fn delete_chunk(data: *mut c_void, len: *mut c_void) {
    saw("chunk deleted");
    drop(unsafe { Vec::from_raw_parts(data.cast::<u8>(), len.addr(), len.addr()) });
}

/// A stream of 8 bytes, with a granule size of 4 bytes.
#[derive(Default)]
struct Stream {
    sent: AtomicUsize,
}

unsafe extern "C" fn total(args: *mut PJRT_CopyToDeviceStream_TotalBytes_Args) -> *mut PJRT_Error {
    unsafe { (*args).total_bytes = 8 };
    null_mut()
}

unsafe extern "C" fn granule(args: *mut PJRT_CopyToDeviceStream_GranuleSize_Args) -> *mut PJRT_Error {
    unsafe { (*args).granule_size_in_bytes = 4 };
    null_mut()
}

unsafe extern "C" fn current(args: *mut PJRT_CopyToDeviceStream_CurrentBytes_Args) -> *mut PJRT_Error {
    unsafe { (*args).current_bytes = i64::try_from((*(*args).stream.cast::<Stream>()).sent.load(SeqCst)).unwrap() };
    null_mut()
}

unsafe extern "C" fn destroy_stream(args: *mut PJRT_CopyToDeviceStream_Destroy_Args) -> *mut PJRT_Error {
    saw("stream destroyed");
    drop(unsafe { Box::from_raw((*args).stream.cast::<Stream>()) });
    null_mut()
}

/// Address of a buffer of the plugin. `add_chunk` returns the ready event of this buffer as the event of each chunk.
static EVENTS: Mutex<Option<usize>> = Mutex::new(None);

unsafe extern "C" fn add_chunk(args: *mut PJRT_CopyToDeviceStream_AddChunk_Args) -> *mut PJRT_Error {
    let args = unsafe { &mut *args };
    let chunk = unsafe { *args.chunk };
    saw(format!("received {:?}", unsafe { list(chunk.data.cast::<u8>(), chunk.size) }));
    unsafe { (*args.stream.cast::<Stream>()).sent.fetch_add(chunk.size, SeqCst) };
    unsafe { chunk.deleter.unwrap()(chunk.data, chunk.deleter_arg) };
    let mut ready = PJRT_Buffer_ReadyEvent_Args::new();
    ready.buffer = std::ptr::with_exposed_provenance_mut(EVENTS.lock().unwrap().unwrap());
    assert!(unsafe { table().PJRT_Buffer_ReadyEvent.unwrap()(&raw mut ready) }.is_null());
    args.transfer_complete = ready.event;
    null_mut()
}

/// Records the options and calls the callbacks of each device. Then runs the program, or returns an error if [`FAILS`]
/// is set.
unsafe extern "C" fn execute(args: *mut PJRT_LoadedExecutable_Execute_Args) -> *mut PJRT_Error {
    let options = unsafe { &*(*args).options };
    let (tasks, incarnations) =
        unsafe { (list(options.task_ids, options.num_tasks), list(options.incarnation_ids, options.num_tasks)) };
    if !tasks.is_empty() {
        saw(format!("tasks {tasks:?} {incarnations:?}"));
    }
    for option in unsafe { list(options.custom_options, options.num_custom_options) } {
        let name = String::from_utf8_lossy(unsafe { list(option.name.cast::<u8>(), option.name_size) });
        saw(format!("{name} = {}", unsafe { option.__bindgen_anon_1.int64_value }));
    }
    if options.use_major_to_minor_data_layout_for_callbacks.get() {
        saw("major to minor");
    }
    let first = unsafe { **(*args).argument_lists };
    *EVENTS.lock().unwrap() = Some(first.expose_provenance());
    let mut fail: PJRT_CallbackError = Some(fail);
    for device in 0..unsafe { (*args).num_devices } {
        if options.num_send_ops > 0 {
            for info in unsafe { list(*options.send_callbacks.add(device), options.num_send_ops) } {
                saw(format!("send {}", info.channel_id));
                let bytes = std::mem::ManuallyDrop::new(vec![7u8, u8::try_from(info.channel_id).unwrap()]);
                let mut chunk = PJRT_Chunk {
                    data: bytes.as_ptr().cast_mut().cast(),
                    size: 2,
                    deleter: Some(delete_chunk),
                    deleter_arg: std::ptr::without_provenance_mut(2),
                };
                let callback = info.send_callback.unwrap();
                unsafe { callback(&raw mut chunk, &raw mut fail, 2, true.into(), info.user_arg) };
            }
        }
        if options.num_recv_ops > 0 {
            for info in unsafe { list(*options.recv_callbacks.add(device), options.num_recv_ops) } {
                let stream = Box::into_raw(Box::new(Stream::default()));
                unsafe { info.recv_callback.unwrap()(stream.cast(), info.user_arg) };
            }
        }
    }
    for info in unsafe { list(options.hlo_output_callbacks, options.num_hlo_output_callbacks) } {
        let (data, dims) = ([1.5f32, 2.5], [2i64]);
        let ty = PJRT_Buffer_Type::PJRT_Buffer_Type_F32;
        saw(format!("output {} of {}", info.callback_id, info.num_operands));
        unsafe { info.callback.unwrap()(3, 4, data.as_ptr().cast(), dims.as_ptr(), 1, ty, 0, info.user_arg) };
    }
    if FAILS.load(SeqCst) {
        return make_error(Some(13));
    }
    unsafe { table().PJRT_LoadedExecutable_Execute.unwrap()(args) }
}

fn client(fake: &'static Fake, minor: i32) -> Client {
    let mut table = table();
    table.pjrt_api_version.minor_version = minor;
    table.PJRT_LoadedExecutable_Execute = Some(execute);
    table.PJRT_CopyToDeviceStream_TotalBytes = Some(total);
    table.PJRT_CopyToDeviceStream_GranuleSize = Some(granule);
    table.PJRT_CopyToDeviceStream_CurrentBytes = Some(current);
    table.PJRT_CopyToDeviceStream_AddChunk = Some(add_chunk);
    table.PJRT_CopyToDeviceStream_Destroy = Some(destroy_stream);
    fake.client_of(&plugin_of(table).unwrap())
}

fn input(client: &Client) -> Buffer {
    client.buffer_from_host(&[1u8], &[1]).unwrap()
}

fn run(client: &Client, options: &ExecuteOptions) -> Result<Execution, pjrt::Error> {
    let program = client.compile(&Program::mlir(""), &CompileOptions::default()).unwrap();
    program.execute_with([Input::Donate(input(client))], options)
}

#[test]
fn incarnations_and_custom_options_reach_the_plugin() {
    let _turn = turn();
    let options = ExecuteOptions::new()
        .with_incarnation(0, 11)
        .with_incarnation(1, -12)
        .with_custom_option("priority", 3i64)
        .with_major_to_minor_callbacks(true);
    run(&client(Fake::new(), 117), &options).unwrap().done.wait().unwrap();
    assert_eq!(seen(), ["tasks [0, 1] [11, -12]", "priority = 3", "major to minor"]);
}

#[test]
fn options_newer_than_the_plugin_are_errors() {
    let _turn = turn();
    let client = client(Fake::new(), 76);
    let cases = [
        ("incarnation", ExecuteOptions::new().with_incarnation(0, 1)),
        ("custom option", ExecuteOptions::new().with_custom_option("x", 1i64)),
        ("major-to-minor callbacks", ExecuteOptions::new().with_major_to_minor_callbacks(true)),
        ("output callback", ExecuteOptions::new().with_output_callback(1, 1, |_| ())),
    ];
    let mut messages = String::new();
    for (case, options) in cases {
        let error = run(&client, &options).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
        messages += &format!("{case}: {}\n", error.message());
    }
    expect![[r#"
        incarnation: the run has incarnations, which require API 0.78; the plugin has API 0.76
        custom option: the run has custom options, which require API 0.116; the plugin has API 0.76
        major-to-minor callbacks: the run has row-major callbacks, which require API 0.108; the plugin has API 0.76
        output callback: the run has output callbacks, which require API 0.112; the plugin has API 0.76
    "#]]
    .assert_eq(&messages);
    assert_eq!(seen(), [""; 0], "the plugin was called");
}

#[test]
fn send_callback_receives_chunks() {
    let _turn = turn();
    let options = ExecuteOptions::new()
        .with_send_callback(5, |chunk| {
            saw(format!("{} {:?} of {} {}", chunk.device_index, chunk.bytes, chunk.total_size, chunk.is_last));
            Ok(())
        })
        .with_send_callback(6, |_| Err((ErrorCode::DATA_LOSS, "disk full".to_owned())))
        .with_send_callback(7, |_| panic!("a callback of a test"));
    run(&client(Fake::new(), 117), &options).unwrap().done.wait().unwrap();
    let expected = [
        "send 5",
        "0 [7, 5] of 2 true",
        "chunk deleted",
        "send 6",
        "chunk deleted",
        "error 15 disk full",
        "send 7",
        "chunk deleted",
        "error 13 the callback panicked",
    ];
    assert_eq!(seen(), expected);
}

#[test]
fn recv_callback_sends_chunks() {
    let _turn = turn();
    let options = ExecuteOptions::new().with_recv_callback(1, |device, mut stream| {
        assert_eq!((device, stream.total_bytes().unwrap(), stream.granule_size().unwrap()), (0, 8, 4));
        stream.add_chunk(vec![1u8, 2, 3, 4]).unwrap().wait().unwrap();
        assert_eq!(stream.current_bytes().unwrap(), 4);
        let mut messages = String::new();
        for length in [8, 2] {
            let error = stream.add_chunk(vec![0; length]).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
            messages += &format!("{length} bytes after 4 of 8: {}\n", error.message());
        }
        expect![[r#"
            8 bytes after 4 of 8: a chunk of 8 bytes follows 4 of the value's 8 bytes
            2 bytes after 4 of 8: a chunk of 2 bytes is not a multiple of 4 bytes
        "#]]
        .assert_eq(&messages);
        stream.add_chunk([5u8, 6, 7, 8]).unwrap().wait().unwrap();
    });
    run(&client(Fake::new(), 117), &options).unwrap().done.wait().unwrap();
    assert_eq!(seen(), ["received [1, 2, 3, 4]", "received [5, 6, 7, 8]", "stream destroyed"]);
}

#[test]
fn output_callback_receives_values() {
    let _turn = turn();
    let options = ExecuteOptions::new().with_output_callback(9, 1, |output| {
        let (replica, partition, operand) = (output.replica_id, output.partition_id, output.operand_index);
        saw(format!("{replica} {partition} {operand} {} {}", output.shape, output.bytes.len()));
    });
    run(&client(Fake::new(), 117), &options).unwrap().done.wait().unwrap();
    assert_eq!(seen(), ["output 9 of 1", "3 4 0 f32[2] 8"]);
}

/// The callbacks live until the run has ended, even if the options are dropped earlier.
#[test]
fn callbacks_live_until_the_run_ends() {
    let _turn = turn();
    let fake = Fake::new();
    let client = client(fake, 117);
    let held = Arc::new(());
    let kept = held.clone();
    let options = ExecuteOptions::new().with_send_callback(5, move |_| {
        let _ = &kept;
        Ok(())
    });
    fake.manual.store(true, SeqCst);
    let execution = run(&client, &options).unwrap();
    drop(options);
    assert_eq!(Arc::strong_count(&held), 2, "the run may call the callback");
    fake.finish();
    assert_eq!(Arc::strong_count(&held), 1);
    drop((execution, client));
}

/// If the call fails, the run does not keep the callbacks, because the plugin does not use them afterwards.
#[test]
fn failed_run_drops_callbacks() {
    let _turn = turn();
    FAILS.store(true, SeqCst);
    let held = Arc::new(());
    let kept = held.clone();
    let options = ExecuteOptions::new().with_output_callback(5, 0, move |_| drop(kept.clone()));
    assert!(run(&client(Fake::new(), 117), &options).is_err());
    assert_eq!(Arc::strong_count(&held), 2);
    drop(options);
    assert_eq!(Arc::strong_count(&held), 1);
}

/// If the destructor of a chunk panics, the stream still works. If the callback panics, the stream is destroyed.
#[test]
fn panics_end_the_stream() {
    let _turn = turn();
    struct Bomb(Vec<u8>);
    impl AsRef<[u8]> for Bomb {
        fn as_ref(&self) -> &[u8] {
            &self.0
        }
    }
    impl Drop for Bomb {
        fn drop(&mut self) {
            saw("chunk dropped");
            panic!("the destructor of a test");
        }
    }
    let options = ExecuteOptions::new().with_recv_callback(1, |_, mut stream| {
        stream.add_chunk(Bomb(vec![1, 2, 3, 4])).unwrap().wait().unwrap();
        assert_eq!(stream.current_bytes().unwrap(), 4);
        panic!("a callback of a test");
    });
    run(&client(Fake::new(), 117), &options).unwrap().done.wait().unwrap();
    assert_eq!(seen(), ["received [1, 2, 3, 4]", "chunk dropped", "stream destroyed"]);
}

/// A leaked stream is never destroyed, even after the run has ended.
#[test]
fn leaked_stream_is_not_destroyed() {
    let _turn = turn();
    let options = ExecuteOptions::new().with_recv_callback(1, |_, stream| std::mem::forget(stream));
    let execution = run(&client(Fake::new(), 117), &options).unwrap();
    execution.done.wait().unwrap();
    drop((execution, options));
    assert_eq!(seen(), [""; 0]);
}

/// Number of multi-slice configurations that exist, and the configurations that runs received.
static SLICES: Mutex<(isize, Vec<i32>)> = Mutex::new((0, Vec::new()));

unsafe extern "C" fn topology(args: *mut PJRT_Client_TopologyDescription_Args) -> *mut PJRT_Error {
    unsafe { (*args).topology = (*args).client.cast() };
    null_mut()
}

/// Creates a configuration, which is represented by its number of slices.
unsafe extern "C" fn create_config(args: *mut PJRT_Megascale_CreateAoTConfig_Args) -> *mut PJRT_Error {
    let args = unsafe { &mut *args };
    SLICES.lock().unwrap().0 += 1;
    args.multi_slice_config = Box::into_raw(Box::new(args.num_slices)).cast();
    null_mut()
}

unsafe extern "C" fn destroy_config(args: *mut PJRT_MultiSlice_Config_Destroy_Args) -> *mut PJRT_Error {
    SLICES.lock().unwrap().0 -= 1;
    drop(unsafe { Box::from_raw((*args).config.cast::<i32>()) });
    null_mut()
}

unsafe extern "C" fn execute_on_slices(args: *mut PJRT_LoadedExecutable_Execute_Args) -> *mut PJRT_Error {
    let config = unsafe { (*(*args).options).multi_slice_config };
    SLICES.lock().unwrap().1.push(unsafe { *config.cast::<i32>() });
    unsafe { table().PJRT_LoadedExecutable_Execute.unwrap()(args) }
}

fn plugin_with_slices() -> Plugin {
    let mut configs = PJRT_MultiSlice_Extension::new();
    configs.base.type_ = PJRT_MultiSlice_Extension::TYPE;
    configs.config_destroy = Some(destroy_config);
    let mut megascale = PJRT_Megascale_Extension::new();
    megascale.base.type_ = PJRT_Megascale_Extension::TYPE;
    megascale.base.next = (&raw mut *Box::leak(Box::new(configs))).cast();
    megascale.create_aot_config = Some(create_config);
    let mut table = table();
    table.PJRT_Client_TopologyDescription = Some(topology);
    table.PJRT_LoadedExecutable_Execute = Some(execute_on_slices);
    table.extension_start = (&raw mut *Box::leak(Box::new(megascale))).cast();
    plugin_of(table).unwrap()
}

#[test]
fn slices_live_until_the_run_ends() {
    let _turn = turn();
    let fake = Fake::new();
    let plugin = plugin_with_slices();
    let client = fake.client_of(&plugin);
    let config = |client: &Client| {
        let megascale = client.plugin().extension::<Megascale>().unwrap();
        Arc::new(megascale.ahead_of_time_config(&client.topology().unwrap(), 4).unwrap())
    };
    let program = client.compile(&Program::mlir(""), &CompileOptions::default()).unwrap();
    let x = client.buffer_from_host(&[1u8], &[1]).unwrap();
    fake.manual.store(true, SeqCst);
    let options = ExecuteOptions::new().with_multi_slice_config(config(&client));
    drop(program.execute_with([Input::Borrow(&x)], &options).unwrap());
    drop(options);
    assert_eq!(*SLICES.lock().unwrap(), (1, vec![4]), "the run uses the configuration");
    fake.finish();
    assert_eq!(SLICES.lock().unwrap().0, 0);

    let foreign = config(&Fake::new().client_of(&plugin_with_slices()));
    let options = ExecuteOptions::new().with_multi_slice_config(foreign);
    let error = program.execute_with([Input::Borrow(&x)], &options).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    expect!["the configuration of slices belongs to another plugin than the program"].assert_eq(error.message());
    drop(options);
    assert_eq!(*SLICES.lock().unwrap(), (0, vec![4]));
}

//! Tests that no allocation remains after a framework has destroyed its objects, even after many repetitions.
//!
//! Warm-up repetitions fill the caches that are kept on purpose, such as each thread's free blocks. The repetitions
//! after them must free every allocation and byte that they allocate, and the process must grow by less than 4 MiB.
#![allow(
    unreachable_pub,
    missing_docs,
    dead_code,
    clippy::undocumented_unsafe_blocks,
    clippy::multiple_unsafe_ops_per_block,
    clippy::missing_safety_doc,
    clippy::unwrap_used,
    clippy::disallowed_methods,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "raw calls and small numbers in tests; each test program uses a part of the framework"
)]

#[path = "protocol/framework.rs"]
mod framework;
#[path = "protocol/toy.rs"]
mod toy;

use std::alloc::System;
use std::ffi::c_void;
use std::ptr::null_mut;
use std::time::{Duration, Instant};

use device_plugin::NamedValue;
use framework::{Buffer, Client, Loaded, execute_options, pair, raw_values, toy};
use pjrt_sys::*;
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Returns the number of allocations and of bytes in use.
fn in_use() -> (isize, isize) {
    let stats = ALLOCATOR.stats();
    let difference = |one: usize, other: usize| isize::try_from(one).unwrap() - isize::try_from(other).unwrap();
    let bytes = difference(stats.bytes_allocated, stats.bytes_deallocated);
    // `bytes_allocated` includes reallocations, so `bytes_reallocated` is not added.
    (difference(stats.allocations, stats.deallocations), bytes)
}

/// Returns the size of the process's physical memory in bytes, for pages of 4 KiB. Returns `None` if the system does
/// not report it in `/proc`.
fn resident() -> Option<usize> {
    let pages = std::fs::read_to_string("/proc/self/statm").ok()?;
    Some(pages.split(' ').nth(1)?.parse::<usize>().ok()? * 4096)
}

/// Calls `work` 20 to 200 times to warm up, then `count` times. Panics if the allocations or bytes in use differ before
/// and after the `count` calls, or if the process has grown by 4 MiB.
fn flat(name: &str, count: usize, mut work: impl FnMut(usize)) {
    let warm = (count / 10).clamp(20, 200);
    (0..warm).for_each(&mut work);
    let (before, memory) = (in_use(), resident());
    let start = Instant::now();
    (0..count).for_each(&mut work);
    let time = start.elapsed();
    let after = in_use();
    let grown = resident().zip(memory).map(|(after, before)| after.saturating_sub(before) / 1024);
    println!("{name}: {count} times in {time:.1?}, grown by {grown:?} KiB, {after:?} allocations and bytes in use");
    assert_eq!(before, after, "{name}: allocations and bytes in use, before and after");
    // Tolerate 4 MiB for memory that the allocator keeps.
    assert!(grown.is_none_or(|grown| grown < 4096), "{name}: the process grew by {grown:?} KiB");
}

fn ints(client: Client) -> Buffer {
    toy().ints(client, &[1, 2])
}

/// Executes a program and waits for its end. Writes the outputs to `results`, and then destroys them.
fn execute(executable: Loaded, arguments: &[Buffer], results: &mut [Buffer]) {
    let mut options = execute_options(&[]);
    let mut event = null_mut();
    let (lists, result_lists) = ([arguments.as_ptr()], [results.as_mut_ptr()]);
    let answer = toy().ask::<slot::PJRT_LoadedExecutable_Execute>(|args| {
        (args.executable, args.options, args.execute_device) = (executable, &raw mut options, null_mut());
        (args.argument_lists, args.num_devices, args.num_args) = (lists.as_ptr(), 1, arguments.len());
        (args.output_lists, args.device_complete_events) = (result_lists.as_ptr(), &raw mut event);
    });
    answer.map(drop).unwrap();
    toy().wait(event).unwrap();
    toy().destroy(results);
}

fn executions(client: Client, width: usize, count: usize) {
    let code = format!("op=echo\nin={}", vec!["s32[2]"; width].join(";"));
    let executable = toy().compile(client, &code).unwrap();
    let arguments: Vec<_> = (0..width).map(|_| ints(client)).collect();
    let mut results = vec![null_mut(); width];
    flat(&format!("executions of {width} in and {width} out"), count, |_| {
        execute(executable, &arguments, &mut results);
    });
    toy().destroy(&arguments);
    toy().destroy_loaded(executable);
}

unsafe extern "C" fn ignore(error: *mut PJRT_Error, _: *mut c_void) {
    let _ = toy().check(error);
}

fn event() -> *mut PJRT_Event {
    toy().ask::<slot::PJRT_Event_Create>(|_| {}).unwrap().event
}

fn set(event: *mut PJRT_Event, code: u32) {
    let set = toy().ask::<slot::PJRT_Event_Set>(|args| {
        (args.event, args.error_code) = (event, PJRT_Error_Code(code));
        (args.error_message, args.error_message_size) = (c"as asked".as_ptr(), 8);
    });
    set.map(drop).unwrap();
}

fn transfers(client: Client) {
    let (device, memories) = (toy().devices(client)[1], toy().memories(client));
    let data = [1i32, 2];
    let dims = [2i64];
    flat("copies to and from the device", 20_000, |_| {
        let buffer = ints(client);
        let copy =
            toy().ask::<slot::PJRT_Buffer_CopyToDevice>(|args| (args.buffer, args.dst_device) = (buffer, device));
        let copy = copy.unwrap().dst_buffer;
        assert_eq!(toy().read_ints(copy).unwrap(), data);
        toy().delete(buffer);
        toy().destroy(&[buffer, copy]);
    });
    flat("lent memory", 20_000, |_| {
        let (buffer, done) = toy().put_as(client, &pair(), data.as_ptr().cast(), None, 2, 2).unwrap();
        toy().destroy(&[buffer]);
        toy().wait(done).unwrap();
    });
    flat("managers of transfers", 5_000, |i| {
        let mut spec = framework::garbage::<PJRT_ShapeSpec>();
        (spec.dims, spec.num_dims, spec.element_type) = (dims.as_ptr(), 1, PJRT_Buffer_Type::PJRT_Buffer_Type_S32);
        let manager = toy().ask::<slot::PJRT_Client_CreateBuffersForAsyncHostToDevice>(|args| {
            (args.client, args.memory, args.num_device_layouts) = (client, memories[0], 0);
            (args.shape_specs, args.num_shape_specs) = (&raw mut spec, 1);
        });
        let manager = manager.unwrap().transfer_manager;
        // Only every second buffer receives its data. The other managers are destroyed before their transfers.
        if i.is_multiple_of(2) {
            let done = toy().ask::<slot::PJRT_AsyncHostToDeviceTransferManager_TransferData>(|args| {
                (args.transfer_manager, args.buffer_index, args.data) = (manager, 0, data.as_ptr().cast());
                (args.offset, args.transfer_size, args.is_last_transfer) = (0, 8, true.into());
            });
            toy().wait(done.unwrap().done_with_h2d_transfer).unwrap();
        }
        let destroy = toy()
            .ask::<slot::PJRT_AsyncHostToDeviceTransferManager_Destroy>(|args| args.transfer_manager = manager)
            .map(drop);
        destroy.unwrap();
    });
}

// Use a single test, because allocations of a concurrent test would be counted, too.
#[test]
fn nothing_is_left() {
    // The main thread of the test harness still allocates after it has started this thread.
    std::thread::sleep(Duration::from_millis(200));
    flat("clients", 1_000, |_| toy().destroy_client(toy().client(&[]).unwrap()));

    let client = toy().client(&[]).unwrap();
    executions(client, 1, 100_000);
    executions(client, 32, 100_000);

    let donate = toy().compile(client, "op=add_one\nin=s32[2]\ndonate=0").unwrap();
    flat("donations", 20_000, |_| {
        let buffer = ints(client);
        execute(donate, &[buffer], &mut [null_mut()]);
        toy().destroy(&[buffer]);
    });
    toy().destroy_loaded(donate);

    let echo = toy().compile(client, "op=echo\nin=s32[2]").unwrap();
    let argument = [ints(client)];
    flat("failing executions", 20_000, |_| {
        assert!(toy().execute(echo, &[], 1).is_err());
    });
    // Each thread has hazard slots in the client's domain. When a thread has ended, the next thread reuses its slots.
    struct Shared(Loaded, [Buffer; 1]);
    unsafe impl Sync for Shared {}
    let shared = Shared(echo, argument);
    flat("threads", 500, |_| {
        std::thread::scope(|scope| {
            let shared = &shared;
            scope.spawn(move || execute(shared.0, &shared.1, &mut [null_mut()])).join().unwrap();
        });
    });
    toy().destroy(&argument);
    toy().destroy_loaded(echo);

    transfers(client);

    flat("events", 20_000, |i| {
        let event = event();
        toy().on_ready(event, ignore, null_mut()).unwrap();
        set(event, u32::from(i.is_multiple_of(2)));
        toy().on_ready(event, ignore, null_mut()).unwrap();
        toy().destroy_event(event);
        // Destroy an event that is never set, with a registered callback.
        let event = self::event();
        toy().on_ready(event, ignore, null_mut()).unwrap();
        toy().destroy_event(event);
    });
    let values = [NamedValue::new("fail", "as asked")];
    let raw = raw_values(&values);
    flat("errors", 20_000, |_| {
        let create = toy().ask::<slot::PJRT_Client_Create>(|args| {
            (args.create_options, args.num_options) = (raw.as_ptr(), raw.len());
        });
        assert_eq!(create.map(drop).unwrap_err().message, "as asked");
    });
    flat("programs", 1_000, |_| {
        let loaded = toy().compile(client, "op=all\nin=s32[2,3];f32[]\nout=pred[];bf16[4,1]").unwrap();
        let held = toy().ask::<slot::PJRT_LoadedExecutable_GetExecutable>(|args| args.loaded_executable = loaded);
        let held = held.unwrap().executable;
        let blob = toy().ask::<slot::PJRT_Executable_Serialize>(|args| args.executable = held).unwrap();
        let again = toy().ask::<slot::PJRT_Executable_DeserializeAndLoad>(|args| {
            (args.client, args.serialized_executable) = (client, blob.serialized_bytes);
            args.serialized_executable_size = blob.serialized_bytes_size;
            args.overridden_serialized_compile_options_size = 0;
        });
        unsafe { blob.serialized_executable_deleter.unwrap()(blob.serialized_executable) };
        toy().destroy_loaded(again.unwrap().loaded_executable);
        toy().ask::<slot::PJRT_Executable_GetCostAnalysis>(|args| args.executable = held).unwrap();
        toy().ask::<slot::PJRT_Executable_Destroy>(|args| args.executable = held).unwrap();
        toy().destroy_loaded(loaded);
    });
    toy().destroy_client(client);
}

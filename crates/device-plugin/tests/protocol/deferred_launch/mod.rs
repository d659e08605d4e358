//! Tests launches whose arguments arrive later. The call returns at once, and the program runs when all arguments are
//! ready.

mod device;

use std::ffi::c_void;
use std::ptr::null_mut;

use device_plugin::{Error, ErrorCode};
use pjrt_sys::*;

use crate::framework::{Buffer, execute_options};
use device::Fixture;
use expect_test::expect;

/// Runs a test on a device that can order its work itself, and on a device that cannot.
macro_rules! on_both_devices {
    ($($(#[$meta:meta])* fn $name:ident($fixture:ident) $body:block)*) => {
        $($(#[$meta])* #[test] fn $name() {
            fn test($fixture: Fixture) $body
            test(Fixture::new::<false>(stringify!($name)));
            test(Fixture::new::<true>(stringify!($name)));
        })*
    };
}

fn alias(fixture: &Fixture) -> (Buffer, *mut PJRT_FulfillAliasBufferCallback) {
    let (shape, memory) = (crate::framework::pair(), fixture.framework.memories(fixture.client)[0]);
    let args = fixture.framework.ask::<slot::PJRT_Client_CreateAliasBuffer>(|args| {
        (args.client, args.memory, args.shape_layout) = (fixture.client, memory, null_mut());
        args.shape_element_type = PJRT_Buffer_Type(shape.element_type.as_raw());
        (args.shape_dims, args.shape_num_dims) = (shape.dimensions.as_ptr(), 1);
    });
    let args = args.unwrap();
    (args.alias_buffer, args.fulfill_alias_buffer_cb)
}

fn fulfill(fixture: &Fixture, token: *mut PJRT_FulfillAliasBufferCallback, with: Buffer) {
    let fulfill = fixture.framework.ask::<slot::PJRT_Client_FulfillAliasBuffer>(|args| {
        (args.client, args.buffer, args.fulfill_alias_buffer_cb) = (fixture.client, with, token);
        args.status_code = PJRT_Error_Code(0);
    });
    fulfill.map(drop).unwrap();
}

on_both_devices! {
    fn runs_when_a_transfer_ends(fixture) {
        let (plugin, add) = (fixture.framework, fixture.compile("add 2"));
        let there = plugin.ints(fixture.client, &[1, 2]);
        let (manager, arriving) = fixture.arriving(0);
        let (output, event) = fixture.run(add, &[arriving, there]);
        assert!(!plugin.is_ready(event) && !fixture.is_ready(output));
        assert!(fixture.log.look(|state| state.begun.is_empty()));
        fixture.send(manager, [10, 20]);
        plugin.wait(event).unwrap();
        assert_eq!(plugin.read_ints(output).unwrap(), [11, 22]);
        assert_eq!(plugin.read_ints(arriving).unwrap(), [10, 20]);
        // The program did not run on the thread that sent the data, and its launch received the options.
        let begun = fixture.log.look(|state| state.begun.clone());
        assert_eq!(begun.len(), 1);
        assert!(begun[0].0 == "add 7" && begun[0].1 != std::thread::current().id(), "{begun:?}");
        plugin.destroy(&[there, arriving, output]);
        plugin.destroy_loaded(add);
        fixture.destroy_manager(manager);
        fixture.end();
    }

    fn runs_when_an_alias_is_fulfilled(fixture) {
        let (plugin, add) = (fixture.framework, fixture.compile("add 2"));
        let there = plugin.ints(fixture.client, &[1, 2]);
        let (alias, token) = alias(&fixture);
        let (output, event) = fixture.run(add, &[alias, alias]);
        assert!(!plugin.is_ready(event));
        fulfill(&fixture, token, there);
        plugin.wait(event).unwrap();
        assert_eq!(plugin.read_ints(output).unwrap(), [2, 4]);
        plugin.destroy(&[there, alias, output]);
        plugin.destroy_loaded(add);
        fixture.end();
    }

    fn chains(fixture) {
        const LENGTH: usize = 300;
        let (plugin, add) = (fixture.framework, fixture.compile("add 2"));
        let one = plugin.ints(fixture.client, &[1, 0]);
        let (manager, arriving) = fixture.arriving(0);
        let mut last = arriving;
        for _ in 0..LENGTH {
            let (output, event) = fixture.run(add, &[last, one]);
            plugin.destroy_event(event);
            plugin.destroy(&[last]);
            last = output;
        }
        assert!(!fixture.is_ready(last));
        fixture.send(manager, [0, 5]);
        assert_eq!(plugin.read_ints(last).unwrap(), [LENGTH as i32, 5]);
        plugin.destroy(&[one, last]);
        plugin.destroy_loaded(add);
        fixture.destroy_manager(manager);
        fixture.end();
    }

    fn keeps_nothing_else_waiting(fixture) {
        let (plugin, add, hold) = (fixture.framework, fixture.compile("add 1"), fixture.compile("hold 1"));
        let (never, stuck) = fixture.arriving(0);
        let (first, for_first) = fixture.arriving(0);
        let (second, for_second) = fixture.arriving(0);
        let (waits, waits_event) = fixture.run(add, &[stuck]);
        let (holds, holds_event) = fixture.run(hold, &[for_first]);
        let (goes_on, goes_on_event) = fixture.run(add, &[for_second]);
        // A launch without pending arguments runs even if an earlier deferred launch never starts.
        let there = plugin.ints(fixture.client, &[1, 2]);
        let (output, event) = fixture.run(add, &[there]);
        plugin.wait(event).unwrap();
        // A deferred launch runs while another launch blocks within the backend.
        fixture.send(first, [1, 1]);
        fixture.log.wait(|state| state.begun.iter().any(|(name, _)| name.starts_with("hold")));
        fixture.send(second, [3, 4]);
        plugin.wait(goes_on_event).unwrap();
        assert_eq!(plugin.read_ints(goes_on).unwrap(), [3, 4]);
        assert!(!plugin.is_ready(holds_event) && !plugin.is_ready(waits_event));
        fixture.log.release();
        plugin.wait(holds_event).unwrap();
        fixture.destroy_manager(never);
        assert_eq!(plugin.wait(waits_event).unwrap_err().code, ErrorCode::CANCELLED);
        plugin.destroy(&[stuck, for_first, for_second, waits, holds, goes_on, there, output]);
        [add, hold].into_iter().for_each(|program| plugin.destroy_loaded(program));
        [first, second].into_iter().for_each(|manager| fixture.destroy_manager(manager));
        fixture.end();
    }

    fn donated_arguments_are_given_up_at_once(fixture) {
        let (plugin, add) = (fixture.framework, fixture.compile("add 2 donate"));
        let there = plugin.ints(fixture.client, &[1, 2]);
        let (manager, arriving) = fixture.arriving(0);
        let (output, event) = fixture.run(add, &[arriving, there]);
        assert!(plugin.is_deleted(arriving) && plugin.is_deleted(there));
        let again = plugin.execute(add, &[arriving, there], 1).unwrap_err();
        assert_eq!(again.code, ErrorCode::INVALID_ARGUMENT, "{again:?}");
        plugin.destroy(&[arriving, there]);
        fixture.send(manager, [10, 20]);
        plugin.wait(event).unwrap();
        assert_eq!(plugin.read_ints(output).unwrap(), [11, 22]);
        // The backend was the only owner of both donated arguments, and only the value of the output still exists.
        assert_eq!(fixture.log.look(|state| (state.in_place, state.values)), (2, 1));
        let (manager_2, twice) = fixture.arriving(0);
        let fault = plugin.execute(add, &[twice, twice], 1).unwrap_err();
        assert_eq!(fault.code, ErrorCode::INVALID_ARGUMENT, "{fault:?}");
        assert!(!plugin.is_deleted(twice), "a refused call changes nothing");
        plugin.destroy(&[output, twice]);
        plugin.destroy_loaded(add);
        [manager, manager_2].into_iter().for_each(|manager| fixture.destroy_manager(manager));
        fixture.end();
    }

    fn arguments_may_be_deleted_and_destroyed(fixture) {
        let (plugin, add) = (fixture.framework, fixture.compile("add 2"));
        let there = plugin.ints(fixture.client, &[1, 2]);
        let (manager, arriving) = fixture.arriving(0);
        let (output, event) = fixture.run(add, &[arriving, there]);
        plugin.delete(there);
        plugin.delete(arriving);
        plugin.destroy(&[arriving, there]);
        plugin.destroy_loaded(add);
        fixture.send(manager, [10, 20]);
        plugin.wait(event).unwrap();
        assert_eq!(plugin.read_ints(output).unwrap(), [11, 22]);
        plugin.destroy(&[output]);
        fixture.destroy_manager(manager);
        fixture.end();
    }

    fn an_argument_that_fails_poisons_the_outputs(fixture) {
        const LENGTH: usize = 5_000;
        let (plugin, add) = (fixture.framework, fixture.compile("add 2"));
        let (manager, arriving) = fixture.arriving(0);
        let (never, stuck) = fixture.arriving(0);
        // The launch fails as soon as one argument has failed, even if the other argument is still pending.
        let (output, event) = fixture.run(add, &[stuck, arriving]);
        let mut last = output;
        let mut all = vec![output];
        for _ in 0..LENGTH {
            let (next, event) = fixture.run(add, &[last, last]);
            plugin.destroy_event(event);
            all.push(next);
            last = next;
        }
        fixture.fail(manager);
        let fault = plugin.wait(event).unwrap_err();
        assert_eq!(fault.code, ErrorCode::DATA_LOSS);
        expect!["argument 1 failed: the disk is lost"].assert_eq(&fault.message);
        assert_eq!(plugin.read_ints(output).unwrap_err(), fault);
        let last = plugin.read_ints(last).unwrap_err();
        assert_eq!(last.message, "argument 0 failed: ".repeat(LENGTH) + &fault.message);
        assert!(fixture.log.look(|state| state.begun.is_empty()), "the backend is not asked");
        // If the argument failed before the call, the call itself returns the error.
        let fault = plugin.execute(add, &[output, stuck], 1).unwrap_err();
        expect!["argument 0 failed: argument 1 failed: the disk is lost"].assert_eq(&fault.message);
        plugin.destroy(&all);
        plugin.destroy(&[arriving, stuck]);
        plugin.destroy_loaded(add);
        [manager, never].into_iter().for_each(|manager| fixture.destroy_manager(manager));
        fixture.end();
    }

    fn backend_errors_fail_outputs(fixture) {
        let plugin = fixture.framework;
        let mut messages = String::new();
        for (case, code) in [
            ("fail 1 donate", ErrorCode::RESOURCE_EXHAUSTED),
            ("panic 1", ErrorCode::INTERNAL),
            ("few 1", ErrorCode::INTERNAL),
        ] {
            let program = fixture.compile(case);
            let (manager, arriving) = fixture.arriving(0);
            let (output, event) = fixture.run(program, &[arriving]);
            fixture.send(manager, [1, 2]);
            let fault = plugin.wait(event).unwrap_err();
            assert_eq!(fault.code, code, "{fault:?}");
            messages += &format!("{case}: {}\n", fault.message);
            assert_eq!(plugin.read_ints(output).unwrap_err(), fault);
            plugin.destroy(&[arriving, output]);
            plugin.destroy_loaded(program);
            fixture.destroy_manager(manager);
        }
        expect![[r#"
            fail 1 donate: the device is tired
            panic 1: PJRT_LoadedExecutable_Execute: the plugin panicked: a kernel panics
            few 1: the backend returned 0 outputs for a program with 1
        "#]].assert_eq(&messages);
        fixture.end();
    }

    fn an_asynchronous_program_goes_on_afterwards(fixture) {
        let (plugin, begins, add) = (fixture.framework, fixture.compile("async 1"), fixture.compile("add 1"));
        for result in [Ok(()), Err(Error::internal("a cable"))] {
            let (manager, arriving) = fixture.arriving(0);
            let (output, event) = fixture.run(begins, &[arriving]);
            let (next, next_event) = fixture.run(add, &[output]);
            let mut bytes = [0u8; 8];
            let read = plugin.read_into(next, bytes.as_mut_ptr(), 8).unwrap().0;
            fixture.send(manager, [1, 2]);
            fixture.log.wait(|state| !state.running.is_empty());
            assert!(!plugin.is_ready(event) && !plugin.is_ready(next_event) && !plugin.is_ready(read));
            fixture.log.finish(result.clone());
            let same = |answer: Result<(), crate::framework::Fault>| match &result {
                Ok(()) => assert_eq!(answer, Ok(())),
                Err(error) => assert!(answer.unwrap_err().message.ends_with(error.message())),
            };
            same(plugin.wait(event));
            same(plugin.wait(next_event));
            same(plugin.wait(read));
            assert_eq!(bytes[0], if result.is_ok() { 7 } else { 0 });
            plugin.destroy(&[arriving, output, next]);
            fixture.destroy_manager(manager);
        }
        [begins, add].into_iter().for_each(|program| plugin.destroy_loaded(program));
        fixture.end();
    }

    fn programs_without_outputs_run(fixture) {
        let (plugin, none) = (fixture.framework, fixture.compile("none 1"));
        let (manager, arriving) = fixture.arriving(0);
        let (_, event) = plugin.execute(none, &[arriving], 0).unwrap();
        assert!(!plugin.is_ready(event));
        fixture.send(manager, [1, 2]);
        plugin.wait(event).unwrap();
        // The caller may omit the event of the execution.
        let options = execute_options(&[]);
        let (manager_2, arriving_2) = fixture.arriving(0);
        let (list, outputs) = ([arriving_2], [null_mut()]);
        let lists = [list.as_ptr()];
        let run = plugin.ask::<slot::PJRT_LoadedExecutable_Execute>(|args| {
            (args.executable, args.options) = (none, (&raw const options).cast_mut());
            (args.argument_lists, args.num_devices, args.num_args) = (lists.as_ptr(), 1, 1);
            (args.output_lists, args.device_complete_events) = (outputs.as_ptr(), null_mut());
            args.execute_device = null_mut();
        });
        run.map(drop).unwrap();
        fixture.send(manager_2, [1, 2]);
        fixture.log.wait(|state| state.begun.len() == 2);
        plugin.destroy(&[arriving, arriving_2]);
        plugin.destroy_loaded(none);
        [manager, manager_2].into_iter().for_each(|manager| fixture.destroy_manager(manager));
        fixture.end();
    }

    fn all_devices_of_a_call_wait_together(fixture) {
        let (plugin, ring) = (fixture.framework, fixture.compile_for_both("ring 1"));
        for fails in [false, true] {
            let (first, here) = fixture.arriving(0);
            let (second, there) = fixture.arriving(1);
            let (outputs, events) = fixture.run_on_both(ring, [here, there]).unwrap();
            let before = fixture.log.look(|state| state.begun.len());
            fixture.send(first, [1, 2]);
            assert!(events.iter().all(|event| !plugin.is_ready(*event)));
            assert_eq!(fixture.log.look(|state| state.begun.len()), before);
            if fails {
                fixture.fail(second);
            } else {
                fixture.send(second, [10, 20]);
            }
            for (event, output) in events.into_iter().zip(outputs) {
                let (done, read) = (plugin.wait(event), plugin.read_ints(output));
                if fails {
                    expect!["argument 0 failed: the disk is lost"].assert_eq(&done.as_ref().unwrap_err().message);
                    assert_eq!(read.unwrap_err(), done.unwrap_err());
                } else {
                    assert_eq!((done, read.unwrap()), (Ok(()), vec![11, 22]));
                }
            }
            plugin.destroy(&outputs);
            plugin.destroy(&[here, there]);
            [first, second].into_iter().for_each(|manager| fixture.destroy_manager(manager));
        }
        plugin.destroy_loaded(ring);
        fixture.end();
    }

    fn poisoning_ends_the_wait(fixture) {
        let (plugin, add) = (fixture.framework, fixture.compile("add 1"));
        let device = plugin.devices(fixture.client)[0];
        let poison = |launch_id| {
            let poison = plugin.ask::<slot::PJRT_Device_PoisonExecution>(|args| {
                (args.device, args.launch_id, args.error_code) = (device, launch_id, PJRT_Error_Code(10));
                (args.error_message, args.error_message_size) = (c"a peer is lost".as_ptr(), 14);
                args.num_payload = 0;
            });
            poison.map(|args| args.poisoned.get())
        };
        let (manager, arriving) = fixture.arriving(0);
        let (output, event) = fixture.run(add, &[arriving]);
        assert_eq!(poison(8).unwrap_err().code, ErrorCode::UNIMPLEMENTED, "the backend's answer for others");
        assert!(poison(7).unwrap());
        let fault = plugin.wait(event).unwrap_err();
        assert_eq!((fault.code, fault.message.as_str()), (ErrorCode::ABORTED, "a peer is lost"));
        assert_eq!(poison(7).unwrap_err().code, ErrorCode::UNIMPLEMENTED, "once");
        fixture.send(manager, [1, 2]);
        assert!(fixture.log.look(|state| state.begun.is_empty()));
        plugin.destroy(&[arriving, output]);
        plugin.destroy_loaded(add);
        fixture.destroy_manager(manager);
        fixture.end();
    }

    fn unfulfilled_alias_ends_with_client(fixture) {
        let (plugin, add) = (fixture.framework, fixture.compile("add 1"));
        let (alias, _) = alias(&fixture);
        let (output, event) = fixture.run(add, &[alias]);
        plugin.destroy_client(fixture.client);
        assert_eq!(plugin.wait(event).unwrap_err().code, ErrorCode::CANCELLED);
        plugin.destroy(&[alias, output]);
        plugin.destroy_loaded(add);
        fixture.log.wait(|state| state.closed && state.values == 0);
    }

    fn callbacks_live_until_launch_ends(fixture) {
        let plugin = fixture.framework;
        for fails in [false, true] {
            let send = fixture.compile("send 1");
            let (manager, arriving) = fixture.arriving(0);
            let mut came: Vec<u8> = Vec::new();
            let mut event = null_mut();
            let mut output = null_mut();
            {
                // The caller frees all memory of the call when the call returns, except the memory at the callback's
                // `user_arg`.
                let user_arg = (&raw mut came).cast();
                let mut info = PJRT_SendCallbackInfo { channel_id: 2, user_arg, send_callback: Some(take) };
                let mut sends = [&raw mut info];
                let mut options = execute_options(&[]);
                (options.send_callbacks, options.num_send_ops) = (sends.as_mut_ptr(), 1);
                let list = [arriving];
                let (lists, outputs) = ([list.as_ptr()], [&raw mut output]);
                let run = plugin.ask::<slot::PJRT_LoadedExecutable_Execute>(|args| {
                    (args.executable, args.options) = (send, &raw mut options);
                    (args.argument_lists, args.num_devices, args.num_args) = (lists.as_ptr(), 1, 1);
                    (args.output_lists, args.device_complete_events) = (outputs.as_ptr(), &raw mut event);
                    args.execute_device = null_mut();
                });
                run.map(drop).unwrap();
                // Overwrite the memory that the caller has freed, as its next calls may do.
                (sends, options.num_send_ops) = ([null_mut()], usize::MAX);
                std::hint::black_box((&mut info, &mut sends, &mut options));
            }
            if fails {
                fixture.fail(manager);
                assert_eq!(plugin.wait(event).unwrap_err().code, ErrorCode::DATA_LOSS);
                assert!(came.is_empty());
            } else {
                fixture.send(manager, [1, 2]);
                plugin.wait(event).unwrap();
                assert_eq!(came, [1, 2]);
            }
            plugin.destroy(&[arriving, output]);
            plugin.destroy_loaded(send);
            fixture.destroy_manager(manager);
        }
        fixture.end();
    }
}

unsafe extern "C" fn take(
    chunk: *mut PJRT_Chunk,
    _: *mut PJRT_CallbackError,
    _: usize,
    _: Bool,
    came: *mut c_void,
) -> *mut PJRT_Error {
    unsafe {
        let chunk = &*chunk;
        let data = crate::framework::slice(chunk.data.cast::<u8>(), chunk.size);
        (*came.cast::<Vec<u8>>()).extend_from_slice(data);
        chunk.deleter.unwrap()(chunk.data, chunk.deleter_arg);
    }
    null_mut()
}

/// Destroys objects in every order while a launch waits for data that arrives, fails, or never arrives.
#[test]
fn destroys_objects_in_any_order() {
    fn test(fixture: Fixture, order: usize) {
        let (plugin, add) = (fixture.framework, fixture.compile("add 2 donate"));
        let there = plugin.ints(fixture.client, &[1, 2]);
        let (manager, arriving) = fixture.arriving(0);
        let (output, event) = fixture.run(add, &[arriving, there]);
        match order % 3 {
            0 => fixture.send(manager, [1, 1]),
            1 => fixture.fail(manager),
            _ => {}
        }
        let (mut left, mut rest) = (vec![0, 1, 2, 3, 4], order / 3);
        while !left.is_empty() {
            let at = rest % left.len();
            rest /= left.len();
            match left.remove(at) {
                0 => plugin.destroy_client(fixture.client),
                1 => plugin.destroy_loaded(add),
                2 => plugin.destroy(&[arriving, there, output]),
                3 => plugin.destroy_event(event),
                _ => fixture.destroy_manager(manager),
            }
        }
        fixture.log.wait(|state| state.closed && state.values == 0);
    }
    for order in 0..360 {
        test(Fixture::new::<false>(&format!("order {order}")), order);
        test(Fixture::new::<true>(&format!("order {order}")), order);
    }
}

/// Tests that a launch does not start on the stack of the call that sends its data.
#[test]
fn does_not_run_on_completing_thread() {
    let fixture = Fixture::new::<false>("on another thread");
    let (plugin, hold) = (fixture.framework, fixture.compile("hold 1"));
    let (manager, arriving) = fixture.arriving(0);
    let (output, event) = fixture.run(hold, &[arriving]);
    // The program blocks until this thread releases it. If it ran inside `send`, this test would never end.
    fixture.send(manager, [1, 2]);
    fixture.log.wait(|state| !state.begun.is_empty());
    assert!(!plugin.is_ready(event));
    fixture.log.release();
    plugin.wait(event).unwrap();
    plugin.destroy(&[arriving, output]);
    plugin.destroy_loaded(hold);
    fixture.destroy_manager(manager);
    fixture.end();
}

/// Tests a process that ends without destroying its client while launches wait for data. Each launch takes the output
/// of the launch before it.
#[cfg(unix)]
mod end_of_the_process {
    use std::cell::Cell;
    use std::sync::{Arc, OnceLock};

    use super::*;
    use crate::deferred_launch::device::Log;

    const LENGTH: usize = 300;
    const CHILD: &str = "DEVICE_PLUGIN_TEST_END";

    unsafe extern "C" {
        fn atexit(function: extern "C" fn()) -> std::ffi::c_int;
    }

    static LOG: OnceLock<Arc<Log>> = OnceLock::new();
    thread_local! {
        static SEND: Cell<Option<&'static dyn Fn()>> = const { Cell::new(None) };
    }

    extern "C" fn send() {
        SEND.get().unwrap()();
    }

    extern "C" fn look() {
        eprintln!("{} launches began", LOG.get().unwrap().look(|state| state.begun.len()));
    }

    /// Ends this process. The exit functions run in the reverse order of their registration: `send`, the SDK's
    /// function, `look`.
    fn end() -> ! {
        assert_eq!(unsafe { atexit(look) }, 0);
        let fixture = Fixture::new::<false>("end_of_the_process");
        assert!(LOG.set(Arc::clone(&fixture.log)).is_ok());
        let (plugin, add) = (fixture.framework, fixture.compile("add 2"));
        let one = plugin.ints(fixture.client, &[1, 0]);
        let (manager, arriving) = fixture.arriving(0);
        let mut last = arriving;
        for _ in 0..LENGTH {
            last = fixture.run(add, &[last, one]).0;
        }
        SEND.set(Some(Box::leak(Box::new(move || fixture.send(manager, [0, 5])))));
        assert_eq!(unsafe { atexit(send) }, 0);
        std::process::exit(0);
    }

    #[test]
    fn waits_for_deferred_launches() {
        if std::env::var_os(CHILD).is_some() {
            end();
        }
        let mut command = std::process::Command::new(std::env::current_exe().unwrap());
        let test = "deferred_launch::end_of_the_process::waits_for_deferred_launches";
        command.args(["--exact", test, "--nocapture"]).env(CHILD, "1");
        // The process ends with launches that are never freed. The address sanitizer would report them as leaks.
        command.env("ASAN_OPTIONS", "detect_leaks=0");
        let output = command.output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && text.contains(&format!("{LENGTH} launches began")), "{text}");
    }
}

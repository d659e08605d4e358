//! Tests asynchronous executions, executions on several devices, errors of executions, and invalid arguments.

use std::ptr::null_mut;

use device_plugin::{CompileOptions, DeviceAssignment, ElementType, ErrorCode, Shape};
use expect_test::{Expect, expect};
use pjrt_sys::*;

use crate::framework::{Buffer, Event, execute_options, toy};
use crate::toy::open_gate;

#[test]
fn inputs_destroyed_after_launch() {
    let client = toy().client(&[]).unwrap();
    let executable = toy().compile(client, "op=later\nin=s32[3]\ngate=inputs-destroyed").unwrap();
    let buffer = toy().ints(client, &[7, 8, 9]);
    let (outputs, event) = toy().execute(executable, &[buffer], 1).unwrap();
    toy().delete(buffer);
    toy().destroy(&[buffer]);
    toy().destroy_loaded(executable);
    assert!(!toy().is_ready(event));
    // Request a read before the value exists. The buffer is destroyed before the value is computed.
    let mut bytes = [0u8; 12];
    let (read, _) = toy().read_into(outputs[0], bytes.as_mut_ptr(), 12).unwrap();
    assert!(!toy().is_ready(read));
    // Request a copy, too. The new buffer exists at once, but its value does not.
    let memory = toy().memories(client)[1];
    let copy =
        toy().ask::<slot::PJRT_Buffer_CopyToMemory>(|args| (args.buffer, args.dst_memory) = (outputs[0], memory));
    let copy = copy.unwrap().dst_buffer;
    toy().destroy(&outputs);
    toy().destroy_client(client);
    open_gate("inputs-destroyed");
    toy().wait(event).unwrap();
    toy().wait(read).unwrap();
    assert_eq!(bytes, [7, 0, 0, 0, 8, 0, 0, 0, 9, 0, 0, 0]);
    assert_eq!(toy().read_ints(copy).unwrap(), [7, 8, 9]);
    toy().destroy(&[copy]);
}

#[test]
fn asynchronous_error_fails_outputs() {
    let client = toy().client(&[]).unwrap();
    let later = toy().compile(client, "op=later_fail\nin=s32[1]\ngate=fails-later").unwrap();
    let echo = toy().compile(client, "op=echo\nin=s32[1]").unwrap();
    let buffer = toy().ints(client, &[1]);
    let (outputs, event) = toy().execute(later, &[buffer], 1).unwrap();
    let memory = toy().memories(client)[1];
    let copy =
        toy().ask::<slot::PJRT_Buffer_CopyToMemory>(|args| (args.buffer, args.dst_memory) = (outputs[0], memory));
    let copy = copy.unwrap().dst_buffer;
    open_gate("fails-later");
    let fault = toy().wait(event).unwrap_err();
    assert_eq!((fault.code, fault.message.as_str()), (ErrorCode::DATA_LOSS, "lost on the way"));
    assert_eq!(toy().wait(toy().ready_event(outputs[0])), Err(fault.clone()));
    assert_eq!(toy().read(outputs[0]), Err(fault.clone()));
    assert_eq!(toy().read(copy), Err(fault.clone()));
    let next = toy().execute(echo, &[outputs[0]], 1).unwrap_err();
    assert_eq!(next.code, ErrorCode::DATA_LOSS);
    expect!["argument 0 failed: lost on the way"].assert_eq(&next.message);
    toy().destroy(&outputs);
    toy().destroy(&[copy, buffer]);
    toy().destroy_loaded(later);
    toy().destroy_loaded(echo);
    toy().destroy_client(client);
}

#[test]
fn execution_awaits_inputs() {
    let client = toy().client(&[]).unwrap();
    let later = toy().compile(client, "op=later\nin=s32[1]\ngate=waits-for-inputs").unwrap();
    let add = toy().compile(client, "op=add_one\nin=s32[1]").unwrap();
    let buffer = toy().ints(client, &[1]);
    let (first, event) = toy().execute(later, &[buffer], 1).unwrap();
    let opener = std::thread::spawn(|| open_gate("waits-for-inputs"));
    let (second, second_event) = toy().execute(add, &first, 1).unwrap();
    assert_eq!(toy().read_ints(second[0]).unwrap(), [2]);
    opener.join().unwrap();
    toy().wait(event).unwrap();
    toy().wait(second_event).unwrap();
    toy().destroy(&first);
    toy().destroy(&second);
    toy().destroy(&[buffer]);
    toy().destroy_loaded(later);
    toy().destroy_loaded(add);
    toy().destroy_client(client);
}

#[test]
fn dimensions_of_extent_one_do_not_matter() {
    let client = toy().client(&[]).unwrap();
    let add = toy().compile(client, "op=add_one\nin=s32[]").unwrap();
    let one = toy().ints(client, &[41]);
    let (outputs, event) = toy().execute(add, &[one], 1).unwrap();
    toy().wait(event).unwrap();
    assert_eq!(toy().read_ints(outputs[0]).unwrap(), [42]);
    toy().destroy(&[outputs[0], one]);
    toy().destroy_loaded(add);
    toy().destroy_client(client);
}

#[test]
fn rejects_mismatched_arguments() {
    let client = toy().client(&[]).unwrap();
    let other = toy().client(&[]).unwrap();
    let executable = toy().compile(client, "op=echo\nin=s32[2];s32[2]").unwrap();
    let good = toy().ints(client, &[1, 2]);
    let long = toy().ints(client, &[1, 2, 3]);
    let floats = toy().put(client, &Shape::new(ElementType::F32, [2]), &[0; 8], 0).unwrap();
    let far = toy().put(client, &Shape::new(ElementType::S32, [2]), &[0; 8], 1).unwrap();
    let foreign = toy().ints(other, &[1, 2]);
    let deleted = toy().ints(client, &[1, 2]);
    toy().delete(deleted);
    let refused = |arguments: &[Buffer], expected: Expect| {
        let fault = toy().execute(executable, arguments, 2).unwrap_err();
        assert_eq!(fault.code, ErrorCode::INVALID_ARGUMENT);
        expected.assert_eq(&fault.message);
    };
    refused(
        &[good],
        expect!["PJRT_LoadedExecutable_Execute: 1 arguments were passed, but the program has 2 parameters"],
    );
    refused(
        &[good, long],
        expect!["PJRT_LoadedExecutable_Execute: argument 1 is s32[3], but the program expects s32[2]"],
    );
    refused(
        &[floats, good],
        expect!["PJRT_LoadedExecutable_Execute: argument 0 is f32[2], but the program expects s32[2]"],
    );
    refused(
        &[good, far],
        expect![
            "PJRT_LoadedExecutable_Execute: argument 1 is on device 11, but the program runs on device 10; copy it there first"
        ],
    );
    refused(&[foreign, good], expect!["PJRT_LoadedExecutable_Execute: argument 0 belongs to another client"]);
    refused(
        &[good, deleted],
        expect!["PJRT_LoadedExecutable_Execute: argument 1: the buffer was deleted or donated to an execution"],
    );
    refused(&[null_mut(), good], expect!["PJRT_LoadedExecutable_Execute: argument 0 is null"]);
    // The failed calls did not consume any arguments.
    let (outputs, event) = toy().execute(executable, &[good, good], 2).unwrap();
    toy().wait(event).unwrap();
    toy().destroy(&outputs);
    toy().ask::<slot::PJRT_LoadedExecutable_Delete>(|args| args.executable = executable).unwrap();
    assert!(
        toy()
            .ask::<slot::PJRT_LoadedExecutable_IsDeleted>(|args| args.executable = executable)
            .unwrap()
            .is_deleted
            .get()
    );
    refused(&[good, good], expect!["PJRT_LoadedExecutable_Execute: the executable was deleted"]);
    toy().destroy(&[good, long, floats, far, foreign, deleted]);
    toy().destroy_loaded(executable);
    toy().destroy_client(client);
    toy().destroy_client(other);
}

#[test]
fn wrong_number_of_outputs_is_internal() {
    let client = toy().client(&[]).unwrap();
    let buffer = toy().ints(client, &[1]);
    let mut messages = String::new();
    for (op, code) in [
        ("few", ErrorCode::INTERNAL),
        ("many", ErrorCode::INTERNAL),
        ("fail", ErrorCode::RESOURCE_EXHAUSTED),
        ("unheard", ErrorCode::UNIMPLEMENTED),
    ] {
        let executable = toy().compile(client, &format!("op={op}\nin=s32[1];s32[1]")).unwrap();
        let fault = toy().execute(executable, &[buffer, buffer], 2).unwrap_err();
        assert_eq!(fault.code, code, "{op}");
        messages += &format!("{op}: {}\n", fault.message);
        toy().destroy_loaded(executable);
    }
    expect![[r#"
        few: the backend returned 1 outputs for a program with 2
        many: the program has 2 outputs, but the backend returned more
        fail: the toy is tired
        unheard: op unheard
    "#]]
    .assert_eq(&messages);
    let fault = toy().compile(client, "op=echo\nin=s32[1]\ndonate=4").unwrap_err();
    assert_eq!(fault.code, ErrorCode::INTERNAL, "{fault:?}");
    let fault = toy().compile(client, "op=echo\nin=s32[1]\nkind=moon").unwrap_err();
    assert_eq!(fault.code, ErrorCode::INVALID_ARGUMENT, "{fault:?}");
    toy().destroy(&[buffer]);
    toy().destroy_client(client);
}

#[test]
fn launches_several_devices_in_one_call() {
    let client = toy().client(&[]).unwrap();
    let options = CompileOptions::default()
        .with_num_replicas(2)
        .with_device_assignment(DeviceAssignment::new(2, 1, vec![11, 10]).unwrap())
        .encode();
    let on = |memory: usize, byte: u8| toy().put(client, &Shape::new(ElementType::U8, [1]), &[byte], memory).unwrap();
    // The order of the arguments follows the assignment: device 11 first, then device 10.
    let (first, second) = (on(1, 5), on(0, 6));
    let run = |code: &str| {
        let executable = toy().compile_with(client, code, &options).unwrap();
        let execute_options = execute_options(&[]);
        let (mut out, mut events): ([Buffer; 2], [Event; 2]) = ([null_mut(); 2], [null_mut(); 2]);
        let (one, two) = out.split_at_mut(1);
        let outputs = [one.as_mut_ptr(), two.as_mut_ptr()];
        let arguments = [&raw const first, &raw const second];
        let answer = toy().ask::<slot::PJRT_LoadedExecutable_Execute>(|args| {
            args.executable = executable;
            args.options = (&raw const execute_options).cast_mut();
            args.argument_lists = arguments.as_ptr();
            (args.num_devices, args.num_args) = (2, 1);
            args.output_lists = outputs.as_ptr();
            args.device_complete_events = events.as_mut_ptr();
            args.execute_device = null_mut();
        });
        let ids = toy()
            .ask::<slot::PJRT_LoadedExecutable_AddressableDeviceLogicalIds>(|args| args.executable = executable)
            .unwrap();
        let ids = unsafe {
            crate::framework::slice(ids.addressable_device_logical_ids, ids.num_addressable_device_logical_ids)
        };
        assert_eq!(ids.iter().map(|id| (id.replica, id.partition)).collect::<Vec<_>>(), [(0, 0), (1, 0)]);
        toy().destroy_loaded(executable);
        answer.map(|_| (out, events))
    };
    let (out, events) = run("op=all\nin=u8[1]").unwrap();
    events.into_iter().for_each(|event| toy().wait(event).unwrap());
    assert_eq!((toy().read(out[0]).unwrap(), toy().read(out[1]).unwrap()), (vec![5], vec![6]));
    let device = toy().ask::<slot::PJRT_Buffer_Device>(|args| args.buffer = out[0]).unwrap().device;
    assert_eq!(device, toy().devices(client)[1]);
    let fault = run("op=echo\nin=u8[1]").unwrap_err();
    assert_eq!((fault.code, fault.message.as_str()), (ErrorCode::UNIMPLEMENTED, "echo on several devices"));
    toy().destroy(&out);
    toy().destroy(&[first, second]);
    toy().destroy_client(client);
}

#[test]
fn rejects_options_for_other_devices() {
    let client = toy().client(&[]).unwrap();
    let refused = |options: CompileOptions, expected: Expect| {
        let fault = toy().compile_with(client, "op=echo\nin=u8[1]", &options.encode()).unwrap_err();
        assert_eq!(fault.code, ErrorCode::INVALID_ARGUMENT, "{fault:?}");
        expected.assert_eq(&fault.message);
    };
    let default = CompileOptions::default;
    refused(default().with_num_replicas(3), expect!["the program needs 3 replicas, but there are 2 devices"]);
    refused(
        default().with_num_replicas(2).with_num_partitions(2),
        expect!["2 replicas of 2 partitions need 4 devices, but only 2 are addressable"],
    );
    refused(default().with_device_ordinal(4), expect!["unknown device id 4; known are 10, 11"]);
    refused(
        default().with_device_assignment(DeviceAssignment::new(1, 1, vec![9]).unwrap()),
        expect!["unknown device id 9; known are 10, 11"],
    );
    refused(
        default().with_device_assignment(DeviceAssignment::new(2, 1, vec![10, 11]).unwrap()),
        expect!["the device assignment has 2 replicas of 1 partitions, but the compile options have 1 of 1"],
    );
    let fault = toy().compile_with(client, "op=echo", &[0xff; 9]).unwrap_err();
    assert_eq!(fault.code, ErrorCode::INVALID_ARGUMENT, "{fault:?}");
    toy().destroy_client(client);
}

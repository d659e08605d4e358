//! Tests donation and deletion of buffers.

use device_plugin::ErrorCode;
use expect_test::expect;
use pjrt_sys::*;

use crate::framework::toy;

#[test]
fn donated_buffer_is_deleted() {
    let client = toy().client(&[]).unwrap();
    let executable = toy().compile(client, "op=add_one\nin=s32[2];s32[2]\ndonate=1").unwrap();
    let (kept, donated) = (toy().ints(client, &[1, 2]), toy().ints(client, &[3, 4]));
    let ready = toy().ready_event(donated);
    let (outputs, event) = toy().execute(executable, &[kept, donated], 2).unwrap();
    toy().wait(event).unwrap();
    assert_eq!(toy().read_ints(outputs[0]).unwrap(), [2, 3]);
    assert_eq!(toy().read_ints(outputs[1]).unwrap(), [4, 5]);
    assert!(!toy().is_deleted(kept) && toy().is_deleted(donated));
    assert_eq!(toy().wait(ready), Ok(()), "an event of before the donation stays good");
    let fault = toy().wait(toy().ready_event(donated)).unwrap_err();
    assert_eq!(fault.code, ErrorCode::INVALID_ARGUMENT);
    assert_eq!(toy().execute(executable, &[kept, donated], 2).unwrap_err().code, ErrorCode::INVALID_ARGUMENT);
    toy().destroy(&outputs);
    toy().destroy(&[kept, donated]);
    toy().destroy_loaded(executable);
    toy().destroy_client(client);
}

#[test]
fn respects_non_donatable_inputs() {
    let client = toy().client(&[]).unwrap();
    let executable = toy().compile(client, "op=add_one\nin=s32[1];s32[1]\ndonate=0;1").unwrap();
    let (first, second) = (toy().ints(client, &[1]), toy().ints(client, &[2]));
    let (outputs, event) = toy().execute_keeping(executable, &[first, second], 2, &[1, 99, -1]).unwrap();
    toy().wait(event).unwrap();
    assert!(toy().is_deleted(first) && !toy().is_deleted(second));
    assert_eq!(toy().read_ints(second).unwrap(), [2]);
    toy().destroy(&outputs);
    toy().destroy(&[first, second]);
    toy().destroy_loaded(executable);
    toy().destroy_client(client);
}

#[test]
fn rejects_donated_buffer_as_other_argument() {
    let client = toy().client(&[]).unwrap();
    let executable = toy().compile(client, "op=add_one\nin=s32[1];s32[1];s32[1]\ndonate=0;2").unwrap();
    let (a, b) = (toy().ints(client, &[1]), toy().ints(client, &[2]));
    let mut messages = String::new();
    for (arguments, case) in [([a, a, b], "arguments 0 and 1"), ([a, b, a], "arguments 0 and 2")] {
        let fault = toy().execute(executable, &arguments, 3).unwrap_err();
        assert_eq!(fault.code, ErrorCode::INVALID_ARGUMENT);
        messages += &format!("{case}: {}\n", fault.message);
    }
    expect![[r#"
        arguments 0 and 1: PJRT_LoadedExecutable_Execute: the buffer of argument 0 is donated and is also argument 1; pass a copy, or list 0 in non_donatable_input_indices
        arguments 0 and 2: PJRT_LoadedExecutable_Execute: the buffer of argument 0 is donated and is also argument 2; pass a copy, or list 0 in non_donatable_input_indices
    "#]].assert_eq(&messages);
    assert!(!toy().is_deleted(a) && !toy().is_deleted(b), "nothing was given away");
    let (outputs, event) = toy().execute_keeping(executable, &[a, a, a], 3, &[0, 2]).unwrap();
    toy().wait(event).unwrap();
    toy().destroy(&outputs);
    toy().destroy(&[a, b]);
    toy().destroy_loaded(executable);
    toy().destroy_client(client);
}

#[test]
fn externally_referenced_memory_is_copied() {
    let client = toy().client(&[]).unwrap();
    let executable = toy().compile(client, "op=add_one\nin=s32[1]\ndonate=0").unwrap();
    let buffer = toy().ints(client, &[41]);
    toy().ask::<slot::PJRT_Buffer_IncreaseExternalReferenceCount>(|args| args.buffer = buffer).unwrap();
    let pointer = toy().ask::<slot::PJRT_Buffer_OpaqueDeviceMemoryDataPointer>(|args| args.buffer = buffer).unwrap();
    let pointer: *const i32 = pointer.device_memory_ptr.cast_const().cast();
    let address = toy().ask::<slot::PJRT_Buffer_UnsafePointer>(|args| args.buffer = buffer).unwrap().buffer_pointer;
    assert_eq!(address, pointer.addr());
    let (outputs, event) = toy().execute(executable, &[buffer], 1).unwrap();
    toy().wait(event).unwrap();
    assert!(toy().is_deleted(buffer));
    assert_eq!(toy().read_ints(outputs[0]).unwrap(), [42]);
    assert_eq!(unsafe { pointer.read_unaligned() }, 41);
    let decrease = || toy().ask::<slot::PJRT_Buffer_DecreaseExternalReferenceCount>(|args| args.buffer = buffer);
    decrease().unwrap();
    let fault = decrease().map(drop).unwrap_err();
    assert_eq!(fault.code, ErrorCode::FAILED_PRECONDITION);
    let increase = toy().ask::<slot::PJRT_Buffer_IncreaseExternalReferenceCount>(|args| args.buffer = buffer);
    assert!(increase.is_err(), "the memory was freed");
    toy().destroy(&outputs);
    toy().destroy(&[buffer]);

    // Destroy the buffer while another library uses its memory. The memory is freed after the last use.
    let buffer = toy().ints(client, &[5]);
    toy().ask::<slot::PJRT_Buffer_IncreaseExternalReferenceCount>(|args| args.buffer = buffer).unwrap();
    let pointer = toy().ask::<slot::PJRT_Buffer_OpaqueDeviceMemoryDataPointer>(|args| args.buffer = buffer).unwrap();
    toy().destroy(&[buffer]);
    assert_eq!(unsafe { pointer.device_memory_ptr.cast::<i32>().read_unaligned() }, 5);
    toy().ask::<slot::PJRT_Buffer_DecreaseExternalReferenceCount>(|args| args.buffer = buffer).unwrap();
    toy().destroy_loaded(executable);
    toy().destroy_client(client);
}

#[test]
fn deleted_buffer_is_rejected() {
    let client = toy().client(&[]).unwrap();
    let buffer = toy().ints(client, &[1]);
    toy().delete(buffer);
    toy().delete(buffer);
    assert!(toy().is_deleted(buffer));
    let memory = toy().memories(client)[1];
    let faults = [
        toy().read(buffer).map(drop),
        toy().read_into(buffer, [0u8; 4].as_mut_ptr(), 4).map(drop),
        toy().ask::<slot::PJRT_Buffer_UnsafePointer>(|args| args.buffer = buffer).map(drop),
        toy().ask::<slot::PJRT_Buffer_OnDeviceSizeInBytes>(|args| args.buffer = buffer).map(drop),
        toy().ask::<slot::PJRT_Buffer_CopyToMemory>(|args| (args.buffer, args.dst_memory) = (buffer, memory)).map(drop),
        toy().wait(toy().ready_event(buffer)),
    ];
    for fault in faults {
        let fault = fault.unwrap_err();
        assert_eq!(fault.code, ErrorCode::INVALID_ARGUMENT, "{fault:?}");
    }
    // Functions that do not need the memory still work on a deleted buffer.
    assert_eq!(toy().ask::<slot::PJRT_Buffer_Dimensions>(|args| args.buffer = buffer).unwrap().num_dims, 1);
    toy().destroy(&[buffer]);
    toy().destroy_client(client);
}

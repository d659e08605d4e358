//! Tests operations that end when the framework calls a callback of the plugin. The framework calls the callback once,
//! twice, never, or after the client was destroyed.

use std::ffi::c_void;
use std::ptr::null_mut;

use device_plugin::ErrorCode;
use expect_test::expect;
use pjrt_sys::*;

use crate::framework::{Answer, Buffer, garbage, toy};
use crate::toy::open_gate;

fn copy_later(buffer: Buffer, offset: i64, size: i64) -> Answer<PJRT_Buffer_CopyRawToHostFuture_Args> {
    toy().ask::<slot::PJRT_Buffer_CopyRawToHostFuture>(|args| {
        (args.buffer, args.offset, args.transfer_size) = (buffer, offset, size);
    })
}

/// Calls the callback of a copy with the destination `to`, and with an error if `code` is not 0.
fn tell(copy: &PJRT_Buffer_CopyRawToHostFuture_Args, to: *mut c_void, code: u32) {
    let mut args = garbage::<PJRT_Buffer_CopyRawToHostFuture_Callback_Args>();
    (args.callback_data, args.dst, args.error_code) = (copy.callback_data, to, PJRT_Error_Code(code));
    if code != 0 {
        (args.error_message, args.error_message_size) = (c"no room".as_ptr(), 7);
    }
    unsafe { copy.future_ready_callback.unwrap()(&raw mut args) };
}

#[test]
fn raw_copy_awaits_destination() {
    let client = toy().client(&[]).unwrap();
    let buffer = toy().ints(client, &[1, 2, 3]);
    let copy = copy_later(buffer, 4, 8).unwrap();
    let none = copy_later(buffer, 0, 4).unwrap();
    let null = copy_later(buffer, 0, 4).unwrap();
    assert!(!toy().is_ready(copy.event));
    // The buffer may be destroyed before the destination is known.
    toy().destroy(&[buffer]);
    let mut to = [0u8; 8];
    tell(&copy, to.as_mut_ptr().cast(), 0);
    toy().wait(copy.event).unwrap();
    assert_eq!(to, [2, 0, 0, 0, 3, 0, 0, 0]);
    // A second callback has no effect. A callback with a null copy or with null arguments has no effect, either.
    tell(&copy, null_mut(), 0);
    tell(&PJRT_Buffer_CopyRawToHostFuture_Args { callback_data: null_mut(), ..copy }, null_mut(), 0);
    unsafe { copy.future_ready_callback.unwrap()(null_mut()) };
    tell(&none, null_mut(), 8);
    let fault = toy().wait(none.event).unwrap_err();
    assert_eq!((fault.code, fault.message.as_str()), (ErrorCode::RESOURCE_EXHAUSTED, "no room"));
    tell(&null, null_mut(), 0);
    let fault = toy().wait(null.event).unwrap_err();
    assert_eq!(fault.code, ErrorCode::INVALID_ARGUMENT);
    expect!["PJRT_Buffer_CopyRawToHostFuture: dst is null, but its length is 4"].assert_eq(&fault.message);
    toy().destroy_client(client);
}

#[test]
fn raw_copy_awaits_buffer() {
    let client = toy().client(&[]).unwrap();
    let later = toy().compile(client, "op=later\nin=s32[2]\ngate=copied-later").unwrap();
    let buffer = toy().ints(client, &[5, 6]);
    let (outputs, event) = toy().execute(later, &[buffer], 1).unwrap();
    let copy = copy_later(outputs[0], 0, 8).unwrap();
    let mut to = [0u8; 8];
    tell(&copy, to.as_mut_ptr().cast(), 0);
    assert!(!toy().is_ready(copy.event));
    toy().destroy(&outputs);
    open_gate("copied-later");
    toy().wait(copy.event).unwrap();
    assert_eq!(to, [5, 0, 0, 0, 6, 0, 0, 0]);
    toy().wait(event).unwrap();
    let fault = copy_later(buffer, 4, 8).map(drop).unwrap_err();
    assert_eq!(fault.code, ErrorCode::INVALID_ARGUMENT, "{fault:?}");
    toy().delete(buffer);
    assert_eq!(copy_later(buffer, 0, 8).map(drop).unwrap_err().code, ErrorCode::INVALID_ARGUMENT);
    toy().destroy(&[buffer]);
    toy().destroy_loaded(later);
    toy().destroy_client(client);
}

#[test]
fn unset_events_end_with_client() {
    let client = toy().client(&[]).unwrap();
    let buffer = toy().ints(client, &[1]);
    let copy = copy_later(buffer, 0, 4).unwrap();
    let donated = donate(buffer).unwrap();
    toy().destroy_client(client);
    assert_eq!(toy().wait(copy.event).unwrap_err().code, ErrorCode::CANCELLED);
    assert_eq!(toy().read_ints(donated.out_buffer).unwrap_err().code, ErrorCode::CANCELLED);
    // A callback after the client was destroyed has no effect.
    tell(&copy, null_mut(), 0);
    end(&donated, 0);
    toy().destroy(&[buffer, donated.out_buffer]);
}

fn donate(buffer: Buffer) -> Answer<PJRT_Buffer_DonateWithControlDependency_Args> {
    toy().ask::<slot::PJRT_Buffer_DonateWithControlDependency>(|args| args.buffer = buffer)
}

/// Calls the callback of a donation. The call reports that the dependency is ready or, if `code` is not 0, that it has
/// failed.
fn end(donation: &PJRT_Buffer_DonateWithControlDependency_Args, code: u32) {
    let mut args = garbage::<PJRT_Buffer_DonateWithControlDependency_Callback_Args>();
    (args.callback_data, args.error_code) = (donation.callback_data, PJRT_Error_Code(code));
    if code != 0 {
        (args.error_message, args.error_message_size) = (c"failed before".as_ptr(), 13);
    }
    unsafe { donation.dependency_ready_callback.unwrap()(&raw mut args) };
}

#[test]
fn donation_awaits_dependency() {
    let client = toy().client(&[]).unwrap();
    let (good, bad) = (toy().ints(client, &[1, 2]), toy().ints(client, &[3]));
    let moved = donate(good).unwrap();
    assert!(toy().is_deleted(good));
    assert_eq!(donate(good).map(drop).unwrap_err().code, ErrorCode::INVALID_ARGUMENT);
    let ready = toy().ready_event(moved.out_buffer);
    assert!(!toy().is_ready(ready));
    end(&moved, 0);
    end(&moved, 3);
    toy().wait(ready).unwrap();
    assert_eq!(toy().read_ints(moved.out_buffer).unwrap(), [1, 2]);
    let failed = donate(bad).unwrap();
    end(&failed, 10);
    let fault = toy().read_ints(failed.out_buffer).unwrap_err();
    assert_eq!((fault.code, fault.message.as_str()), (ErrorCode::ABORTED, "failed before"));
    toy().destroy(&[good, bad, moved.out_buffer, failed.out_buffer]);
    toy().destroy_client(client);
}

//! Tests difficult cases of raw buffers: contents that arrive late, use by many threads, callbacks that call the
//! plugin, and invalid arguments.

use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::mpsc::channel;

use device_plugin::ErrorCode;
use device_plugin::ffi::Registry;
use expect_test::expect;
use pjrt_sys::*;

use crate::extensions::{alias, ask, put, read, register, register_type, rich, start_read, write};
use crate::framework::{Buffer, Event, garbage};
use crate::rich::RichDevice;

fn destroy(raw: *mut PJRT_RawBuffer) {
    ask::<extension_slot::PJRT_RawBuffer_Destroy>(|args| args.buffer = raw).unwrap();
}

fn size(raw: *mut PJRT_RawBuffer) -> usize {
    ask::<extension_slot::PJRT_RawBuffer_GetOnDeviceSizeInBytes>(|args| args.buffer = raw)
        .unwrap()
        .on_device_size_in_bytes
}

/// Returns a buffer that receives the contents of `buffer` when the returned function is called.
fn later(buffer: Buffer) -> (Buffer, impl FnOnce()) {
    let late =
        rich().ask::<slot::PJRT_Buffer_DonateWithControlDependency>(|args| args.buffer = buffer).expect("a donation");
    let go_on = move || {
        let mut args = garbage::<PJRT_Buffer_DonateWithControlDependency_Callback_Args>();
        (args.callback_data, args.error_code) = (late.callback_data, PJRT_Error_Code(0));
        unsafe { late.dependency_ready_callback.unwrap()(&raw mut args) };
    };
    (late.out_buffer, go_on)
}

#[test]
fn late_contents_of_smaller_size() {
    let client = rich().client(&[]).unwrap();
    let program = rich().compile(client, "narrow").unwrap();
    let input = put(client, [7, 8]);
    let (outputs, event) = rich().execute(program, &[input], 1).unwrap();
    rich().wait(event).unwrap();
    // The output is ready, so its size on the device is known immediately.
    let raw = alias(outputs[0]);
    assert_eq!(size(raw), 4);
    assert_eq!(read(raw, 0, 4), Ok(vec![7, 0, 0, 0]));
    assert_eq!(read(raw, 0, 8).unwrap_err().code, ErrorCode::INVALID_ARGUMENT);
    destroy(raw);
    // The size of this buffer on the device is known only when its value is ready. At that time, the copy is already in
    // progress, and must not read beyond the value.
    let (late, go_on) = later(outputs[0]);
    let raw = alias(late);
    assert_eq!(size(raw), 8);
    let mut all = [0xAAu8; 8];
    let mut half = [0u8; 4];
    let beyond = start_read(raw, 0, &mut all).unwrap();
    let within = start_read(raw, 0, &mut half).unwrap();
    go_on();
    let fault = rich().wait(beyond).unwrap_err();
    assert_eq!(fault.code, ErrorCode::INVALID_ARGUMENT);
    assert_eq!(all, [0xAA; 8]);
    rich().wait(within).unwrap();
    assert_eq!((half, size(raw)), ([7, 0, 0, 0], 4));
    destroy(raw);
    rich().destroy(&[late, outputs[0], input]);
    rich().destroy_loaded(program);
    rich().destroy_client(client);
}

#[test]
fn copies_outlive_other_objects() {
    let client = rich().client(&[]).unwrap();
    let buffer = put(client, [3, 4]);
    let (late, go_on) = later(buffer);
    let raw = alias(late);
    let (mut to, from) = ([0u8; 8], 9i32.to_le_bytes());
    let written = ask::<extension_slot::PJRT_RawBuffer_CopyRawHostToDevice>(|args| {
        (args.buffer, args.src, args.offset, args.transfer_size) = (raw, from.as_ptr().cast(), 4, 4);
    });
    let copied = start_read(raw, 0, &mut to).unwrap();
    assert!(!rich().is_ready(copied));
    destroy(raw);
    rich().destroy(&[late, buffer]);
    go_on();
    rich().wait(written.unwrap().event).unwrap();
    rich().wait(copied).unwrap();
    rich().destroy_client(client);
    assert_eq!(to, [3, 0, 0, 0, 9, 0, 0, 0]);
}

#[test]
fn destroyed_client_fails_waiting_copies() {
    let client = rich().client(&[]).unwrap();
    let buffer = put(client, [3, 4]);
    let (late, _never) = later(buffer);
    let raw = alias(late);
    let mut to = [0u8; 8];
    let copied = start_read(raw, 0, &mut to).unwrap();
    rich().destroy(&[late, buffer]);
    rich().destroy_client(client);
    let fault = rich().wait(copied).unwrap_err();
    assert_eq!(fault.code, ErrorCode::CANCELLED);
    assert_eq!(to, [0; 8]);
    destroy(raw);
}

/// The function that a callback runs.
type Work = Box<dyn FnOnce()>;

unsafe extern "C" fn run(error: *mut PJRT_Error, work: *mut c_void) {
    rich().check(error).unwrap();
    let work = unsafe { Box::from_raw(work.cast::<Work>()) };
    work();
}

fn when_ready(event: Event, work: impl FnOnce() + 'static) {
    let work: Work = Box::new(work);
    rich().on_ready(event, run, Box::into_raw(Box::new(work)).cast()).unwrap();
}

#[test]
fn copy_callback_destroys_everything() {
    let client = rich().client(&[]).unwrap();
    let buffer = put(client, [1, 2]);
    let (late, go_on) = later(buffer);
    let raw = alias(late);
    let to: &'static mut [u8; 8] = Box::leak(Box::new([0; 8]));
    let memory: *mut [u8; 8] = to;
    let copied = start_read(raw, 0, to).unwrap();
    let (done, ended) = channel();
    when_ready(copied, move || {
        assert_eq!(unsafe { *memory }, [1, 0, 0, 0, 2, 0, 0, 0]);
        // Within the callback of the copy, call the same functions again, and destroy all of their objects.
        let second = alias(late);
        write(second, 0, &5i32.to_le_bytes()).unwrap();
        assert_eq!(read(raw, 0, 4), Ok(vec![5, 0, 0, 0]));
        let host = ask::<extension_slot::PJRT_RawBuffer_GetHostPointer>(|args| args.buffer = second).unwrap();
        assert!(!host.host_pointer.is_null());
        let waits = ask::<extension_slot::PJRT_Wait_Until_Buffer_Ready_On_Stream>(|args| {
            (args.stream, args.buffer) = (-9, late);
        });
        waits.map(drop).unwrap();
        register_type("from a callback", 0).unwrap();
        rich().destroy_client(client);
        rich().destroy_event(copied);
        rich().destroy(&[late, buffer]);
        destroy(raw);
        destroy(second);
        done.send(()).unwrap();
    });
    go_on();
    ended.recv().unwrap();
    drop(unsafe { Box::from_raw(memory) });
}

/// A pointer that several threads use, as in frameworks.
#[derive(Clone, Copy)]
struct Shared<T>(*mut T);
unsafe impl<T> Send for Shared<T> {}
unsafe impl<T> Sync for Shared<T> {}

impl<T> Shared<T> {
    fn get(self) -> *mut T {
        self.0
    }
}

#[test]
fn sixteen_threads_use_extensions() {
    let client = rich().client(&[]).unwrap();
    let buffer = Shared(put(client, [0, 0]));
    let common = Shared(alias(buffer.get()));
    let device = Shared(rich().devices(client)[1]);
    let handler = [0u64; 16];
    std::thread::scope(|scope| {
        for thread in 0u8..16 {
            let handler = Shared((&raw const handler[usize::from(thread)]).cast_mut());
            scope.spawn(move || {
                for round in 0u8..50 {
                    let own = alias(buffer.get());
                    write(if round % 2 == 0 { own } else { common.get() }, 0, &[thread; 8]).unwrap();
                    let seen = read(own, 0, 8).unwrap();
                    assert!(seen.iter().all(|byte| *byte == seen[0]), "a torn write: {seen:?}");
                    destroy(own);
                    let stream = ask::<extension_slot::PJRT_Get_Stream_For_External_Ready_Events>(|args| {
                        args.device = device.get();
                    });
                    assert_eq!(stream.unwrap().stream, -99);
                    // All threads get the same type id for the same name.
                    assert_eq!(register_type("threads", 0), register_type("threads", 0));
                    register(&format!("thread {thread}"), "rich", handler.get().cast()).unwrap();
                }
            });
        }
    });
    // If several threads register different handlers for one target, exactly one succeeds.
    let won = std::thread::scope(|scope| {
        let one = |thread: usize| {
            let handler = Shared((&raw const handler[thread]).cast_mut());
            scope.spawn(move || register("contended", "rich", handler.get().cast()).is_ok())
        };
        let all: Vec<_> = (0..16).map(one).collect();
        all.into_iter().map(|thread| thread.join().unwrap()).filter(|won| *won).count()
    });
    assert_eq!(won, 1);
    assert!(Registry::of::<RichDevice>().targets().iter().any(|(target, _)| target == "thread 15"));
    destroy(common.get());
    rich().destroy(&[buffer.get()]);
    rich().destroy_client(client);
}

#[test]
fn null_handles_are_named() {
    macro_rules! nulls {
        ($($slot:ident: $field:ident),* $(,)?) => {
            [$({
                let function = extension_slot::$slot::get(
                    crate::extensions::extension::<<extension_slot::$slot as Slot>::Table>(rich()),
                );
                let none = rich().check(unsafe { function.unwrap()(null_mut()) });
                [ask::<extension_slot::$slot>(|args| args.$field = null_mut()).map(drop), none]
            }),*]
        };
    }
    let answers = nulls! {
        PJRT_Get_Stream_For_External_Ready_Events: device,
        PJRT_Wait_Until_Buffer_Ready_On_Stream: buffer,
        PJRT_RawBuffer_CreateRawAliasOfBuffer: buffer,
        PJRT_RawBuffer_GetOnDeviceSizeInBytes: buffer,
        PJRT_RawBuffer_GetMemorySpace: buffer,
        PJRT_RawBuffer_CopyRawHostToDevice: buffer,
        PJRT_RawBuffer_CopyRawDeviceToHost: buffer,
        PJRT_RawBuffer_GetHostPointer: buffer,
        PJRT_FFI_UserData_Add: context,
    };
    let mut messages = String::new();
    for answer in answers.into_iter().flatten() {
        let fault = answer.unwrap_err();
        assert_eq!(fault.code, ErrorCode::INVALID_ARGUMENT);
        messages += &format!("{}\n", fault.message);
    }
    expect![[r#"
        PJRT_Get_Stream_For_External_Ready_Events: device is null
        PJRT_Get_Stream_For_External_Ready_Events: args is null
        PJRT_Wait_Until_Buffer_Ready_On_Stream: buffer is null
        PJRT_Wait_Until_Buffer_Ready_On_Stream: args is null
        PJRT_RawBuffer_CreateRawAliasOfBuffer: buffer is null
        PJRT_RawBuffer_CreateRawAliasOfBuffer: args is null
        PJRT_RawBuffer_GetOnDeviceSizeInBytes: buffer is null
        PJRT_RawBuffer_GetOnDeviceSizeInBytes: args is null
        PJRT_RawBuffer_GetMemorySpace: buffer is null
        PJRT_RawBuffer_GetMemorySpace: args is null
        PJRT_RawBuffer_CopyRawHostToDevice: buffer is null
        PJRT_RawBuffer_CopyRawHostToDevice: args is null
        PJRT_RawBuffer_CopyRawDeviceToHost: buffer is null
        PJRT_RawBuffer_CopyRawDeviceToHost: args is null
        PJRT_RawBuffer_GetHostPointer: buffer is null
        PJRT_RawBuffer_GetHostPointer: args is null
        PJRT_FFI_UserData_Add: context is null
        PJRT_FFI_UserData_Add: args is null
    "#]]
    .assert_eq(&messages);
}

#[test]
fn rejects_invalid_custom_call_names() {
    let bad = [0xFFu8, 0xFE];
    let mut code = 0u64;
    type Register = extension_slot::PJRT_FFI_Register_Handler;
    let mut with = |target: (*const u8, usize), platform: (*const u8, usize)| {
        ask::<Register>(|args| {
            (args.target_name, args.target_name_size) = (target.0.cast(), target.1);
            (args.platform_name, args.platform_name_size) = (platform.0.cast(), platform.1);
            args.handler = (&raw mut code).cast();
        })
        .map(drop)
        .unwrap_err()
    };
    let good = (b"name".as_ptr(), 4);
    for (target, platform, field) in [
        ((bad.as_ptr(), 2), good, "target_name"),
        (good, (bad.as_ptr(), 2), "platform_name"),
        ((std::ptr::null(), 3), good, "target_name"),
        (good, (std::ptr::null(), 3), "platform_name"),
        ((b"x".as_ptr(), usize::MAX), good, "target_name"),
    ] {
        let fault = with(target, platform);
        assert_eq!(fault.code, ErrorCode::INVALID_ARGUMENT);
        assert!(fault.message.contains(field), "{fault:?}");
    }
    let none = ask::<extension_slot::PJRT_FFI_Type_Register>(|args| {
        (args.type_name, args.type_name_size, args.type_id) = (std::ptr::null(), 4, 0);
    });
    assert_eq!(none.map(drop).unwrap_err().code, ErrorCode::INVALID_ARGUMENT);
}

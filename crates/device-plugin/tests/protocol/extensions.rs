//! Tests the extensions for streams, raw buffers and custom calls by calling the functions in their C tables.

use std::ffi::c_void;
use std::ptr::null_mut;

use device_plugin::ErrorCode;
use device_plugin::features::Stream;
use device_plugin::ffi::{Attributes, Call, Handler, Registry};
use expect_test::expect;
use pjrt_sys::*;

use crate::framework::{Answer, Buffer, Client, Event, Framework, execute_options, garbage, garbage_pointer, toy};
use crate::rich::{OPTIONS, Rich, RichDevice, WAITS, shape};

pub fn rich() -> Framework {
    Framework(device_plugin::raw::api::<Rich>())
}

/// Returns the types of the extensions in the chain, with their sizes.
fn chain(framework: Framework) -> Vec<(u32, usize)> {
    let mut chain = Vec::new();
    let mut extension = framework.0.extension_start;
    while let Some(node) = unsafe { extension.as_ref() } {
        chain.push((node.type_.0, node.struct_size));
        extension = node.next;
    }
    chain
}

/// Returns the extension of type `E`. Panics if the plugin does not have it.
pub fn extension<E: Extension>(framework: Framework) -> &'static E {
    let mut extension = framework.0.extension_start;
    while let Some(node) = unsafe { extension.as_ref() } {
        if node.type_ == E::TYPE {
            return unsafe { &*extension.cast::<E>() };
        }
        extension = node.next;
    }
    panic!("no extension {}", E::NAME);
}

/// Calls a function of an extension of [`rich`]. The arguments are garbage, except those that `set` sets.
pub fn ask<S: Slot<Table: Extension, Return = *mut PJRT_Error>>(set: impl FnOnce(&mut S::Args)) -> Answer<S::Args> {
    ask_of::<S>(rich(), set)
}

/// Calls a function of an extension of any plugin. The arguments are garbage, except those that `set` sets.
pub fn ask_of<S: Slot<Table: Extension, Return = *mut PJRT_Error>>(
    framework: Framework,
    set: impl FnOnce(&mut S::Args),
) -> Answer<S::Args> {
    let mut args = garbage();
    set(&mut args);
    let function = S::get(extension::<S::Table>(framework)).expect(S::NAME);
    framework.check(unsafe { function(&mut args) }).map(|()| args)
}

pub fn put(client: Client, values: [i32; 2]) -> Buffer {
    rich().ints(client, &values)
}

#[test]
fn chain_contains_only_declared_features() {
    let types = |framework| chain(framework).iter().map(|node| node.0).collect::<Vec<_>>();
    assert_eq!(types(toy()), [4, 19, 6, 23]);
    assert_eq!(types(rich()), [4, 1, 3, 5, 8, 19, 6, 23]);
    for (ty, size) in chain(rich()) {
        let ours = match ty {
            1 => PJRT_Profiler_Extension::STRUCT_SIZE,
            3 => PJRT_Stream_Extension::STRUCT_SIZE,
            5 => PJRT_FFI_Extension::STRUCT_SIZE,
            8 => PJRT_RawBuffer_Extension::STRUCT_SIZE,
            _ => continue,
        };
        assert_eq!(size, ours, "extension {ty}");
    }
    let names = <RichDevice as device_plugin::Backend>::FEATURES.names();
    assert_eq!(names, ["buffer_addresses", "multi_device", "profiler", "streams", "raw_buffers", "ffi"]);
}

#[test]
fn streams_are_those_of_the_device() {
    use extension_slot::{
        PJRT_Get_Stream_For_External_Ready_Events as Get, PJRT_Wait_Until_Buffer_Ready_On_Stream as Wait,
    };
    let client = rich().client(&[]).unwrap();
    let devices = rich().devices(client);
    for (index, device) in devices.iter().enumerate() {
        assert_eq!(ask::<Get>(|args| args.device = *device).unwrap().stream, index as isize - 100);
    }
    let buffer = put(client, [77, 0]);
    let wait =
        |stream: isize, buffer: Buffer| ask::<Wait>(|args| (args.stream, args.buffer) = (stream, buffer)).map(drop);
    assert_eq!(wait(-5, buffer), Ok(()));
    assert!(WAITS.lock().unwrap().contains(&(Stream(-5), 77)));
    assert_eq!(wait(13, buffer).unwrap_err().message, "an unlucky stream");
    rich().delete(buffer);
    assert_eq!(wait(-6, buffer).unwrap_err().code, ErrorCode::INVALID_ARGUMENT);
    let null = ask::<Get>(|args| args.device = null_mut()).map(drop).unwrap_err();
    assert_eq!(null.code, ErrorCode::INVALID_ARGUMENT);
    expect!["PJRT_Get_Stream_For_External_Ready_Events: device is null"].assert_eq(&null.message);
    rich().destroy(&[buffer]);
    rich().destroy_client(client);
}

pub fn alias(buffer: Buffer) -> *mut PJRT_RawBuffer {
    ask::<extension_slot::PJRT_RawBuffer_CreateRawAliasOfBuffer>(|args| args.buffer = buffer).unwrap().raw_buffer
}

pub fn write(raw: *mut PJRT_RawBuffer, offset: i64, bytes: &[u8]) -> Answer {
    let args = ask::<extension_slot::PJRT_RawBuffer_CopyRawHostToDevice>(|args| {
        (args.buffer, args.src, args.offset) = (raw, bytes.as_ptr().cast(), offset);
        args.transfer_size = bytes.len() as i64;
    })?;
    rich().wait(args.event)
}

pub fn read(raw: *mut PJRT_RawBuffer, offset: i64, size: usize) -> Answer<Vec<u8>> {
    let mut bytes = vec![0; size];
    let event = start_read(raw, offset, &mut bytes)?;
    rich().wait(event).map(|()| bytes)
}

pub fn start_read(raw: *mut PJRT_RawBuffer, offset: i64, to: &mut [u8]) -> Answer<Event> {
    let args = ask::<extension_slot::PJRT_RawBuffer_CopyRawDeviceToHost>(|args| {
        (args.buffer, args.dst, args.offset) = (raw, to.as_mut_ptr().cast(), offset);
        args.transfer_size = to.len() as i64;
    })?;
    Ok(args.event)
}

#[test]
fn raw_buffer_aliases_and_outlives_buffer() {
    use extension_slot::*;
    let client = rich().client(&[]).unwrap();
    let buffer = put(client, [1, 2]);
    let raw = alias(buffer);
    assert!(unsafe { (*raw).vtable }.is_null());
    let size = ask::<PJRT_RawBuffer_GetOnDeviceSizeInBytes>(|args| args.buffer = raw).unwrap();
    assert_eq!(size.on_device_size_in_bytes, 8);
    let memory = ask::<PJRT_RawBuffer_GetMemorySpace>(|args| args.buffer = raw).unwrap().memory_space;
    assert_eq!(memory, rich().memories(client)[0]);

    assert_eq!(write(raw, 4, &9i32.to_le_bytes()), Ok(()));
    assert_eq!(rich().read_ints(buffer), Ok(vec![1, 9]));
    assert_eq!(read(raw, 3, 2), Ok(vec![0, 9]));
    let host = ask::<PJRT_RawBuffer_GetHostPointer>(|args| args.buffer = raw).unwrap().host_pointer;
    assert_eq!(unsafe { *host.cast::<[i32; 2]>() }, [1, 9]);

    rich().destroy(&[buffer]);
    rich().destroy_client(client);
    assert_eq!(read(raw, 0, 8), Ok([1i32, 9].iter().flat_map(|x| x.to_le_bytes()).collect()));
    ask::<PJRT_RawBuffer_Destroy>(|args| args.buffer = raw).unwrap();
    ask::<PJRT_RawBuffer_Destroy>(|args| args.buffer = null_mut()).unwrap();
}

#[test]
fn raw_copies_stay_within_the_buffer() {
    let client = rich().client(&[]).unwrap();
    let buffer = put(client, [1, 2]);
    let raw = alias(buffer);
    for (offset, size) in [(0, 9), (8, 1), (-1, 2), (i64::MAX, 2)] {
        let fault = read(raw, offset, size).unwrap_err();
        assert_eq!(fault.code, ErrorCode::INVALID_ARGUMENT);
        assert!(write(raw, offset, &vec![0; size]).is_err());
    }
    assert_eq!(read(raw, 8, 0), Ok(vec![]));
    let null = ask::<extension_slot::PJRT_RawBuffer_CopyRawDeviceToHost>(|args| {
        (args.buffer, args.dst, args.offset, args.transfer_size) = (raw, null_mut(), 0, 1);
    });
    assert_eq!(null.map(drop).unwrap_err().code, ErrorCode::INVALID_ARGUMENT);
    rich().delete(buffer);
    let deleted = ask::<extension_slot::PJRT_RawBuffer_CreateRawAliasOfBuffer>(|args| args.buffer = buffer);
    assert_eq!(deleted.map(drop).unwrap_err().code, ErrorCode::INVALID_ARGUMENT);
    ask::<extension_slot::PJRT_RawBuffer_Destroy>(|args| args.buffer = raw).unwrap();
    rich().destroy(&[buffer]);
    rich().destroy_client(client);
}

pub fn register_type(name: &str, id: i64) -> Answer<i64> {
    let args = ask::<extension_slot::PJRT_FFI_Type_Register>(|args| {
        (args.type_name, args.type_name_size, args.type_id) = (name.as_ptr().cast(), name.len(), id);
    })?;
    Ok(args.type_id)
}

pub fn register(target: &str, platform: &str, handler: *mut c_void) -> Answer {
    ask::<extension_slot::PJRT_FFI_Register_Handler>(|args| {
        (args.target_name, args.target_name_size) = (target.as_ptr().cast(), target.len());
        (args.platform_name, args.platform_name_size) = (platform.as_ptr().cast(), platform.len());
        args.handler = handler;
        args.traits = PJRT_FFI_Handler_TraitsBits(1);
    })
    .map(drop)
}

#[test]
fn handlers_reach_backend_registry() {
    let mut code = [0u64; 2];
    let one: *mut c_void = (&raw mut code[0]).cast();
    assert_eq!(register("call", "Rich", one), Ok(()));
    assert_eq!(register("call", "RICH", one), Ok(()));
    let other = register("call", "rich", (&raw mut code[1]).cast()).unwrap_err();
    assert_eq!(other.code, ErrorCode::ALREADY_EXISTS);
    assert_eq!(register("none", "rich", null_mut()).unwrap_err().code, ErrorCode::INVALID_ARGUMENT);
    assert_eq!(register("", "rich", one).unwrap_err().code, ErrorCode::INVALID_ARGUMENT);

    let registry = Registry::of::<RichDevice>();
    let Some(Handler::Foreign(handler)) = registry.handler("call", "rich") else { panic!("no handler") };
    assert_eq!(handler.address(), one.addr());
    assert!(handler.traits().is_command_buffer_compatible());
    assert!(registry.handler("call", "another").is_none());
    assert!(Registry::of::<crate::toy::ToyDevice>().handler("call", "rich").is_none());
}

/// A handler in C that is never called.
extern "C" fn late(_: *mut c_void) -> *mut c_void {
    std::process::abort();
}

#[test]
fn user_data_reaches_the_launch() {
    let new = register_type("rank", 0).unwrap();
    assert!(new > 0);
    assert_eq!(register_type("rank", 0), Ok(new));
    assert_eq!(register_type("rank", new), Ok(new));
    assert_eq!(register_type("rank", new + 1).unwrap_err().code, ErrorCode::INVALID_ARGUMENT);
    assert_eq!(Registry::of::<RichDevice>().type_id("rank"), Some(new));

    let context = rich().ask::<slot::PJRT_ExecuteContext_Create>(|_| {}).unwrap().context;
    let mut rank = 3u64;
    let data: *mut c_void = (&raw mut rank).cast();
    let add = |data: *mut c_void| {
        ask::<extension_slot::PJRT_FFI_UserData_Add>(|args| {
            args.context = context;
            args.user_data = PJRT_FFI_UserData { type_id: new, data };
        })
        .map(drop)
    };
    assert_eq!(add(data), Ok(()));
    assert_eq!(add(data).unwrap_err().code, ErrorCode::ALREADY_EXISTS);

    let client = rich().client(&[]).unwrap();
    let program = rich().compile(client, "echo with data").unwrap();
    let input = put(client, [1, 2]);
    let mut options = execute_options(&[]);
    options.context = context;
    let (outputs, event) = crate::options::execute(program, &[input], &mut options).unwrap();
    // The framework may destroy the context as soon as the call returns.
    rich().ask::<slot::PJRT_ExecuteContext_Destroy>(|args| args.context = context).unwrap();
    rich().wait(event).unwrap();
    let all = OPTIONS.lock().unwrap();
    let (_, seen) = all.iter().find(|(program, _)| program == "echo with data").unwrap();
    let context = seen.context().unwrap();
    assert_eq!(context.get(new).unwrap().address, data.addr());
    // The framework may free the data when the event is ready, so a handler in C no longer receives it.
    let handler: extern "C" fn(*mut c_void) -> *mut c_void = late;
    register("late", "rich", handler as *mut c_void).unwrap();
    let handler = Registry::of::<RichDevice>().handler("late", "rich").unwrap();
    let attributes = Attributes::default();
    let mut call = Call::new("late", &attributes, &[], &mut [], context).unwrap();
    assert_eq!(handler.call(&mut call).unwrap_err().code(), ErrorCode::FAILED_PRECONDITION);
    drop(all);
    assert_eq!(shape().host_size(), Some(8));
    assert!(outputs.iter().all(|output| *output != garbage_pointer()));
    rich().destroy(&outputs);
    rich().destroy(&[input]);
    rich().destroy_loaded(program);
    rich().destroy_client(client);
}

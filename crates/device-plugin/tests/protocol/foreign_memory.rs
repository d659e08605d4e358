//! Tests buffers in memory of another library.

use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicUsize, Ordering};

use device_plugin::{ElementType, ErrorCode, NamedValue, Shape};
use pjrt_sys::*;

use crate::framework::{Answer, Buffer, Client, toy};
use crate::toy::FOREIGN;

unsafe extern "C" fn released(data: *mut c_void, count: *mut c_void) {
    assert!(!data.is_null());
    unsafe { &*count.cast::<AtomicUsize>() }.fetch_add(1, Ordering::SeqCst);
}

fn view(client: Client, shape: &Shape, data: *mut c_void, memory: usize, count: &AtomicUsize) -> Answer<Buffer> {
    let memory = toy().memories(client)[memory];
    toy()
        .ask::<slot::PJRT_Client_CreateViewOfDeviceBuffer>(|args| {
            (args.client, args.device_buffer_ptr, args.memory) = (client, data, memory);
            args.element_type = PJRT_Buffer_Type(shape.element_type.as_raw());
            (args.dims, args.num_dims) = (shape.dimensions.as_ptr(), shape.dimensions.len());
            args.layout = null_mut();
            args.on_delete_callback = Some(released);
            args.stream = 0;
            args.on_delete_callback_arg = std::ptr::from_ref(count).cast_mut().cast();
        })
        .map(|args| args.buffer)
}

#[test]
fn foreign_memory_is_released_with_buffer() {
    let client = toy().client(&[]).unwrap();
    let data = [1i32, 2, 3];
    let count = AtomicUsize::new(0);
    let shape = Shape::new(ElementType::S32, [3]);
    let at = data.as_ptr().cast_mut().cast();
    let buffer = view(client, &shape, at, 2, &count).unwrap();
    assert_eq!(toy().read_ints(buffer).unwrap(), data);
    let pointer = toy().ask::<slot::PJRT_Buffer_OpaqueDeviceMemoryDataPointer>(|args| args.buffer = buffer).unwrap();
    assert_eq!(pointer.device_memory_ptr, at);
    // The output of an execution shares the memory, and keeps it alive.
    let echo = toy().compile(client, "op=echo\nin=s32[3]").unwrap();
    let (outputs, event) = toy().execute(echo, &[buffer], 1).unwrap();
    toy().wait(event).unwrap();
    toy().destroy(&[buffer]);
    assert_eq!(count.load(Ordering::SeqCst), 0);
    toy().destroy(&outputs);
    assert_eq!(count.load(Ordering::SeqCst), 1);
    toy().destroy_loaded(echo);
    toy().destroy_client(client);
}

#[test]
fn failed_view_keeps_frameworks_memory() {
    let client = toy().client(&[]).unwrap();
    let data = [1i32, 2, 3];
    let at: *mut c_void = data.as_ptr().cast_mut().cast();
    let count = AtomicUsize::new(0);
    let shape = Shape::new(ElementType::S32, [3]);
    // The backend rejects views of memory that it cannot read in place: device memory, and elements narrower than a
    // byte.
    let fault = view(client, &shape, at, 0, &count).unwrap_err();
    assert_eq!((fault.code, fault.message.as_str()), (ErrorCode::UNIMPLEMENTED, "s32[3] in foreign memory 0"));
    assert!(view(client, &Shape::new(ElementType::S4, [3]), at, 2, &count).is_err());
    assert_eq!(view(client, &shape, null_mut(), 2, &count).unwrap_err().code, ErrorCode::INVALID_ARGUMENT);
    let panics = toy().client(&[NamedValue::new("panic_in", "create_view_of_device_buffer")]).unwrap();
    assert_eq!(view(panics, &shape, at, 2, &count).unwrap_err().code, ErrorCode::INTERNAL);
    assert_eq!(count.load(Ordering::SeqCst), 0);
    // The backend fails, but keeps the memory. The buffer gets the error, and the memory is released later.
    let keeps = toy().client(&[NamedValue::new("panic_in", "after keeping")]).unwrap();
    let buffer = view(keeps, &shape, at, 2, &count).unwrap();
    assert_eq!(toy().read_ints(buffer).unwrap_err().message, "kept the memory");
    toy().destroy(&[buffer]);
    assert_eq!(count.load(Ordering::SeqCst), 0);
    FOREIGN.lock().unwrap().clear();
    assert_eq!(count.load(Ordering::SeqCst), 1);
    for client in [client, panics, keeps] {
        toy().destroy_client(client);
    }
}

//! Tests buffers that are created without data: uninitialized buffers, error buffers and alias buffers. Also tests
//! bitcasts of buffers to another type.

use std::ptr::null_mut;

use device_plugin::{ElementType, ErrorCode, NamedValue, Shape};
use expect_test::expect;
use pjrt_sys::*;

use crate::framework::{Answer, Buffer, Client, raw_values, toy};
use crate::toy::open_gate;

/// Sets the element type and the dimensions in the arguments of a call. Sets the layout to null.
macro_rules! set_shape {
    ($args:ident, $shape:expr) => {
        $args.shape_element_type = PJRT_Buffer_Type($shape.element_type.as_raw());
        ($args.shape_dims, $args.shape_num_dims) = ($shape.dimensions.as_ptr(), $shape.dimensions.len());
        $args.shape_layout = null_mut();
    };
}

#[test]
fn uninitialized_buffer_has_shape() {
    let client = toy().client(&[]).unwrap();
    let shape = Shape::new(ElementType::S32, [2, 3]);
    let make = |shape: &Shape, device: *mut PJRT_Device, memory: *mut PJRT_Memory| {
        toy()
            .ask::<slot::PJRT_Client_CreateUninitializedBuffer>(|args| {
                set_shape!(args, shape);
                (args.client, args.device, args.memory) = (client, device, memory);
            })
            .map(|args| args.buffer)
    };
    let (devices, memories) = (toy().devices(client), toy().memories(client));
    let by_device = make(&shape, devices[1], null_mut()).unwrap();
    let by_memory = make(&shape, null_mut(), memories[2]).unwrap();
    for buffer in [by_device, by_memory] {
        assert_eq!(toy().read(buffer).unwrap().len(), 24);
    }
    let device = toy().ask::<slot::PJRT_Buffer_Device>(|args| args.buffer = by_device).unwrap().device;
    assert_eq!(device, devices[1]);
    assert!(make(&Shape::new(ElementType::S32, [-1]), devices[0], null_mut()).is_err());
    assert_eq!(make(&shape, null_mut(), null_mut()).unwrap_err().code, ErrorCode::INVALID_ARGUMENT);
    toy().destroy(&[by_device, by_memory]);
    toy().destroy_client(client);
}

fn error_buffer(client: Client, shape: &Shape, code: u32, payload: &[PJRT_NamedValue]) -> Answer<Buffer> {
    let memory = toy().memories(client)[0];
    toy()
        .ask::<slot::PJRT_Client_CreateErrorBuffer>(|args| {
            set_shape!(args, shape);
            args.device_layout = null_mut();
            (args.client, args.memory, args.error_code) = (client, memory, PJRT_Error_Code(code));
            (args.error_message, args.error_message_size) = (c"bad news".as_ptr(), 8);
            (args.payload, args.num_payload) = (payload.as_ptr(), payload.len());
        })
        .map(|args| args.buffer)
}

#[test]
fn error_buffer_with_device_layout() {
    let client = toy().client(&[]).unwrap();
    let shape = Shape::new(ElementType::S32, [2, 3]);
    let memory = toy().memories(client)[0];
    let create = |order: &[i64]| {
        let mut layout = PJRT_Buffer_MemoryLayout::new();
        let mut tiled = PJRT_Buffer_MemoryLayout_Tiled::new();
        (tiled.minor_to_major, tiled.minor_to_major_size) = (order.as_ptr(), order.len());
        layout.type_ = PJRT_Buffer_MemoryLayout_Type::PJRT_Buffer_MemoryLayout_Type_Tiled;
        layout.__bindgen_anon_1.tiled = tiled;
        toy().ask::<slot::PJRT_Client_CreateErrorBuffer>(|args| {
            set_shape!(args, &shape);
            args.device_layout = &raw mut layout;
            (args.client, args.memory, args.error_code) = (client, memory, PJRT_Error_Code(8));
            (args.error_message, args.error_message_size) = (c"bad".as_ptr(), 3);
            (args.payload, args.num_payload) = (std::ptr::null(), 0);
        })
    };
    let fault = create(&[0, 0]).map(drop).unwrap_err();
    assert_eq!(fault.code, ErrorCode::INVALID_ARGUMENT, "{fault:?}");
    let buffer = create(&[0, 1]).unwrap().buffer;
    let args = toy().ask::<slot::PJRT_Buffer_GetMemoryLayout>(|args| args.buffer = buffer).unwrap();
    let tiled = unsafe { args.layout.__bindgen_anon_1.tiled };
    assert_eq!(unsafe { crate::framework::slice(tiled.minor_to_major, tiled.minor_to_major_size) }, [0, 1]);
    toy().destroy(&[buffer]);
    toy().destroy_client(client);
}

#[test]
fn error_buffers_fail_what_uses_them() {
    let client = toy().client(&[]).unwrap();
    let shape = Shape::new(ElementType::S32, [1]);
    let values = [NamedValue::new("where", "there")];
    let buffer = error_buffer(client, &shape, 8, &raw_values(&values)).unwrap();
    let fault = toy().wait(toy().ready_event(buffer)).unwrap_err();
    assert_eq!((fault.code, fault.message.as_str()), (ErrorCode::RESOURCE_EXHAUSTED, "bad news"));
    assert_eq!(toy().read_ints(buffer).unwrap_err(), fault);
    assert!(!toy().is_deleted(buffer));
    let echo = toy().compile(client, "op=echo\nin=s32[1]").unwrap();
    let next = toy().execute(echo, &[buffer], 1).unwrap_err();
    assert_eq!(next.code, ErrorCode::RESOURCE_EXHAUSTED);
    expect!["argument 0 failed: bad news"].assert_eq(&next.message);
    // The error of the buffer's ready event has the payloads of the error buffer.
    unsafe extern "C" fn visit(
        key: *const std::ffi::c_char,
        key_size: usize,
        value: *const std::ffi::c_char,
        value_size: usize,
        seen: *mut std::ffi::c_void,
    ) {
        unsafe {
            let seen = &mut *seen.cast::<Vec<String>>();
            seen.push(crate::framework::text(key, key_size));
            seen.push(crate::framework::text(value, value_size));
        }
    }
    let mut args = crate::framework::garbage::<PJRT_Event_Error_Args>();
    args.event = toy().ready_event(buffer);
    let error = unsafe { toy().0.PJRT_Event_Error.unwrap()(&raw mut args) };
    let mut seen: Vec<String> = Vec::new();
    toy()
        .ask::<slot::PJRT_Error_ForEachPayload>(|args| {
            (args.error, args.user_arg) = (error, (&raw mut seen).cast());
            args.visitor = Some(visit);
        })
        .unwrap();
    assert_eq!(seen, ["where", "there"]);
    assert!(toy().check(error).is_err());
    toy().destroy_event(args.event);
    assert_eq!(error_buffer(client, &shape, 0, &[]).unwrap_err().code, ErrorCode::INVALID_ARGUMENT);
    toy().delete(buffer);
    toy().destroy(&[buffer]);
    toy().destroy_loaded(echo);
    toy().destroy_client(client);
}

fn alias(client: Client, shape: &Shape) -> (Buffer, *mut PJRT_FulfillAliasBufferCallback) {
    let memory = toy().memories(client)[0];
    let args = toy()
        .ask::<slot::PJRT_Client_CreateAliasBuffer>(|args| {
            set_shape!(args, shape);
            (args.client, args.memory) = (client, memory);
        })
        .unwrap();
    (args.alias_buffer, args.fulfill_alias_buffer_cb)
}

fn fulfill(client: Client, token: *mut PJRT_FulfillAliasBufferCallback, with: Result<Buffer, u32>) -> Answer {
    toy()
        .ask::<slot::PJRT_Client_FulfillAliasBuffer>(|args| {
            (args.client, args.fulfill_alias_buffer_cb) = (client, token);
            (args.buffer, args.status_code) = (with.unwrap_or(null_mut()), PJRT_Error_Code(with.err().unwrap_or(0)));
            if with.is_err() {
                (args.error_message, args.error_message_size) = (c"not today".as_ptr(), 9);
            }
        })
        .map(drop)
}

#[test]
fn alias_takes_over_buffers_data() {
    let client = toy().client(&[]).unwrap();
    let other = toy().client(&[]).unwrap();
    let shape = Shape::new(ElementType::S32, [2]);
    let (buffer, token) = alias(client, &shape);
    let ready = toy().ready_event(buffer);
    assert!(!toy().is_ready(ready));
    // The call rejects invalid contents, and the alias still accepts valid contents afterwards.
    let good = toy().ints(client, &[8, 9]);
    let (long, foreign) = (toy().ints(client, &[1, 2, 3]), toy().ints(other, &[1, 2]));
    let far = toy().put(client, &shape, &[0; 8], 1).unwrap();
    let mut messages = String::new();
    for (with, case) in [
        (null_mut(), "null"),
        (long, "another shape"),
        (foreign, "another client"),
        (far, "another memory"),
        (buffer, "the alias"),
    ] {
        let fault = fulfill(client, token, Ok(with)).unwrap_err();
        assert_eq!(fault.code, ErrorCode::INVALID_ARGUMENT);
        messages += &format!("{case}: {}\n", fault.message);
    }
    expect![[r#"
        null: PJRT_Client_FulfillAliasBuffer: buffer is null
        another shape: PJRT_Client_FulfillAliasBuffer: buffer is s32[3], but its alias is s32[2]
        another client: PJRT_Client_FulfillAliasBuffer: buffer belongs to another client
        another memory: PJRT_Client_FulfillAliasBuffer: buffer is in another memory than its alias
        the alias: PJRT_Client_FulfillAliasBuffer: buffer is the alias itself, or waits for it
    "#]]
    .assert_eq(&messages);
    assert!(fulfill(other, token, Ok(good)).is_err());
    fulfill(client, token, Ok(good)).unwrap();
    toy().destroy(&[good]);
    toy().wait(ready).unwrap();
    assert_eq!(toy().read_ints(buffer).unwrap(), [8, 9]);
    assert_eq!(fulfill(client, token, Ok(long)).unwrap_err().code, ErrorCode::FAILED_PRECONDITION);
    assert_eq!(fulfill(client, null_mut(), Ok(long)).unwrap_err().code, ErrorCode::FAILED_PRECONDITION);
    toy().destroy(&[buffer, long, foreign, far]);
    toy().destroy_client(client);
    toy().destroy_client(other);
}

#[test]
fn alias_awaits_fails_or_is_dropped() {
    let client = toy().client(&[]).unwrap();
    let shape = Shape::new(ElementType::S32, [1]);
    let later = toy().compile(client, "op=later\nin=s32[1]\ngate=aliased").unwrap();
    let input = toy().ints(client, &[6]);
    let (outputs, event) = toy().execute(later, &[input], 1).unwrap();
    let (waits, token) = alias(client, &shape);
    fulfill(client, token, Ok(outputs[0])).unwrap();
    toy().destroy(&outputs);
    let ready = toy().ready_event(waits);
    assert!(!toy().is_ready(ready));
    open_gate("aliased");
    toy().wait(event).unwrap();
    toy().wait(ready).unwrap();
    assert_eq!(toy().read_ints(waits).unwrap(), [6]);
    let (fails, token) = alias(client, &shape);
    fulfill(client, token, Err(3)).unwrap();
    assert_eq!(toy().read_ints(fails).unwrap_err().message, "not today");
    // Destroy an alias before it is fulfilled.
    let (gone, token) = alias(client, &shape);
    toy().destroy(&[gone]);
    fulfill(client, token, Ok(input)).unwrap();
    let (forgotten, _) = alias(client, &shape);
    toy().destroy_loaded(later);
    toy().destroy_client(client);
    assert_eq!(toy().read_ints(forgotten).unwrap_err().code, ErrorCode::CANCELLED);
    toy().destroy(&[input, waits, fails, forgotten]);
}

fn cast(buffer: Buffer, shape: &Shape) -> Answer<Buffer> {
    toy()
        .ask::<slot::PJRT_Buffer_Bitcast>(|args| {
            args.buffer = buffer;
            args.element_type = PJRT_Buffer_Type(shape.element_type.as_raw());
            (args.dims, args.num_dims) = (shape.dimensions.as_ptr(), shape.dimensions.len());
            args.device_layout = null_mut();
        })
        .map(|args| args.out_buffer)
}

#[test]
fn alias_rejects_what_waits_for_it() {
    let client = toy().client(&[]).unwrap();
    let shape = Shape::new(ElementType::S32, [2]);
    let (waits, token) = alias(client, &shape);
    let devices = toy().devices(client);
    let copy = |buffer: Buffer, to: usize| {
        let copied = toy().ask::<slot::PJRT_Buffer_CopyToDevice>(|args| {
            (args.buffer, args.dst_device) = (buffer, devices[to]);
        });
        copied.unwrap().dst_buffer
    };
    let (bitcast, there) = (cast(waits, &shape).unwrap(), copy(waits, 1));
    let back = copy(there, 0);
    let (other, other_token) = alias(client, &shape);
    fulfill(client, other_token, Ok(bitcast)).unwrap();
    for with in [bitcast, back, other] {
        let fault = fulfill(client, token, Ok(with)).unwrap_err();
        assert_eq!(fault.code, ErrorCode::INVALID_ARGUMENT);
    }
    // The alias still accepts other contents, and then the buffers that waited for it are ready.
    let good = toy().ints(client, &[8, 9]);
    fulfill(client, token, Ok(good)).unwrap();
    for buffer in [waits, bitcast, there, back, other] {
        assert_eq!(toy().read_ints(buffer).unwrap(), [8, 9]);
    }
    let (moves, token) = alias(client, &shape);
    let donation = toy().ask::<slot::PJRT_Buffer_DonateWithControlDependency>(|args| args.buffer = moves).unwrap();
    assert_eq!(fulfill(client, token, Ok(donation.out_buffer)).unwrap_err().code, ErrorCode::INVALID_ARGUMENT);
    toy().destroy(&[waits, bitcast, there, back, other, good, moves, donation.out_buffer]);
    toy().destroy_client(client);
}

#[test]
fn bitcast_keeps_bytes() {
    let client = toy().client(&[]).unwrap();
    let buffer = toy().ints(client, &[1, -1]);
    let bytes = cast(buffer, &Shape::new(ElementType::U8, [2, 4])).unwrap();
    assert_eq!(toy().read(bytes).unwrap(), [1, 0, 0, 0, 255, 255, 255, 255]);
    let ty = toy().ask::<slot::PJRT_Buffer_ElementType>(|args| args.buffer = bytes).unwrap().type_;
    assert_eq!(ty.0, ElementType::U8.as_raw());
    let mut messages = String::new();
    for shape in [Shape::new(ElementType::U8, [7]), Shape::new(ElementType::S4, [8])] {
        let fault = cast(buffer, &shape).unwrap_err();
        assert_eq!(fault.code, ErrorCode::INVALID_ARGUMENT);
        messages += &format!("s32[2] to {shape}: {}\n", fault.message);
    }
    expect![[r#"
        s32[2] to u8[7]: PJRT_Buffer_Bitcast: u8[7] and s32[2] differ in size or in the width of their elements
        s32[2] to s4[8]: PJRT_Buffer_Bitcast: s4[8] and s32[2] differ in size or in the width of their elements
    "#]]
    .assert_eq(&messages);
    // Bitcast a buffer that is not ready yet.
    let later = toy().compile(client, "op=later\nin=s32[2]\ngate=bitcast").unwrap();
    let (outputs, event) = toy().execute(later, &[buffer], 1).unwrap();
    let float = cast(outputs[0], &Shape::new(ElementType::F32, [2, 1])).unwrap();
    open_gate("bitcast");
    assert_eq!(toy().read(float).unwrap(), [1, 0, 0, 0, 255, 255, 255, 255]);
    toy().wait(event).unwrap();
    toy().delete(buffer);
    assert_eq!(cast(buffer, &Shape::new(ElementType::U8, [8])).unwrap_err().code, ErrorCode::INVALID_ARGUMENT);
    toy().destroy(&outputs);
    toy().destroy(&[buffer, bytes, float]);
    toy().destroy_loaded(later);
    toy().destroy_client(client);
}

//! Tests of calls of handlers with XLA's C interface.

use std::sync::{Arc, Mutex};

use expect_test::expect;

use super::*;
use crate::Event;
use crate::abi::lend::gate::{Gate, Opened};
use crate::abi::table::ffi_read;
use crate::ffi::{ExecuteContext, Handler, Operand, ResultBuffer, UserData};

/// A C handler that multiplies each element of its operand by the attribute `by`. Both have the type `s32`. Returns an
/// error if `by` is zero.
extern "C" fn scale(frame: *mut CallFrame) -> *mut ForeignError {
    // SAFETY: `call` passes a valid frame.
    let frame = unsafe { &*frame };
    // SAFETY: the frame has one operand.
    let from = unsafe { *frame.args.buffers };
    // SAFETY: the pointers of a frame are valid during the call.
    let from = unsafe { &*from };
    // SAFETY: the frame has one result.
    let to = unsafe { *frame.rets.buffers };
    // SAFETY: the pointers of a frame are valid during the call.
    let to = unsafe { &*to };
    // SAFETY: the frame has one attribute.
    let scalar = unsafe { *frame.attrs.values };
    // SAFETY: the attribute is a scalar.
    let scalar = unsafe { &*scalar.cast::<Scalar>() };
    assert_eq!((from.dtype, scalar.dtype, from.rank), (4, 4, 1));
    // SAFETY: the type of the scalar is `s32`.
    let by = unsafe { *scalar.value.cast::<i32>() };
    if by == 0 {
        let args = CreateArgs {
            struct_size: size_of::<CreateArgs>(),
            extension_start: ptr::null(),
            message: c"by nothing".as_ptr(),
            code: 3,
        };
        // SAFETY: the table is never freed.
        let create = unsafe { (*frame.api).error_create };
        return create(&raw const args);
    }
    // SAFETY: the operand has one dimension.
    let count = usize::try_from(unsafe { *from.dims }).unwrap();
    // SAFETY: the operand has `count` elements.
    let from = unsafe { ffi_read::slice(from.data.cast::<i32>(), count, "operand") }.unwrap();
    // SAFETY: the result has `count` elements, and this is the only reference to them.
    let to = unsafe { ffi_read::slice_mut(to.data.cast::<i32>(), count, "result") }.unwrap();
    to.iter_mut().zip(from).for_each(|(to, from)| *to = from * by);
    ptr::null_mut()
}

#[test]
fn c_handler_receives_call_and_returns_errors() {
    let address = (scale as *const ()).expose_provenance();
    let shape = Shape::new(ElementType::S32, [3]);
    let input = [1i32, -2, 3];
    let input: &[u8] = bytemuck::cast_slice(&input);
    let context = ExecuteContext::default();
    let run = |by: i64| {
        let attributes = Attributes {
            text: None,
            values: vec![("by".to_owned(), Attribute::Int(by))],
            types: vec![Some(ElementType::S32)],
        };
        let mut output = [0i32; 3];
        let operands = [Operand::new(&shape, input)];
        let mut results = [ResultBuffer::new(&shape, bytemuck::cast_slice_mut(&mut output))];
        let mut made = Call::new("scale", &attributes, &operands, &mut results, &context).unwrap();
        call(address, &mut made).map(|()| output)
    };
    assert_eq!(run(-4), Ok([-4, 8, -12]));
    let error = run(0).unwrap_err();
    assert_eq!((error.code(), error.message()), (ErrorCode::INVALID_ARGUMENT, "by nothing"));
}

/// A handler that fails when it is called. It is used for calls that must be rejected, because a handler in C would
/// access memory out of bounds.
extern "C" fn misled(_: *mut CallFrame) -> *mut ForeignError {
    let message = c"the handler was called".to_owned();
    Box::into_raw(Box::new(ForeignError { code: ErrorCode::INTERNAL.as_raw(), message }))
}

/// Changes a call after `Call::new` has checked it, and returns the error of calling the [`misled`] handler. `change`
/// receives a huge shape, and an operand of that shape without memory.
fn changed(change: impl for<'a> FnOnce(&mut Call<'a>, &'a Shape, &'a [Operand<'a>])) -> Error {
    let (shape, huge) = (Shape::new(ElementType::S32, [2]), Shape::new(ElementType::S32, [1 << 40]));
    let (input, mut output) = ([1i32, 2], [0i32; 2]);
    let (attributes, context) = (Attributes::default(), ExecuteContext::default());
    let nowhere = [Operand::new(&huge, &[])];
    let operands = [Operand::new(&shape, bytemuck::cast_slice(&input))];
    let mut results = [ResultBuffer::new(&shape, bytemuck::cast_slice_mut(&mut output))];
    let mut made = Call::new("f", &attributes, &operands, &mut results, &context).unwrap();
    change(&mut made, &huge, &nowhere);
    call((misled as *const ()).expose_provenance(), &mut made).unwrap_err()
}

#[test]
fn rejects_shape_changed_after_check() {
    let operand = changed(|call, _, nowhere| call.operands = nowhere);
    assert_eq!(operand.code(), ErrorCode::INVALID_ARGUMENT);
    expect![[r#"custom call "f": operand 0 is s32[1099511627776], but has 0 bytes"#]].assert_eq(operand.message());
    let result = changed(|call, huge, _| call.results[0].shape = huge);
    assert_eq!(result.code(), ErrorCode::INVALID_ARGUMENT);
    expect![[r#"custom call "f": result 0 is s32[1099511627776], but has 8 bytes"#]].assert_eq(result.message());
}

#[test]
fn rejects_unaligned_memory() {
    let of = |ty, extent: i64, from: usize| {
        let shape = Shape::new(ty, [extent]);
        let memory = [0u64; 8];
        let bytes = &bytemuck::cast_slice::<_, u8>(&memory)[from..][..shape.host_size().unwrap()];
        let (attributes, context) = (Attributes::default(), ExecuteContext::default());
        let operands = [Operand::new(&shape, bytes)];
        let mut made = Call::new("f", &attributes, &operands, &mut [], &context).unwrap();
        call((misled as *const ()).expose_provenance(), &mut made).unwrap_err().message().to_owned()
    };
    let called = "the handler was called";
    let mut messages = String::new();
    // A complex number has the alignment of its real part. An empty array may have any address.
    for (ty, extent, from) in [(ElementType::S32, 2, 1), (ElementType::F64, 1, 4), (ElementType::C128, 1, 4)] {
        messages += &format!("{ty}: {}\n", of(ty, extent, from));
    }
    expect![[r#"
        s32: operand 0 of a custom call in C is s32[2] at an address that is not a multiple of 4; copy it to one that is
        f64: operand 0 of a custom call in C is f64[1] at an address that is not a multiple of 8; copy it to one that is
        c128: operand 0 of a custom call in C is c128[1] at an address that is not a multiple of 8; copy it to one that is
    "#]].assert_eq(&messages);
    for (ty, extent, from) in
        [(ElementType::S32, 2, 4), (ElementType::C64, 1, 4), (ElementType::U8, 3, 1), (ElementType::S32, 0, 1)]
    {
        assert_eq!(of(ty, extent, from), called, "{ty}");
    }
}

#[test]
fn rejects_attribute_outside_its_type() {
    use ElementType as E;
    let of = |value: Attribute, ty: Option<E>| {
        let values = vec![("a".to_owned(), value)];
        let attributes = Attributes { text: None, values, types: vec![ty] };
        let context = ExecuteContext::default();
        let mut made = Call::new("f", &attributes, &[], &mut [], &context).unwrap();
        call((misled as *const ()).expose_provenance(), &mut made).unwrap_err().message().to_owned()
    };
    let called = "the handler was called";
    for (value, ty) in [
        (1, E::Pred),
        (-128, E::S8),
        (255, E::U8),
        (-32768, E::S16),
        (65535, E::U16),
        (i64::from(i32::MIN), E::S32),
        (i64::from(u32::MAX), E::U32),
        (i64::MIN, E::S64),
        (-1, E::U64),
    ] {
        assert_eq!(of(Attribute::Int(value), Some(ty)), called, "{value} {ty}");
    }
    let mut messages = String::new();
    for (value, ty) in
        [(2, E::Pred), (128, E::S8), (-1, E::U8), (32768, E::S16), (65536, E::U16), (1 << 31, E::S32), (-1, E::U32)]
    {
        let case = format!("{value} as {ty}");
        messages += &format!("{case}: {}\n", of(Attribute::Int(value), Some(ty)));
    }
    expect![[r#"
        2 as pred: attribute "a" of a custom call in C is 2, which is not a valid pred
        128 as s8: attribute "a" of a custom call in C is 128, which is not a valid s8
        -1 as u8: attribute "a" of a custom call in C is -1, which is not a valid u8
        32768 as s16: attribute "a" of a custom call in C is 32768, which is not a valid s16
        65536 as u16: attribute "a" of a custom call in C is 65536, which is not a valid u16
        2147483648 as s32: attribute "a" of a custom call in C is 2147483648, which is not a valid s32
        -1 as u32: attribute "a" of a custom call in C is -1, which is not a valid u32
    "#]]
    .assert_eq(&messages);
    let mut messages = String::new();
    // With these types, the handler would read beyond the integer or misinterpret its bits.
    for ty in [E::C128, E::C64, E::F64, E::F32, E::S4, E::Token] {
        let case = format!("an integer as {ty}");
        messages += &format!("{case}: {}\n", of(Attribute::Int(1), Some(ty)));
    }
    expect![[r#"
        an integer as c128: attribute "a" of a custom call in C is an integer of type c128; only integers of 8 to 64 bits can be passed
        an integer as c64: attribute "a" of a custom call in C is an integer of type c64; only integers of 8 to 64 bits can be passed
        an integer as f64: attribute "a" of a custom call in C is an integer of type f64; only integers of 8 to 64 bits can be passed
        an integer as f32: attribute "a" of a custom call in C is an integer of type f32; only integers of 8 to 64 bits can be passed
        an integer as s4: attribute "a" of a custom call in C is an integer of type s4; only integers of 8 to 64 bits can be passed
        an integer as token: attribute "a" of a custom call in C is an integer of type token; only integers of 8 to 64 bits can be passed
    "#]].assert_eq(&messages);
    for (value, ty) in [(1e300, E::F64), (0.1, E::F32), (f64::INFINITY, E::F32)] {
        assert_eq!(of(Attribute::Float(value), Some(ty)), called, "{value} {ty}");
    }
    let mut messages = String::new();
    for (value, ty) in [(1e300, E::F32), (1.0, E::F16), (1.0, E::C128), (1.0, E::S32)] {
        let case = format!("{value:?} as {ty}");
        messages += &format!("{case}: {}\n", of(Attribute::Float(value), Some(ty)));
    }
    expect![[r#"
        1e300 as f32: attribute "a" of a custom call in C is 1000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000, which is not a valid f32
        1.0 as f16: attribute "a" of a custom call in C is a float of type f16; only f32 and f64 can be passed
        1.0 as c128: attribute "a" of a custom call in C is a float of type c128; only f32 and f64 can be passed
        1.0 as s32: attribute "a" of a custom call in C is a float of type s32; only f32 and f64 can be passed
    "#]].assert_eq(&messages);
    // Integers and floats in a dictionary always have 64 bits.
    let inner = Attribute::Dictionary(vec![("b".to_owned(), Attribute::Int(i64::MAX))]);
    assert_eq!(of(inner, Some(E::C128)), called);
}

/// Compares the table with the offsets that a C compiler prints for `xla/ffi/api/c_api.h` of versions 0.3 and 0.5 on a
/// 64-bit platform.
#[test]
#[cfg(target_pointer_width = "64")]
fn functions_have_offsets_of_header() {
    use std::mem::offset_of;
    let functions = [offset_of!(Api, stream_get), offset_of!(Api, user_data_get), offset_of!(Api, device_ordinal_get)];
    assert_eq!((functions, size_of::<Api>()), ([80, 96, 184], 192));
    let outputs = [
        offset_of!(ContextArgs<*mut c_void>, output),
        offset_of!(ContextArgs<i32>, output),
        offset_of!(UserDataArgs, output),
    ];
    assert_eq!(outputs, [24, 24, 32]);
}

/// The numbers that [`describe`] writes.
#[derive(Debug, Default, PartialEq)]
#[repr(C)]
struct Described {
    addresses: [usize; 2],
    stream: usize,
    device: i32,
    by: i64,
}

/// A C handler that writes what it receives to the user data of type 7. Returns the error of the first request that
/// fails.
extern "C" fn describe(frame: *mut CallFrame) -> *mut ForeignError {
    // SAFETY: `call_on_device` passes a valid frame.
    let frame = unsafe { &*frame };
    // SAFETY: the table is never freed.
    let api = unsafe { &*frame.api };
    let context = frame.context;
    let type_id = 7;
    let output = ptr::null_mut();
    let struct_size = size_of::<UserDataArgs>();
    let mut data =
        UserDataArgs { struct_size, extension_start: ptr::null(), context, type_id: &raw const type_id, output };
    let failed = (api.user_data_get)(&raw mut data);
    if !failed.is_null() {
        return failed;
    }
    let struct_size = size_of::<ContextArgs<*mut c_void>>();
    let mut stream = ContextArgs { struct_size, extension_start: ptr::null(), context, output: ptr::null_mut() };
    let failed = (api.stream_get)(&raw mut stream);
    if !failed.is_null() {
        return failed;
    }
    let mut device = ContextArgs { struct_size, extension_start: ptr::null(), context, output: -1 };
    let failed = (api.device_ordinal_get)(&raw mut device);
    assert!(failed.is_null());
    let address = |buffers: &Buffers| {
        // SAFETY: the frame has one operand and one result.
        let buffer = unsafe { *buffers.buffers };
        // SAFETY: the pointers of a frame are valid during the call.
        unsafe { (*buffer).data }.addr()
    };
    // SAFETY: the frame has one attribute.
    let scalar = unsafe { *frame.attrs.values };
    // SAFETY: the attribute is a scalar.
    let scalar = unsafe { &*scalar.cast::<Scalar>() };
    // SAFETY: the type of the scalar is `s64`.
    let by = unsafe { *scalar.value.cast::<i64>() };
    let addresses = [address(&frame.args), address(&frame.rets)];
    let described = Described { addresses, stream: stream.output.addr(), device: device.output, by };
    // SAFETY: the user data of type 7 is a `Described`, and this is the only reference to it.
    unsafe { data.output.cast::<Described>().write(described) };
    ptr::null_mut()
}

#[test]
fn c_handler_on_device_receives_addresses_and_stream() {
    let address = (describe as *const ()).expose_provenance();
    let shape = Shape::new(ElementType::F32, [1 << 40]);
    let attributes = Attributes { text: None, values: vec![("by".to_owned(), Attribute::Int(5))], types: vec![None] };
    let (operands, results) = ([DeviceArray::new(&shape, 0x1000)], [DeviceArray::new(&shape, 0x2000)]);
    let run = |context: &ExecuteContext| {
        let place = (3, Stream(0x77));
        let made = DeviceCall::new("describe", &attributes, [&operands, &results], context, place);
        // SAFETY: the handler does not access the memory of the arrays.
        unsafe { call_on_device(address, &made) }
    };
    let error = run(&ExecuteContext::default()).unwrap_err();
    assert_eq!(error.code(), ErrorCode::NOT_FOUND);
    let (context, mut described) = (ExecuteContext::default(), Described::default());
    let data = (&raw mut described).expose_provenance();
    context.add(UserData { type_id: 7, address: data }).unwrap();
    run(&context).unwrap();
    let expected = Described { addresses: [0x1000, 0x2000], stream: 0x77, device: 3, by: 5 };
    assert_eq!(described, expected);
}

#[test]
fn c_handler_on_host_has_user_data_and_no_stream() {
    let (shape, mut output) = (Shape::new(ElementType::U8, [1]), [0u8]);
    let (context, mut described) = (ExecuteContext::default(), Described::default());
    let data = (&raw mut described).expose_provenance();
    context.add(UserData { type_id: 7, address: data }).unwrap();
    let operands = [Operand::new(&shape, &[1])];
    let mut results = [ResultBuffer::new(&shape, &mut output)];
    let attributes = Attributes::default();
    let mut made = Call::new("describe", &attributes, &operands, &mut results, &context).unwrap();
    let error = call((describe as *const ()).expose_provenance(), &mut made).unwrap_err();
    assert_eq!(error.code(), ErrorCode::UNIMPLEMENTED);
    expect!["the arrays of this custom call are in host memory, so it has no stream and no device"]
        .assert_eq(error.message());
}

/// A driver without addresses passes its handles, which may be odd.
#[test]
fn handle_of_device_memory_need_not_be_aligned() {
    let (shape, attributes, context) =
        (Shape::new(ElementType::F64, [2]), Attributes::default(), ExecuteContext::default());
    let arrays = [DeviceArray::new(&shape, 0x77)];
    let made = DeviceCall::new("f", &attributes, [&arrays, &arrays], &context, (0, Stream(1)));
    // SAFETY: the handler does not access the memory of the arrays.
    let error = unsafe { call_on_device((misled as *const ()).expose_provenance(), &made) }.unwrap_err();
    assert_eq!(error.message(), "the handler was called");
}

/// The execution that [`ends_execution`] ends, and then its event.
static ENDING: Mutex<(Option<Opened>, Option<Event>)> = Mutex::new((None, None));

/// A C handler during which the backend completes the event of the execution.
extern "C" fn ends_execution(_: *mut CallFrame) -> *mut ForeignError {
    let mut ending = ENDING.lock().unwrap();
    let event = ending.0.take().expect("one call").hand_over(&[Event::ready()]);
    let is_ready = event.is_ready();
    ending.1 = Some(event);
    if is_ready { error(ErrorCode::INTERNAL, c"the event is ready during the call") } else { ptr::null_mut() }
}

#[test]
fn execution_ends_after_its_c_handlers() {
    let gate = Arc::new(Gate::default());
    let context = ExecuteContext::default();
    context.add(UserData { type_id: 7, address: 8 }).unwrap();
    let context = context.of_execution(&gate);
    let attributes = Attributes::default();
    let run = |handler: extern "C" fn(*mut CallFrame) -> *mut ForeignError| {
        let mut made = Call::new("f", &attributes, &[], &mut [], &context).unwrap();
        call((handler as *const ()).expose_provenance(), &mut made)
    };
    let run_on_device = || {
        let made = DeviceCall::new("f", &attributes, [&[], &[]], &context, (0, Stream(1)));
        // SAFETY: the handler does not access memory.
        unsafe { call_on_device((misled as *const ()).expose_provenance(), &made) }
    };
    ENDING.lock().unwrap().0 = Some(gate.open());
    run(ends_execution).unwrap();
    assert_eq!(ENDING.lock().unwrap().1.take().unwrap().result(), Some(Ok(())));
    // The framework may have freed the user data.
    for error in [run(misled).unwrap_err(), run_on_device().unwrap_err()] {
        assert_eq!(error.code(), ErrorCode::FAILED_PRECONDITION);
        expect!["the execution of the custom call has ended, so its user data may be freed"].assert_eq(error.message());
    }
}

#[test]
fn panic_of_rust_handler_is_error() {
    let (attributes, context) = (Attributes::default(), ExecuteContext::default());
    let mut made = Call::new("f", &attributes, &[], &mut [], &context).unwrap();
    let on_host = Handler::rust(|_| panic!("on the host")).call(&mut made).unwrap_err();
    let made = DeviceCall::new("f", &attributes, [&[], &[]], &context, (0, Stream(1)));
    let handler = Handler::rust_on_device(|_| panic!("on the device"));
    // SAFETY: the handler does not access memory.
    let on_device = unsafe { handler.call_on_device(&made) }.unwrap_err();
    assert_eq!([on_host.code(), on_device.code()], [ErrorCode::INTERNAL; 2]);
    let messages = [on_host.message(), on_device.message()];
    assert_eq!(messages, ["the plugin panicked: on the host", "the plugin panicked: on the device"]);
}

#[test]
fn rejects_handlers_that_need_runtime() {
    let error = unimplemented(ptr::null());
    // SAFETY: `unimplemented` has just boxed the error.
    let error = unsafe { Box::from_raw(error) };
    assert_eq!(error.code, ErrorCode::UNIMPLEMENTED.as_raw());
}

//! Calls custom call handlers that a framework registered. The handlers are C functions of XLA's FFI, so this module
//! builds an `XLA_FFI_CallFrame` for each call.
//!
//! The structs follow `xla/ffi/api/c_api.h`, versions 0.1 to 0.5, which share one frame layout. A handler can use
//! buffers, attributes, user data and errors, and on a device the stream. The API functions that require XLA's runtime
//! (state, temporary memory, threads, futures) return `UNIMPLEMENTED`.

use std::any::Any;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr;

use crate::features::Stream;
use crate::ffi::{Attribute, Attributes, Call, DeviceArray, DeviceCall, ExecuteContext};
use crate::{ElementType, Error, ErrorCode, Result, Shape};

/// The object behind an `XLA_FFI_Error*`.
struct ForeignError {
    code: u32,
    message: std::ffi::CString,
}

/// The type of [`unimplemented()`]. The API table contains this function in place of every function that the SDK does
/// not support.
type Function = extern "C" fn(*const c_void) -> *mut ForeignError;

#[repr(C)]
struct Version {
    struct_size: usize,
    extension_start: *const c_void,
    major: c_int,
    minor: c_int,
}

/// `XLA_FFI_Api` of version 0.3.
#[repr(C)]
struct Api {
    struct_size: usize,
    extension_start: *const c_void,
    version: Version,
    internal_api: *const c_void,
    error_create: extern "C" fn(*const CreateArgs) -> *mut ForeignError,
    error_get_message: extern "C" fn(*mut ErrorArgs),
    error_destroy: extern "C" fn(*mut ErrorArgs),
    handler_register: Function,
    stream_get: extern "C" fn(*mut ContextArgs<*mut c_void>) -> *mut ForeignError,
    type_register: Function,
    user_data_get: extern "C" fn(*mut UserDataArgs) -> *mut ForeignError,
    /// The functions from `XLA_FFI_State_Set` to `XLA_FFI_RunId_Get`.
    others: [Function; 10],
    device_ordinal_get: extern "C" fn(*mut ContextArgs<i32>) -> *mut ForeignError,
}

// SAFETY: the table is constant, and its data pointers are null.
unsafe impl Sync for Api {}

static API: Api = Api {
    struct_size: size_of::<Api>(),
    extension_start: ptr::null(),
    version: Version { struct_size: size_of::<Version>(), extension_start: ptr::null(), major: 0, minor: 3 },
    internal_api: ptr::null(),
    error_create,
    error_get_message,
    error_destroy,
    handler_register: unimplemented,
    stream_get,
    type_register: unimplemented,
    user_data_get,
    others: [unimplemented; 10],
    device_ordinal_get,
};

/// The object behind an `XLA_FFI_ExecutionContext*`, which newer versions call `XLA_FFI_InvokeContext*`.
struct Context<'a> {
    user_data: &'a ExecuteContext,
    /// The index of the device and the stream, for a call on a device.
    device: Option<(usize, Stream)>,
}

/// `XLA_FFI_Stream_Get_Args` and `XLA_FFI_DeviceOrdinal_Get_Args`.
#[repr(C)]
struct ContextArgs<T> {
    struct_size: usize,
    extension_start: *const c_void,
    context: *const Context<'static>,
    output: T,
}

/// `XLA_FFI_ExecutionContext_Get_Args`, which newer versions call `XLA_FFI_InvokeContext_Get_Args`.
#[repr(C)]
struct UserDataArgs {
    struct_size: usize,
    extension_start: *const c_void,
    context: *const Context<'static>,
    type_id: *const i64,
    output: *mut c_void,
}

/// `XLA_FFI_Error_Create_Args`.
#[repr(C)]
struct CreateArgs {
    struct_size: usize,
    extension_start: *const c_void,
    message: *const c_char,
    code: u32,
}

/// `XLA_FFI_Error_GetMessage_Args`. `XLA_FFI_Error_Destroy_Args` is the same struct without the last field.
#[repr(C)]
struct ErrorArgs {
    struct_size: usize,
    extension_start: *const c_void,
    error: *mut ForeignError,
    message: *const c_char,
}

extern "C" fn error_create(args: *const CreateArgs) -> *mut ForeignError {
    // SAFETY: V1 (argument structs).
    let message = unsafe { (*args).message };
    // SAFETY: V1 (argument structs).
    let code = unsafe { (*args).code };
    #[expect(clippy::disallowed_methods, reason = "an array of the C interface of custom calls is too long")]
    let message = if message.is_null() {
        c"".to_owned()
    } else {
        // SAFETY: V3 (arrays and text): the message ends with a NUL byte.
        unsafe { CStr::from_ptr(message) }.to_owned()
    };
    Box::into_raw(Box::new(ForeignError { code, message }))
}

extern "C" fn error_get_message(args: *mut ErrorArgs) {
    // SAFETY: V1 (argument structs).
    let error = unsafe { (*args).error };
    // SAFETY: V2 (handles), V5 (opaque types): every `XLA_FFI_Error` that a handler has is a boxed `ForeignError`.
    let message = unsafe { (*error).message.as_ptr() };
    // SAFETY: V1 (argument structs).
    unsafe { (*args).message = message };
}

extern "C" fn error_destroy(args: *mut ErrorArgs) {
    // SAFETY: V1 (argument structs).
    let error = unsafe { (*args).error };
    if !error.is_null() {
        // SAFETY: V2 (handles), V5 (opaque types): `error_create` or `unimplemented` boxed the error, and the handler
        // no longer uses it.
        drop(unsafe { Box::from_raw(error) });
    }
}

fn error(code: ErrorCode, message: &CStr) -> *mut ForeignError {
    Box::into_raw(Box::new(ForeignError { code: code.as_raw(), message: message.to_owned() }))
}

extern "C" fn unimplemented(_: *const c_void) -> *mut ForeignError {
    let message = c"this device passes only buffers, attributes, user data and the stream to custom calls; \
                    state, temporary memory, threads and futures are not supported";
    error(ErrorCode::UNIMPLEMENTED, message)
}

/// Reads the device of a call, and writes it to the output of the arguments.
fn device_get<T>(args: *mut ContextArgs<T>, output: impl FnOnce(usize, Stream) -> T) -> *mut ForeignError {
    // SAFETY: V1 (argument structs).
    let context = unsafe { (*args).context };
    // SAFETY: V2 (handles), V5 (opaque types): a handler has the context of its call only, which it uses during the
    // call.
    let Some(&Context { device: Some((device, stream)), .. }) = (unsafe { context.as_ref() }) else {
        let message = c"the arrays of this custom call are in host memory, so it has no stream and no device";
        return error(ErrorCode::UNIMPLEMENTED, message);
    };
    // SAFETY: V1 (argument structs).
    unsafe { (*args).output = output(device, stream) };
    ptr::null_mut()
}

extern "C" fn stream_get(args: *mut ContextArgs<*mut c_void>) -> *mut ForeignError {
    device_get(args, |_, Stream(stream)| ptr::with_exposed_provenance_mut(stream.cast_unsigned()))
}

extern "C" fn device_ordinal_get(args: *mut ContextArgs<i32>) -> *mut ForeignError {
    device_get(args, |device, _| i32::try_from(device).unwrap_or(i32::MAX))
}

extern "C" fn user_data_get(args: *mut UserDataArgs) -> *mut ForeignError {
    // SAFETY: V1 (argument structs).
    let context = unsafe { (*args).context };
    // SAFETY: V1 (argument structs).
    let type_id = unsafe { (*args).type_id };
    // SAFETY: V1 (argument structs): the type id is an input of the struct.
    let type_id = unsafe { type_id.as_ref() };
    // SAFETY: V2 (handles), V5 (opaque types): as in `device_get`.
    let context = unsafe { context.as_ref() };
    let Some(data) = context.zip(type_id).and_then(|(context, type_id)| context.user_data.get(*type_id)) else {
        return error(ErrorCode::NOT_FOUND, c"the execution has no user data of this type");
    };
    // SAFETY: V1 (argument structs).
    unsafe { (*args).output = ptr::with_exposed_provenance_mut(data.address) };
    ptr::null_mut()
}

#[repr(C)]
struct Buffer {
    struct_size: usize,
    extension_start: *const c_void,
    dtype: c_int,
    data: *mut c_void,
    rank: i64,
    dims: *const i64,
}

/// `XLA_FFI_Args` and `XLA_FFI_Rets`.
#[repr(C)]
struct Buffers {
    struct_size: usize,
    extension_start: *const c_void,
    size: i64,
    types: *const c_int,
    buffers: *const *const Buffer,
}

#[repr(C)]
struct ByteSpan {
    data: *const u8,
    len: usize,
}

#[repr(C)]
struct Attrs {
    struct_size: usize,
    extension_start: *const c_void,
    size: i64,
    types: *const c_int,
    names: *const *const ByteSpan,
    values: *const *const c_void,
}

#[repr(C)]
struct Scalar {
    dtype: c_int,
    value: *const c_void,
}

#[repr(C)]
struct Array {
    dtype: c_int,
    size: usize,
    data: *const c_void,
}

#[repr(C)]
struct CallFrame {
    struct_size: usize,
    extension_start: *const c_void,
    api: *const Api,
    context: *const Context<'static>,
    stage: c_int,
    args: Buffers,
    rets: Buffers,
    attrs: Attrs,
    future: *const c_void,
}

type XlaHandler = extern "C" fn(*mut CallFrame) -> *mut ForeignError;

/// `XLA_FFI_ExecutionStage_EXECUTE`.
const EXECUTE: c_int = 3;
/// `XLA_FFI_ArgType_BUFFER` and `XLA_FFI_RetType_BUFFER`.
const BUFFER: c_int = 1;
/// The values of `XLA_FFI_AttrType`.
const ARRAY: c_int = 1;
const DICTIONARY: c_int = 2;
const SCALAR: c_int = 3;
const STRING: c_int = 4;

/// Returns the `XLA_FFI_DataType` of an element type, or `None` if XLA's FFI does not support the type.
fn data_type(ty: ElementType) -> Option<c_int> {
    use ElementType as E;
    Some(match ty {
        E::Pred => 1,
        E::S8 => 2,
        E::S16 => 3,
        E::S32 => 4,
        E::S64 => 5,
        E::U8 => 6,
        E::U16 => 7,
        E::U32 => 8,
        E::U64 => 9,
        E::F16 => 10,
        E::F32 => 11,
        E::F64 => 12,
        E::C64 => 15,
        E::Bf16 => 16,
        E::C128 => 18,
        E::F8E5M2 => 19,
        E::F8E4M3FN => 20,
        E::S4 => 21,
        E::U4 => 22,
        E::F8E4M3B11FNUZ => 23,
        E::F8E5M2FNUZ => 24,
        E::F8E4M3FNUZ => 25,
        E::S2 => 26,
        E::U2 => 27,
        E::F8E4M3 => 28,
        E::F8E3M4 => 29,
        E::F4E2M1FN => 32,
        E::F8E8M0FNU => 33,
        _ => return None,
    })
}

/// Returns the alignment that C code expects for an element. A complex number has the alignment of its two floats.
fn alignment(ty: ElementType) -> usize {
    match ty {
        ElementType::C64 | ElementType::C128 => ty.host_size() / 2,
        _ => ty.host_size().max(1),
    }
}

/// Returns an error if a buffer in host memory is not aligned for its elements. `kind` is the word for a buffer in
/// error messages.
fn check_alignment(kind: &str, parts: &[(&Shape, *mut c_void)]) -> Result<()> {
    for (index, (shape, data)) in parts.iter().enumerate() {
        let alignment = alignment(shape.element_type);
        // The handler does not access the memory of an empty array, so any address is valid.
        if shape.host_size() != Some(0) && !data.addr().is_multiple_of(alignment) {
            return Err(Error::invalid_argument(format!(
                "{kind} {index} of a custom call in C is {shape} at an address that is not a multiple of {alignment}; \
                 copy it to one that is"
            )));
        }
    }
    Ok(())
}

/// Encodes an integer as an element of type `ty`, in the low bytes of the result. Returns an error if `value` is out of
/// range, or if `ty` is neither a boolean nor an integer type of 8 to 64 bits.
fn integer(name: &str, value: i64, ty: ElementType) -> Result<[u8; 8]> {
    use ElementType as E;
    let fits = match ty {
        E::Pred => matches!(value, 0 | 1),
        E::S8 => i8::try_from(value).is_ok(),
        E::S16 => i16::try_from(value).is_ok(),
        E::S32 => i32::try_from(value).is_ok(),
        E::U8 => u8::try_from(value).is_ok(),
        E::U16 => u16::try_from(value).is_ok(),
        E::U32 => u32::try_from(value).is_ok(),
        // Every `i64` is valid: attributes store a `u64` above `i64::MAX` as a negative `i64` with the same bits.
        E::S64 | E::U64 => true,
        _ => {
            return Err(Error::invalid_argument(format!(
                "attribute {name:?} of a custom call in C is an integer of type {ty}; only integers of 8 to 64 bits \
                 can be passed"
            )));
        }
    };
    if fits { Ok(value.to_le_bytes()) } else { Err(no_number(name, value, ty)) }
}

/// Encodes a float as an element of type `ty`, in the low bytes of the result. Returns an error if `value` is out of
/// range, or if `ty` is neither `f32` nor `f64`.
fn float(name: &str, value: f64, ty: ElementType) -> Result<[u8; 8]> {
    match ty {
        ElementType::F64 => Ok(value.to_le_bytes()),
        ElementType::F32 => {
            #[expect(clippy::cast_possible_truncation, reason = "the program wrote it as f32")]
            let narrow = value as f32;
            if narrow.is_infinite() && value.is_finite() {
                return Err(no_number(name, value, ty));
            }
            Ok(u64::from(narrow.to_bits()).to_le_bytes())
        }
        _ => Err(Error::unimplemented(format!(
            "attribute {name:?} of a custom call in C is a float of type {ty}; only f32 and f64 can be passed"
        ))),
    }
}

fn no_number(name: &str, value: impl std::fmt::Display, ty: ElementType) -> Error {
    Error::invalid_argument(format!("attribute {name:?} of a custom call in C is {value}, which is not a valid {ty}"))
}

/// Owns the objects to which a call frame points.
#[derive(Default)]
struct Arena(Vec<Box<dyn Any>>);

impl Arena {
    fn keep<T: 'static>(&mut self, value: T) -> *const T {
        let boxed = Box::new(value);
        let at: *const T = &raw const *boxed;
        self.0.push(boxed);
        at
    }

    /// Stores a vector and returns the address of its elements. The address stays valid, because moving a `Vec` does
    /// not move its elements.
    fn list<T: 'static>(&mut self, list: Vec<T>) -> *const T {
        let at = list.as_ptr();
        self.0.push(Box::new(list));
        at
    }

    fn text(&mut self, text: &str) -> *const ByteSpan {
        let len = text.len();
        let data = self.list(text.as_bytes().to_vec());
        self.keep(ByteSpan { data, len })
    }

    /// Builds the operands or results of a call. `parts` contains the shape and the address of each buffer.
    fn buffers(&mut self, parts: Vec<(&Shape, *mut c_void)>) -> Result<Buffers> {
        let size = count(parts.len());
        let types = self.list(vec![BUFFER; parts.len()]);
        let mut all = Vec::with_capacity(parts.len());
        for (shape, data) in parts {
            let dtype = data_type(shape.element_type).ok_or_else(|| {
                Error::unimplemented(format!(
                    "arrays of type {} cannot be passed to a custom call in C",
                    shape.element_type
                ))
            })?;
            let dims: Vec<i64> = shape.dimensions.to_vec();
            let (rank, dims) = (count(dims.len()), self.list(dims));
            let struct_size = size_of::<Buffer>();
            all.push(self.keep(Buffer { struct_size, extension_start: ptr::null(), dtype, data, rank, dims }));
        }
        let buffers = self.list(all);
        Ok(Buffers { struct_size: size_of::<Buffers>(), extension_start: ptr::null(), size, types, buffers })
    }

    /// Builds the attributes, sorted by name, because handlers expect this order. `types` contains the element types of
    /// integers and floats in `values`, at the same indices.
    fn attributes(&mut self, values: &[(String, Attribute)], types: &[Option<ElementType>]) -> Result<Attrs> {
        let mut order: Vec<usize> = (0..values.len()).collect();
        order.sort_by_key(|&index| &values[index].0);
        let (mut kinds, mut names, mut all) = (Vec::new(), Vec::new(), Vec::new());
        for index in order {
            let (name, value) = &values[index];
            let (kind, value) = self.attribute(name, value, types.get(index).copied().flatten())?;
            kinds.push(kind);
            names.push(self.text(name));
            all.push(value);
        }
        let size = count(all.len());
        let (types, names, values) = (self.list(kinds), self.list(names), self.list(all));
        Ok(Attrs { struct_size: size_of::<Attrs>(), extension_start: ptr::null(), size, types, names, values })
    }

    /// Builds a scalar of at most 64 bits from its little-endian bytes.
    fn scalar(&mut self, ty: ElementType, bytes: [u8; 8]) -> Result<(c_int, *const c_void)> {
        let dtype = data_type(ty).ok_or_else(|| {
            Error::unimplemented(format!("attributes of type {ty} cannot be passed to a custom call in C"))
        })?;
        // Store the bytes as a `u64`, so that the scalar is aligned.
        let value = self.keep(u64::from_ne_bytes(bytes)).cast();
        Ok((SCALAR, self.keep(Scalar { dtype, value }).cast()))
    }

    fn attribute(&mut self, name: &str, value: &Attribute, ty: Option<ElementType>) -> Result<(c_int, *const c_void)> {
        let array = |arena: &mut Self, ty, size, data: *const c_void| {
            let dtype = data_type(ty).unwrap_or_default();
            Ok((ARRAY, arena.keep(Array { dtype, size, data }).cast()))
        };
        match value {
            Attribute::Bool(value) => self.scalar(ElementType::Pred, u64::from(*value).to_le_bytes()),
            Attribute::Int(value) => {
                let ty = ty.unwrap_or(ElementType::S64);
                self.scalar(ty, integer(name, *value, ty)?)
            }
            Attribute::Float(value) => {
                let ty = ty.unwrap_or(ElementType::F64);
                self.scalar(ty, float(name, *value, ty)?)
            }
            Attribute::String(text) => Ok((STRING, self.text(text).cast())),
            Attribute::IntList(list) => {
                let (size, data) = (list.len(), self.list(list.clone()).cast());
                array(self, ElementType::S64, size, data)
            }
            Attribute::FloatList(list) => {
                let (size, data) = (list.len(), self.list(list.clone()).cast());
                array(self, ElementType::F64, size, data)
            }
            Attribute::Dictionary(entries) => {
                let attributes = self.attributes(entries, &[])?;
                Ok((DICTIONARY, self.keep(attributes).cast()))
            }
        }
    }
}

fn count(len: usize) -> i64 {
    i64::try_from(len).unwrap_or(i64::MAX)
}

/// Calls the handler at `address`, which a framework passed to `PJRT_FFI_Register_Handler`.
///
/// # Errors
///
/// Returns the errors of the handler. Returns `UNIMPLEMENTED` for element types that XLA's FFI does not support.
/// Returns `INVALID_ARGUMENT` for data that the handler would misread: buffers that do not match their shapes or are
/// misaligned, and attributes whose value is out of range for their type. Returns `FAILED_PRECONDITION` if the
/// execution has ended.
pub(crate) fn call(address: usize, call: &mut Call<'_>) -> Result<()> {
    // The handler accesses memory according to the shapes, and safe code may have changed the shapes since `Call::new`
    // checked them.
    call.check()?;
    let inputs: Vec<_> = call.operands.iter().map(|x| (x.shape, x.bytes.as_ptr().cast_mut().cast())).collect();
    check_alignment("operand", &inputs)?;
    let outputs: Vec<_> = call.results.iter_mut().map(|x| (x.shape, x.bytes.as_mut_ptr().cast())).collect();
    check_alignment("result", &outputs)?;
    let mut arena = Arena::default();
    let (args, rets) = (arena.buffers(inputs)?, arena.buffers(outputs)?);
    let context = Context { user_data: call.context, device: None };
    call_with(address, arena, [args, rets], call.attributes, &context)
}

/// Calls the handler at `address` with device memory.
///
/// # Errors
///
/// Returns the errors of [`call`], except that the sizes and the alignment of the arrays are unknown.
///
/// # Safety
///
/// V11 (device calls), see [`Handler::call_on_device`](crate::ffi::Handler::call_on_device).
pub(crate) unsafe fn call_on_device(address: usize, call: &DeviceCall<'_>) -> Result<()> {
    let mut arena = Arena::default();
    // The address may be a driver's handle, so it need not be aligned.
    let mut buffers = |arrays: &[DeviceArray<'_>]| {
        arena.buffers(arrays.iter().map(|x| (x.shape, ptr::with_exposed_provenance_mut(x.address))).collect())
    };
    let all = [buffers(call.operands)?, buffers(call.results)?];
    let context = Context { user_data: call.context, device: Some((call.device, call.stream)) };
    call_with(address, arena, all, call.attributes, &context)
}

/// Calls the handler at `address` with the operands and the results.
fn call_with(
    address: usize,
    mut arena: Arena,
    [args, rets]: [Buffers; 2],
    attributes: &Attributes,
    context: &Context<'_>,
) -> Result<()> {
    let attrs = arena.attributes(&attributes.values, &attributes.types)?;
    // The handler may read the user data, which the framework may free after the execution.
    let _open = context.user_data.enter()?;
    let mut frame = CallFrame {
        struct_size: std::mem::offset_of!(CallFrame, future),
        extension_start: ptr::null(),
        api: &raw const API,
        context: ptr::from_ref(context).cast(),
        stage: EXECUTE,
        args,
        rets,
        attrs,
        future: ptr::null(),
    };
    let handler = ptr::with_exposed_provenance::<()>(address);
    // SAFETY: V4 (callbacks): a framework registered the address as a function of this type.
    #[expect(clippy::disallowed_methods, reason = "an address that is a function")]
    let handler = unsafe { std::mem::transmute::<*const (), XlaHandler>(handler) };
    let error = handler(&raw mut frame);
    drop(arena);
    if error.is_null() {
        return Ok(());
    }
    // SAFETY: V2 (handles), V5 (opaque types): handlers create errors only through `API`, and the handler passed the
    // ownership of this error to the caller.
    let error = unsafe { Box::from_raw(error) };
    Err(Error::new(ErrorCode::from_raw(error.code), error.message.to_string_lossy().into_owned()))
}

#[cfg(test)]
#[path = "foreign_handler_tests.rs"]
mod tests;

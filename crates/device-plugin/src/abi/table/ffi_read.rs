//! Checked reads of structs, arrays and text through a framework's pointers.

use std::ffi::c_char;

use pjrt_sys::{AbiStruct, PJRT_NamedValue, PJRT_NamedValue_Type};

pub(crate) use plugin_manifest::c_view::foreign::{slice, slice_mut, text};

use crate::{ElementType, Error, NamedValue, Result, Shape, Value};

/// An opaque C type whose pointers refer to values of one Rust type in the plugin `P`.
///
/// # Safety
///
/// V5 (opaque types): every pointer of the C type that the plugin returns points to a `Target`.
pub(crate) unsafe trait Handle<P> {
    type Target: 'static;
}

/// A raw pointer, `*const T` or `*mut T`. The header uses both types for handles.
pub(crate) trait Pointer {
    type To;
    fn to_const(self) -> *const Self::To;
}

impl<T> Pointer for *const T {
    type To = T;
    fn to_const(self) -> *const T {
        self
    }
}

impl<T> Pointer for *mut T {
    type To = T;
    fn to_const(self) -> *const T {
        self.cast_const()
    }
}

/// Returns the object behind a handle, or an error that names `field` if the handle is null.
///
/// # Safety
///
/// V2 (handles) holds for `handle`. The returned reference must not outlive the object.
pub(crate) unsafe fn handle<'a, P, H: Pointer<To: Handle<P>>>(
    handle: H,
    field: &str,
) -> Result<&'a <H::To as Handle<P>>::Target> {
    // SAFETY: V2 (handles) and V5 (opaque types): a handle that is not null points to a live target.
    let target = unsafe { handle.to_const().cast::<<H::To as Handle<P>>::Target>().as_ref() };
    target.ok_or_else(|| no_object(field, true))
}

/// Returns the error for a null or misaligned pointer to one object.
#[cold]
#[inline(never)]
fn no_object(field: &str, null: bool) -> Error {
    Error::argument(format!("{field} is {}", if null { "null" } else { "not aligned" }))
}

/// Copies a struct to which the arguments point. Truncates or zero-pads a struct of another API version to the size of
/// this crate's struct.
///
/// # Errors
///
/// Returns an error if the pointer is null or misaligned, or if the struct is shorter than in the oldest supported
/// framework.
///
/// # Safety
///
/// V1 (argument structs) holds for `data`.
#[inline]
pub(crate) unsafe fn nested<T: AbiStruct>(data: *const T, field: &str) -> Result<T> {
    if data.is_null() || !data.is_aligned() {
        return Err(no_object(field, data.is_null()));
    }
    // SAFETY: V1 (argument structs): every struct begins with its size.
    let size = unsafe { data.cast::<usize>().read() };
    if size < T::MIN_SIZE {
        return Err(too_short::<T>(size, field));
    }
    // SAFETY: V1 (argument structs): `size` bytes are readable.
    Ok(unsafe { local_copy(data, size) })
}

/// Returns the error for a struct that is shorter than in the oldest supported framework.
#[cold]
pub(crate) fn too_short<T: AbiStruct>(size: usize, field: &str) -> Error {
    too_short_for(size, field, T::MIN_SIZE, T::STRUCT_SIZE)
}

/// Returns the same error as [`too_short`], but takes the sizes as arguments.
#[cold]
#[inline(never)]
pub(crate) fn too_short_for(size: usize, field: &str, min_size: usize, known_size: usize) -> Error {
    Error::argument(format!(
        "{field}->struct_size is {size}, but even the oldest supported framework passes {min_size}; set it to \
         {known_size}"
    ))
}

/// Returns the address of the next struct in an array. Structs of a framework with another API version may be longer or
/// shorter than the structs of this crate. Padding aligns each struct of the array.
pub(crate) fn next<T: AbiStruct>(at: *const T, struct_size: usize) -> *const T {
    let size = struct_size.checked_next_multiple_of(align_of::<T>());
    at.wrapping_byte_add(size.unwrap_or(0))
}

/// Copies the first `size` bytes of a framework's struct into a struct of this crate's version. The remaining bytes of
/// the copy are zero.
///
/// # Safety
///
/// V1 (argument structs) holds for `size` bytes at `data`.
#[inline]
pub(crate) unsafe fn local_copy<T: AbiStruct>(data: *const T, size: usize) -> T {
    let mut local = T::new();
    // SAFETY: V1 (argument structs), which the caller promises. `local` has at least `STRUCT_SIZE` bytes.
    unsafe { copy_struct::<T>(data.cast(), (&raw mut local).cast(), size) };
    local
}

/// Copies the first `size` bytes of a struct, or the whole struct if `size` is larger.
///
/// # Safety
///
/// `from` and `to` are valid for that many bytes, are aligned for `T`, and do not overlap.
#[inline]
pub(crate) unsafe fn copy_struct<T: AbiStruct>(from: *const u8, to: *mut u8, size: usize) {
    if size < T::STRUCT_SIZE {
        // SAFETY: the caller promises that both pointers are valid and aligned, and do not overlap.
        return unsafe { from.copy_to_nonoverlapping(to, size) };
    }
    // The usual case is a complete struct. Its fields have just been written as single words. A wider load spans
    // several of these pending stores and must wait until they have reached the cache, which takes longer than the
    // whole copy. Therefore copy word by word. The reads are volatile, because the compiler does not merge volatile
    // reads into wider loads.
    const WORD: usize = size_of::<u64>();
    let words = T::STRUCT_SIZE / WORD;
    for word in 0..words {
        // SAFETY: the caller promises a valid pointer, and all structs of the C API have the alignment of a word.
        let value = unsafe { from.cast::<u64>().wrapping_add(word).read_volatile() };
        // SAFETY: the caller promises a valid pointer with the same alignment.
        unsafe { to.cast::<u64>().wrapping_add(word).write(value) };
    }
    let done = words * WORD;
    // SAFETY: the caller promises valid pointers, and fewer than eight bytes remain.
    unsafe { from.wrapping_add(done).copy_to_nonoverlapping(to.wrapping_add(done), T::STRUCT_SIZE - done) };
}

/// Reads a status code and message as an error. Returns `None` for `OK`.
///
/// # Safety
///
/// V3 (arrays and text) holds for the message.
pub(crate) unsafe fn status(code: u32, message: *const c_char, len: usize) -> Result<Option<Error>> {
    if code == 0 {
        return Ok(None);
    }
    // SAFETY: V3 (arrays and text), which the caller promises.
    let bytes = unsafe { slice(message.cast::<u8>(), len, "error_message") }?;
    Ok(Some(Error::new(crate::ErrorCode::from_raw(code), String::from_utf8_lossy(bytes))))
}

/// Reads a status that must be an error, with the payloads that newer frameworks add.
///
/// # Safety
///
/// V3 (arrays and text) holds for the message and the payloads, and V1 (argument structs) for each payload.
pub(crate) unsafe fn error_with_payload(
    (code, message, len): (u32, *const c_char, usize),
    payload: *const PJRT_NamedValue,
    num_payload: usize,
) -> Result<Error> {
    // SAFETY: V3 (arrays and text) and V1 (argument structs), which the caller promises.
    let error = unsafe { status(code, message, len) }?;
    let error = error.ok_or_else(|| Error::argument("error_code is OK; pass the code of an error"))?;
    // SAFETY: V3 (arrays and text) and V1 (argument structs), which the caller promises.
    let payloads = unsafe { named_values(payload, num_payload, "payload") }?;
    let bytes = |value| match value {
        Value::String(text) => text.into_bytes(),
        other => other.to_string().into_bytes(),
    };
    Ok(payloads.into_iter().fold(error, |error, payload| error.with_payload(payload.name, bytes(payload.value))))
}

#[cold]
fn unknown_element_type(raw: u32) -> String {
    format!("unknown PJRT_Buffer_Type {raw}; this plugin knows 1 to {}", ElementType::ALL.len())
}

/// Reads a shape from an element type and an array of extents.
///
/// # Safety
///
/// V3 (arrays and text) holds for `dims`.
pub(crate) unsafe fn shape(element_type: u32, dims: *const i64, num_dims: usize) -> Result<Shape> {
    let known =
        ElementType::from_raw(element_type).ok_or_else(|| Error::argument(unknown_element_type(element_type)))?;
    // SAFETY: V3 (arrays and text), which the caller promises.
    let shape = Shape::new(known, unsafe { slice(dims, num_dims, "dims") }?);
    match shape.host_size() {
        Some(_) => Ok(shape),
        None => Err(Error::argument(format!("{shape} has a negative extent or exceeds the address space"))),
    }
}

/// Reads named values, such as options.
///
/// # Safety
///
/// V1 (argument structs) and V3 (arrays and text) hold for each value.
pub(crate) unsafe fn named_values(values: *const PJRT_NamedValue, len: usize, field: &str) -> Result<Vec<NamedValue>> {
    let mut read = Vec::with_capacity(len.min(64));
    let mut at = values;
    for i in 0..len {
        // SAFETY: V3 (arrays and text): the array has `len` values, and `at` points to the value with index `i`.
        let value = unsafe { nested(at, field) }?;
        // SAFETY: V3 (arrays and text) for all data that the value points to.
        read.push(unsafe { named_value(&value) }.map_err(|error| error.context(format_args!("{field}[{i}]")))?);
        at = next(at, value.struct_size);
    }
    Ok(read)
}

/// # Safety
///
/// V3 (arrays and text) holds for all data that the value points to.
unsafe fn named_value(value: &PJRT_NamedValue) -> Result<NamedValue> {
    // SAFETY: V3 (arrays and text), which the caller promises.
    let name = unsafe { text(value.name, value.name_size, "name") }?;
    let union = value.__bindgen_anon_1;
    let value = match value.type_ {
        PJRT_NamedValue_Type::PJRT_NamedValue_kString => {
            // SAFETY: the type selects the field of the union.
            let data = unsafe { union.string_value };
            // SAFETY: V3 (arrays and text), which the caller promises.
            Value::String(unsafe { text(data, value.value_size, "string_value") }?.to_owned())
        }
        PJRT_NamedValue_Type::PJRT_NamedValue_kInt64List => {
            // SAFETY: the type selects the field of the union.
            let data = unsafe { union.int64_array_value };
            // SAFETY: V3 (arrays and text), which the caller promises.
            Value::Int64List(unsafe { slice(data, value.value_size, "int64_array_value") }?.to_vec())
        }
        // SAFETY: the type selects the field of the union.
        PJRT_NamedValue_Type::PJRT_NamedValue_kInt64 => Value::Int64(unsafe { union.int64_value }),
        // SAFETY: the type selects the field of the union.
        PJRT_NamedValue_Type::PJRT_NamedValue_kFloat => Value::Float(unsafe { union.float_value }),
        // SAFETY: the type selects the field of the union.
        PJRT_NamedValue_Type::PJRT_NamedValue_kBool => Value::Bool(unsafe { union.bool_value }.get()),
        other => return Err(Error::argument(format!("the value {name:?} has the unknown type {}", other.0))),
    };
    Ok(NamedValue::new(name, value))
}

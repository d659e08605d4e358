//! Arrays and bytes that outlive the call that returns them to the framework.

use std::ffi::c_char;

use pjrt_sys::{AbiStruct, PJRT_NamedValue, PJRT_NamedValue__bindgen_ty_1, PJRT_NamedValue_Type};

use crate::{NamedValue, Value};

/// An array of pointers that the framework reads. `Pointers` itself never dereferences them.
#[derive(Debug)]
pub(crate) struct Pointers<T>(Vec<*mut T>);

// SAFETY: `Pointers` never dereferences the addresses.
unsafe impl<T> Send for Pointers<T> {}
// SAFETY: the reason for `Send` of this type also applies here.
unsafe impl<T> Sync for Pointers<T> {}

impl<T> Pointers<T> {
    /// Creates an array of handles of type `T` that point to `items`.
    pub(crate) fn of<'a, U: 'a>(items: impl IntoIterator<Item = &'a U>) -> Self {
        Self(items.into_iter().map(|item| std::ptr::from_ref(item).cast_mut().cast()).collect())
    }

    pub(crate) fn as_slice(&self) -> &[*mut T] {
        &self.0
    }

    /// Returns the index of a handle in the array, or `None` if the array does not contain it. The handle is only
    /// compared, so it need not be valid.
    pub(crate) fn position(&self, handle: *mut T) -> Option<usize> {
        self.0.iter().position(|known| *known == handle)
    }
}

impl<T> FromIterator<*mut T> for Pointers<T> {
    fn from_iter<I: IntoIterator<Item = *mut T>>(items: I) -> Self {
        Self(items.into_iter().collect())
    }
}

/// Strings in the form of the C API: an array of pointers and an array of lengths.
#[derive(Debug)]
pub(crate) struct Texts {
    /// The strings to which `pointers` points.
    _texts: Vec<Box<[u8]>>,
    pointers: Pointers<c_char>,
    sizes: Vec<usize>,
}

impl Texts {
    pub(crate) fn new(texts: impl IntoIterator<Item = impl Into<Vec<u8>>>) -> Self {
        let texts: Vec<Box<[u8]>> = texts.into_iter().map(|text| text.into().into_boxed_slice()).collect();
        let pointers = texts.iter().map(|text| text.as_ptr().cast::<c_char>().cast_mut()).collect();
        let sizes = texts.iter().map(|text| text.len()).collect();
        Self { _texts: texts, pointers, sizes }
    }

    pub(crate) fn len(&self) -> usize {
        self.sizes.len()
    }

    pub(crate) fn pointers(&self) -> *const *const c_char {
        self.pointers.as_slice().as_ptr().cast()
    }

    pub(crate) fn sizes(&self) -> *const usize {
        self.sizes.as_ptr()
    }
}

/// Named values together with their C structs.
pub(crate) struct NamedValues {
    /// The values to which the structs in `raw` point.
    _values: Vec<NamedValue>,
    raw: Vec<PJRT_NamedValue>,
}

// SAFETY: the structs in `raw` point only to data of `_values`, which does not change.
unsafe impl Send for NamedValues {}
// SAFETY: the reason for `Send` of this type also applies here.
unsafe impl Sync for NamedValues {}

impl NamedValues {
    pub(crate) fn new(values: Vec<NamedValue>) -> Self {
        let raw = values.iter().map(raw_named_value).collect();
        Self { _values: values, raw }
    }

    /// Creates named values for attributes of devices and topologies. Removes values of types other than string,
    /// integer and list of integers, because frameworks abort on them.
    pub(crate) fn attributes(mut values: Vec<NamedValue>) -> Self {
        values.retain(|value| matches!(value.value, Value::String(_) | Value::Int64(_) | Value::Int64List(_)));
        Self::new(values)
    }

    pub(crate) fn raw(&self) -> &[PJRT_NamedValue] {
        &self.raw
    }
}

fn raw_named_value(value: &NamedValue) -> PJRT_NamedValue {
    let mut raw = PJRT_NamedValue::new();
    raw.name = value.name.as_ptr().cast();
    raw.name_size = value.name.len();
    (raw.type_, raw.__bindgen_anon_1, raw.value_size) = match &value.value {
        Value::String(text) => (
            PJRT_NamedValue_Type::PJRT_NamedValue_kString,
            PJRT_NamedValue__bindgen_ty_1 { string_value: text.as_ptr().cast() },
            text.len(),
        ),
        Value::Int64(value) => {
            (PJRT_NamedValue_Type::PJRT_NamedValue_kInt64, PJRT_NamedValue__bindgen_ty_1 { int64_value: *value }, 1)
        }
        Value::Int64List(list) => (
            PJRT_NamedValue_Type::PJRT_NamedValue_kInt64List,
            PJRT_NamedValue__bindgen_ty_1 { int64_array_value: list.as_ptr() },
            list.len(),
        ),
        Value::Float(value) => {
            (PJRT_NamedValue_Type::PJRT_NamedValue_kFloat, PJRT_NamedValue__bindgen_ty_1 { float_value: *value }, 1)
        }
        Value::Bool(value) => (
            PJRT_NamedValue_Type::PJRT_NamedValue_kBool,
            PJRT_NamedValue__bindgen_ty_1 { bool_value: (*value).into() },
            1,
        ),
        other => {
            // The C API has no type for this value. Pass an empty string instead.
            debug_assert!(false, "values of type {} cannot be represented in the C interface", other.type_name());
            (
                PJRT_NamedValue_Type::PJRT_NamedValue_kString,
                PJRT_NamedValue__bindgen_ty_1 { string_value: c"".as_ptr() },
                0,
            )
        }
    };
    raw
}

/// Bytes for the framework, and a pointer to the boxed vector that owns them. The framework frees the vector through a
/// deleter.
pub(crate) struct Blob {
    pub(crate) bytes: *const c_char,
    pub(crate) size: usize,
    pub(crate) owner: *mut Vec<u8>,
}

impl Blob {
    /// Boxes the vector `bytes`. The boxed vector is the owner of the blob, and the framework frees it with
    /// [`delete_blob`].
    pub(crate) fn new(bytes: Vec<u8>) -> Self {
        let owner = Box::into_raw(Box::new(bytes));
        // SAFETY: `owner` was boxed above and is not null.
        let bytes = unsafe { &*owner };
        Self { bytes: bytes.as_ptr().cast(), size: bytes.len(), owner }
    }
}

/// Frees the owner of a [`Blob`]. `T` is the opaque C type by which the framework refers to the owner. Does nothing if
/// `owner` is null.
///
/// # Safety
///
/// V2 (handles) holds for `owner`.
pub(crate) unsafe extern "C" fn delete_blob<T>(owner: *mut T) {
    if !owner.is_null() {
        // SAFETY: V2 (handles): `Blob::new` boxed the owner, and the framework no longer uses it.
        drop(unsafe { Box::from_raw(owner.cast::<Vec<u8>>()) });
    }
}

/// Bytes that the framework frees through a deleter. The deleter receives only the address of the bytes, so the word
/// before the bytes stores the size of the allocation.
pub(crate) enum Bytes {}

impl Bytes {
    const WORD: usize = size_of::<u64>();

    /// Copies `bytes` and returns the address of the copy. The framework frees the copy with [`Bytes::delete`].
    pub(crate) fn give(bytes: &[u8]) -> *const c_char {
        let mut words = vec![0u64; 1 + bytes.len().div_ceil(Self::WORD)];
        words[0] = words.len() as u64;
        for (word, bytes) in words[1..].iter_mut().zip(bytes.chunks(Self::WORD)) {
            let mut whole = [0; Self::WORD];
            whole[..bytes.len()].copy_from_slice(bytes);
            *word = u64::from_ne_bytes(whole);
        }
        let words: *mut u64 = Box::into_raw(words.into_boxed_slice()).cast();
        words.wrapping_add(1).cast_const().cast()
    }

    /// Frees bytes that [`Bytes::give`] returned. Does nothing if `bytes` is null.
    ///
    /// # Safety
    ///
    /// V2 (handles): the bytes came from [`Bytes::give`], and the caller does not use them again.
    pub(crate) unsafe extern "C" fn delete(bytes: *const c_char) {
        if bytes.is_null() {
            return;
        }
        let words = bytes.cast::<u64>().cast_mut().wrapping_sub(1);
        // SAFETY: V2 (handles): the word before the bytes contains the number of words.
        let count = usize::try_from(unsafe { words.read() }).unwrap_or(0);
        // SAFETY: V2 (handles): `give` allocated these words as a boxed slice.
        drop(unsafe { Box::from_raw(std::ptr::slice_from_raw_parts_mut(words, count)) });
    }
}

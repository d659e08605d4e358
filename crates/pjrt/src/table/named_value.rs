//! Conversion between `PJRT_NamedValue` and [`NamedValue`].

use std::ffi::c_char;

use pjrt_sys::*;
use pjrt_types::{NamedValue, Value};

use crate::table::read::{self, Malformed};

/// Copies an array of named values from the plugin. Skips values of an unknown type.
///
/// # Safety
///
/// `values` is null or misaligned, or points to `len` valid values. Each value may be longer than `PJRT_NamedValue` of
/// this crate's header. The memory that the values refer to is valid.
pub(crate) unsafe fn read(values: *const PJRT_NamedValue, len: usize) -> Result<Vec<NamedValue>, Malformed> {
    let mut read = Vec::new();
    if len == 0 {
        return Ok(read);
    }
    if values.is_null() || !values.is_aligned() {
        return Err(Malformed("null or misaligned named values"));
    }
    // SAFETY: C1 (table): a value begins with its `struct_size`.
    let struct_size = unsafe { values.cast::<usize>().read() };
    if struct_size < PJRT_NamedValue::STRUCT_SIZE {
        return Err(Malformed("named values that are too short"));
    }
    // A newer plugin's values may be longer than `PJRT_NamedValue` of this crate's header, so use their `struct_size`
    // as the stride.
    let stride = struct_size.next_multiple_of(align_of::<PJRT_NamedValue>());
    for index in 0..len {
        // SAFETY: C3 (objects): the array has `len` values of this stride.
        let value = unsafe { values.byte_add(index * stride) };
        // SAFETY: C1 (table): the value is readable for its `struct_size`, which is at least the size of
        // `PJRT_NamedValue`.
        let value = unsafe { value.read() };
        // SAFETY: C3 (objects): the memory that the value refers to lives as long as the value.
        if let Some(value) = unsafe { one(&value) }? {
            read.push(value);
        }
    }
    Ok(read)
}

/// # Safety
///
/// The memory that the value refers to is valid.
unsafe fn one(raw: &PJRT_NamedValue) -> Result<Option<NamedValue>, Malformed> {
    // SAFETY: this function's contract: the name is valid.
    let name = unsafe { read::text(raw.name, raw.name_size) }?.into_owned();
    let value = match raw.type_ {
        PJRT_NamedValue_Type::PJRT_NamedValue_kString => {
            // SAFETY: the type field selects this member of the union, and every bit pattern is a valid value of each
            // member.
            let text = unsafe { raw.__bindgen_anon_1.string_value };
            // SAFETY: this function's contract: the string is valid.
            Value::String(unsafe { read::text(text, raw.value_size) }?.into_owned())
        }
        PJRT_NamedValue_Type::PJRT_NamedValue_kInt64 => {
            // SAFETY: the type field selects this member, and every bit pattern is a valid value of the member.
            Value::Int64(unsafe { raw.__bindgen_anon_1.int64_value })
        }
        PJRT_NamedValue_Type::PJRT_NamedValue_kInt64List => {
            // SAFETY: the type field selects this member, and every bit pattern is a valid value of the member.
            let list = unsafe { raw.__bindgen_anon_1.int64_array_value };
            // SAFETY: this function's contract: the array is valid.
            Value::Int64List(unsafe { read::slice(list, raw.value_size) }?.to_vec())
        }
        PJRT_NamedValue_Type::PJRT_NamedValue_kFloat => {
            // SAFETY: the type field selects this member, and every bit pattern is a valid value of the member.
            Value::Float(unsafe { raw.__bindgen_anon_1.float_value })
        }
        PJRT_NamedValue_Type::PJRT_NamedValue_kBool => {
            // SAFETY: the type field selects this member, and every bit pattern is a valid value of the member.
            Value::Bool(unsafe { raw.__bindgen_anon_1.bool_value }.get())
        }
        other => {
            tracing::debug!(name, ty = other.0, "a named value of unknown type is ignored");
            return Ok(None);
        }
    };
    Ok(Some(NamedValue { name, value }))
}

/// Converts values to C structs. The structs point into `values`.
pub(crate) fn raw(values: &[NamedValue]) -> Vec<PJRT_NamedValue> {
    let one = |value: &NamedValue| {
        let mut raw = PJRT_NamedValue::new();
        raw.name = value.name.as_ptr().cast::<c_char>();
        raw.name_size = value.name.len();
        raw.value_size = 1;
        match &value.value {
            Value::String(text) => {
                raw.type_ = PJRT_NamedValue_Type::PJRT_NamedValue_kString;
                raw.__bindgen_anon_1.string_value = text.as_ptr().cast::<c_char>();
                raw.value_size = text.len();
            }
            Value::Int64(value) => {
                raw.type_ = PJRT_NamedValue_Type::PJRT_NamedValue_kInt64;
                raw.__bindgen_anon_1.int64_value = *value;
            }
            Value::Int64List(list) => {
                raw.type_ = PJRT_NamedValue_Type::PJRT_NamedValue_kInt64List;
                raw.__bindgen_anon_1.int64_array_value = list.as_ptr();
                raw.value_size = list.len();
            }
            Value::Float(value) => {
                raw.type_ = PJRT_NamedValue_Type::PJRT_NamedValue_kFloat;
                raw.__bindgen_anon_1.float_value = *value;
            }
            Value::Bool(value) => {
                raw.type_ = PJRT_NamedValue_Type::PJRT_NamedValue_kBool;
                raw.__bindgen_anon_1.bool_value = Bool::from(*value);
            }
            // `Value` is non-exhaustive. Add an arm for each new variant. This arm passes an empty string to the
            // plugin, because `kString` is 0.
            _ => raw.value_size = 0,
        }
        raw
    };
    values.iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_round_trip() {
        let values = [
            NamedValue::new("text", "é"),
            NamedValue::new("int", -3i64),
            NamedValue::new("list", [1, 2, 3]),
            NamedValue::new("none", [0i64; 0]),
            NamedValue::new("float", 0.5f32),
            NamedValue::new("bool", true),
        ];
        let raw = raw(&values);
        // SAFETY: the values live in `raw` and `values`.
        assert_eq!(unsafe { read(raw.as_ptr(), raw.len()) }.unwrap(), values);
    }

    #[test]
    fn reads_longer_values_of_newer_plugin() {
        #[repr(C)]
        struct Newer(PJRT_NamedValue, u64);
        let values = [NamedValue::new("a", 1i64), NamedValue::new("b", 2i64)];
        let newer: Vec<Newer> = raw(&values)
            .into_iter()
            .map(|mut value| {
                value.struct_size = size_of::<Newer>();
                Newer(value, u64::MAX)
            })
            .collect();
        // SAFETY: the values live in `newer` and `values`.
        assert_eq!(unsafe { read(newer.as_ptr().cast(), 2) }.unwrap(), values);
    }

    #[test]
    fn rejects_broken_values_and_skips_unknown_types() {
        let values = [NamedValue::new("a", 1i64), NamedValue::new("b", 2i64)];
        let mut raw = raw(&values);
        raw[0].type_ = PJRT_NamedValue_Type(77);
        // SAFETY: the values live in `raw` and `values`.
        assert_eq!(unsafe { read(raw.as_ptr(), 2) }.unwrap(), values[1..]);
        raw[0].struct_size = 48;
        // SAFETY: the values live in `raw` and `values`, and `read` rejects their `struct_size`.
        assert!(unsafe { read(raw.as_ptr(), 2) }.is_err());
        // SAFETY: null is allowed.
        assert!(unsafe { read(std::ptr::null(), 2) }.is_err());
    }
}

//! Conversion of single C fields to Rust. Errors name the field.

use super::structs::{
    DP_FEATURE_BOOL, DP_FEATURE_FLOAT, DP_FEATURE_INT64, DP_FEATURE_INT64_LIST, DP_FEATURE_STRING, dp_feature,
    dp_string,
};
use crate::c_view::foreign;
use crate::names::Code;
use crate::{Error, Result, Value};

/// Converts a code. The error for an unknown code names the field.
pub(super) fn decode<T: Code>(field: &str, number: u32) -> Result<T> {
    T::from_code(number).ok_or_else(|| unknown(field, number))
}

/// Returns the error for an unknown code.
pub(super) fn unknown(field: &str, number: u32) -> Error {
    let remedy = "update this reader if the plugin is newer than it, or correct the number";
    Error::invalid_argument(format!("{field} = {number} is not a known value; {remedy}"))
}

/// Converts a C flag, which is 0 or 1, to a `bool`.
pub(super) fn flag(field: &str, number: u32) -> Result<bool> {
    match number {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(Error::invalid_argument(format!("{field} = {number} is not a flag; write 0 or 1"))),
    }
}

/// Reads a list of codes. Returns an empty list if the length is 0.
///
/// # Safety
///
/// The list satisfies V8 of `docs/safety.md`.
pub(super) unsafe fn decoded<T: Code>((data, size): (*const u32, usize), field: &str) -> Result<Vec<T>> {
    // SAFETY: V8 (descriptors): the list is readable for its length.
    let numbers = unsafe { foreign::slice(data, size, field) }?;
    let element = |(index, &number): (usize, &u32)| decode(&format!("{field}[{index}]"), number);
    numbers.iter().enumerate().map(element).collect()
}

/// Reads a string. Returns `None` if the string is empty.
///
/// # Safety
///
/// The string satisfies V8 of `docs/safety.md`.
pub(super) unsafe fn text(string: dp_string, field: &str) -> Result<Option<String>> {
    // SAFETY: V8 (descriptors): the text is readable for its length.
    let text = unsafe { foreign::text(string.data, string.size, field) }?;
    Ok((!text.is_empty()).then(|| text.to_owned()))
}

/// Converts a feature to its name and its value.
///
/// # Safety
///
/// All data that the feature points to satisfies V8 of `docs/safety.md`.
pub(super) unsafe fn named(feature: &dp_feature) -> Result<(String, Value)> {
    // SAFETY: V8 (descriptors): the text is readable for its length.
    let name = unsafe { text(feature.name, "features.name") }?.unwrap_or_default();
    let field = |part: &str| format!("features.{name}.{part}");
    let value = match feature.kind {
        DP_FEATURE_STRING => {
            // SAFETY: V8 (descriptors): the text is readable for its length.
            let value = unsafe { text(feature.string_value, &field("string_value")) }?;
            Value::String(value.unwrap_or_default())
        }
        DP_FEATURE_INT64 => Value::Int64(feature.int64_value),
        DP_FEATURE_INT64_LIST => {
            let (data, size) = (feature.int64_list, feature.int64_list_size);
            // SAFETY: V8 (descriptors): the list is readable for its length.
            Value::Int64List(unsafe { foreign::slice(data, size, &field("int64_list")) }?.to_vec())
        }
        DP_FEATURE_FLOAT => Value::Float(feature.float_value),
        DP_FEATURE_BOOL => Value::Bool(flag(&field("bool_value"), feature.bool_value)?),
        other => return Err(unknown(&field("kind"), other)),
    };
    Ok((name, value))
}

//! Owner of the memory to which a C struct points.

use super::structs::{
    DP_FEATURE_BOOL, DP_FEATURE_FLOAT, DP_FEATURE_INT64, DP_FEATURE_INT64_LIST, DP_FEATURE_STRING, dp_dtype_remap,
    dp_feature, dp_string,
};
use crate::{Error, Result, Value};

/// The memory to which a C struct points.
#[derive(Debug, Default)]
pub(super) struct Owned {
    texts: Vec<String>,
    numbers: Vec<Vec<u32>>,
    integers: Vec<Vec<i64>>,
    pub(super) strings: Vec<dp_string>,
    pub(super) remaps: Vec<dp_dtype_remap>,
    pub(super) features: Vec<dp_feature>,
}

impl Owned {
    pub(super) fn text(&mut self, text: &str) -> dp_string {
        if text.is_empty() {
            return dp_string::EMPTY;
        }
        let text = text.to_owned();
        let string = dp_string::new(&text);
        self.texts.push(text);
        string
    }

    pub(super) fn numbers(&mut self, numbers: impl IntoIterator<Item = u32>) -> (*const u32, usize) {
        let numbers: Vec<u32> = numbers.into_iter().collect();
        let parts = parts(&numbers);
        self.numbers.push(numbers);
        parts
    }
}

/// Returns the pointer and the length of a list. The pointer is null if the list is empty.
pub(super) fn parts<T>(list: &[T]) -> (*const T, usize) {
    (if list.is_empty() { std::ptr::null() } else { list.as_ptr() }, list.len())
}

/// Converts a feature to its C struct, whose pointers refer to memory of `owned`.
pub(super) fn feature(name: &str, value: &Value, owned: &mut Owned) -> Result<dp_feature> {
    let mut feature = dp_feature {
        name: owned.text(name),
        int64_value: 0,
        string_value: dp_string::EMPTY,
        int64_list: std::ptr::null(),
        int64_list_size: 0,
        float_value: 0.0,
        bool_value: 0,
        kind: DP_FEATURE_STRING,
    };
    feature.kind = match value {
        Value::String(text) => {
            feature.string_value = owned.text(text);
            DP_FEATURE_STRING
        }
        Value::Int64(number) => {
            feature.int64_value = *number;
            DP_FEATURE_INT64
        }
        Value::Int64List(numbers) => {
            owned.integers.push(numbers.clone());
            let numbers = owned.integers.last().map(Vec::as_slice).unwrap_or_default();
            (feature.int64_list, feature.int64_list_size) = parts(numbers);
            DP_FEATURE_INT64_LIST
        }
        Value::Float(number) => {
            feature.float_value = *number;
            DP_FEATURE_FLOAT
        }
        Value::Bool(flag) => {
            feature.bool_value = (*flag).into();
            DP_FEATURE_BOOL
        }
        other => {
            let text = format!("features.{name} is of the type {}, which C does not represent", other.type_name());
            return Err(Error::invalid_argument(text));
        }
    };
    Ok(feature)
}

//! `dp_options`: named options of a client.

use crate::border::error::{dp_code, dp_error};
use crate::border::memory::{Name, Struct};
use pjrt_c_macros::c_function;
use std::ptr::null;

use pjrt::{ErrorCode, NamedValue, Value};

use crate::border::failure::{Failure, Outcome};
use crate::border::handle;
use crate::border::memory;
use crate::border::sized::struct_sizes;
use plugin_manifest::c_view::capabilities::dp_string;

use crate::border::text::{NO_TEXT, Text};

/// The type of an option's value. The values are those of `PJRT_NamedValue_Type`.
pub type dp_value_type = u32;

/// A UTF-8 string.
pub const DP_VALUE_STRING: dp_value_type = 0;
/// A 64-bit integer.
pub const DP_VALUE_INT64: dp_value_type = 1;
/// A list of 64-bit integers.
pub const DP_VALUE_INT64_LIST: dp_value_type = 2;
/// A 32-bit float.
pub const DP_VALUE_FLOAT: dp_value_type = 3;
/// A boolean.
pub const DP_VALUE_BOOL: dp_value_type = 4;

/// A list of options for a client. An option has a unique name and a typed value. `dp_plugin_client_options` converts
/// the values to the types that the plugin's schema declares.
#[derive(Default)]
pub struct dp_options {
    given: Vec<Entry>,
}

struct Entry {
    named: NamedValue,
    name: Text,
    /// If the value is a string, the value with a NUL byte at its end.
    string: Option<Text>,
}

impl dp_options {
    pub(crate) fn from_values(values: impl IntoIterator<Item = NamedValue>) -> Self {
        let mut options = Self::default();
        for NamedValue { name, value } in values {
            options.set(&name, value);
        }
        options
    }

    /// Converts the options to values for the registry.
    pub(crate) fn to_values(&self) -> Vec<NamedValue> {
        self.given.iter().map(|entry| entry.named.clone()).collect()
    }

    fn set(&mut self, name: Name<'_>, value: Value) {
        let string = if let Value::String(text) = &value { Some(Text::new(text.as_str())) } else { None };
        let named = NamedValue { name: name.to_owned(), value };
        let entry = Entry { named, name: Text::new(name), string };
        match self.given.iter_mut().find(|earlier| earlier.named.name == name) {
            Some(earlier) => *earlier = entry,
            None => self.given.push(entry),
        }
    }
}

impl Entry {
    fn describe(&self) -> Outcome<dp_option> {
        let mut option = dp_option {
            struct_size: size_of::<dp_option>(),
            name: self.name.lend(),
            r#type: DP_VALUE_STRING,
            bool_value: false,
            float_value: 0.0,
            int64_value: 0,
            string_value: self.string.as_ref().map_or(NO_TEXT, Text::lend),
            int64_list: null(),
            int64_list_size: 0,
        };
        match &self.named.value {
            Value::String(_) => {}
            Value::Int64(value) => {
                option.r#type = DP_VALUE_INT64;
                option.int64_value = *value;
            }
            Value::Int64List(values) => {
                option.r#type = DP_VALUE_INT64_LIST;
                option.int64_list_size = values.len();
                option.int64_list = if values.is_empty() { null() } else { values.as_ptr() };
            }
            Value::Float(value) => {
                option.r#type = DP_VALUE_FLOAT;
                option.float_value = *value;
            }
            Value::Bool(value) => {
                option.r#type = DP_VALUE_BOOL;
                option.bool_value = *value;
            }
            other => {
                let message = format!("values of type {} cannot be represented in the C interface", other.type_name());
                return Err(Failure::new(ErrorCode::UNIMPLEMENTED, message));
            }
        }
        Ok(option)
    }
}

/// One option, as `dp_options_at` returns it. Only the field for its `type` is meaningful.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct dp_option {
    /// `sizeof(dp_option)`, set by the caller.
    pub struct_size: usize,
    /// Name of the option.
    pub name: dp_string,
    /// Type of the option's value.
    pub r#type: dp_value_type,
    /// The value if the type is `DP_VALUE_BOOL`.
    pub bool_value: bool,
    /// The value if the type is `DP_VALUE_FLOAT`.
    pub float_value: f32,
    /// The value if the type is `DP_VALUE_INT64`.
    pub int64_value: i64,
    /// The value if the type is `DP_VALUE_STRING`.
    pub string_value: dp_string,
    /// The first integer if the type is `DP_VALUE_INT64_LIST`, or NULL if the list is empty.
    pub int64_list: *const i64,
    /// The number of integers if the type is `DP_VALUE_INT64_LIST`.
    pub int64_list_size: usize,
}

struct_sizes!(dp_option);

/// Creates an empty set of options.
#[c_function]
pub fn dp_options_new() -> *mut dp_options {
    handle::give(dp_options::default())
}

/// Sets an option to a string. The schemas of plugins also accept strings for the other types, such as `"0.5"`,
/// `"true"` and `"0,1"`.
#[c_function]
pub fn dp_options_set_string(options: &mut dp_options, name: Name<'_>, value: &str) -> Outcome<()> {
    options.set(name, Value::String(value.to_owned()));
    Ok(())
}

/// Sets an option to an integer.
#[c_function]
pub fn dp_options_set_int64(options: &mut dp_options, name: Name<'_>, value: i64) -> Outcome<()> {
    options.set(name, Value::Int64(value));
    Ok(())
}

/// Sets an option to a list of `values_size` integers. `values` may be NULL if `values_size` is 0.
#[c_function]
pub fn dp_options_set_int64_list(options: &mut dp_options, name: Name<'_>, values: &[i64]) -> Outcome<()> {
    options.set(name, Value::Int64List(values.to_vec()));
    Ok(())
}

/// Sets an option to a float.
#[c_function]
pub fn dp_options_set_float(options: &mut dp_options, name: Name<'_>, value: f32) -> Outcome<()> {
    options.set(name, Value::Float(value));
    Ok(())
}

/// Sets an option to a boolean.
#[c_function]
pub fn dp_options_set_bool(options: &mut dp_options, name: Name<'_>, value: bool) -> Outcome<()> {
    options.set(name, Value::Bool(value));
    Ok(())
}

/// Returns the number of options, or 0 for NULL.
#[c_function]
pub fn dp_options_count(options: &dp_options) -> usize {
    options.given.len()
}

/// Fills `out` with the option at `index`, counted from 0. The strings and lists in `out` belong to the options. They
/// are valid until the options are changed or freed.
#[c_function]
pub fn dp_options_at(options: &dp_options, index: usize) -> Outcome<Struct<dp_option>> {
    let entry = memory::at(&options.given, index)?;
    Ok(Struct(entry.describe()?))
}

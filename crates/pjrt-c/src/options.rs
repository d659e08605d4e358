//! `dp_options`: named options of a client.

use std::ffi::c_char;
use std::ptr::null;

use pjrt::{ErrorCode, NamedValue, Value};

use crate::error::{dp_code, dp_error};
use crate::failure::{Failure, Outcome};
use crate::guard;
use crate::sized::StructSize;
use plugin_manifest::c_view::capabilities::dp_string;

use crate::text::{NO_TEXT, Text};

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

    fn set(&mut self, name: &str, value: Value) {
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

// SAFETY: the struct is repr(C) and begins with `struct_size`. It is only written to C, never read from C.
unsafe impl StructSize for dp_option {
    const FIRST_SIZE: usize = size_of::<Self>();
    const NAME: &'static str = "dp_option";
}

/// Creates an empty set of options. The caller frees it with `dp_options_free`.
#[unsafe(no_mangle)]
pub extern "C" fn dp_options_new() -> *mut dp_options {
    guard::give(dp_options::default())
}

/// Frees a set of options. Ignores NULL.
///
/// # Safety
///
/// The caller must keep the contracts K2 and K3 of [`pjrt::contracts`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dp_options_free(options: *mut dp_options) {
    // SAFETY: K2 (objects are live) and K3 (exclusive use).
    unsafe { guard::free(options) }
}

/// Runs the body of the C function named `function`, which sets an option. `value` reads the option's value from the
/// caller's arguments.
///
/// # Safety
///
/// The caller must keep the contracts K1 to K4 of [`pjrt::contracts`].
unsafe fn set(
    function: &'static str,
    options: Option<&mut dp_options>,
    name: *const c_char,
    error: *mut *mut dp_error,
    value: impl FnOnce() -> Outcome<Value>,
) -> dp_code {
    let body = |options: &mut dp_options| {
        // SAFETY: K4 (strings end in NUL).
        let name = unsafe { guard::some_text(name, "name") }?;
        options.set(name, value()?);
        Ok(())
    };
    // SAFETY: K1 (outputs are writable).
    unsafe { guard::change(function, (options, "options"), error, body) }
}

/// Sets an option to a string. The schemas of plugins also accept strings for the other types, such as `"0.5"`,
/// `"true"` and `"0,1"`.
///
/// # Safety
///
/// The caller must keep the contracts K1 to K4 of [`pjrt::contracts`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dp_options_set_string(
    options: Option<&mut dp_options>,
    name: *const c_char,
    value: *const c_char,
    error: *mut *mut dp_error,
) -> dp_code {
    // SAFETY: K4 (strings end in NUL).
    let read = || Ok(Value::String(unsafe { guard::text(value, "value") }?.to_owned()));
    // SAFETY: K1 (outputs are writable) to K4 (strings end in NUL).
    unsafe { set("dp_options_set_string", options, name, error, read) }
}

/// Sets an option to an integer.
///
/// # Safety
///
/// The caller must keep the contracts K1 to K4 of [`pjrt::contracts`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dp_options_set_int64(
    options: Option<&mut dp_options>,
    name: *const c_char,
    value: i64,
    error: *mut *mut dp_error,
) -> dp_code {
    // SAFETY: K1 (outputs are writable) to K4 (strings end in NUL).
    unsafe { set("dp_options_set_int64", options, name, error, || Ok(Value::Int64(value))) }
}

/// Sets an option to a list of `len` integers. `values` may be NULL if `len` is 0.
///
/// # Safety
///
/// The caller must keep the contracts K1 to K4 of [`pjrt::contracts`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dp_options_set_int64_list(
    options: Option<&mut dp_options>,
    name: *const c_char,
    values: *const i64,
    len: usize,
    error: *mut *mut dp_error,
) -> dp_code {
    // SAFETY: K4 (arrays are readable).
    let read = || Ok(Value::Int64List(unsafe { guard::array(values, len, "values") }?.to_vec()));
    // SAFETY: K1 (outputs are writable) to K4 (strings end in NUL).
    unsafe { set("dp_options_set_int64_list", options, name, error, read) }
}

/// Sets an option to a float.
///
/// # Safety
///
/// The caller must keep the contracts K1 to K4 of [`pjrt::contracts`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dp_options_set_float(
    options: Option<&mut dp_options>,
    name: *const c_char,
    value: f32,
    error: *mut *mut dp_error,
) -> dp_code {
    // SAFETY: K1 (outputs are writable) to K4 (strings end in NUL).
    unsafe { set("dp_options_set_float", options, name, error, || Ok(Value::Float(value))) }
}

/// Sets an option to a boolean.
///
/// # Safety
///
/// The caller must keep the contracts K1 to K4 of [`pjrt::contracts`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dp_options_set_bool(
    options: Option<&mut dp_options>,
    name: *const c_char,
    value: bool,
    error: *mut *mut dp_error,
) -> dp_code {
    // SAFETY: K1 (outputs are writable) to K4 (strings end in NUL).
    unsafe { set("dp_options_set_bool", options, name, error, || Ok(Value::Bool(value))) }
}

/// Returns the number of options, or 0 for NULL.
///
/// # Safety
///
/// The caller must keep contract K2 of [`pjrt::contracts`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dp_options_count(options: Option<&dp_options>) -> usize {
    guard::get(options, 0, |options| options.given.len())
}

/// Fills `out` with the option at `index`, counted from 0. The strings and lists in `out` belong to the options. They
/// are valid until the options are changed or freed.
///
/// # Safety
///
/// The caller must keep the contracts K1, K2 and K5 of [`pjrt::contracts`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dp_options_at(
    options: Option<&dp_options>,
    index: usize,
    out: *mut dp_option,
    error: *mut *mut dp_error,
) -> dp_code {
    let body = || {
        let entry = guard::at(&guard::required(options, "options")?.given, index)?;
        // SAFETY: K5 (structs have the size they declare).
        unsafe { guard::write(out, "out", &entry.describe()?) }
    };
    // SAFETY: K1 (outputs are writable).
    unsafe { guard::run("dp_options_at", error, body) }
}

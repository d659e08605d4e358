//! Conversions between the fields of messages and the types of this SDK. Values of the other side are checked.

use pjrt_types::{CompiledMemoryStats, ElementType, ErrorCode, MemoryStats, NamedValue, Shape, Value};

use crate::wire::messages as wire;

/// Maximum number of dimensions of an array. XLA's limit is lower.
const MAX_RANK: usize = 255;
/// Maximum number of bytes of an error's text and of each of its payloads.
const MAX_TEXT: usize = 64 << 10;
/// Maximum number of payloads of an error.
const MAX_PAYLOADS: usize = 16;

impl From<&Shape> for wire::Shape {
    fn from(shape: &Shape) -> Self {
        Self { element_type: shape.element_type.as_raw(), dimensions: shape.dimensions.clone() }
    }
}

/// Returns the shape of an array.
///
/// # Errors
///
/// Returns the reason if the element type is unknown, or if an extent is negative.
pub(crate) fn shape(shape: wire::Shape) -> Result<Shape, String> {
    let Some(element_type) = ElementType::from_raw(shape.element_type) else {
        let known = ElementType::ALL.len();
        return Err(format!("unknown element type {}; this build knows 1 to {known}", shape.element_type));
    };
    if shape.dimensions.len() > MAX_RANK || shape.dimensions.iter().any(|extent| *extent < 0) {
        return Err(format!("a shape has a negative extent or more than {MAX_RANK} dimensions"));
    }
    Ok(Shape::new(element_type, shape.dimensions))
}

impl From<NamedValue> for wire::NamedValue {
    fn from(named: NamedValue) -> Self {
        let value = match named.value {
            Value::String(value) => Some(wire::Value::String(value)),
            Value::Int64(value) => Some(wire::Value::Int64(value)),
            Value::Int64List(values) => Some(wire::Value::Int64List(wire::Int64List { values })),
            Value::Float(value) => Some(wire::Value::Float(value)),
            Value::Bool(value) => Some(wire::Value::Bool(value)),
            _ => None,
        };
        Self { name: named.name, value }
    }
}

/// Returns the named values that have a value of a known type.
pub(crate) fn named_values(values: Vec<wire::NamedValue>) -> Vec<NamedValue> {
    let convert = |named: wire::NamedValue| {
        let value = match named.value? {
            wire::Value::String(value) => Value::String(value),
            wire::Value::Int64(value) => Value::Int64(value),
            wire::Value::Int64List(list) => Value::Int64List(list.values),
            wire::Value::Float(value) => Value::Float(value),
            wire::Value::Bool(value) => Value::Bool(value),
        };
        Some(NamedValue::new(named.name, value))
    };
    values.into_iter().filter_map(convert).collect()
}

impl wire::Failure {
    /// Creates a failure with a text only.
    pub(crate) fn of(code: ErrorCode, message: &str) -> Self {
        Self::new(code.as_raw(), message, &[])
    }

    /// Creates a failure. Long texts and payloads are cut, so that the failure fits into a message.
    pub(crate) fn new(code: u32, message: &str, payloads: &[(String, Vec<u8>)]) -> Self {
        let fits = |payload: &&(String, Vec<u8>)| payload.0.len() + payload.1.len() <= MAX_TEXT;
        let convert = |(name, value): &(String, Vec<u8>)| wire::Payload { name: name.clone(), value: value.clone() };
        Self {
            code,
            message: message.get(..message.floor_char_boundary(MAX_TEXT)).unwrap_or_default().to_owned(),
            payloads: payloads.iter().filter(fits).take(MAX_PAYLOADS).map(convert).collect(),
        }
    }
}

/// Defines the conversions of a struct of statistics to named values and back.
macro_rules! statistics {
    ($($ty:ident: $to:ident, $from:ident { $($required:ident),* } { $($optional:ident),* })+) => {
        $(
            pub(crate) fn $to(stats: &$ty) -> Vec<wire::NamedValue> {
                let required = [$((stringify!($required), Some(stats.$required))),*];
                let optional = [$((stringify!($optional), stats.$optional)),*];
                let value = |(name, number): (&str, Option<i64>)| Some(NamedValue::new(name, number?).into());
                required.into_iter().chain(optional).filter_map(value).collect()
            }

            pub(crate) fn $from(values: &[wire::NamedValue]) -> $ty {
                let mut stats = $ty::default();
                for named in values {
                    let Some(wire::Value::Int64(number)) = named.value else { continue };
                    match named.name.as_str() {
                        $(stringify!($required) => stats.$required = number,)*
                        $(stringify!($optional) => stats.$optional = Some(number),)*
                        _ => {}
                    }
                }
                stats
            }
        )+
    };
}

statistics! {
    MemoryStats: memory_stats_values, memory_stats { bytes_in_use } {
        peak_bytes_in_use, num_allocs, largest_alloc_size, bytes_limit, bytes_reserved, peak_bytes_reserved,
        bytes_reservable_limit, largest_free_block_bytes, pool_bytes, peak_pool_bytes, peak_allocated_bytes
    }
    CompiledMemoryStats: compiled_memory_stats_values, compiled_memory_stats {
        generated_code_size, argument_size, output_size, alias_size, temp_size, host_generated_code_size,
        host_argument_size, host_output_size, host_alias_size, host_temp_size, peak_memory, total_size,
        total_allocation_size, indefinite_allocation_size, peak_unpadded_heap
    } {}
}

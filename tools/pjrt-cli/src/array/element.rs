//! Converts single array elements from and to text, for literals and displayed results.

use std::str::FromStr;

use half::{bf16, f16};
use pjrt::{ElementType, HostArray};
use serde_json::{Value, json};
use stablehlo::{FloatFormat, ir};

/// Returns the element at a row-major index as JSON. An element of type `pred` becomes a boolean, a complex number
/// becomes a pair, and any other element becomes a number. NaN and infinities become strings. Returns `None` for
/// element types that this command cannot display as numbers, and for an index outside the array.
pub(super) fn at(array: &HostArray, index: usize) -> Option<Value> {
    let ty = array.shape().element_type;
    let size = ty.host_size();
    let start = index.checked_mul(size)?;
    number(ty, array.bytes().get(start..start.checked_add(size)?)?)
}

/// Converts the bytes of one element to JSON. NaN and infinities become strings, because JSON numbers cannot express
/// them. Returns `None` for element types that this command cannot display as numbers.
fn number(ty: ElementType, bytes: &[u8]) -> Option<Value> {
    fn float(value: f64) -> Value {
        serde_json::Number::from_f64(value).map_or_else(|| Value::String(value.to_string()), Value::Number)
    }
    // Print the shortest decimal that reads back as the same f32, not its f64 expansion.
    fn single(value: f32) -> Value {
        value.to_string().parse().map_or_else(|_| Value::String(value.to_string()), float)
    }
    macro_rules! le {
        ($ty:ty) => {
            <$ty>::from_le_bytes(bytes.try_into().ok()?)
        };
    }
    Some(match ty {
        ElementType::Pred => json!(*bytes.first()? != 0),
        ElementType::S8 => json!(le!(i8)),
        ElementType::S16 => json!(le!(i16)),
        ElementType::S32 => json!(le!(i32)),
        ElementType::S64 => json!(le!(i64)),
        ElementType::U8 => json!(le!(u8)),
        ElementType::U16 => json!(le!(u16)),
        ElementType::U32 => json!(le!(u32)),
        ElementType::U64 => json!(le!(u64)),
        ElementType::F16 => single(f16::from_bits(le!(u16)).to_f32()),
        ElementType::Bf16 => single(bf16::from_bits(le!(u16)).to_f32()),
        ElementType::F32 => single(le!(f32)),
        ElementType::F64 => float(le!(f64)),
        ElementType::C64 => {
            let (re, im) = bytes.split_at_checked(4)?;
            json!([number(ElementType::F32, re)?, number(ElementType::F32, im)?])
        }
        ElementType::C128 => {
            let (re, im) = bytes.split_at_checked(8)?;
            json!([number(ElementType::F64, re)?, number(ElementType::F64, im)?])
        }
        _ => return None,
    })
}

/// Parses one element of a literal, and appends its bytes to `out`.
pub(super) fn parse(ty: ElementType, text: &str, out: &mut Vec<u8>) -> Result<(), String> {
    fn value<T: FromStr>(ty: ElementType, text: &str) -> Result<T, String> {
        text.parse().map_err(|_| format!("{text:?} is not a value of {ty}"))
    }
    macro_rules! push {
        ($rust:ty) => {
            out.extend(value::<$rust>(ty, text)?.to_le_bytes())
        };
    }
    match ty {
        ElementType::Pred => match text {
            "true" | "True" | "1" => out.push(1),
            "false" | "False" | "0" => out.push(0),
            _ => return Err(format!("{text:?} is not a value of {ty}; write true or false")),
        },
        ElementType::S8 => push!(i8),
        ElementType::S16 => push!(i16),
        ElementType::S32 => push!(i32),
        ElementType::S64 => push!(i64),
        ElementType::U8 => push!(u8),
        ElementType::U16 => push!(u16),
        ElementType::U32 => push!(u32),
        ElementType::U64 => push!(u64),
        ElementType::F16 | ElementType::Bf16 | ElementType::F32 | ElementType::F64 => {
            let double: f64 = value(ty, text)?;
            let (bytes, overflow) = match ty {
                ElementType::F16 => {
                    let bits = narrow_bits(ir::ElementType::F16, double)?;
                    (bits.to_le_bytes().to_vec(), f16::from_bits(bits).is_infinite())
                }
                ElementType::Bf16 => {
                    let bits = narrow_bits(ir::ElementType::Bf16, double)?;
                    (bits.to_le_bytes().to_vec(), bf16::from_bits(bits).is_infinite())
                }
                // Parse the text again as f32, because rounding to f64 and then to f32 may give another value.
                ElementType::F32 => {
                    let single: f32 = value(ty, text)?;
                    (single.to_le_bytes().to_vec(), single.is_infinite())
                }
                _ => (double.to_le_bytes().to_vec(), double.is_infinite()),
            };
            if overflow && !text.to_ascii_lowercase().contains("inf") {
                return Err(format!("{text} is too large for {ty}; write inf for infinity"));
            }
            out.extend(bytes);
        }
        ElementType::C64 | ElementType::C128 => {
            let part = if ty == ElementType::C64 { ElementType::F32 } else { ElementType::F64 };
            for text in parts(text) {
                parse(part, text, out).map_err(|error| format!("{error}; write a value of {ty} as 1-2j"))?;
            }
        }
        _ => return Err(format!("literals of {ty} are not supported; give a .npy file")),
    }
    Ok(())
}

/// Returns the texts of the real and the imaginary part of a complex number such as `1-2j`, `2`, `1e-3j` or `(1+2j)`.
fn parts(text: &str) -> [&str; 2] {
    let text = text.strip_prefix('(').and_then(|inner| inner.strip_suffix(')')).unwrap_or(text);
    let Some(sum) = text.strip_suffix(['j', 'i']) else { return [text, "0"] };
    // The sign between the parts is the last one that belongs neither to an exponent nor to the first part.
    let is_between = |at: usize, c: char| at > 0 && matches!(c, '+' | '-') && !sum[..at].ends_with(['e', 'E']);
    let between = sum.char_indices().rfind(|(at, c)| is_between(*at, *c));
    match between {
        Some((at, _)) => [&sum[..at], &sum[at..]],
        None => ["0", sum],
    }
}

/// Returns the bit pattern of the nearest number of a float type with two bytes.
fn narrow_bits(element: ir::ElementType, value: f64) -> Result<u16, String> {
    let bits = FloatFormat::of(element).and_then(|format| format.encode(value)).and_then(|bits| bits.try_into().ok());
    bits.ok_or_else(|| format!("{value} is not a number of {element}"))
}

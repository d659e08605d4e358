//! Host arrays as the command line reads and prints them.

use std::path::Path;
use std::str::FromStr;

use half::{bf16, f16};
use pjrt::{ElementType, HostArray, Shape};
use serde_json::{Value, json};

use crate::npy;

/// A host array, where the data has exactly the shape's size.
pub(crate) fn new(shape: Shape, data: Vec<u8>) -> Result<HostArray, String> {
    HostArray::new(shape, data).map_err(|error| error.message().to_owned())
}

/// Reads an argument: a `.npy` file, `FILE.npy:TYPE`, or a literal such as `f32[2,2]=1,2,3,4` and `f32[4]=0`.
pub(crate) fn from_argument(text: &str) -> Result<HostArray, String> {
    if let Some((shape, values)) = text.split_once('=') {
        return literal(shape, values).map_err(|fault| format!("{text}: {fault}"));
    }
    if let Some((file, ty)) = text.rsplit_once(':')
        && file.ends_with(".npy")
    {
        let ty = ty.parse().map_err(|error| format!("{text}: {error}"))?;
        return npy::read(Path::new(file), Some(ty));
    }
    if text.ends_with(".npy") {
        return npy::read(Path::new(text), None);
    }
    Err(format!("{text}: an input is FILE.npy, FILE.npy:TYPE, or a literal such as f32[2,2]=1,2,3,4 or f32[4]=0"))
}

/// The elements as JSON numbers (complex as pairs), flat and row-major; none for types without a number form here.
pub(crate) fn values(array: &HostArray) -> Option<Vec<Value>> {
    let ty = array.shape().element_type;
    array.bytes().chunks_exact(ty.host_size().max(1)).map(|bytes| number(ty, bytes)).collect()
}

/// The elements in brackets nested by dimension, cut after `limit` elements.
pub(crate) fn preview(array: &HostArray, limit: usize) -> String {
    let Some(values) = values(array) else { return format!("{} bytes", array.bytes().len()) };
    let shown: Vec<String> = values.iter().take(limit).map(plain).collect();
    let more = if values.len() > limit { format!(", … {} more", values.len() - limit) } else { String::new() };
    if array.shape().dimensions.is_empty() {
        return shown.concat();
    }
    format!("[{}{more}]", shown.join(", "))
}

fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// One element. NaN and infinities, which JSON numbers cannot be, become strings.
fn number(ty: ElementType, bytes: &[u8]) -> Option<Value> {
    fn float(value: f64) -> Value {
        serde_json::Number::from_f64(value).map_or_else(|| Value::String(value.to_string()), Value::Number)
    }
    // The shortest decimal that reads back as the same f32, not its f64 expansion.
    fn single(value: f32) -> Value {
        value.to_string().parse().map_or_else(|_| Value::String(value.to_string()), float)
    }
    macro_rules! le {
        ($ty:ty) => {
            <$ty>::from_le_bytes(bytes.try_into().ok()?)
        };
    }
    Some(match ty {
        ElementType::Pred => json!(bytes[0] != 0),
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
            let (re, im) = bytes.split_at(4);
            json!([number(ElementType::F32, re)?, number(ElementType::F32, im)?])
        }
        ElementType::C128 => {
            let (re, im) = bytes.split_at(8);
            json!([number(ElementType::F64, re)?, number(ElementType::F64, im)?])
        }
        _ => return None,
    })
}

/// `f32[2,2]` and `1,2,3,4`; one value stands for all elements.
fn literal(shape: &str, values: &str) -> Result<HostArray, String> {
    let shape = parse_shape(shape)?;
    let count = shape.num_elements().ok_or_else(|| format!("{shape} is larger than memory"))?;
    let size = shape.host_size().ok_or_else(|| format!("{shape} is larger than memory"))?;
    let values: Vec<&str> = values.split(',').map(str::trim).filter(|v| !v.is_empty()).collect();
    let mut data = Vec::new();
    for value in &values {
        element(shape.element_type, value, &mut data)?;
    }
    if values.len() == 1 && count > 1 {
        data.try_reserve_exact(size).map_err(|_| format!("{shape} is larger than memory"))?;
        data = data.repeat(count);
    } else if values.len() != count {
        return Err(format!("{shape} has {count} elements, but {} values are given", values.len()));
    }
    new(shape, data)
}

/// `f32[2,3]`, `pred[]`, or a bare `f32` for a scalar.
fn parse_shape(text: &str) -> Result<Shape, String> {
    let (ty, dimensions) = match text.split_once('[') {
        None => (text, ""),
        Some((ty, rest)) => (ty, rest.strip_suffix(']').ok_or_else(|| format!("{text}: a shape is TYPE[EXTENT,...]"))?),
    };
    let element_type: ElementType = ty.trim().parse().map_err(|error| format!("{error}"))?;
    let extents = dimensions.split(',').map(str::trim).filter(|d| !d.is_empty());
    let extent = |d: &str| d.parse::<u32>().map(i64::from).map_err(|_| format!("{d:?} is not an extent"));
    Ok(Shape::new(element_type, extents.map(extent).collect::<Result<Vec<_>, _>>()?))
}

fn element(ty: ElementType, text: &str, out: &mut Vec<u8>) -> Result<(), String> {
    fn parse<T: FromStr>(ty: ElementType, text: &str) -> Result<T, String> {
        text.parse().map_err(|_| format!("{text:?} is not a value of {ty}"))
    }
    macro_rules! push {
        ($rust:ty) => {
            out.extend(parse::<$rust>(ty, text)?.to_le_bytes())
        };
    }
    match ty {
        ElementType::Pred => match text {
            "true" | "1" => out.push(1),
            "false" | "0" => out.push(0),
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
            let value: f64 = parse(ty, text)?;
            let (bytes, overflow) = match ty {
                ElementType::F16 => (f16::from_f64(value).to_le_bytes().to_vec(), f16::from_f64(value).is_infinite()),
                ElementType::Bf16 => {
                    (bf16::from_f64(value).to_le_bytes().to_vec(), bf16::from_f64(value).is_infinite())
                }
                // Parsed again, because rounding twice may give another value.
                ElementType::F32 => {
                    let single: f32 = parse(ty, text)?;
                    (single.to_le_bytes().to_vec(), single.is_infinite())
                }
                _ => (value.to_le_bytes().to_vec(), value.is_infinite()),
            };
            if overflow && !text.to_ascii_lowercase().contains("inf") {
                return Err(format!("{text} is too large for {ty}; write inf for infinity"));
            }
            out.extend(bytes);
        }
        _ => return Err(format!("{ty} has no literals; give a .npy file")),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals() {
        let array = from_argument("f32[2,2]=1,2.5,-3,inf").unwrap();
        assert_eq!(array.shape().dimensions, [2, 2]);
        assert_eq!(preview(&array, 3), "[1.0, 2.5, -3.0, … 1 more]");
        assert_eq!(from_argument("bf16=1.5").map(|a| preview(&a, 9)).unwrap(), "1.5");
        assert_eq!(from_argument("f32=0.1").map(|a| preview(&a, 9)).unwrap(), "0.1");
        assert_eq!(from_argument("pred[3]=true").unwrap().bytes(), [1, 1, 1]);
        assert!(from_argument("i64[0]=").unwrap().bytes().is_empty());
        assert_eq!(from_argument("s32[]=-7").map(|a| preview(&a, 9)).unwrap(), "-7");
        assert_eq!(from_argument("f32=nan").map(|a| values(&a)).unwrap().unwrap(), [json!("NaN")]);
    }

    #[test]
    fn wrong_arguments_say_why() {
        let fault = |text| from_argument(text).unwrap_err();
        assert!(fault("f32[2]=1,2,3").contains("has 2 elements, but 3 values"));
        assert!(fault("f32[0]=1").contains("has 0 elements, but 1 values"));
        assert!(fault("f33[2]=1").contains("not an element type"));
        assert!(fault("f32[2=1").contains("TYPE[EXTENT"));
        assert!(fault("f32[-2]=1").contains("not an extent"));
        for text in ["f16=65520", "bf16=1e39", "f32=1e50", "f64=-1e999"] {
            assert!(fault(text).contains("too large"), "{text}");
        }
        assert!(fault("u8=300").contains("not a value of u8"));
        assert!(fault("f32[4294967295,4294967295,4294967295]=1").contains("larger than memory"));
        assert!(fault("data.txt").contains("FILE.npy"));
        assert!(fault("missing.npy").contains("missing.npy"));
        assert!(fault("missing.npy:q8").contains("not an element type"));
    }
}

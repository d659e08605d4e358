//! Conversion of elements to numbers and to text.

use half::{bf16, f16};
use pjrt_types::ElementType;

/// Returns the components of an element as numbers: one for a floating-point type of at least 16 bits, and two for a
/// complex type. Returns `None` for other types.
pub(super) fn floats(element_type: ElementType, bytes: &[u8]) -> Option<Vec<f64>> {
    Some(match element_type {
        ElementType::F16 => vec![f16::from_ne_bytes(bytes.try_into().ok()?).to_f64()],
        ElementType::Bf16 => vec![bf16::from_ne_bytes(bytes.try_into().ok()?).to_f64()],
        ElementType::F32 => vec![f64::from(f32::from_ne_bytes(bytes.try_into().ok()?))],
        ElementType::F64 => vec![f64::from_ne_bytes(bytes.try_into().ok()?)],
        ElementType::C64 | ElementType::C128 => {
            let part = if element_type == ElementType::C64 { ElementType::F32 } else { ElementType::F64 };
            let (real, imaginary) = bytes.split_at_checked(bytes.len() / 2)?;
            let mut parts = floats(part, real)?;
            parts.extend(floats(part, imaginary)?);
            parts
        }
        _ => return None,
    })
}

/// Formats an element.
pub(super) fn text(element_type: ElementType, bytes: &[u8]) -> String {
    if let Some(parts) = floats(element_type, bytes) {
        return match parts.as_slice() {
            [real, imaginary] => format!("{real}{imaginary:+}i"),
            parts => parts.iter().map(ToString::to_string).collect(),
        };
    }
    integer(element_type, bytes).unwrap_or_else(|| format!("0x{}", crate::content::hex(bytes)))
}

fn integer(element_type: ElementType, bytes: &[u8]) -> Option<String> {
    Some(match element_type {
        ElementType::Pred => (*bytes.first()? != 0).to_string(),
        ElementType::S8 => i8::from_ne_bytes(bytes.try_into().ok()?).to_string(),
        ElementType::S16 => i16::from_ne_bytes(bytes.try_into().ok()?).to_string(),
        ElementType::S32 => i32::from_ne_bytes(bytes.try_into().ok()?).to_string(),
        ElementType::S64 => i64::from_ne_bytes(bytes.try_into().ok()?).to_string(),
        ElementType::U8 => u8::from_ne_bytes(bytes.try_into().ok()?).to_string(),
        ElementType::U16 => u16::from_ne_bytes(bytes.try_into().ok()?).to_string(),
        ElementType::U32 => u32::from_ne_bytes(bytes.try_into().ok()?).to_string(),
        ElementType::U64 => u64::from_ne_bytes(bytes.try_into().ok()?).to_string(),
        _ => return None,
    })
}

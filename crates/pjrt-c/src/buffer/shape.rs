//! `dp_shape`: an element type and the extents of the dimensions.

use pjrt::{ElementType, Layout, Shape};
use pjrt_c_macros::c_function;
use plugin_manifest::c_view::capabilities::dp_string;

use crate::border::failure::{Failure, Outcome};
use crate::border::memory;
use crate::border::text::{NO_TEXT, lend_static};

/// The type of an array's elements. The values are those of `PJRT_Buffer_Type`.
pub type dp_element_type = u32;

/// Booleans, one byte each: 0 or 1.
pub const DP_PRED: dp_element_type = 1;
/// Signed integers of 8 bits.
pub const DP_S8: dp_element_type = 2;
/// Signed integers of 16 bits.
pub const DP_S16: dp_element_type = 3;
/// Signed integers of 32 bits.
pub const DP_S32: dp_element_type = 4;
/// Signed integers of 64 bits.
pub const DP_S64: dp_element_type = 5;
/// Unsigned integers of 8 bits.
pub const DP_U8: dp_element_type = 6;
/// Unsigned integers of 16 bits.
pub const DP_U16: dp_element_type = 7;
/// Unsigned integers of 32 bits.
pub const DP_U32: dp_element_type = 8;
/// Unsigned integers of 64 bits.
pub const DP_U64: dp_element_type = 9;
/// Floats of 16 bits, IEEE 754.
pub const DP_F16: dp_element_type = 10;
/// Floats of 32 bits, IEEE 754.
pub const DP_F32: dp_element_type = 11;
/// Floats of 64 bits, IEEE 754.
pub const DP_F64: dp_element_type = 12;
/// Floats of 16 bits with the exponent of `DP_F32`.
pub const DP_BF16: dp_element_type = 13;
/// Complex numbers: two values of `DP_F32`.
pub const DP_C64: dp_element_type = 14;
/// Complex numbers: two values of `DP_F64`.
pub const DP_C128: dp_element_type = 15;
/// Floats of 8 bits: 5 bits of exponent, 2 of mantissa.
pub const DP_F8E5M2: dp_element_type = 16;
/// Floats of 8 bits: 4 bits of exponent, 3 of mantissa, variant FN.
pub const DP_F8E4M3FN: dp_element_type = 17;
/// Floats of 8 bits: 4 bits of exponent, 3 of mantissa, variant B11FNUZ.
pub const DP_F8E4M3B11FNUZ: dp_element_type = 18;
/// Floats of 8 bits: 5 bits of exponent, 2 of mantissa, variant FNUZ.
pub const DP_F8E5M2FNUZ: dp_element_type = 19;
/// Floats of 8 bits: 4 bits of exponent, 3 of mantissa, variant FNUZ.
pub const DP_F8E4M3FNUZ: dp_element_type = 20;
/// Signed integers of 4 bits, one byte each on the host.
pub const DP_S4: dp_element_type = 21;
/// Unsigned integers of 4 bits, one byte each on the host.
pub const DP_U4: dp_element_type = 22;
/// Tokens, which order side effects and have no elements.
pub const DP_TOKEN: dp_element_type = 23;
/// Signed integers of 2 bits, one byte each on the host.
pub const DP_S2: dp_element_type = 24;
/// Unsigned integers of 2 bits, one byte each on the host.
pub const DP_U2: dp_element_type = 25;
/// Floats of 8 bits: 4 bits of exponent, 3 of mantissa.
pub const DP_F8E4M3: dp_element_type = 26;
/// Floats of 8 bits: 3 bits of exponent, 4 of mantissa.
pub const DP_F8E3M4: dp_element_type = 27;
/// Floats of 8 bits: 8 bits of exponent, 0 of mantissa, variant FNU.
pub const DP_F8E8M0FNU: dp_element_type = 28;
/// Floats of 4 bits: 2 bits of exponent, 1 of mantissa, one byte each on the host.
pub const DP_F4E2M1FN: dp_element_type = 29;
/// Signed integers of 1 bit, one byte each on the host.
pub const DP_S1: dp_element_type = 30;
/// Unsigned integers of 1 bit, one byte each on the host.
pub const DP_U1: dp_element_type = 31;
/// Floats of 6 bits: 2 bits of exponent, 3 of mantissa, one byte each on the host.
pub const DP_F6E2M3FN: dp_element_type = 32;
/// Floats of 6 bits: 3 bits of exponent, 2 of mantissa, one byte each on the host.
pub const DP_F6E3M2FN: dp_element_type = 33;

/// The element type and the extents of an array.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct dp_shape {
    /// One of `DP_PRED` to `DP_F6E3M2FN`.
    pub element_type: dp_element_type,
    /// The extents, from the outermost dimension to the innermost. NULL for a scalar.
    pub dimensions: *const i64,
    /// The number of dimensions.
    pub dimensions_size: usize,
}

impl dp_shape {
    /// Lends a shape to the caller.
    pub(crate) fn lend(shape: &Shape) -> Self {
        Self {
            element_type: shape.element_type.as_raw(),
            dimensions: if shape.dimensions.is_empty() { std::ptr::null() } else { shape.dimensions.as_ptr() },
            dimensions_size: shape.dimensions.len(),
        }
    }

    /// Reads a shape of the caller.
    ///
    /// # Safety
    ///
    /// The caller must keep contract K3 (arrays are readable) for the extents.
    pub(crate) unsafe fn read(&self) -> Outcome<Shape> {
        let element_type = element_type(self.element_type)?;
        // SAFETY: K3 (arrays are readable).
        let dimensions = unsafe { memory::array(self.dimensions, self.dimensions_size, "dimensions") }?;
        Ok(Shape::new(element_type, dimensions))
    }
}

/// Returns the element type that a caller passed.
pub(crate) fn element_type(raw: dp_element_type) -> Outcome<ElementType> {
    ElementType::from_raw(raw).ok_or_else(|| {
        Failure::argument(format!("the element type is {raw}; it must be one of DP_PRED to DP_F6E3M2FN"))
    })
}

/// Returns the layout that a caller wrote as text.
pub(crate) fn layout(text: &str) -> Outcome<Layout> {
    text.parse().map_err(|error| Failure::argument(format!("`layout`: {error}")))
}

/// Returns the size of one element on the host in bytes, or 0 if the number is not an element type. Elements with fewer
/// than 8 bits have one byte each.
#[c_function]
pub fn dp_element_type_size(element_type: dp_element_type) -> usize {
    ElementType::from_raw(element_type).map_or(0, ElementType::host_size)
}

/// Returns the name of an element type, such as `f32`, or a string with null `data` if the number is not an element
/// type. The text is valid until the process ends.
#[c_function]
pub fn dp_element_type_name(element_type: dp_element_type) -> dp_string {
    ElementType::from_raw(element_type).map_or(NO_TEXT, |found| lend_static(found.name()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_pjrt() {
        for (number, ty) in
            [(DP_PRED, ElementType::Pred), (DP_F32, ElementType::F32), (DP_F6E3M2FN, ElementType::F6E3M2FN)]
        {
            assert_eq!(number, ty.as_raw());
        }
        let names: Vec<_> =
            include_str!("shape.rs").lines().filter_map(|line| line.strip_prefix("pub const DP_")).collect();
        assert_eq!(names.len(), 33);
        for line in names {
            let (name, rest) = line.split_once(':').unwrap();
            let number = rest.split_once("= ").unwrap().1.trim_end_matches(';').parse().unwrap();
            assert_eq!(ElementType::from_raw(number).unwrap().name(), name.to_lowercase());
        }
    }
}

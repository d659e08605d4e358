//! Conversions of recorded shapes, layouts, options and elements to the types of `pjrt`.

use pjrt::{Layout, NamedValue};
use pjrt_types::{ElementType, Shape, Value};

use crate::message::Layout as Order;
use crate::message::{ArrayType, MemoryLayout, NamedOption, Value as OptionValue};

/// Maximum size of the memory of an array with strides, in relation to the size of its elements. An array with larger
/// gaps is uploaded without gaps.
const SPREAD: usize = 4;

/// Returns the shape of a recorded array.
pub(super) fn shape(array: Option<&ArrayType>) -> Result<Shape, String> {
    let array = array.ok_or("the recording does not have the shape")?;
    let element_type = ElementType::from_raw(array.element_type)
        .ok_or_else(|| format!("this build does not know the element type {}", array.element_type))?;
    Ok(Shape::new(element_type, array.dimensions.clone()))
}

/// Returns a recorded tiled layout. Returns `None` for byte strides and if no layout is recorded.
pub(super) fn tiled(layout: Option<&MemoryLayout>) -> Option<Layout> {
    match layout?.layout.as_ref()? {
        Order::Tiled(tiled) => {
            let tiles = tiled.tiles.iter().map(|tile| tile.items.clone()).collect();
            Some(Layout::new(tiled.minor_to_major.clone()).with_tiles(tiles))
        }
        Order::ByteStrides(_) => None,
    }
}

/// Returns a recorded client option. Returns `None` if the recording does not have its value.
pub(super) fn option(option: &NamedOption) -> Option<NamedValue> {
    let value = match option.value.clone()? {
        OptionValue::String(text) => Value::String(text),
        OptionValue::Int64(number) => Value::Int64(number),
        OptionValue::Int64List(list) => Value::Int64List(list.items),
        OptionValue::Float(number) => Value::Float(number),
        OptionValue::Bool(is_set) => Value::Bool(is_set),
    };
    Some(NamedValue { name: option.name.clone(), value })
}

/// Copies row-major elements to new memory with the byte strides of the framework's array. Returns this memory, and the
/// byte offset of the first element. Returns `None` if there are no strides or no data, if the strides or the data do
/// not fit the shape, or if the memory would be more than [`SPREAD`] times as large as the data.
pub(super) fn strided(data: &[u8], shape: &Shape, strides: &[i64]) -> Option<(Vec<u8>, usize)> {
    if strides.is_empty() || strides.len() != shape.dimensions.len() {
        return None;
    }
    if data.is_empty() || shape.host_size() != Some(data.len()) {
        return None;
    }
    let unit = shape.element_type.host_size();
    let (mut low, mut high) = (0_i64, i64::try_from(unit).ok()?);
    for (stride, extent) in strides.iter().zip(&shape.dimensions) {
        let reach = stride.checked_mul(extent.checked_sub(1)?)?;
        low = low.checked_add(reach.min(0))?;
        high = high.checked_add(reach.max(0))?;
    }
    let size = high.checked_sub(low)?;
    if usize::try_from(size).ok()? > data.len().checked_mul(SPREAD)? {
        return None;
    }
    let offset = usize::try_from(low.checked_neg()?).ok()?;
    let mut out = vec![0; usize::try_from(size).ok()?];
    let mut at = vec![0_i64; strides.len()];
    for element in data.chunks(unit) {
        let mut start = low.checked_neg()?;
        for (at, stride) in at.iter().zip(strides) {
            start = start.checked_add(at.checked_mul(*stride)?)?;
        }
        let start = usize::try_from(start).ok()?;
        out.get_mut(start..start.checked_add(unit)?)?.copy_from_slice(element);
        for (at, extent) in at.iter_mut().zip(&shape.dimensions).rev() {
            *at += 1;
            if *at < *extent {
                break;
            }
            *at = 0;
        }
    }
    Some((out, offset))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strides_spread_elements() {
        let shape = Shape::new(ElementType::U8, [2, 2]);
        assert_eq!(strided(&[1, 2, 3, 4], &shape, &[-3, 2]), Some((vec![3, 0, 4, 1, 0, 2][..].to_vec(), 3)));
    }

    #[test]
    fn hostile_strides_are_rejected() {
        let f32s = Shape::new(ElementType::F32, [2]);
        assert_eq!(strided(&[0; 5], &f32s, &[4]), None);
        assert_eq!(strided(&[0; 8], &f32s, &[1 << 40]), None);
        assert_eq!(strided(&[0; 8], &f32s, &[i64::MIN]), None);
        assert_eq!(strided(&[0; 8], &Shape::new(ElementType::Token, [8]), &[1]), None);
        assert_eq!(strided(&[], &Shape::new(ElementType::F32, [1 << 31, 0]), &[i64::MAX, 4]), None);
        assert_eq!(strided(&[0; 8], &Shape::new(ElementType::F32, [-1, -2]), &[4, 4]), None);
    }
}

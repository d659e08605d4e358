//! Converts arrays to row-major order.

use pjrt_types::Shape;

use crate::message::{Layout, MemoryLayout};

/// Returns the elements of an array in row-major order, or `None` if the layout has tiles or does not fit the shape.
/// Also returns `None` for data that are not in row-major order and whose size does not fit the shape, such as packed
/// sub-byte elements.
pub(super) fn row_major(data: Vec<u8>, shape: &Shape, layout: Option<&MemoryLayout>) -> Option<Vec<u8>> {
    if data.is_empty() {
        return Some(data);
    }
    let unit = shape.element_type.host_size();
    let extents: Vec<usize> =
        shape.dimensions.iter().map(|extent| usize::try_from(*extent)).collect::<Result<_, _>>().ok()?;
    let order = match layout.and_then(|layout| layout.layout.as_ref()) {
        None => return Some(data),
        Some(Layout::Tiled(tiled)) if tiled.tiles.is_empty() => {
            tiled.minor_to_major.iter().map(|at| usize::try_from(*at)).collect::<Result<Vec<_>, _>>().ok()?
        }
        Some(Layout::ByteStrides(strides)) => order_of(&strides.items),
        Some(Layout::Tiled(_)) => return None,
    };
    let mut sorted = order.clone();
    sorted.sort_unstable();
    if !sorted.into_iter().eq(0..extents.len()) {
        return None;
    }
    if order.iter().rev().copied().eq(0..extents.len()) {
        return Some(data);
    }
    // Packed elements of sub-byte types have no addresses, so they cannot be reordered. This check also bounds the
    // loops below by the size of the data.
    if shape.host_size() != Some(data.len()) {
        return None;
    }
    let mut strides = vec![0; extents.len()];
    let mut next = unit;
    for dimension in order {
        strides[dimension] = next;
        next = next.checked_mul(extents[dimension])?;
    }
    let mut out = Vec::with_capacity(data.len());
    let mut index = vec![0; extents.len()];
    for _ in 0..data.len().checked_div(unit)? {
        let at: usize = index.iter().zip(&strides).map(|(at, stride)| at * stride).sum();
        out.extend_from_slice(data.get(at..at + unit)?);
        for (at, extent) in index.iter_mut().zip(&extents).rev() {
            *at += 1;
            if *at < *extent {
                break;
            }
            *at = 0;
        }
    }
    Some(out)
}

/// Returns the dimensions in the order from the smallest stride to the largest.
fn order_of(strides: &[i64]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..strides.len()).rev().collect();
    order.sort_by_key(|dimension| strides[*dimension]);
    order
}

#[cfg(test)]
mod tests {
    use pjrt_types::ElementType;

    use super::*;
    use crate::message::{Integers, Tiled};

    fn tiled(minor_to_major: &[i64], tiles: usize) -> MemoryLayout {
        let tiles = vec![Integers { items: vec![2] }; tiles];
        MemoryLayout { layout: Some(Layout::Tiled(Tiled { minor_to_major: minor_to_major.to_vec(), tiles })) }
    }

    fn u8s(dimensions: &[i64]) -> Shape {
        Shape::new(ElementType::U8, dimensions)
    }

    #[test]
    fn columns_become_rows() {
        let columns = || vec![1, 4, 2, 5, 3, 6];
        assert_eq!(row_major(columns(), &u8s(&[2, 3]), Some(&tiled(&[0, 1], 0))), Some(vec![1, 2, 3, 4, 5, 6]));
        assert_eq!(row_major(columns(), &u8s(&[2, 3]), Some(&tiled(&[1, 0], 0))), Some(columns()));
        let strides = MemoryLayout { layout: Some(Layout::ByteStrides(Integers { items: vec![1, 2] })) };
        assert_eq!(row_major(columns(), &u8s(&[2, 3]), Some(&strides)), Some(vec![1, 2, 3, 4, 5, 6]));
    }

    #[test]
    fn wrong_layouts_are_rejected() {
        for layout in [tiled(&[0], 0), tiled(&[0, 0], 0), tiled(&[0, 7], 0), tiled(&[-1, 0], 0), tiled(&[0, 1], 1)] {
            assert_eq!(row_major(vec![0; 6], &u8s(&[2, 3]), Some(&layout)), None, "{layout:?}");
        }
        assert_eq!(row_major(vec![0; 7], &u8s(&[2, 3]), Some(&tiled(&[0, 1], 0))), None);
        assert_eq!(row_major(Vec::new(), &u8s(&[0, 3]), Some(&tiled(&[0, 1], 0))), Some(Vec::new()));
    }

    #[test]
    fn hostile_shapes_are_rejected() {
        let columns = tiled(&[0, 1], 0);
        let large = Shape::new(ElementType::F32, [1 << 31, 1 << 31]);
        assert_eq!(row_major(Vec::new(), &large, Some(&columns)), Some(Vec::new()));
        assert_eq!(row_major(vec![0; 4], &large, Some(&columns)), None);
        assert_eq!(row_major(vec![0; 4], &Shape::new(ElementType::Token, [2, 2]), Some(&columns)), None);
        assert_eq!(row_major(vec![0; 4], &Shape::new(ElementType::U8, [-2, -2]), Some(&columns)), None);
    }
}

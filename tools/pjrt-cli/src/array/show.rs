//! Formats arrays for display in NumPy's style. The elements of the innermost dimension are on one line.

use pjrt::HostArray;
use serde_json::Value;

use super::element;

/// Arrays with more elements than this are summarized.
const WHOLE: usize = 64;
/// Number of elements shown at each end of a summarized dimension.
const EDGE: usize = 3;
/// Maximum number of elements in a summary. A summary of many short dimensions would contain nearly all elements.
const SUMMARY: usize = 4096;
/// Marks the elements that a summary omits.
const ELLIPSIS: &str = "…";

/// Formats the elements of an array. An array with two or more dimensions starts on a new line. An array without
/// elements is `[]`, as in NumPy, because its other dimensions may have any extent. For element types that this command
/// cannot display as numbers, returns the size in bytes.
pub(crate) fn text(array: &HostArray) -> String {
    let count = count(array);
    if count == 0 {
        return "[]".to_owned();
    }
    let extents = extents(array);
    let edge = if count > WHOLE { EDGE } else { usize::MAX };
    let shown = extents.iter().fold(1usize, |all, extent| all.saturating_mul(shown(*extent, edge).count()));
    if shown > SUMMARY {
        return format!("({count} elements)");
    }
    let Some(cells) = cells(array, &extents, edge) else {
        return format!("({} bytes)", array.bytes().len());
    };
    let width = if extents.len() > 1 { cells.iter().map(|cell| cell.chars().count()).max().unwrap_or(0) } else { 0 };
    let mut cells = cells.into_iter();
    let mut out = String::new();
    if extents.len() > 1 {
        out.push_str("\n  ");
    }
    nested(&extents, edge, 0, width, &mut cells, &mut out);
    out
}

/// Returns all elements as JSON in row-major order. NaN and infinities are strings. Returns `None` for element types
/// that this command cannot display as numbers.
pub(crate) fn values(array: &HostArray) -> Option<Vec<Value>> {
    (0..count(array)).map(|index| element::at(array, index)).collect()
}

fn count(array: &HostArray) -> usize {
    // The elements are in memory, so their number fits in `usize`.
    array.shape().num_elements().unwrap_or(0)
}

fn extents(array: &HostArray) -> Vec<usize> {
    // The array's data fits in memory, so each extent of a nonempty array fits in `usize`.
    array.shape().dimensions.iter().map(|extent| usize::try_from(*extent).unwrap_or(0)).collect()
}

/// Returns the indices to show in a dimension: `edge` indices at each end, or all indices if at most one would be
/// omitted. `None` marks the indices that are omitted between the two ends.
fn shown(extent: usize, edge: usize) -> impl Iterator<Item = Option<usize>> {
    let cut = extent / 2 > edge;
    let head = if cut { edge } else { extent };
    let tail = if cut { extent - edge } else { extent };
    (0..head).map(Some).chain(cut.then_some(None)).chain((tail..extent).map(Some))
}

/// Formats each element that is shown, in row-major order. Returns `None` if the elements cannot be displayed as
/// numbers.
fn cells(array: &HostArray, extents: &[usize], edge: usize) -> Option<Vec<String>> {
    let mut offsets = vec![0];
    for extent in extents {
        let indices: Vec<usize> = shown(*extent, edge).flatten().collect();
        offsets = offsets.iter().flat_map(|offset| indices.iter().map(move |index| offset * extent + index)).collect();
    }
    offsets.into_iter().map(|offset| element::at(array, offset).map(|value| plain(&value))).collect()
}

fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(parts) => format!("({})", parts.iter().map(plain).collect::<Vec<_>>().join(", ")),
        other => other.to_string(),
    }
}

/// Formats the dimensions from `depth` on. `extents` contains the extents of these dimensions. Takes the formatted
/// elements from `cells`, and pads each of them to `width` characters.
fn nested(
    extents: &[usize],
    edge: usize,
    depth: usize,
    width: usize,
    cells: &mut impl Iterator<Item = String>,
    out: &mut String,
) {
    let Some((extent, inner)) = extents.split_first() else {
        let cell = cells.next().unwrap_or_default();
        out.push_str(&format!("{cell:>width$}"));
        return;
    };
    let separator = match inner.len() {
        0 => ", ".to_owned(),
        // An empty line separates the matrices of a larger array.
        lines => format!(",{}  {}", "\n".repeat(lines.min(2)), " ".repeat(depth + 1)),
    };
    out.push('[');
    for (place, index) in shown(*extent, edge).enumerate() {
        if place > 0 {
            out.push_str(&separator);
        }
        match index {
            Some(_) => nested(inner, edge, depth + 1, width, cells, out),
            None => out.push_str(ELLIPSIS),
        }
    }
    out.push(']');
}

#[cfg(test)]
mod tests {
    use pjrt::{ElementType, Shape};

    use super::*;

    fn iota(dimensions: &[i64]) -> HostArray {
        let shape = Shape::new(ElementType::S32, dimensions.to_vec());
        let count = i32::try_from(shape.num_elements().unwrap()).unwrap();
        super::super::new(shape, (0..count).flat_map(i32::to_le_bytes).collect()).unwrap()
    }

    #[test]
    fn rows_have_lines_of_their_own() {
        assert_eq!(text(&iota(&[])), "0");
        assert_eq!(text(&iota(&[3])), "[0, 1, 2]");
        assert_eq!(text(&iota(&[0])), "[]");
        assert_eq!(text(&iota(&[2, 6])), "\n  [[ 0,  1,  2,  3,  4,  5],\n   [ 6,  7,  8,  9, 10, 11]]");
        assert_eq!(text(&iota(&[2, 1, 2])), "\n  [[[0, 1]],\n\n   [[2, 3]]]");
        assert_eq!(text(&iota(&[2, 0])), "[]");
    }

    #[test]
    fn output_is_bounded() {
        for dimensions in [&[i64::MAX, 0][..], &[0, i64::MAX], &[1 << 30, 1 << 30, 0], &[0; 62], &[2; 40]] {
            let empty = Shape::new(ElementType::S8, [dimensions, &[0]].concat());
            let array = super::super::new(empty, Vec::new()).unwrap();
            assert_eq!((text(&array), values(&array)), ("[]".to_owned(), Some(Vec::new())), "{dimensions:?}");
        }
        assert_eq!(text(&iota(&[2; 13])), "(8192 elements)");
    }

    #[test]
    fn large_arrays_are_summarized() {
        assert_eq!(text(&iota(&[100])), "[0, 1, 2, …, 97, 98, 99]");
        let text = text(&iota(&[100, 2]));
        assert!(text.contains("[  4,   5],\n   …,\n   [194, 195]"), "{text}");
        assert_eq!(text.lines().count(), 8);
        assert_eq!(values(&iota(&[100])).unwrap().len(), 100);
    }

    #[test]
    fn types_without_numbers_show_their_size() {
        let array = super::super::new(Shape::new(ElementType::F8E4M3FN, [5]), vec![0; 5]).unwrap();
        assert_eq!((text(&array), values(&array)), ("(5 bytes)".to_owned(), None));
    }
}

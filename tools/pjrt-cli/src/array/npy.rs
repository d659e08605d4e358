//! Reads and writes host arrays of any element type as NumPy's `.npy` files.
//!
//! NumPy has no names for the machine learning types such as bf16 and f8e4m3fn. The package `ml_dtypes` writes arrays
//! of these types as raw bytes (`|V1`, `<V2`). To read such a file, name the element type on the command line
//! (`file.npy:bf16`).

use std::fs;
use std::io::Write;
use std::path::Path;

use pjrt::{ElementType, HostArray, Shape};

use super::npy_header;

/// NumPy's names of the element types that it supports.
const NAMES: &[(ElementType, &str)] = &[
    (ElementType::Pred, "|b1"),
    (ElementType::S8, "|i1"),
    (ElementType::S16, "<i2"),
    (ElementType::S32, "<i4"),
    (ElementType::S64, "<i8"),
    (ElementType::U8, "|u1"),
    (ElementType::U16, "<u2"),
    (ElementType::U32, "<u4"),
    (ElementType::U64, "<u8"),
    (ElementType::F16, "<f2"),
    (ElementType::F32, "<f4"),
    (ElementType::F64, "<f8"),
    (ElementType::C64, "<c8"),
    (ElementType::C128, "<c16"),
];

/// Reads a file. `named` is the element type from the command line, which is required if the file contains raw bytes.
/// Otherwise it must agree with the type in the file.
pub(super) fn read(path: &Path, named: Option<ElementType>) -> Result<HostArray, String> {
    let fault = |what: String| format!("{}: {what}", path.display());
    let bytes = fs::read(path).map_err(|error| fault(error.to_string()))?;
    parse(&bytes, named).map_err(fault)
}

/// Parses the content of a file. `named` has the same meaning as in [`read`].
pub(super) fn parse(bytes: &[u8], named: Option<ElementType>) -> Result<HostArray, String> {
    let (header, data) = npy_header::split(bytes)?;
    let element_type = element_type(&header.descr, named)?;
    let too_large = || "holds more elements than the address space".to_owned();
    let dimensions = header.extents.iter().map(|extent| i64::try_from(*extent));
    let dimensions = dimensions.collect::<Result<Vec<_>, _>>().map_err(|_| too_large())?;
    let shape = Shape::new(element_type, dimensions);
    if shape.host_size().ok_or_else(too_large)? != data.len() {
        return Err(format!("holds {} bytes, but {shape} has {}", data.len(), shape.host_size().unwrap_or(0)));
    }
    let data = if header.fortran_order { row_major(&shape, data) } else { data.to_vec() };
    super::new(shape, data)
}

/// Returns the element type of a file. `descr` is the type in NumPy's notation. If NumPy has no name for the type, the
/// file contains raw bytes, and `named` specifies the type.
fn element_type(descr: &str, named: Option<ElementType>) -> Result<ElementType, String> {
    // `|` means that the byte order does not apply, and `=` means this machine's byte order. Only `>` (big-endian)
    // differs from the names in the table.
    let known = NAMES.iter().find(|(_, name)| *name == descr || name[1..] == descr[1..] && !descr.starts_with('>'));
    let raw_size = descr.get(1..).and_then(|name| name.strip_prefix('V')).and_then(|size| size.parse::<usize>().ok());
    match (known, named) {
        (Some((own, _)), Some(named)) if *own != named => {
            Err(format!("holds {own}, but the command line specifies {named}"))
        }
        (Some((own, _)), _) => Ok(*own),
        (None, Some(named)) if raw_size == Some(named.host_size()) => Ok(named),
        (None, Some(named)) => Err(format!("holds {descr}, which cannot be {named}")),
        (None, None) if raw_size.is_some() => {
            Err(format!("holds plain bytes ({descr}); append its element type, as in FILE.npy:bf16"))
        }
        (None, None) if descr.starts_with('>') => {
            Err(format!("is big-endian ({descr}); save it with .astype({:?})", descr.replace('>', "<")))
        }
        (None, None) => Err(format!("holds {descr}, which is not an element type of PJRT")),
    }
}

/// Converts the elements of a column-major array to row-major order.
fn row_major(shape: &Shape, data: &[u8]) -> Vec<u8> {
    let size = shape.element_type.host_size().max(1);
    let extents: Vec<usize> = shape.dimensions.iter().map(|d| usize::try_from(*d).unwrap_or(0)).collect();
    let mut out = Vec::with_capacity(data.len());
    let mut index = vec![0usize; extents.len()];
    for _ in 0..data.len() / size {
        // The first dimension varies fastest in the file.
        let offset = index.iter().zip(&extents).rev().fold(0, |offset, (index, extent)| offset * extent + index);
        out.extend_from_slice(&data[offset * size..][..size]);
        for (index, extent) in index.iter_mut().zip(&extents).rev() {
            *index += 1;
            if *index < *extent {
                break;
            }
            *index = 0;
        }
    }
    out
}

/// Writes an array to a `.npy` file. If NumPy has no name for the element type, writes raw bytes, as `ml_dtypes` does.
pub(super) fn write(path: &Path, array: &HostArray) -> Result<(), String> {
    let mut file = Vec::new();
    serialize(array, &mut file).map_err(|error| error.to_string())?;
    fs::write(path, file).map_err(|error| format!("{}: {error}", path.display()))
}

/// Writes version 1.0 of the format: the magic string, a header that is padded to align the data to 64 bytes, and the
/// elements.
pub(super) fn serialize(array: &HostArray, out: &mut Vec<u8>) -> std::io::Result<()> {
    let shape = array.shape();
    let known = NAMES.iter().find(|(ty, _)| *ty == shape.element_type).map(|(_, name)| (*name).to_owned());
    let dtype = known.unwrap_or_else(|| match shape.element_type.host_size() {
        1 => "|V1".to_owned(),
        n => format!("<V{n}"),
    });
    let extents: String = shape.dimensions.iter().map(|d| format!("{d}, ")).collect();
    let mut header = format!("{{'descr': '{dtype}', 'fortran_order': False, 'shape': ({}), }}", extents.trim_end());
    const PREFIX: usize = 10;
    while !(PREFIX + header.len() + 1).is_multiple_of(64) {
        header.push(' ');
    }
    header.push('\n');
    let length = u16::try_from(header.len()).map_err(|_| std::io::Error::other("too many dimensions for .npy"))?;
    out.write_all(b"\x93NUMPY\x01\x00")?;
    out.write_all(&length.to_le_bytes())?;
    out.write_all(header.as_bytes())?;
    out.write_all(array.bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round_trip(array: &HostArray, named: Option<ElementType>) -> HostArray {
        let mut file = Vec::new();
        serialize(array, &mut file).unwrap();
        parse(&file, named).unwrap()
    }

    #[test]
    fn every_element_type_survives() {
        for ty in ElementType::ALL {
            if *ty == ElementType::Token {
                continue;
            }
            for dimensions in [vec![], vec![3], vec![2, 3], vec![0, 4]] {
                let shape = Shape::new(*ty, dimensions);
                let data = (0u8..).take(shape.host_size().unwrap()).map(|i| i % 2).collect();
                let array = super::super::new(shape, data).unwrap();
                let named = (!NAMES.iter().any(|(named, _)| named == ty)).then_some(*ty);
                assert_eq!(round_trip(&array, named), array);
            }
        }
    }

    #[test]
    fn column_major_arrays_are_transposed() {
        let header = b"{'descr': '<i4', 'fortran_order': True, 'shape': (2, 3), }\n";
        let length = u16::try_from(header.len()).unwrap().to_le_bytes();
        let data: Vec<u8> = [0i32, 3, 1, 4, 2, 5].into_iter().flat_map(i32::to_le_bytes).collect();
        let file = [&b"\x93NUMPY\x01\x00"[..], &length, header, &data].concat();
        let array = parse(&file, None).unwrap();
        let expected: Vec<u8> = (0i32..6).flat_map(i32::to_le_bytes).collect();
        assert_eq!((array.shape().to_string().as_str(), array.bytes()), ("s32[2,3]", &expected[..]));
    }

    #[test]
    fn wrong_files_get_a_reason() {
        let header = "{'descr': '<f4', 'fortran_order': False, 'shape': (9223372036854775807, 9223372036854775807)}\n";
        let length = u16::try_from(header.len()).unwrap().to_le_bytes();
        let file = [&b"\x93NUMPY\x01\x00"[..], &length, header.as_bytes()].concat();
        assert!(parse(&file, None).unwrap_err().contains("address space"));
        assert!(parse(b"hello", None).unwrap_err().contains("not a .npy file"));
        let array = super::super::new(Shape::new(ElementType::Bf16, [2]), vec![0; 4]).unwrap();
        let mut file = Vec::new();
        serialize(&array, &mut file).unwrap();
        assert!(parse(&file, None).unwrap_err().contains("FILE.npy:bf16"));
        assert!(parse(&file, Some(ElementType::F32)).unwrap_err().contains("cannot be f32"));
        assert!(parse(&file[..file.len() - 1], Some(ElementType::Bf16)).unwrap_err().contains("3 bytes"));
    }
}

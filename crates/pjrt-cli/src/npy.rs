//! NumPy's `.npy` files, read and written as host arrays of any element type.
//!
//! NumPy has no name for the element types machine learning added; `ml_dtypes` writes those as plain bytes (`|V1`,
//! `<V2`). Such a file is read with the element type the command line names for it (`file.npy:bf16`).

use std::fs;
use std::io::{Cursor, Read, Write};
use std::path::Path;

use npyz::{DType, Order, TypeChar};
use pjrt::{ElementType, HostArray, Shape};

use crate::array;

/// NumPy's spelling of each element type it has.
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

/// Reads a file; `named` gives the element type of one that holds plain bytes.
pub(crate) fn read(path: &Path, named: Option<ElementType>) -> Result<HostArray, String> {
    let fault = |what: String| format!("{}: {what}", path.display());
    let bytes = fs::read(path).map_err(|error| fault(error.to_string()))?;
    parse(&bytes, named).map_err(fault)
}

fn parse(bytes: &[u8], named: Option<ElementType>) -> Result<HostArray, String> {
    check_extents(bytes)?;
    let mut cursor = Cursor::new(bytes);
    let header = npyz::NpyHeader::from_reader(&mut cursor).map_err(|error| format!("not a .npy file: {error}"))?;
    let DType::Plain(ty) = header.dtype() else {
        return Err(format!("holds records ({}), not an array of numbers", header.dtype().descr()));
    };
    let text = ty.to_string();
    let known = NAMES.iter().find(|(_, name)| *name == text || name[1..] == text[1..] && text.starts_with('='));
    let element_type = match (known, named) {
        (Some((own, _)), Some(named)) if *own != named => {
            return Err(format!("holds {own}, but the command line says {named}"));
        }
        (Some((own, _)), _) => *own,
        (None, Some(named)) if ty.type_char() == TypeChar::RawData && ty.size_field() == host_size(named) => named,
        (None, Some(named)) => return Err(format!("holds {text}, which cannot be {named}")),
        (None, None) if ty.type_char() == TypeChar::RawData => {
            return Err(format!("holds plain bytes ({text}); append its element type, as in FILE.npy:bf16"));
        }
        (None, None) if text.starts_with('>') => {
            return Err(format!("is big-endian ({text}); save it with .astype({:?})", text.replace('>', "<")));
        }
        (None, None) => return Err(format!("holds {text}, which is no element type of PJRT")),
    };
    if header.order() == Order::Fortran && header.shape().len() > 1 {
        return Err("is column-major; save it with numpy.ascontiguousarray".to_owned());
    }
    let dimensions = header.shape().iter().map(|d| i64::try_from(*d));
    let dimensions = dimensions.collect::<Result<Vec<_>, _>>().map_err(|_| "has an extent over 2^63".to_owned())?;
    let shape = Shape::new(element_type, dimensions);
    let mut data = Vec::new();
    cursor.read_to_end(&mut data).map_err(|error| error.to_string())?;
    array::new(shape, data)
}

/// Refuses extents whose product the reading library would compute without a check.
fn check_extents(bytes: &[u8]) -> Result<(), String> {
    let head = String::from_utf8_lossy(&bytes[..bytes.len().min(4096)]);
    let Some((_, shape)) = head.split_once("'shape'") else { return Ok(()) };
    let shape = shape.split_once(')').map_or(shape, |(shape, _)| shape);
    let extents = shape.split(|c: char| !c.is_ascii_digit()).filter(|digits| !digits.is_empty());
    let product = extents.map(|digits| digits.parse::<u64>().ok()).try_fold(1u64, |n, d| n.checked_mul(d?));
    if product.is_some_and(|n| n < 1 << 48) { Ok(()) } else { Err("holds more elements than memory".to_owned()) }
}

fn host_size(element_type: ElementType) -> u64 {
    u64::try_from(element_type.host_size()).unwrap_or(u64::MAX)
}

/// Writes a file; element types NumPy has no name for become plain bytes, as `ml_dtypes` does it.
pub(crate) fn write(path: &Path, array: &HostArray) -> Result<(), String> {
    let mut file = Vec::new();
    serialize(array, &mut file).map_err(|error| error.to_string())?;
    fs::write(path, file).map_err(|error| format!("{}: {error}", path.display()))
}

/// Version 1.0 of the format: magic, a header padded so that the data is aligned to 64 bytes, the elements.
fn serialize(array: &HostArray, out: &mut Vec<u8>) -> std::io::Result<()> {
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
                let array = array::new(shape, data).unwrap();
                let named = (!NAMES.iter().any(|(named, _)| named == ty)).then_some(*ty);
                assert_eq!(round_trip(&array, named), array);
            }
        }
    }

    #[test]
    fn wrong_files_say_why() {
        let header = "{'descr': '<f4', 'fortran_order': False, 'shape': (9223372036854775807, 9223372036854775807)}\n";
        let length = u16::try_from(header.len()).unwrap().to_le_bytes();
        let file = [&b"\x93NUMPY\x01\x00"[..], &length, header.as_bytes()].concat();
        assert!(parse(&file, None).unwrap_err().contains("more elements than memory"));
        assert!(parse(b"hello", None).unwrap_err().contains("not a .npy file"));
        let array = array::new(Shape::new(ElementType::Bf16, [2]), vec![0; 4]).unwrap();
        let mut file = Vec::new();
        serialize(&array, &mut file).unwrap();
        assert!(parse(&file, None).unwrap_err().contains("FILE.npy:bf16"));
        assert!(parse(&file, Some(ElementType::F32)).unwrap_err().contains("cannot be f32"));
        assert!(parse(&file[..file.len() - 1], Some(ElementType::Bf16)).unwrap_err().contains("3 bytes"));
    }
}

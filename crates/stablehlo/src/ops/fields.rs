//! The codecs of `op_table!`, and how they read the attribute of a field. `write::fields` writes the attributes to
//! artifacts, and `print::fields` writes them as text.

use bytes::Bytes;

use crate::attributes::{Named, ints};
use crate::error::{Error, ErrorKind, Result};
use crate::ir::{Attribute, ChannelHandle, Dims, ElementType, Enumeration, Literal, ReplicaGroups, TensorType};

/// Index of a dimension or an operand, as a 64-bit integer.
pub(crate) struct Index;
/// Index of a tuple element, as a 32-bit integer.
pub(crate) struct Index32;
/// Number of bits, as a 32-bit integer.
pub(crate) struct Bits;
/// Index as a 64-bit integer. An absent attribute means 0.
pub(crate) struct IndexOrZero;
/// Count as a 64-bit integer.
pub(crate) struct Count64;
/// 32-bit floating-point number.
pub(crate) struct Float;
/// Boolean that is omitted in text if it is false.
pub(crate) struct Flag;
/// Boolean that is a unit attribute in text if it is true, and is omitted if it is false.
pub(crate) struct UnitFlag;
/// Boolean that is never omitted in text.
pub(crate) struct Bool;
/// List of integers.
pub(crate) struct List;
/// List of dimension indices.
pub(crate) struct DimList;
/// List of dimension indices that is omitted in text if it is empty.
pub(crate) struct OptionalDims;
/// List of layouts, each of which is a list of dimension indices. Omitted in text if it is empty.
pub(crate) struct Layouts;
/// Replica groups of a collective.
pub(crate) struct Groups;
/// List of pairs of ids.
pub(crate) struct IdPairs;
/// Channel. Portable artifacts store only its id, and text contains a `channel_handle`.
pub(crate) struct Channel;
/// UTF-8 string.
pub(crate) struct Text;
/// String of arbitrary bytes that is omitted in text if it is empty.
pub(crate) struct Config;
/// Enumeration.
pub(crate) struct Word;
/// Enumeration that is omitted in text if it has its default value.
pub(crate) struct OptionalWord;
/// Symbol name of a function.
pub(crate) struct Symbol;

/// Reads a field from an op's attributes.
pub(crate) trait ReadField<T> {
    /// Family of the enumeration, or `None` if the field is not an enumeration.
    const FAMILY: Option<&'static str> = None;

    /// Converts the attribute `name` in `attributes` to the value of the field.
    fn read(attributes: Named<'_>, name: &str) -> Result<T>;
}

impl ReadField<usize> for Index {
    #[inline]
    fn read(attributes: Named<'_>, name: &str) -> Result<usize> {
        attributes.dim(name)
    }
}

impl ReadField<usize> for Index32 {
    #[inline]
    fn read(attributes: Named<'_>, name: &str) -> Result<usize> {
        attributes.dim(name)
    }
}

impl ReadField<u32> for Bits {
    #[inline]
    fn read(attributes: Named<'_>, name: &str) -> Result<u32> {
        attributes.bits(name)
    }
}

impl ReadField<bool> for Flag {
    #[inline]
    fn read(attributes: Named<'_>, name: &str) -> Result<bool> {
        attributes.flag(name)
    }
}

impl ReadField<bool> for Bool {
    #[inline]
    fn read(attributes: Named<'_>, name: &str) -> Result<bool> {
        attributes.flag(name)
    }
}

impl ReadField<Vec<i64>> for List {
    #[inline]
    fn read(attributes: Named<'_>, name: &str) -> Result<Vec<i64>> {
        attributes.ints(name)
    }
}

impl ReadField<Dims> for DimList {
    #[inline]
    fn read(attributes: Named<'_>, name: &str) -> Result<Dims> {
        attributes.dims(name)
    }
}

impl<T: Enumeration> ReadField<T> for Word {
    const FAMILY: Option<&'static str> = Some(T::FAMILY);

    #[inline]
    fn read(attributes: Named<'_>, name: &str) -> Result<T> {
        match T::DEFAULT {
            Some(default) => value_of(attributes.word_or(name, default.word())?),
            None => value_of(attributes.word(name)?),
        }
    }
}

impl<T: Enumeration> ReadField<T> for OptionalWord {
    const FAMILY: Option<&'static str> = Some(T::FAMILY);

    #[inline]
    fn read(attributes: Named<'_>, name: &str) -> Result<T> {
        Word::read(attributes, name)
    }
}

impl ReadField<String> for Symbol {
    #[inline]
    fn read(attributes: Named<'_>, name: &str) -> Result<String> {
        attributes.text(name)
    }
}

impl ReadField<usize> for IndexOrZero {
    fn read(attributes: Named<'_>, name: &str) -> Result<usize> {
        attributes.dim_or_zero(name)
    }
}

impl ReadField<i64> for Count64 {
    fn read(attributes: Named<'_>, name: &str) -> Result<i64> {
        attributes.int(name)
    }
}

impl ReadField<f32> for Float {
    #[expect(clippy::cast_possible_truncation, reason = "the attribute is a 32-bit float")]
    fn read(attributes: Named<'_>, name: &str) -> Result<f32> {
        let value = match attributes.find(name) {
            Some(Attribute::Float(value, _)) => Some(*value as f32),
            // A NaN is stored as its bit pattern.
            Some(Attribute::Other(text)) => {
                let bits = text.strip_prefix("0x").and_then(|text| text.strip_suffix(" : f32"));
                bits.and_then(|bits| u32::from_str_radix(bits, 16).ok()).map(f32::from_bits)
            }
            _ => None,
        };
        value.ok_or_else(|| {
            Error::new(ErrorKind::Attribute, format_args!("attribute `{name}` is missing or not a 32-bit float"))
        })
    }
}

impl ReadField<bool> for UnitFlag {
    fn read(attributes: Named<'_>, name: &str) -> Result<bool> {
        attributes.flag(name)
    }
}

impl ReadField<Dims> for OptionalDims {
    fn read(attributes: Named<'_>, name: &str) -> Result<Dims> {
        attributes.dims_or_empty(name)
    }
}

impl ReadField<Vec<Vec<i64>>> for Layouts {
    fn read(attributes: Named<'_>, name: &str) -> Result<Vec<Vec<i64>>> {
        let layouts = match attributes.find(name) {
            None => Some(Vec::new()),
            Some(Attribute::Array(layouts)) => layouts.iter().map(ints).collect(),
            Some(_) => None,
        };
        layouts.ok_or_else(|| {
            Error::new(ErrorKind::Attribute, format_args!("attribute `{name}` must hold lists of dimensions"))
        })
    }
}

impl ReadField<ReplicaGroups> for Groups {
    fn read(attributes: Named<'_>, name: &str) -> Result<ReplicaGroups> {
        let literal = match attributes.find(name) {
            Some(Attribute::Tensor(literal)) => literal,
            Some(Attribute::Other(text)) if text.starts_with("#stablehlo.replica_group_mesh_axes<") => {
                return Ok(ReplicaGroups::Mesh(text.clone()));
            }
            _ => {
                return Err(Error::new(
                    ErrorKind::Attribute,
                    format_args!("attribute `{name}` is missing or not a tensor"),
                ));
            }
        };
        if literal.ty.rank() != 2 {
            return Err(Error::new(
                ErrorKind::Attribute,
                format_args!("attribute `{name}` must have two dimensions, not {}", literal.ty),
            ));
        }
        if literal.ty.element == ElementType::I64 && !literal.splat {
            return Ok(ReplicaGroups::Ids(literal.clone()));
        }
        let Some(ids) = literal.integers() else {
            return Err(Error::new(
                ErrorKind::Attribute,
                format_args!("attribute `{name}` must hold integers, one per device"),
            ));
        };
        let ty = TensorType { element: ElementType::I64, ..literal.ty.clone() };
        let data: Vec<u8> = ids.into_iter().flat_map(i64::to_le_bytes).collect();
        Ok(ReplicaGroups::Ids(Literal { ty, data: data.into(), splat: false }))
    }
}

impl ReadField<Vec<(i64, i64)>> for IdPairs {
    fn read(attributes: Named<'_>, name: &str) -> Result<Vec<(i64, i64)>> {
        match attributes.find(name) {
            Some(Attribute::Tensor(_)) => attributes.pairs(name, 0),
            _ => Err(Error::new(ErrorKind::Attribute, format_args!("attribute `{name}` is missing or not a tensor"))),
        }
    }
}

impl ReadField<ChannelHandle> for Channel {
    fn read(attributes: Named<'_>, name: &str) -> Result<ChannelHandle> {
        let channel_type = attributes.int_or("channel_type", 0)?;
        Ok(ChannelHandle { id: attributes.int_or(name, 0)?, channel_type })
    }
}

impl ReadField<String> for Text {
    fn read(attributes: Named<'_>, name: &str) -> Result<String> {
        attributes.text(name)
    }
}

impl ReadField<Bytes> for Config {
    fn read(attributes: Named<'_>, name: &str) -> Result<Bytes> {
        match attributes.find(name) {
            None => Ok(Bytes::new()),
            Some(Attribute::String(bytes)) => Ok(bytes.clone()),
            Some(_) => Err(Error::new(ErrorKind::Attribute, format_args!("attribute `{name}` must be a string"))),
        }
    }
}

/// Returns the enumeration's value with this keyword, or an error if the keyword is unknown.
pub(crate) fn value_of<T: Enumeration>(word: &str) -> Result<T> {
    T::from_word(word).ok_or_else(|| unknown(T::WHAT, word))
}

/// Creates the error for an unknown keyword. This function is not generic, because formatting a message compiles to
/// much code.
#[cold]
fn unknown(what: &str, word: &str) -> Error {
    Error::new(ErrorKind::Attribute, format_args!("unknown {what} `{word}`"))
}

//! The codecs of `op_table!`: how the attribute of a field is read. `write::fields` writes it to artifacts, and
//! `print::fields` to text.

use bytes::Bytes;

use crate::attributes::{Named, ints};
use crate::error::{Error, ErrorKind, Result};
use crate::ir::{Attribute, ChannelHandle, Dims, ElementType, Enumeration, Literal, ReplicaGroups, TensorType};

/// A dimension or a position, as a 64-bit integer.
pub(crate) struct Index;
/// A position, as a 32-bit integer.
pub(crate) struct Index32;
/// A number of bits, as a 32-bit integer.
pub(crate) struct Bits;
/// A position, as a 64-bit integer that may be absent if it is 0.
pub(crate) struct IndexOrZero;
/// A number, as a 64-bit integer.
pub(crate) struct Count64;
/// A 32-bit float.
pub(crate) struct Float;
/// A boolean that text omits if it is false.
pub(crate) struct Flag;
/// A boolean that text shows as a name without a value if it is true.
pub(crate) struct UnitFlag;
/// A boolean that text always shows.
pub(crate) struct Bool;
/// A list of integers.
pub(crate) struct List;
/// A list of dimensions.
pub(crate) struct DimList;
/// A list of dimensions that text omits if it is empty.
pub(crate) struct OptionalDims;
/// A list of layouts, each of which is a list of dimensions. Text omits it if it is empty.
pub(crate) struct Layouts;
/// The groups of devices of a collective.
pub(crate) struct Groups;
/// A list of pairs of ids.
pub(crate) struct IdPairs;
/// A channel. Portable artifacts hold its id, text holds a `channel_handle`.
pub(crate) struct Channel;
/// A string.
pub(crate) struct Text;
/// A string of any bytes, which text omits if it is empty.
pub(crate) struct Config;
/// An enumeration.
pub(crate) struct Word;
/// An enumeration that text omits if it has its default value.
pub(crate) struct OptionalWord;
/// The name of a function.
pub(crate) struct Symbol;

/// Reads a field from an op's attributes.
pub(crate) trait ReadField<T> {
    /// The family of the enumeration, if the field is one.
    const FAMILY: Option<&'static str> = None;

    /// Returns the value of the attribute with this name.
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
            // A NaN is kept as its bits.
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

/// The value of an enumeration that this name refers to.
pub(crate) fn value_of<T: Enumeration>(word: &str) -> Result<T> {
    T::from_word(word).ok_or_else(|| unknown(T::WHAT, word))
}

/// One function serves all enumerations, because formatting text takes much code.
#[cold]
fn unknown(what: &str, word: &str) -> Error {
    Error::new(ErrorKind::Attribute, format_args!("unknown {what} `{word}`"))
}

//! The codecs of `op_table!`: how the attribute of a field is read. `write::fields` writes it to artifacts, and
//! `print::fields` to text.

use crate::attributes::Named;
use crate::error::{Error, Result};
use crate::ir::{Dims, Enumeration};

/// A dimension or a position, as a 64-bit integer.
pub(crate) struct Index;
/// A position, as a 32-bit integer.
pub(crate) struct Index32;
/// A number of bits, as a 32-bit integer.
pub(crate) struct Bits;
/// A boolean that text omits if it is false.
pub(crate) struct Flag;
/// A boolean that text always shows.
pub(crate) struct Bool;
/// A list of integers.
pub(crate) struct List;
/// A list of dimensions.
pub(crate) struct DimList;
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

/// The value of an enumeration that this name refers to.
pub(crate) fn value_of<T: Enumeration>(word: &str) -> Result<T> {
    T::from_word(word).ok_or_else(|| unknown(T::WHAT, word))
}

/// One function serves all enumerations, because formatting text takes much code.
#[cold]
fn unknown(what: &str, word: &str) -> Error {
    Error::new(format_args!("unknown {what} `{word}`"))
}

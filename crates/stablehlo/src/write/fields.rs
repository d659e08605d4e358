//! The attributes of artifacts for the codecs of `op_table!`.

use super::encoder::Encoder;
use crate::error::Result;
use crate::ir::{Dims, ElementType, Enumeration};
use crate::ops::fields::{Bits, Bool, DimList, Flag, Index, Index32, List, OptionalWord, Symbol, Word};

/// Writes a field as an attribute.
pub(super) trait WriteField<T> {
    /// Returns the number of the attribute.
    fn write(encoder: &mut Encoder, value: &T) -> Result<usize>;
}

impl WriteField<usize> for Index {
    fn write(encoder: &mut Encoder, value: &usize) -> Result<usize> {
        encoder.index(*value)
    }
}

impl WriteField<usize> for Index32 {
    fn write(encoder: &mut Encoder, value: &usize) -> Result<usize> {
        encoder.vhlo_integer(i64::try_from(*value).unwrap_or(i64::MAX), ElementType::I32)
    }
}

impl WriteField<u32> for Bits {
    fn write(encoder: &mut Encoder, value: &u32) -> Result<usize> {
        encoder.vhlo_integer(i64::from(*value), ElementType::I32)
    }
}

impl WriteField<bool> for Flag {
    fn write(encoder: &mut Encoder, value: &bool) -> Result<usize> {
        Ok(encoder.vhlo_bool(*value))
    }
}

impl WriteField<bool> for Bool {
    fn write(encoder: &mut Encoder, value: &bool) -> Result<usize> {
        Ok(encoder.vhlo_bool(*value))
    }
}

impl WriteField<Vec<i64>> for List {
    fn write(encoder: &mut Encoder, value: &Vec<i64>) -> Result<usize> {
        encoder.vhlo_ints(value)
    }
}

impl WriteField<Dims> for DimList {
    fn write(encoder: &mut Encoder, value: &Dims) -> Result<usize> {
        encoder.vhlo_dims(value)
    }
}

impl<T: Enumeration> WriteField<T> for Word {
    fn write(encoder: &mut Encoder, value: &T) -> Result<usize> {
        encoder.vhlo_word(T::FAMILY, value.word())
    }
}

impl<T: Enumeration> WriteField<T> for OptionalWord {
    fn write(encoder: &mut Encoder, value: &T) -> Result<usize> {
        Word::write(encoder, value)
    }
}

impl WriteField<String> for Symbol {
    fn write(encoder: &mut Encoder, value: &String) -> Result<usize> {
        Ok(encoder.vhlo_string(value.as_bytes()))
    }
}

//! Writes the fields of `op_table!` as attributes of portable artifacts.

use bytes::Bytes;

use super::encoder::Encoder;
use crate::attributes::{float_attribute, int};
use crate::error::Result;
use crate::ir::{Attribute, ChannelHandle, Dims, ElementType, Enumeration, ReplicaGroups};
use crate::ops::fields::{
    Bits, Bool, Channel, Config, Count64, DimList, Flag, Float, Groups, IdPairs, Index, Index32, IndexOrZero, Layouts,
    List, OptionalDims, OptionalWord, Symbol, Text, UnitFlag, Word,
};

/// Codec that writes a field as an attribute.
pub(super) trait WriteField<T> {
    /// Adds the attribute for `value` to the attribute table, and returns its index.
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

impl WriteField<usize> for IndexOrZero {
    fn write(encoder: &mut Encoder, value: &usize) -> Result<usize> {
        encoder.index(*value)
    }
}

impl WriteField<i64> for Count64 {
    fn write(encoder: &mut Encoder, value: &i64) -> Result<usize> {
        encoder.vhlo_integer(*value, ElementType::I64)
    }
}

impl WriteField<f32> for Float {
    fn write(encoder: &mut Encoder, value: &f32) -> Result<usize> {
        encoder.vhlo_attribute(&float_attribute(value.to_bits().into(), ElementType::F32))
    }
}

impl WriteField<bool> for UnitFlag {
    fn write(encoder: &mut Encoder, value: &bool) -> Result<usize> {
        Ok(encoder.vhlo_bool(*value))
    }
}

impl WriteField<Dims> for OptionalDims {
    fn write(encoder: &mut Encoder, value: &Dims) -> Result<usize> {
        encoder.vhlo_dims(value)
    }
}

impl WriteField<Vec<Vec<i64>>> for Layouts {
    fn write(encoder: &mut Encoder, value: &Vec<Vec<i64>>) -> Result<usize> {
        let list = |layout: &Vec<i64>| Attribute::Array(layout.iter().map(|&d| int(d)).collect());
        encoder.vhlo_attribute(&Attribute::Array(value.iter().map(list).collect()))
    }
}

impl WriteField<ReplicaGroups> for Groups {
    fn write(encoder: &mut Encoder, value: &ReplicaGroups) -> Result<usize> {
        match value {
            ReplicaGroups::Ids(literal) => encoder.vhlo_literal(literal),
            ReplicaGroups::Mesh(text) => encoder.vhlo_attribute(&Attribute::Other(text.clone())),
        }
    }
}

impl WriteField<Vec<(i64, i64)>> for IdPairs {
    fn write(encoder: &mut Encoder, value: &Vec<(i64, i64)>) -> Result<usize> {
        encoder.vhlo_pairs(value)
    }
}

impl WriteField<ChannelHandle> for Channel {
    fn write(encoder: &mut Encoder, value: &ChannelHandle) -> Result<usize> {
        encoder.vhlo_integer(value.id, ElementType::I64)
    }
}

impl WriteField<String> for Text {
    fn write(encoder: &mut Encoder, value: &String) -> Result<usize> {
        Ok(encoder.vhlo_string(value.as_bytes()))
    }
}

impl WriteField<Bytes> for Config {
    fn write(encoder: &mut Encoder, value: &Bytes) -> Result<usize> {
        Ok(encoder.vhlo_string(value))
    }
}

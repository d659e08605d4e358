//! Text of the fields of `op_table!`: attributes of the generic form, and keywords of an op's custom form.

use bytes::Bytes;

use super::generic::{channel, dense, dims, pairs, signed};
use super::printer::Printer;
use crate::attributes::{enumeration, float_attribute, int};
use crate::ir::{Attribute, ChannelHandle, Dims, ElementType, Enumeration, ReplicaGroups};
use crate::ops::fields::{
    Bits, Bool, Channel, Config, Count64, DimList, Flag, Float, Groups, IdPairs, Index, Index32, IndexOrZero, Layouts,
    List, OptionalDims, OptionalWord, Symbol, Text, UnitFlag, Word,
};

/// Codec that converts a field to text.
pub(super) trait TextField<T> {
    /// Name of the attribute in text, if it differs from the name in portable artifacts.
    const NAME: Option<&'static str> = None;

    /// Returns the attribute of the generic form. Returns `None` if the generic form omits the attribute.
    fn attribute(value: &T) -> Option<Attribute>;
}

impl TextField<usize> for Index {
    fn attribute(value: &usize) -> Option<Attribute> {
        Some(int(signed(*value)))
    }
}

impl TextField<usize> for Index32 {
    fn attribute(value: &usize) -> Option<Attribute> {
        Some(Attribute::Integer(signed(*value), ElementType::I32))
    }
}

impl TextField<u32> for Bits {
    fn attribute(value: &u32) -> Option<Attribute> {
        Some(Attribute::Integer(i64::from(*value), ElementType::I32))
    }
}

impl TextField<bool> for Flag {
    fn attribute(value: &bool) -> Option<Attribute> {
        value.then_some(Attribute::Bool(true))
    }
}

impl TextField<bool> for Bool {
    fn attribute(value: &bool) -> Option<Attribute> {
        Some(Attribute::Bool(*value))
    }
}

impl TextField<Vec<i64>> for List {
    fn attribute(value: &Vec<i64>) -> Option<Attribute> {
        Some(dense(value.iter().copied()))
    }
}

impl TextField<Dims> for DimList {
    fn attribute(value: &Dims) -> Option<Attribute> {
        Some(dims(value))
    }
}

impl<T: Enumeration> TextField<T> for Word {
    fn attribute(value: &T) -> Option<Attribute> {
        Some(enumeration(T::FAMILY, value.word()))
    }
}

impl<T: Enumeration> TextField<T> for OptionalWord {
    fn attribute(value: &T) -> Option<Attribute> {
        if T::DEFAULT == Some(*value) { None } else { Word::attribute(value) }
    }
}

impl TextField<String> for Symbol {
    fn attribute(value: &String) -> Option<Attribute> {
        Some(Attribute::Symbol(value.clone()))
    }
}

impl TextField<usize> for IndexOrZero {
    fn attribute(value: &usize) -> Option<Attribute> {
        Some(int(signed(*value)))
    }
}

impl TextField<i64> for Count64 {
    fn attribute(value: &i64) -> Option<Attribute> {
        Some(int(*value))
    }
}

impl TextField<f32> for Float {
    fn attribute(value: &f32) -> Option<Attribute> {
        Some(float_attribute(value.to_bits().into(), ElementType::F32))
    }
}

impl TextField<bool> for UnitFlag {
    fn attribute(value: &bool) -> Option<Attribute> {
        value.then_some(Attribute::Unit)
    }
}

impl TextField<Dims> for OptionalDims {
    fn attribute(value: &Dims) -> Option<Attribute> {
        (!value.is_empty()).then(|| dims(value))
    }
}

impl TextField<Vec<Vec<i64>>> for Layouts {
    fn attribute(value: &Vec<Vec<i64>>) -> Option<Attribute> {
        let list = |layout: &Vec<i64>| Attribute::Array(layout.iter().map(|&d| int(d)).collect());
        (!value.is_empty()).then(|| Attribute::Array(value.iter().map(list).collect()))
    }
}

impl TextField<ReplicaGroups> for Groups {
    fn attribute(value: &ReplicaGroups) -> Option<Attribute> {
        Some(match value {
            ReplicaGroups::Ids(literal) => Attribute::Tensor(literal.clone()),
            ReplicaGroups::Mesh(text) => Attribute::Other(text.clone()),
        })
    }
}

impl TextField<Vec<(i64, i64)>> for IdPairs {
    fn attribute(value: &Vec<(i64, i64)>) -> Option<Attribute> {
        Some(pairs(value))
    }
}

impl TextField<ChannelHandle> for Channel {
    const NAME: Option<&'static str> = Some("channel_handle");

    fn attribute(value: &ChannelHandle) -> Option<Attribute> {
        (*value != ChannelHandle::default()).then(|| channel(*value))
    }
}

impl TextField<String> for Text {
    fn attribute(value: &String) -> Option<Attribute> {
        Some(Attribute::String(value.clone().into_bytes().into()))
    }
}

impl TextField<Bytes> for Config {
    fn attribute(value: &Bytes) -> Option<Attribute> {
        (!value.is_empty()).then(|| Attribute::String(value.clone()))
    }
}

/// A field that an op's custom form prints after a keyword.
pub(super) trait Shown {
    /// Returns whether the custom form contains the keyword.
    fn is_shown(&self) -> bool {
        true
    }

    /// Prints the value that follows `keyword = `.
    fn show(&self, printer: &mut Printer<'_>);
}

impl Shown for bool {
    fn is_shown(&self) -> bool {
        *self
    }

    fn show(&self, printer: &mut Printer<'_>) {
        printer.push("true");
    }
}

impl Shown for usize {
    fn show(&self, printer: &mut Printer<'_>) {
        printer.integer(signed(*self));
    }
}

impl Shown for String {
    fn show(&self, printer: &mut Printer<'_>) {
        printer.string(self.as_bytes());
    }
}

impl Shown for Vec<i64> {
    fn show(&self, printer: &mut Printer<'_>) {
        printer.ints(self);
    }
}

impl Shown for Dims {
    fn show(&self, printer: &mut Printer<'_>) {
        printer.dims(self);
    }
}

impl<T: Enumeration> Shown for T {
    fn show(&self, printer: &mut Printer<'_>) {
        printer.push(self.word());
    }
}

//! Text for the codecs of `op_table!`: attributes of the generic form, and words of an op's own form.

use super::generic::{dense, dims, signed};
use super::printer::Printer;
use crate::attributes::{enumeration, int};
use crate::ir::{Attribute, Dims, ElementType, Enumeration};
use crate::ops::fields::{Bits, Bool, DimList, Flag, Index, Index32, List, OptionalWord, Symbol, Word};

/// Converts a field to text.
pub(super) trait TextField<T> {
    /// Returns the attribute of the generic form, or `None` if text omits it.
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

/// A field that an op's own form prints after a word.
pub(super) trait Shown {
    /// Whether the form contains the word.
    fn is_shown(&self) -> bool {
        true
    }

    /// Prints the value after `word = `.
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

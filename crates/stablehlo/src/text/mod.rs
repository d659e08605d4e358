//! Programs as text: the pretty and the generic form of StableHLO, as MLIR prints them and people write them.
//!
//! One recursive-descent parser. [`parser`] holds its state and tokens, [`ops`] what all ops share, [`pretty`] the
//! words of each op's own form.

mod attributes;
mod canonical;
mod dense;
mod module;
mod ops;
mod parser;
mod pretty;
mod regions;
mod scope;
mod structured;
mod types;

use bytes::Bytes;

use crate::error::{Error, Result};
use crate::ir::{Attribute, Attributes, Module, Type};
use crate::types::Ty;

/// Reads a text program.
pub(crate) fn parse(program: &Bytes) -> Result<Module> {
    let text = std::str::from_utf8(program)
        .map_err(|e| Error::at(e.valid_up_to(), "the program is neither a portable artifact nor UTF-8 text"))?;
    parser::Parser::new(text).program().map_err(|e| e.with_text(text))
}

/// The inputs and results of a function type given as text; `None` if it is none, and where no text is read.
pub(crate) fn function_type(text: &str) -> Option<(Vec<Type>, Vec<Type>)> {
    if cfg!(not(feature = "text")) {
        return None;
    }
    match parser::Parser::new(text).whole_type().ok()? {
        Ty::Function(inputs, results) => Some((inputs, results)),
        _ => None,
    }
}

/// The type given as text; `None` if it is none.
pub(crate) fn whole_type(text: &str) -> Option<Ty> {
    parser::Parser::new(text).whole_type().ok()
}

/// The attribute given as text; `None` if it is none.
pub(crate) fn whole_attribute(text: &str) -> Option<Attribute> {
    parser::Parser::new(text).whole_attribute().ok()
}

/// Whether text is one pair of brackets and what they enclose, as Shardy's own forms take it.
pub(crate) fn is_bracketed(text: &str) -> bool {
    parser::Parser::new(text).bracketed()
}

/// The fields of a structured attribute, given the text between its brackets.
pub(crate) fn fields(body: &str) -> Result<Attributes> {
    parser::Parser::new(body).fields()
}

/// The entries of a dictionary given as text, braces included.
#[cfg(feature = "hlo")]
pub(crate) fn dictionary(text: &str) -> Result<Attributes> {
    parser::Parser::new(text).dictionary()
}

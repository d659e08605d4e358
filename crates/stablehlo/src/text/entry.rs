//! The entry points of the text reader: programs, and attributes and types on their own.

use bytes::Bytes;

use super::parser::Parser;
use crate::error::{Error, ErrorKind, Result};
use crate::ir::{Attribute, Attributes, Module, Type};
use crate::types::Ty;

/// Reads a text program.
pub(crate) fn parse(program: &Bytes) -> Result<Module> {
    let text = std::str::from_utf8(program).map_err(|e| {
        Error::at(ErrorKind::Syntax, e.valid_up_to(), "the program is neither a portable artifact nor UTF-8 text")
    })?;
    Parser::new(text).program().map_err(|e| e.with_text(text))
}

/// The inputs and results of a function type given as text. `None` if it is not a function type.
pub(crate) fn function_type(text: &str) -> Option<(Vec<Type>, Vec<Type>)> {
    match Parser::new(text).whole_type().ok()? {
        Ty::Function(inputs, results) => Some((inputs, results)),
        _ => None,
    }
}

/// The type given as text. `None` if it is not a type.
pub(crate) fn whole_type(text: &str) -> Option<Ty> {
    Parser::new(text).whole_type().ok()
}

/// The attribute given as text. `None` if it is not an attribute.
pub(crate) fn whole_attribute(text: &str) -> Option<Attribute> {
    Parser::new(text).whole_attribute().ok()
}

/// The fields of a structured attribute, given the text between its brackets.
pub(crate) fn fields(body: &str) -> Result<Attributes> {
    Parser::new(body).fields()
}

/// The entries of a dictionary given as text, including the braces.
#[cfg(feature = "hlo")]
pub(crate) fn dictionary(text: &str) -> Result<Attributes> {
    Parser::new(text).dictionary()
}

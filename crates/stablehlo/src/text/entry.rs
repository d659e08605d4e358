//! Entry points of the text reader, for programs, single attributes and single types.

use bytes::Bytes;

use super::parser::Parser;
use crate::error::{Error, ErrorKind, Result};
use crate::ir::{Attribute, Attributes, Module, Type};
use crate::types::{Ty, cloned_types};

/// Parses a text program.
pub(crate) fn parse(program: &Bytes) -> Result<Module> {
    let text = std::str::from_utf8(program).map_err(|e| {
        Error::at(ErrorKind::Syntax, e.valid_up_to(), "the program is neither a portable artifact nor UTF-8 text")
    })?;
    Parser::new(text).program().map_err(|e| e.with_text(text))
}

/// Parses a function type, and returns its inputs and results. Returns `None` if the text is not a function type.
pub(crate) fn function_type(text: &str) -> Option<(Vec<Type>, Vec<Type>)> {
    match Parser::new(text).whole_type().ok()? {
        Ty::Function(inputs, results) => Some((cloned_types(&inputs), cloned_types(&results))),
        _ => None,
    }
}

/// Parses a type. Returns `None` if the text is not a type.
pub(crate) fn whole_type(text: &str) -> Option<Ty> {
    Parser::new(text).whole_type().ok()
}

/// Parses an attribute. Returns `None` if the text is not an attribute.
pub(crate) fn whole_attribute(text: &str) -> Option<Attribute> {
    Parser::new(text).whole_attribute().ok()
}

/// Parses the attributes of an op in the generic form, and returns its inherent attributes, under their names in
/// portable artifacts, and its discardable attributes. `text` is a dictionary.
#[cfg(feature = "builder")]
pub(crate) fn op_attributes(name: &str, text: &str) -> Result<(Attributes, Attributes)> {
    super::canonical::split(name, Attributes::new(), whole_dictionary(text)?)
}

/// Parses the fields of a structured attribute. `body` is the text between the brackets.
pub(crate) fn fields(body: &str) -> Result<Attributes> {
    Parser::new(body).fields()
}

/// Parses a dictionary with its braces. Empty text is an empty dictionary.
#[cfg(feature = "builder")]
pub(crate) fn whole_dictionary(text: &str) -> Result<Attributes> {
    if text.is_empty() {
        return Ok(Attributes::new());
    }
    let mut parser = Parser::new(text);
    let parsed =
        parser.dictionary().and_then(|all| if parser.at_end() { Ok(all) } else { Err(parser.expected("the end")) });
    parsed.map_err(|error| error.with_text(text))
}

/// Parses a dictionary, including its braces.
#[cfg(feature = "hlo")]
pub(crate) fn dictionary(text: &str) -> Result<Attributes> {
    Parser::new(text).dictionary()
}

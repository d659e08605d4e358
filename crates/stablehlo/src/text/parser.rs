//! State and tokens of the parser. MLIR's lexing depends on the expected token, so tokens are read on demand.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use bytes::Bytes;

use super::ops::GenericOp;
use crate::attributes::Budget;
use crate::error::{Error, ErrorKind, Result};
use crate::ir::{Attribute, Location, LocationId, Type};
use crate::limits::MAX_NESTING;
use crate::types::Ty;

/// Position of the parser in the program, and the definitions that it has read.
pub(crate) struct Parser<'a> {
    pub(super) text: &'a str,
    pub(super) pos: usize,
    depth: usize,
    pub(super) locations: Vec<Location>,
    pub(super) location_aliases: HashMap<&'a str, LocationId>,
    pub(super) attribute_aliases: HashMap<&'a str, Attribute>,
    pub(super) type_aliases: HashMap<&'a str, Ty>,
    /// Blobs of the section `{-# ... #-}`.
    pub(super) resources: HashMap<&'a str, Bytes>,
    pub(super) budget: Budget,
    /// Types that values have, by the text of the type.
    pub(super) types: HashMap<&'a str, Arc<Type>>,
    /// Placeholder type of values whose type is not known yet.
    pub(super) unknown: Arc<Type>,
    /// Cleared ops, whose allocations are reused.
    #[expect(clippy::vec_box, reason = "each is taken out while its op is read, and only the box should move")]
    pub(super) spare: Vec<Box<GenericOp<'a>>>,
    /// Position, its line, and the start of this line. Advances as ops are read.
    line: (usize, u64, usize),
}

fn is_name_start(byte: u8) -> bool {
    byte.is_ascii_alphabetic() || byte == b'_'
}

fn is_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$' | b'.')
}

impl<'a> Parser<'a> {
    pub(crate) fn new(text: &'a str) -> Self {
        Self {
            text,
            pos: 0,
            depth: 0,
            locations: vec![Location::Unknown],
            location_aliases: HashMap::new(),
            attribute_aliases: HashMap::new(),
            type_aliases: HashMap::new(),
            resources: HashMap::new(),
            budget: Budget::new(text.len()),
            types: HashMap::new(),
            unknown: Arc::new(Type::Token),
            spare: Vec::new(),
            line: (0, 1, 0),
        }
    }

    /// Sets the nesting depth to the depth of `outer`. Use it for a parser of a section of `outer`'s text.
    pub(super) fn within(self, outer: &Parser<'_>) -> Self {
        Self { depth: outer.depth, ..self }
    }

    /// Creates an error at the current position.
    #[cold]
    pub(super) fn error(&self, message: impl fmt::Display) -> Error {
        Error::at(ErrorKind::Syntax, self.pos, message)
    }

    /// Creates an error that contains the expected and the actual text.
    #[cold]
    pub(super) fn expected(&mut self, what: &str) -> Error {
        self.ws();
        let rest = &self.text[self.pos..];
        let found: String = rest.chars().take(20).take_while(|c| *c != '\n').collect();
        let found = if found.is_empty() { "the end of the line or program".to_owned() } else { format!("`{found}`") };
        self.error(format_args!("expected {what}, found {found}"))
    }

    pub(super) fn bytes(&self) -> &'a [u8] {
        self.text.as_bytes()
    }

    /// Skips white space and comments.
    pub(super) fn ws(&mut self) {
        let bytes = self.bytes();
        while let Some(&byte) = bytes.get(self.pos) {
            match byte {
                b' ' | b'\n' | b'\t' | b'\r' => self.pos += 1,
                b'/' if bytes.get(self.pos + 1) == Some(&b'/') => {
                    self.pos += bytes[self.pos..].iter().position(|&b| b == b'\n').unwrap_or(bytes.len() - self.pos);
                }
                _ => break,
            }
        }
    }

    /// Skips white space, and returns the next byte. Returns 0 at the end.
    pub(super) fn peek(&mut self) -> u8 {
        self.ws();
        self.here()
    }

    /// Returns the byte at the current position. Returns 0 at the end.
    pub(super) fn here(&self) -> u8 {
        self.bytes().get(self.pos).copied().unwrap_or(0)
    }

    pub(super) fn at_end(&mut self) -> bool {
        self.ws();
        self.pos >= self.text.len()
    }

    /// Returns whether this punctuation comes next.
    pub(super) fn looking_at(&mut self, token: &str) -> bool {
        self.ws();
        self.bytes()[self.pos..].starts_with(token.as_bytes())
    }

    /// Consumes punctuation if it comes next. Returns whether it came next.
    pub(super) fn eat(&mut self, token: &str) -> bool {
        let found = self.looking_at(token);
        if found {
            self.pos += token.len();
        }
        found
    }

    pub(super) fn expect(&mut self, token: &str) -> Result<()> {
        if self.eat(token) { Ok(()) } else { Err(self.expected(&format!("`{token}`"))) }
    }

    /// Returns the next bare word without consuming it. Returns an empty string if no word comes next.
    pub(super) fn word(&mut self) -> &'a str {
        self.ws();
        let bytes = &self.bytes()[self.pos..];
        if !bytes.first().copied().is_some_and(is_name_start) {
            return "";
        }
        let length = bytes.iter().position(|&b| !is_name(b)).unwrap_or(bytes.len());
        &self.text[self.pos..self.pos + length]
    }

    /// Consumes this bare word if it comes next. Returns whether it came next.
    pub(super) fn keyword(&mut self, word: &str) -> bool {
        let found = self.word() == word;
        if found {
            self.pos += word.len();
        }
        found
    }

    /// Consumes a bare word.
    pub(super) fn ident(&mut self, what: &str) -> Result<&'a str> {
        let word = self.word();
        if word.is_empty() {
            return Err(self.expected(what));
        }
        self.pos += word.len();
        Ok(word)
    }

    /// Consumes a sigil such as `%` and the name after it.
    pub(super) fn sigil(&mut self, sigil: u8, what: &str) -> Result<&'a str> {
        if self.peek() != sigil {
            return Err(self.expected(what));
        }
        let start = self.pos + 1;
        let bytes = self.bytes();
        let mut end = start;
        while let Some(&byte) = bytes.get(end) {
            // A `-` belongs to the name, unless it starts an arrow.
            if is_name(byte) || (byte == b'-' && bytes.get(end + 1) != Some(&b'>')) {
                end += 1;
            } else {
                break;
            }
        }
        if end == start {
            return Err(self.expected(what));
        }
        self.pos = end;
        Ok(&self.text[start..end])
    }

    /// Consumes `@name` or `@"name"`. Joins nested names.
    pub(super) fn symbol(&mut self) -> Result<String> {
        if self.peek() != b'@' {
            return Err(self.expected("a symbol such as `@name`"));
        }
        let mut name = self.symbol_part()?;
        while self.bytes()[self.pos..].starts_with(b"::@") {
            self.pos += 2;
            name.push_str("::@");
            name.push_str(&self.symbol_part()?);
        }
        Ok(name)
    }

    fn symbol_part(&mut self) -> Result<String> {
        if self.bytes().get(self.pos + 1) == Some(&b'"') {
            self.pos += 1;
            return Ok(String::from_utf8_lossy(&self.string()?).into_owned());
        }
        Ok(self.sigil(b'@', "a symbol such as `@name`")?.to_owned())
    }

    /// Consumes a string, and resolves its escapes.
    pub(super) fn string(&mut self) -> Result<Bytes> {
        let raw = self.raw_string()?;
        if !raw.contains(&b'\\') {
            return Ok(Bytes::copy_from_slice(raw));
        }
        let mut value = Vec::with_capacity(raw.len());
        let mut rest = raw;
        while let Some((&byte, tail)) = rest.split_first() {
            rest = tail;
            if byte != b'\\' {
                value.push(byte);
                continue;
            }
            let (byte, used) = match *rest {
                [b'n', ..] => (b'\n', 1),
                [b't', ..] => (b'\t', 1),
                [b'r', ..] => (b'\r', 1),
                [c @ (b'"' | b'\\'), ..] => (c, 1),
                [high, low, ..] => match (hex(high), hex(low)) {
                    (Some(high), Some(low)) => (high << 4 | low, 2),
                    _ => return Err(self.error("a string holds an unknown escape")),
                },
                _ => return Err(self.error("a string holds an unknown escape")),
            };
            value.push(byte);
            rest = &rest[used..];
        }
        Ok(value.into())
    }

    /// Consumes a string without resolving its escapes.
    pub(super) fn raw_string(&mut self) -> Result<&'a [u8]> {
        if self.peek() != b'"' {
            return Err(self.expected("a string"));
        }
        let start = self.pos + 1;
        let bytes = self.bytes();
        let mut end = start;
        loop {
            match bytes.get(end) {
                Some(b'"') => break,
                Some(b'\\') => end += 2,
                Some(b'\n') | None => return Err(self.error("a string does not end")),
                Some(_) => end += 1,
            }
        }
        self.pos = end + 1;
        Ok(&bytes[start..end])
    }

    /// Returns whether a number comes next.
    pub(super) fn at_number(&mut self) -> bool {
        let byte = self.peek();
        byte.is_ascii_digit() || (byte == b'-' && self.bytes().get(self.pos + 1).is_some_and(u8::is_ascii_digit))
    }

    /// Consumes a number as text: a decimal or hexadecimal integer, or a decimal floating-point number.
    pub(super) fn number(&mut self) -> Result<&'a str> {
        if !self.at_number() {
            return Err(self.expected("a number"));
        }
        let bytes = self.bytes();
        let start = self.pos;
        let mut end = start + usize::from(bytes[start] == b'-');
        let digits = |mut end: usize, hex: bool| {
            while bytes.get(end).is_some_and(|b| if hex { b.is_ascii_hexdigit() } else { b.is_ascii_digit() }) {
                end += 1;
            }
            end
        };
        if bytes[end] == b'0'
            && bytes.get(end + 1) == Some(&b'x')
            && bytes.get(end + 2).is_some_and(u8::is_ascii_hexdigit)
        {
            end = digits(end + 2, true);
        } else {
            end = digits(end, false);
            if bytes.get(end) == Some(&b'.') {
                end = digits(end + 1, false);
                if let Some(b'e' | b'E') = bytes.get(end) {
                    let sign = usize::from(matches!(bytes.get(end + 1), Some(b'+' | b'-')));
                    if bytes.get(end + 1 + sign).is_some_and(u8::is_ascii_digit) {
                        end = digits(end + 1 + sign, false);
                    }
                }
            }
        }
        self.pos = end;
        Ok(&self.text[start..end])
    }

    /// Consumes an integer. An unsigned 64-bit integer beyond the signed range keeps its bits.
    pub(super) fn integer(&mut self) -> Result<i64> {
        let start = self.pos;
        let text = self.number()?;
        parse_integer(text)
            .ok_or_else(|| Error::at(ErrorKind::Syntax, start, format_args!("`{text}` is not a 64-bit integer")))
    }

    /// Consumes a balanced `<...>`, and returns it with the brackets. Ignores arrows, and brackets in strings.
    pub(super) fn angle_body(&mut self) -> Result<&'a str> {
        let start = self.pos;
        // The closing brackets that are still required, from the outermost to the innermost.
        let mut open = Vec::new();
        loop {
            match self.here() {
                b'<' => open.push(b'>'),
                b'(' => open.push(b')'),
                b'[' => open.push(b']'),
                b'{' => open.push(b'}'),
                // Remove the innermost open bracket, which must match.
                closing @ (b'>' | b')' | b']' | b'}') if open.pop() != Some(closing) => {
                    let closing = char::from(closing);
                    return Err(Error::at(
                        ErrorKind::Syntax,
                        self.pos,
                        format_args!("`{closing}` has no matching opening bracket after `<`"),
                    ));
                }
                b'"' => {
                    self.raw_string()?;
                    continue;
                }
                b'-' if self.bytes().get(self.pos + 1) == Some(&b'>') => self.pos += 1,
                0 if self.pos >= self.text.len() => {
                    return Err(Error::at(ErrorKind::Syntax, start, "`<` is never closed"));
                }
                _ => {}
            }
            self.pos += 1;
            if open.is_empty() {
                return Ok(&self.text[start..self.pos]);
            }
        }
    }

    /// Parses a list between `open` and `close`. Calls `item` to parse each element. Commas separate the elements.
    pub(super) fn list<T>(
        &mut self,
        open: &str,
        close: &str,
        mut item: impl FnMut(&mut Self) -> Result<T>,
    ) -> Result<Vec<T>> {
        let mut items = Vec::new();
        self.each(open, close, |p| {
            items.push(item(p)?);
            Ok(())
        })?;
        Ok(items)
    }

    /// Parses elements as [`Self::list`] does, for a caller that stores them itself.
    pub(super) fn each(
        &mut self,
        open: &str,
        close: &str,
        mut item: impl FnMut(&mut Self) -> Result<()>,
    ) -> Result<()> {
        self.expect(open)?;
        if self.eat(close) {
            return Ok(());
        }
        loop {
            item(self)?;
            if !self.eat(",") {
                return self.expect(close);
            }
        }
    }

    /// Enters a nesting level. Returns an error if the level exceeds the limit.
    pub(super) fn enter(&mut self) -> Result<()> {
        if self.depth >= MAX_NESTING {
            return Err(Error::at(
                ErrorKind::Limit,
                self.pos,
                format_args!("the program nests deeper than {MAX_NESTING}"),
            ));
        }
        self.depth += 1;
        Ok(())
    }

    pub(super) fn leave(&mut self) {
        self.depth -= 1;
    }

    /// Adds a location that is a position in the program text, for an op without a location.
    pub(super) fn add_place(&mut self, (line, column): (u64, u64)) -> Result<LocationId> {
        self.add_location(Location::File { file: String::new(), line, column })
    }

    /// Adds a location.
    pub(super) fn add_location(&mut self, location: Location) -> Result<LocationId> {
        let id = u32::try_from(self.locations.len())
            .map_err(|_| Error::at(ErrorKind::Limit, self.pos, "a program has more than 2^32 locations"))?;
        self.locations.push(location);
        Ok(LocationId(id))
    }

    /// Returns the line and the column of a position, which start at 1. The positions of successive calls must not
    /// decrease.
    pub(super) fn place(&mut self, pos: usize) -> (u64, u64) {
        let (from, mut line, mut start) = self.line;
        let passed = &self.bytes()[from.min(pos)..pos];
        if let Some(last) = passed.iter().rposition(|&byte| byte == b'\n') {
            start = from + last + 1;
            line += passed[..=last].iter().map(|&byte| u64::from(byte == b'\n')).sum::<u64>();
        }
        self.line = (pos, line, start);
        (line, u64::try_from(pos - start).unwrap_or(0) + 1)
    }
}

pub(super) fn hex(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).and_then(|d| u8::try_from(d).ok())
}

/// Parses a decimal or hexadecimal integer of 64 bits, signed or unsigned.
pub(super) fn parse_integer(text: &str) -> Option<i64> {
    let (negative, digits) = text.strip_prefix('-').map_or((false, text), |d| (true, d));
    let magnitude = match digits.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok()?,
        None => digits.parse::<u64>().ok()?,
    };
    if negative { 0i64.checked_sub_unsigned(magnitude) } else { Some(magnitude.cast_signed()) }
}

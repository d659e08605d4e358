//! Source locations of an artifact. Locations are attributes, and ops refer to them by index. They stay encoded until
//! they are used.
//!
//! The id of a location is the index of its attribute plus one, and id 0 is the unknown location. To read an op, the
//! reader therefore only reads this index. A location is decoded on request, without its nested locations.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::OnceLock;

use bytes::Bytes;

use super::container::{Container, Dialect, Entry};
use super::cursor::Cursor;
use crate::attributes::Budget;
use crate::error::Result;
use crate::ir::{EncodedLocations, LocationId, LocationView};

/// The attributes of a bytecode file. Some of them are locations.
pub(super) struct ArtifactLocations {
    program: Bytes,
    attributes: Vec<Entry>,
    strings: Vec<Range<usize>>,
    /// Whether the names of all locations fit into the budget (see `is_modest`). Computed at the first use.
    modest: OnceLock<bool>,
}

/// Reads the index of a location attribute, and returns the id of the location. Returns an error if no attribute has
/// this index. `attributes` is the number of attributes in the file.
#[inline]
pub(super) fn read(cursor: &mut Cursor<'_>, attributes: usize) -> Result<LocationId> {
    let index = cursor.index()?;
    match u32::try_from(index + 1) {
        Ok(id) if index < attributes => Ok(LocationId(id)),
        _ => Err(cursor.error(format_args!("location attribute {index} does not exist; the program has {attributes}"))),
    }
}

impl ArtifactLocations {
    pub(super) fn new(program: &Bytes, container: Container<'_>) -> Self {
        Self {
            program: program.clone(),
            attributes: container.attributes,
            strings: container.strings,
            modest: OnceLock::new(),
        }
    }

    /// Returns whether the names of all locations fit into a budget that is proportional to the file size. A small
    /// malicious file can refer to one long string many times. All locations of such a file are treated as unknown,
    /// because each location would copy the string.
    fn is_modest(&self) -> bool {
        let mut budget = Budget::new(self.program.len());
        let name = |entry| {
            self.fields(entry).and_then(|(code, mut cursor)| match code {
                11 | 14 | 22 => self.name(&mut cursor).map(|name| name.len()),
                _ => Ok(0),
            })
        };
        self.attributes.iter().all(|entry| budget.charge(name(entry).unwrap_or(0)).is_ok())
    }

    /// Returns the code of an encoded attribute of MLIR's builtin dialect, and a cursor over its fields. Returns an
    /// error for any other attribute.
    fn fields(&self, entry: &Entry) -> Result<(u64, Cursor<'_>)> {
        let mut cursor = Cursor::new(&self.program, entry.range.clone());
        if entry.dialect != Dialect::Builtin || !entry.encoded {
            return Err(cursor.error("not an attribute of MLIR's own"));
        }
        Ok((cursor.varint()?, cursor))
    }

    /// Reads the index of a string attribute, and returns the string.
    fn name(&self, cursor: &mut Cursor<'_>) -> Result<&[u8]> {
        let index = cursor.index()?;
        let string = self.attributes.get(index).map(|entry| self.fields(entry)).transpose()?;
        let Some((2, mut string)) = string else { return Err(cursor.error("expected a string attribute")) };
        match self.strings.get(string.index()?) {
            Some(range) => Ok(&self.program[range.clone()]),
            None => Err(string.error("the string does not exist")),
        }
    }

    fn text(&self, cursor: &mut Cursor<'_>) -> Result<Cow<'_, str>> {
        Ok(String::from_utf8_lossy(self.name(cursor)?))
    }

    fn decode(&self, entry: &Entry) -> Result<LocationView<'_>> {
        let (code, mut cursor) = self.fields(entry)?;
        let cursor = &mut cursor;
        let place = |cursor: &mut Cursor<'_>| read(cursor, self.attributes.len());
        let location = match code {
            10 => LocationView::CallSite(place(cursor)?, place(cursor)?),
            11 => LocationView::File { file: self.text(cursor)?, line: cursor.varint()?, column: cursor.varint()? },
            12 => LocationView::Fused(cursor.list(place)?.into()),
            13 => {
                let places = cursor.list(place)?;
                cursor.index()?;
                LocationView::Fused(places.into())
            }
            14 => LocationView::Name(self.text(cursor)?, place(cursor)?),
            22 => {
                let file = self.text(cursor)?;
                let numbers = cursor.list(Cursor::varint)?;
                let at = |i: usize| numbers.get(i).copied().unwrap_or(0);
                // The first two numbers are the start line and the start column. The numbers for the end of the range
                // are not used.
                LocationView::File { file, line: at(0), column: at(1) }
            }
            _ => LocationView::Unknown,
        };
        Ok(if cursor.is_empty() { location } else { LocationView::Unknown })
    }
}

impl EncodedLocations for ArtifactLocations {
    fn len(&self) -> usize {
        self.attributes.len() + 1
    }

    fn get(&self, id: usize) -> LocationView<'_> {
        let decoded = id.checked_sub(1).and_then(|index| self.attributes.get(index)).map(|entry| self.decode(entry));
        match decoded {
            Some(Ok(location)) if *self.modest.get_or_init(|| self.is_modest()) => location,
            _ => LocationView::Unknown,
        }
    }
}

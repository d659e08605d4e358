//! Source locations: attributes that ops refer to, turned into the module's table.
//!
//! A location is decoded when an op names it, its children after it, one entry at a time: chains of any depth, and
//! cycles in hostile files, cost no stack.

use super::container::Dialect;
use super::cursor::Cursor;
use super::entries::Tables;
use crate::error::Result;
use crate::ir::{Location, LocationId};

/// Locations named so far.
pub(super) struct Locations {
    /// Id of each attribute that is used as a location.
    ids: Vec<Option<LocationId>>,
    /// Attributes in the order of their ids, from id 1; id 0 is the unknown location.
    named: Vec<usize>,
}

impl Locations {
    pub(super) fn new(attributes: usize) -> Self {
        Self { ids: vec![None; attributes], named: Vec::new() }
    }

    /// The id of the location attribute whose number comes next.
    pub(super) fn read(&mut self, cursor: &mut Cursor<'_>) -> Result<LocationId> {
        let index = cursor.index()?;
        let next = u32::try_from(self.named.len() + 1).map_err(|_| cursor.error("too many locations"))?;
        let Some(id) = self.ids.get_mut(index) else {
            return Err(
                cursor.error(format!("location attribute {index} does not exist; the program has {}", self.ids.len()))
            );
        };
        Ok(*id.get_or_insert_with(|| {
            self.named.push(index);
            LocationId(next)
        }))
    }

    /// Decodes every location named, and those they name.
    pub(super) fn finish(mut self, tables: &mut Tables<'_>) -> Result<Vec<Location>> {
        let mut locations = vec![Location::Unknown];
        let mut next = 0;
        while let Some(&index) = self.named.get(next) {
            next += 1;
            let location = self.decode(tables, index)?;
            locations.push(location);
        }
        Ok(locations)
    }

    fn decode(&mut self, tables: &mut Tables<'_>, index: usize) -> Result<Location> {
        let entry = tables.attribute_entry(0, index)?;
        let mut cursor = Cursor::new(tables.container.file, entry.range);
        if entry.dialect != Dialect::Builtin || !entry.encoded {
            return Ok(Location::Unknown);
        }
        let cursor = &mut cursor;
        let location = match cursor.varint()? {
            10 => Location::CallSite(self.read(cursor)?, self.read(cursor)?),
            11 => {
                let file = tables.child_text(cursor, 0)?;
                Location::File { file, line: cursor.varint()?, column: cursor.varint()? }
            }
            12 => Location::Fused(cursor.list(|cursor| self.read(cursor))?),
            13 => {
                let places = cursor.list(|cursor| self.read(cursor))?;
                cursor.index()?;
                Location::Fused(places)
            }
            14 => {
                let name = tables.child_text(cursor, 0)?;
                Location::Name(name, self.read(cursor)?)
            }
            15 => Location::Unknown,
            22 => {
                let file = tables.child_text(cursor, 0)?;
                let numbers = cursor.list(Cursor::varint)?;
                let at = |i: usize| numbers.get(i).copied().unwrap_or(0);
                // With four numbers they are start line, start column, end line, end column.
                Location::File { file, line: at(0), column: at(1) }
            }
            code => return Err(cursor.error(format!("attribute code {code} in the place of a location"))),
        };
        if !cursor.is_empty() {
            return Err(cursor.error(format!("{} bytes left over in a location", cursor.remaining())));
        }
        Ok(location)
    }
}

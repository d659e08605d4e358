//! The tables of a bytecode file. Each string, attribute, type, op name and property list is stored only once.

use bytes::Bytes;

use super::bytes::Buffer;
use super::interner::Interner;
use super::versions::bytecode_version;
use crate::ir::{ElementType, Version};

/// Dialects that an artifact may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Dialect {
    Builtin,
    Vhlo,
    Shardy,
    Stablehlo,
}

impl Dialect {
    fn name(self) -> &'static str {
        match self {
            Self::Builtin => "builtin",
            Self::Vhlo => "vhlo",
            Self::Shardy => "sdy",
            Self::Stablehlo => "stablehlo",
        }
    }

    /// Returns the tag of an op name, or of an attribute or type that is stored as MLIR text. Combined with
    /// [`ENCODED`], it is the tag of an attribute or type in the dialect's encoding.
    fn tag(self) -> u8 {
        (self as u8) << 1
    }

    /// Returns the dialect of an entry with this tag.
    fn of(tag: u8) -> Self {
        DIALECTS[usize::from(tag >> 1)]
    }
}

/// Bit in the tag of an attribute or type that is in its dialect's encoding.
const ENCODED: u8 = 1;

/// Every dialect, in the order of the numbers in [`Dialect::tag`].
const DIALECTS: [Dialect; 4] = [Dialect::Builtin, Dialect::Vhlo, Dialect::Shardy, Dialect::Stablehlo];

/// Maximum size in bytes of constant data that is compared by content. Larger data is compared by address, because
/// comparing and hashing its content would take too long.
pub(super) const SMALL: usize = 256;

/// Number of types, op names and property lists for which the tables initially have room. Small programs have no more.
const SOME: usize = 32;

/// Attributes or types. The tag of an entry contains its dialect and whether it is in the dialect's encoding or MLIR
/// text.
#[derive(Default)]
struct Table {
    entries: Interner,
    /// Index of each entry with a large constant, in ascending order, and the elements of the constant. They follow the
    /// other bytes of the entry, and are not copied before the file is assembled.
    data: Vec<(usize, Bytes)>,
    /// The tag and the bytes of each entry in `data`, with the address of its elements, in the order of `data`.
    known_data: Interner,
}

impl Table {
    fn add(&mut self, tag: u8, bytes: &mut Vec<u8>, data: Bytes) -> usize {
        if data.len() <= SMALL {
            bytes.extend_from_slice(&data);
            return self.entries.add(tag, bytes);
        }
        let length = bytes.len();
        bytes.extend_from_slice(&data.as_ptr().addr().to_ne_bytes());
        let known = self.known_data.add(tag, bytes);
        if let Some((index, _)) = self.data.get(known) {
            return *index;
        }
        let index = self.entries.push(tag, &bytes[..length]);
        self.data.push((index, data));
        index
    }

    /// Returns the total size of the entries.
    fn size(&self) -> usize {
        self.entries.bytes().len() + self.data.iter().map(|(_, data)| data.len()).sum::<usize>()
    }

    /// Writes the size of each entry. Consecutive entries of the same dialect form a group.
    fn write_sizes(&self, dialects: &[Dialect], out: &mut Buffer) {
        let mut data = self.data.iter().peekable();
        let (mut start, mut index) = (0, 0);
        for (dialect, count) in self.groups() {
            out.size(position(dialects, dialect));
            out.size(count);
            for _ in 0..count {
                let end = self.entries.end(index);
                let large = data.next_if(|(at, _)| *at == index).map_or(0, |(_, data)| data.len());
                out.flagged(end - start + large, self.entries.tag(index) & ENCODED != 0);
                (start, index) = (end, index + 1);
            }
        }
    }

    /// Writes the bytes of all entries.
    fn write(&self, out: &mut Vec<u8>) {
        let mut start = 0;
        for (index, data) in &self.data {
            let end = self.entries.end(*index);
            out.extend_from_slice(&self.entries.bytes()[start..end]);
            out.extend_from_slice(data);
            start = end;
        }
        out.extend_from_slice(&self.entries.bytes()[start..]);
    }

    /// Returns the dialect and the number of entries of each group of consecutive entries with the same dialect.
    fn groups(&self) -> impl Iterator<Item = (Dialect, usize)> {
        self.entries.groups(|a, b| a | ENCODED == b | ENCODED).map(|(tag, count)| (Dialect::of(tag), count))
    }
}

/// The tables of the file. The writer fills them while it writes the ops.
pub(super) struct Encoder {
    pub(super) version: Version,
    pub(super) bytecode: u8,
    strings: Interner,
    attributes: Table,
    types: Table,
    names: Interner,
    properties: Interner,
    /// For each string, the index of the string attribute of MLIR's builtin dialect with this string, if the table
    /// contains it.
    string_attributes: Vec<Option<usize>>,
    /// Index of each VHLO element type that is already in the table of types.
    pub(super) elements: Vec<(ElementType, usize)>,
    /// Memory for the bytes of the next entry. The tables copy the bytes of new entries only, so all entries can share
    /// it.
    spare: Vec<u8>,
}

impl Encoder {
    /// Creates empty tables with room for about this many attributes.
    pub(super) fn new(version: Version, attributes: usize) -> Self {
        Self {
            version,
            bytecode: bytecode_version(version),
            strings: Interner::with_room(attributes / 2),
            attributes: Table { entries: Interner::with_room(attributes), ..Table::default() },
            types: Table { entries: Interner::with_room(SOME), ..Table::default() },
            names: Interner::with_room(SOME),
            properties: Interner::with_room(SOME),
            string_attributes: Vec::with_capacity(attributes / 2),
            elements: Vec::with_capacity(4),
            spare: Vec::with_capacity(64),
        }
    }

    pub(super) fn string(&mut self, bytes: &[u8]) -> usize {
        self.strings.add(0, bytes)
    }

    /// Adds a string attribute of MLIR's builtin dialect, unless it is already in the table. Returns its index.
    pub(super) fn builtin_string(&mut self, bytes: &[u8]) -> usize {
        let string = self.string(bytes);
        if let Some(&Some(known)) = self.string_attributes.get(string) {
            return known;
        }
        let mut buffer = self.buffer();
        buffer.varint(2);
        buffer.size(string);
        let index = self.attribute(Dialect::Builtin, buffer);
        if self.string_attributes.len() <= string {
            self.string_attributes.resize(string + 1, None);
        }
        self.string_attributes[string] = Some(index);
        index
    }

    /// Returns an empty buffer for an entry of a table, which reuses the memory of the previous one.
    pub(super) fn buffer(&mut self) -> Buffer {
        let mut spare = std::mem::take(&mut self.spare);
        spare.clear();
        Buffer(spare)
    }

    /// Adds an attribute in its dialect's encoding, unless it is already in the table. Returns its index.
    pub(super) fn attribute(&mut self, dialect: Dialect, buffer: Buffer) -> usize {
        self.constant(dialect, buffer, Bytes::new())
    }

    /// Adds a constant, unless it is already in the table. Returns its index. `buffer` contains the bytes before the
    /// data.
    pub(super) fn constant(&mut self, dialect: Dialect, mut buffer: Buffer, data: Bytes) -> usize {
        let index = self.attributes.add(dialect.tag() | ENCODED, &mut buffer.0, data);
        self.spare = buffer.0;
        index
    }

    /// Adds an attribute as MLIR text, unless it is already in the table. Returns its index.
    pub(super) fn attribute_text(&mut self, dialect: Dialect, text: &str) -> usize {
        self.attributes.add(dialect.tag(), &mut terminated(text), Bytes::new())
    }

    pub(super) fn ty(&mut self, dialect: Dialect, mut buffer: Buffer) -> usize {
        let index = self.types.add(dialect.tag() | ENCODED, &mut buffer.0, Bytes::new());
        self.spare = buffer.0;
        index
    }

    pub(super) fn type_text(&mut self, text: &str) -> usize {
        self.types.add(Dialect::Builtin.tag(), &mut terminated(text), Bytes::new())
    }

    pub(super) fn op_name(&mut self, dialect: Dialect, name: &str) -> usize {
        self.names.add(dialect.tag(), name.as_bytes())
    }

    /// Adds the name of a version of a VHLO op, unless it is already in the table. Returns its index.
    pub(super) fn vhlo_name(&mut self, base: &str, second: bool) -> usize {
        let mut buffer = self.buffer();
        buffer.0.extend_from_slice(base.as_bytes());
        buffer.0.extend_from_slice(if second { b"_v2" } else { b"_v1" });
        let index = self.names.add(Dialect::Vhlo.tag(), &buffer.0);
        self.spare = buffer.0;
        index
    }

    pub(super) fn properties(&mut self, buffer: Buffer) -> usize {
        let index = self.properties.add(0, &buffer.0);
        self.spare = buffer.0;
        index
    }

    /// Assembles the file from the tables and the encoded ops.
    pub(super) fn finish(mut self, ir: &[u8]) -> Vec<u8> {
        let mut dialects: Vec<Dialect> = vec![Dialect::Builtin, Dialect::Vhlo];
        let used = self.attributes.groups().chain(self.types.groups()).chain(self.name_groups());
        for (dialect, _) in used {
            if !dialects.contains(&dialect) {
                dialects.push(dialect);
            }
        }
        // Write the sections that refer to strings first, because they can add strings to the string table.
        let dialect_section = self.dialect_section(&dialects);
        let mut sizes = Buffer::with_room(2 * (self.attributes.entries.len() + self.types.entries.len()) + 16);
        sizes.size(self.attributes.entries.len());
        sizes.size(self.types.entries.len());
        self.attributes.write_sizes(&dialects, &mut sizes);
        self.types.write_sizes(&dialects, &mut sizes);
        let entries = self.attributes.size() + self.types.size();
        // The strings and the properties are stored with their lengths, which take one or two bytes each.
        let texts = [&self.strings, &self.properties].map(|set| set.bytes().len() + 4 * set.len());
        let size = entries + ir.len() + sizes.0.len() + dialect_section.0.len() + texts[0] + texts[1] + 128;
        let mut file = Buffer(Vec::with_capacity(size));
        file.0.extend_from_slice(&crate::version::MAGIC);
        file.varint(u64::from(self.bytecode));
        file.0.extend_from_slice(format!("StableHLO_v{}\0", self.version).as_bytes());
        file.section(1, &dialect_section.0);
        file.section_start(2, entries);
        self.attributes.write(&mut file.0);
        self.types.write(&mut file.0);
        file.section(3, &sizes.0);
        file.section(4, ir);
        let mut strings = Buffer(Vec::with_capacity(texts[0]));
        strings.size(self.strings.len());
        self.strings.iter().rev().for_each(|(_, string)| strings.size(string.len() + 1));
        for (_, string) in self.strings.iter() {
            strings.0.extend_from_slice(string);
            strings.byte(0);
        }
        file.section(0, &strings.0);
        if self.bytecode >= 5 {
            let mut properties = Buffer(Vec::with_capacity(texts[1]));
            properties.size(self.properties.len());
            for (_, entry) in self.properties.iter() {
                properties.size(entry.len());
                properties.0.extend_from_slice(entry);
            }
            file.section(8, &properties.0);
        }
        file.0
    }

    /// Returns the dialect and the number of names of each group of consecutive op names with the same dialect.
    fn name_groups(&self) -> impl Iterator<Item = (Dialect, usize)> {
        self.names.groups(|a, b| a == b).map(|(tag, count)| (Dialect::of(tag), count))
    }

    fn dialect_section(&mut self, dialects: &[Dialect]) -> Buffer {
        let mut buffer = Buffer::with_room(2 * self.names.len() + 64);
        buffer.size(dialects.len());
        for dialect in dialects {
            let name = self.string(dialect.name().as_bytes());
            // The flag indicates whether the dialect has its own version.
            if self.bytecode >= 1 { buffer.flagged(name, false) } else { buffer.size(name) }
        }
        if self.bytecode >= 4 {
            buffer.size(self.names.len());
        }
        let mut index = 0;
        let groups: Vec<(Dialect, usize)> = self.name_groups().collect();
        for (dialect, count) in groups {
            buffer.size(position(dialects, dialect));
            buffer.size(count);
            for _ in 0..count {
                let name = self.strings.add(0, self.names.get(index));
                // The flag indicates that the op is registered.
                if self.bytecode >= 5 {
                    buffer.flagged(name, true)
                } else {
                    buffer.size(name)
                }
                index += 1;
            }
        }
        buffer
    }
}

fn position(dialects: &[Dialect], dialect: Dialect) -> usize {
    dialects.iter().position(|&d| d == dialect).unwrap_or(0)
}

fn terminated(text: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len() + 1);
    bytes.extend_from_slice(text.as_bytes());
    bytes.push(0);
    bytes
}

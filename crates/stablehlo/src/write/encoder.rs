//! The tables of a bytecode file. Each string, attribute, type, op name and property list is stored only once.

use std::collections::HashMap;

use bytes::Bytes;
use foldhash::fast::RandomState;

use super::bytes::Buffer;
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
}

/// An attribute or type, in its dialect's encoding or as MLIR text.
struct Entry {
    dialect: Dialect,
    encoded: bool,
    bytes: Vec<u8>,
    /// Elements of a large constant, which follow the other bytes. They are not copied before the file is assembled.
    data: Bytes,
}

/// Maximum size in bytes of constant data that is compared by content. Larger data is compared by address, because
/// comparing and hashing its content would take too long.
const SMALL: usize = 256;

/// A map with a fast hash function. Its seed is random, so that the input cannot be crafted to make keys collide.
type Map<K, V> = HashMap<K, V, RandomState>;

#[derive(Default)]
struct Table {
    entries: Vec<Entry>,
    /// Indices of the entries without separate data, by dialect, by whether they are encoded, and by their bytes.
    known: [[Map<Vec<u8>, usize>; 2]; 4],
    /// Indices of the entries with separate data, by dialect, by whether they are encoded, by the address of the data,
    /// and by their other bytes.
    known_data: Map<(Dialect, bool, usize), Map<Vec<u8>, usize>>,
}

impl Table {
    fn add(&mut self, dialect: Dialect, encoded: bool, bytes: &mut Vec<u8>, data: Bytes) -> usize {
        let mut apart = Bytes::new();
        let known = if data.len() > SMALL {
            let place = data.as_ptr().addr();
            apart = data;
            self.known_data.entry((dialect, encoded, place)).or_default()
        } else {
            bytes.extend_from_slice(&data);
            &mut self.known[dialect as usize][usize::from(encoded)]
        };
        if let Some(&index) = known.get(&bytes[..]) {
            return index;
        }
        let next = self.entries.len();
        known.insert(bytes.clone(), next);
        self.entries.push(Entry { dialect, encoded, bytes: bytes.clone(), data: apart });
        next
    }
}

/// The tables of the file. The writer fills them while it writes the ops.
pub(super) struct Encoder {
    pub(super) version: Version,
    pub(super) bytecode: u8,
    strings: Vec<Bytes>,
    string_index: Map<Bytes, usize>,
    attributes: Table,
    types: Table,
    names: Vec<(Dialect, String)>,
    properties: Vec<Vec<u8>>,
    property_index: Map<Vec<u8>, usize>,
    /// Index of each VHLO element type that is already in the table of types.
    pub(super) elements: Map<ElementType, usize>,
    /// Memory for the bytes of the next entry. The tables copy the bytes of new entries only, so all entries can share
    /// it.
    spare: Vec<u8>,
}

impl Encoder {
    pub(super) fn new(version: Version) -> Self {
        Self {
            version,
            bytecode: bytecode_version(version),
            strings: Vec::new(),
            string_index: Map::default(),
            attributes: Table::default(),
            types: Table::default(),
            names: Vec::new(),
            properties: Vec::new(),
            property_index: Map::default(),
            elements: Map::default(),
            spare: Vec::new(),
        }
    }

    pub(super) fn string(&mut self, bytes: &[u8]) -> usize {
        if let Some(&index) = self.string_index.get(bytes) {
            return index;
        }
        let kept = Bytes::copy_from_slice(bytes);
        self.strings.push(kept.clone());
        self.string_index.insert(kept, self.strings.len() - 1);
        self.strings.len() - 1
    }

    /// Returns an empty buffer for an attribute or a type, which reuses the memory of the previous one.
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
        let index = self.attributes.add(dialect, true, &mut buffer.0, data);
        self.spare = buffer.0;
        index
    }

    /// Adds an attribute as MLIR text, unless it is already in the table. Returns its index.
    pub(super) fn attribute_text(&mut self, dialect: Dialect, text: &str) -> usize {
        self.attributes.add(dialect, false, &mut terminated(text), Bytes::new())
    }

    pub(super) fn ty(&mut self, dialect: Dialect, mut buffer: Buffer) -> usize {
        let index = self.types.add(dialect, true, &mut buffer.0, Bytes::new());
        self.spare = buffer.0;
        index
    }

    pub(super) fn type_text(&mut self, text: &str) -> usize {
        self.types.add(Dialect::Builtin, false, &mut terminated(text), Bytes::new())
    }

    pub(super) fn op_name(&mut self, dialect: Dialect, name: &str) -> usize {
        // A linear search is fast enough, because programs use few different op names.
        if let Some(index) = self.names.iter().position(|(d, n)| *d == dialect && n == name) {
            return index;
        }
        self.names.push((dialect, name.to_owned()));
        self.names.len() - 1
    }

    pub(super) fn properties(&mut self, buffer: Buffer) -> usize {
        if let Some(&index) = self.property_index.get(&buffer.0) {
            return index;
        }
        self.properties.push(buffer.0.clone());
        self.property_index.insert(buffer.0, self.properties.len() - 1);
        self.properties.len() - 1
    }

    /// Assembles the file from the tables and the encoded ops.
    pub(super) fn finish(mut self, ir: &[u8]) -> Vec<u8> {
        let mut dialects: Vec<Dialect> = vec![Dialect::Builtin, Dialect::Vhlo];
        let used = self.attributes.entries.iter().chain(&self.types.entries).map(|e| e.dialect);
        for dialect in used.chain(self.names.iter().map(|(d, _)| *d)) {
            if !dialects.contains(&dialect) {
                dialects.push(dialect);
            }
        }
        // Write the sections that refer to strings first, because they can add strings to the string table.
        let dialect_section = self.dialect_section(&dialects);
        let (offsets, data) = self.entry_sections(&dialects);
        let size = data.len() + ir.len() + offsets.0.len() + 4096;
        let mut file = Buffer(Vec::with_capacity(size));
        file.0.extend_from_slice(&crate::version::MAGIC);
        file.varint(u64::from(self.bytecode));
        file.0.extend_from_slice(format!("StableHLO_v{}\0", self.version).as_bytes());
        file.section(1, &dialect_section.0);
        file.section(2, &data);
        file.section(3, &offsets.0);
        file.section(4, ir);
        let mut strings = Buffer::default();
        strings.list(self.strings.iter().rev(), |b, s| b.size(s.len() + 1));
        for string in &self.strings {
            strings.0.extend_from_slice(string);
            strings.byte(0);
        }
        file.section(0, &strings.0);
        if self.bytecode >= 5 {
            let mut properties = Buffer::default();
            properties.list(self.properties.iter(), |b, p| {
                b.size(p.len());
                b.0.extend_from_slice(p);
            });
            file.section(8, &properties.0);
        }
        file.0
    }

    fn dialect_section(&mut self, dialects: &[Dialect]) -> Buffer {
        let mut buffer = Buffer::default();
        buffer.size(dialects.len());
        for dialect in dialects {
            let name = self.string(dialect.name().as_bytes());
            // The flag indicates whether the dialect has its own version.
            if self.bytecode >= 1 { buffer.flagged(name, false) } else { buffer.size(name) }
        }
        if self.bytecode >= 4 {
            buffer.size(self.names.len());
        }
        let names = std::mem::take(&mut self.names);
        for run in names.chunk_by(|a, b| a.0 == b.0) {
            buffer.size(position(dialects, run[0].0));
            buffer.size(run.len());
            for (_, name) in run {
                let name = self.string(name.as_bytes());
                // The flag indicates that the op is registered.
                if self.bytecode >= 5 { buffer.flagged(name, true) } else { buffer.size(name) }
            }
        }
        buffer
    }

    /// Returns the content of two sections. The first section lists the size of each attribute and each type.
    /// Consecutive entries of the same dialect form a group in this list. The second section contains the bytes of all
    /// entries.
    fn entry_sections(&self, dialects: &[Dialect]) -> (Buffer, Vec<u8>) {
        let mut offsets = Buffer::default();
        let tables = [&self.attributes.entries, &self.types.entries];
        let size = tables.iter().flat_map(|t| t.iter()).map(|e| e.bytes.len() + e.data.len()).sum();
        let mut data = Vec::with_capacity(size);
        for table in tables {
            offsets.size(table.len());
        }
        for table in tables {
            for run in table.chunk_by(|a, b| a.dialect == b.dialect) {
                offsets.size(position(dialects, run[0].dialect));
                offsets.size(run.len());
                for entry in run {
                    offsets.flagged(entry.bytes.len() + entry.data.len(), entry.encoded);
                    data.extend_from_slice(&entry.bytes);
                    data.extend_from_slice(&entry.data);
                }
            }
        }
        (offsets, data)
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

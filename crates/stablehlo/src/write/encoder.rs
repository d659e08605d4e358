//! The tables of a bytecode file. Each string, attribute, type, op name and property list is stored only once.

use std::collections::HashMap;

use bytes::Bytes;

use super::bytes::Buffer;
use super::versions::bytecode_version;
use crate::ir::Version;

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

#[derive(Default)]
struct Table {
    entries: Vec<Entry>,
    /// Index of each entry, by dialect, encoding, bytes, and the address of separate data.
    known: HashMap<(Dialect, bool, Vec<u8>, usize), usize>,
}

impl Table {
    fn add(&mut self, dialect: Dialect, encoded: bool, mut bytes: Vec<u8>, data: Bytes) -> usize {
        let mut place = 0;
        let mut apart = Bytes::new();
        if data.len() > SMALL {
            place = data.as_ptr().addr();
            apart = data;
        } else {
            bytes.extend_from_slice(&data);
        }
        let next = self.entries.len();
        let key = (dialect, encoded, bytes, place);
        if let Some(&index) = self.known.get(&key) {
            return index;
        }
        self.entries.push(Entry { dialect, encoded, bytes: key.2.clone(), data: apart });
        self.known.insert(key, next);
        next
    }
}

/// The tables of the file. The writer fills them while it writes the ops.
pub(super) struct Encoder {
    pub(super) version: Version,
    pub(super) bytecode: u8,
    strings: Vec<Bytes>,
    string_index: HashMap<Bytes, usize>,
    attributes: Table,
    types: Table,
    names: Vec<(Dialect, String)>,
    properties: Vec<Vec<u8>>,
    property_index: HashMap<Vec<u8>, usize>,
}

impl Encoder {
    pub(super) fn new(version: Version) -> Self {
        Self {
            version,
            bytecode: bytecode_version(version),
            strings: Vec::new(),
            string_index: HashMap::new(),
            attributes: Table::default(),
            types: Table::default(),
            names: Vec::new(),
            properties: Vec::new(),
            property_index: HashMap::new(),
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

    /// Adds an attribute in its dialect's encoding, unless it is already in the table. Returns its index.
    pub(super) fn attribute(&mut self, dialect: Dialect, buffer: Buffer) -> usize {
        self.attributes.add(dialect, true, buffer.0, Bytes::new())
    }

    /// Adds a constant, unless it is already in the table. Returns its index. `buffer` contains the bytes before the
    /// data.
    pub(super) fn constant(&mut self, dialect: Dialect, buffer: Buffer, data: Bytes) -> usize {
        self.attributes.add(dialect, true, buffer.0, data)
    }

    /// Adds an attribute as MLIR text, unless it is already in the table. Returns its index.
    pub(super) fn attribute_text(&mut self, dialect: Dialect, text: &str) -> usize {
        self.attributes.add(dialect, false, terminated(text), Bytes::new())
    }

    pub(super) fn ty(&mut self, dialect: Dialect, buffer: Buffer) -> usize {
        self.types.add(dialect, true, buffer.0, Bytes::new())
    }

    pub(super) fn type_text(&mut self, text: &str) -> usize {
        self.types.add(Dialect::Builtin, false, terminated(text), Bytes::new())
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

//! The sections of a bytecode file: tables whose entries the ops refer to by index.

use std::ops::Range;

use super::cursor::Cursor;
use crate::attributes::joined;
use crate::error::{Error, ErrorKind, Result};
use crate::ir::Version;
use crate::version::MAGIC;

/// Newest bytecode version that this reader supports.
const NEWEST: u64 = 6;

/// Ids of the sections in MLIR's bytecode format.
mod id {
    pub(super) const STRINGS: usize = 0;
    pub(super) const DIALECTS: usize = 1;
    pub(super) const ENTRIES: usize = 2;
    pub(super) const ENTRY_OFFSETS: usize = 3;
    pub(super) const IR: usize = 4;
    pub(super) const RESOURCES: usize = 5;
    pub(super) const RESOURCE_OFFSETS: usize = 6;
    pub(super) const PROPERTIES: usize = 8;
    pub(super) const COUNT: usize = 9;
}

/// Section id of the nested regions of an isolated op.
pub(super) const IR_SECTION: u8 = 4;

/// The dialects that the reader distinguishes. The reader rejects encoded attributes and types of all other dialects.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Dialect {
    Builtin,
    Vhlo,
    /// The dialect `stablehlo`. Its types occur in ops of other dialects.
    Stablehlo,
    Shardy,
    Other,
}

/// One attribute or type, in its dialect's encoding or as MLIR assembly text.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) dialect: Dialect,
    /// Whether the bytes in `range` are in the dialect's encoding. Otherwise they are MLIR assembly text.
    pub(super) encoded: bool,
    pub(super) range: Range<usize>,
}

/// The name of an op, as the dialect section of the file lists it. Both parts are printable ASCII.
#[derive(Clone, Copy)]
pub(super) struct OpName<'a> {
    pub(super) dialect: &'a str,
    /// Name in the dialect, such as `add_v1`. The name is empty if the dialect section lists only the dialect.
    pub(super) name: &'a str,
}

impl OpName<'_> {
    /// Returns the full name, such as `vhlo.add_v1`.
    pub(super) fn full(self) -> String {
        let Self { dialect, name } = self;
        if name.is_empty() { dialect.to_owned() } else { joined(&[dialect, ".", name]) }
    }
}

/// A dialect resource. The reader keeps the byte range of a blob, and ignores the data of other resources.
#[derive(Clone)]
pub(super) enum Resource {
    Blob(Range<usize>),
    Other,
}

/// The tables of a bytecode file.
pub(super) struct Container<'a> {
    pub(super) file: &'a [u8],
    pub(super) bytecode_version: u64,
    /// Version in a producer name of the form `StableHLO_v1.2.3`.
    pub(super) stablehlo_version: Option<Version>,
    pub(super) producer: String,
    pub(super) strings: Vec<Range<usize>>,
    pub(super) op_names: Vec<OpName<'a>>,
    pub(super) attributes: Vec<Entry>,
    pub(super) types: Vec<Entry>,
    pub(super) properties: Vec<Range<usize>>,
    pub(super) resources: Vec<Resource>,
    pub(super) ir: Cursor<'a>,
}

impl<'a> Container<'a> {
    pub(super) fn read(file: &'a [u8]) -> Result<Self> {
        let mut cursor = Cursor::new(file, 0..file.len());
        if file.len() < 4 || file[..4] != MAGIC {
            return Err(Error::at(ErrorKind::Encoding, 0, "not an MLIR bytecode file: the first four bytes differ"));
        }
        cursor.take(4)?;
        let bytecode_version = cursor.varint()?;
        if bytecode_version > NEWEST {
            return Err(Error::at(
                ErrorKind::Version,
                cursor.pos(),
                format_args!(
                    "bytecode version {bytecode_version} is newer than {NEWEST}, the newest this reader knows"
                ),
            ));
        }
        let producer = cursor.c_string()?;
        let producer = String::from_utf8_lossy(&file[producer]).into_owned();
        let mut sections: [Option<Cursor<'a>>; id::COUNT] = Default::default();
        while !cursor.is_empty() {
            let start = cursor.pos();
            let (id, content) = cursor.section()?;
            match sections.get_mut(usize::from(id)) {
                Some(slot @ None) => *slot = Some(content),
                Some(Some(_)) => {
                    return Err(Error::at(ErrorKind::Encoding, start, format_args!("section {id} occurs twice")));
                }
                None => return Err(Error::at(ErrorKind::Encoding, start, format_args!("unknown section {id}"))),
            }
        }
        let mut section = |id: usize, name: &str| {
            sections[id].take().ok_or_else(|| {
                Error::at(ErrorKind::Encoding, file.len(), format_args!("the {name} section is missing"))
            })
        };
        let mut this = Self {
            file,
            bytecode_version,
            stablehlo_version: stablehlo_version(&producer),
            producer,
            strings: Vec::new(),
            op_names: Vec::new(),
            attributes: Vec::new(),
            types: Vec::new(),
            properties: Vec::new(),
            resources: Vec::new(),
            ir: section(id::IR, "IR")?,
        };
        this.read_strings(section(id::STRINGS, "string")?)?;
        let dialects = this.read_dialects(section(id::DIALECTS, "dialect")?)?;
        this.read_entries(
            &dialects,
            section(id::ENTRY_OFFSETS, "attribute and type offset")?,
            section(id::ENTRIES, "attribute and type")?,
        )?;
        if bytecode_version >= 5 {
            this.read_properties(section(id::PROPERTIES, "property")?)?;
        }
        if let (Some(offsets), Some(data)) = (sections[id::RESOURCE_OFFSETS].take(), sections[id::RESOURCES].take()) {
            this.read_resources(offsets, data)?;
        }
        Ok(this)
    }

    /// Reads a string index, and returns the byte range of the string. The string need not be UTF-8.
    pub(super) fn string(&self, cursor: &mut Cursor<'_>) -> Result<Range<usize>> {
        let index = cursor.index()?;
        match self.strings.get(index) {
            Some(range) => Ok(range.clone()),
            None => {
                Err(cursor.error(format_args!("string {index} does not exist; the program has {}", self.strings.len())))
            }
        }
    }

    /// Reads a string index, and returns a copy of the string. Replaces invalid UTF-8 with replacement characters.
    pub(super) fn text(&self, cursor: &mut Cursor<'_>) -> Result<String> {
        let range = self.string(cursor)?;
        Ok(String::from_utf8_lossy(&self.file[range]).into_owned())
    }

    /// Reads the string section. The sizes come first, in reverse order. The strings follow in forward order.
    fn read_strings(&mut self, mut cursor: Cursor<'a>) -> Result<()> {
        let count = cursor.count()?;
        self.strings.resize(count, 0..0);
        for range in self.strings.iter_mut().rev() {
            range.end = cursor.index()?;
        }
        for range in &mut self.strings {
            *range = cursor.take(range.end)?;
            if range.start == range.end || self.file[range.end - 1] != 0 {
                return Err(cursor.error("a string does not end in NUL"));
            }
            range.end -= 1;
        }
        self.finish(&cursor, "string")
    }

    fn finish(&self, cursor: &Cursor<'_>, name: &str) -> Result<()> {
        if cursor.is_empty() {
            Ok(())
        } else {
            Err(cursor.error(format_args!("{} bytes left over in the {name} section", cursor.remaining())))
        }
    }

    fn read_dialects(&mut self, mut cursor: Cursor<'a>) -> Result<Vec<Dialect>> {
        let count = cursor.count()?;
        let mut dialects = Vec::with_capacity(count.min(64));
        let mut names = Vec::with_capacity(count.min(64));
        for _ in 0..count {
            let versioned = if self.bytecode_version >= 1 {
                // The lowest bit of the string index indicates whether the dialect has a version.
                let (index, versioned) = cursor.flagged()?;
                let range = usize::try_from(index).ok().and_then(|i| self.strings.get(i)).cloned();
                names.push(range.ok_or_else(|| cursor.error(format_args!("string {index} does not exist")))?);
                versioned
            } else {
                names.push(self.string(&mut cursor)?);
                false
            };
            if versioned {
                cursor.section()?;
            }
            let name = names.last().map_or(&[][..], |range| &self.file[range.clone()]);
            dialects.push(match name {
                b"builtin" => Dialect::Builtin,
                b"vhlo" => Dialect::Vhlo,
                b"stablehlo" => Dialect::Stablehlo,
                b"sdy" => Dialect::Shardy,
                _ => Dialect::Other,
            });
        }
        if self.bytecode_version >= 4 {
            let names = cursor.count()?;
            self.op_names.reserve_exact(names);
        }
        while !cursor.is_empty() {
            let dialect = self.dialect_index(&mut cursor, dialects.len())?;
            let dialect = &self.file[names[dialect].clone()];
            let plain = |b: &u8| b.is_ascii_graphic() && !matches!(b, b'"' | b'\\');
            let text = |bytes: &'a [u8]| std::str::from_utf8(bytes).ok().filter(|_| bytes.iter().all(plain));
            let dialect_text = text(dialect);
            for _ in 0..cursor.count()? {
                let name = if self.bytecode_version >= 5 {
                    let (index, _registered) = cursor.flagged()?;
                    let range = usize::try_from(index).ok().and_then(|i| self.strings.get(i)).cloned();
                    range.ok_or_else(|| cursor.error(format_args!("string {index} does not exist")))?
                } else {
                    self.string(&mut cursor)?
                };
                let name = &self.file[name];
                // Real names are far shorter. The limit prevents many ops that share one long name from using too much
                // memory.
                if name.len() + dialect.len() > 256 {
                    return Err(cursor.error("an op name is longer than 256 bytes"));
                }
                match (dialect_text, text(name)) {
                    (Some(dialect), Some(name)) if !dialect.is_empty() || !name.is_empty() => {
                        self.op_names.push(OpName { dialect, name });
                    }
                    _ => {
                        let [dialect, name] = [dialect, name].map(String::from_utf8_lossy);
                        let full = OpName { dialect: &dialect, name: &name }.full();
                        return Err(cursor.error(format_args!("{full:?} is not the name of an op")));
                    }
                }
            }
        }
        Ok(dialects)
    }

    fn dialect_index(&self, cursor: &mut Cursor<'_>, count: usize) -> Result<usize> {
        let index = cursor.index()?;
        if index < count {
            Ok(index)
        } else {
            Err(cursor.error(format_args!("dialect {index} does not exist; the program has {count}")))
        }
    }

    fn read_entries(&mut self, dialects: &[Dialect], mut offsets: Cursor<'a>, mut data: Cursor<'a>) -> Result<()> {
        let attribute_count = offsets.count()?;
        let type_count = offsets.count()?;
        for (count, is_type) in [(attribute_count, false), (type_count, true)] {
            let mut entries = Vec::with_capacity(count);
            while entries.len() < count {
                let dialect = dialects[self.dialect_index(&mut offsets, dialects.len())?];
                for _ in 0..offsets.count()? {
                    let (size, encoded) = offsets.flagged()?;
                    let size = usize::try_from(size)
                        .map_err(|_| offsets.error("the size of an attribute exceeds the address space"))?;
                    entries.push(Entry { dialect, encoded, range: data.take(size)? });
                }
            }
            if entries.len() > count {
                return Err(offsets.error("more attributes or types than announced"));
            }
            *(if is_type { &mut self.types } else { &mut self.attributes }) = entries;
        }
        self.finish(&offsets, "attribute and type offset")?;
        self.finish(&data, "attribute and type")
    }

    fn read_properties(&mut self, mut cursor: Cursor<'a>) -> Result<()> {
        let count = cursor.count()?;
        self.properties.reserve_exact(count);
        for _ in 0..count {
            let range = cursor.blob()?;
            self.properties.push(range);
        }
        self.finish(&cursor, "property")
    }

    /// Reads the resource sections. Attributes refer to dialect resources by index. External resources come first and
    /// have no index.
    fn read_resources(&mut self, mut offsets: Cursor<'a>, mut data: Cursor<'a>) -> Result<()> {
        if offsets.is_empty() {
            return Ok(());
        }
        let external = offsets.count()?;
        let mut group = 0;
        while !offsets.is_empty() {
            offsets.index()?;
            for _ in 0..offsets.count()? {
                offsets.index()?;
                let size = offsets.index()?;
                let kind = offsets.byte()?;
                let range = data.take(size)?;
                if group < external {
                    continue;
                }
                self.resources.push(if kind == 0 {
                    let mut payload = Cursor::new(self.file, range);
                    let alignment = payload.varint()?;
                    let length = payload.index()?;
                    payload.align(alignment)?;
                    Resource::Blob(payload.take(length)?)
                } else {
                    Resource::Other
                });
            }
            group += 1;
        }
        Ok(())
    }
}

fn stablehlo_version(producer: &str) -> Option<Version> {
    let mut parts = producer.strip_prefix("StableHLO_v")?.split('.').map(|part| part.parse().ok());
    let version = Version(parts.next()??, parts.next()??, parts.next()??);
    parts.next().is_none().then_some(version)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn producers() {
        assert_eq!(stablehlo_version("StableHLO_v1.17.0"), Some(Version(1, 17, 0)));
        assert_eq!(stablehlo_version("StableHLO_v1.17"), None);
        assert_eq!(stablehlo_version("MLIR23.0.0git"), None);
    }
}

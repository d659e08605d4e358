//! Reads ELF libraries through their program headers, as the dynamic loader does. Section headers are not used, so they
//! may be stripped.

use object::elf;
use object::endian::{Endianness, U32, U64};
use object::read::elf::{Dyn, FileHeader, ProgramHeader, Sym};
use object::read::{ReadCache, ReadRef};

use super::facts::{Exports, Fault, LibraryFacts, LibraryFormat, damaged};
use super::limited::{Limited, MOST_NAMES};
use super::reader::Reader;
use crate::discovery::target::{Architecture, OperatingSystem, Target};

/// Maximum number of hash chain entries that one look-up reads. Linkers create tables in which two or three symbols
/// share a bucket. The chain of a damaged table may have no end.
const MOST_STEPS: u32 = 1 << 16;
/// Maximum length in bytes of the name of a library or symbol, or of a list of folders. A file with a longer one counts
/// as damaged. Bazel writes lists of more than 4 kB.
const LONGEST: u64 = 1 << 16;

fn architecture(machine: u16, wide: bool) -> Architecture {
    match machine {
        elf::EM_X86_64 => Architecture::X86_64,
        elf::EM_386 => Architecture::X86,
        elf::EM_AARCH64 => Architecture::Aarch64,
        elf::EM_ARM => Architecture::Arm,
        elf::EM_RISCV if wide => Architecture::Riscv64,
        elf::EM_PPC64 => Architecture::PowerPc64,
        elf::EM_S390 if wide => Architecture::S390x,
        elf::EM_LOONGARCH if wide => Architecture::LoongArch64,
        other => Architecture::Other(other.into()),
    }
}

/// A segment that the loader maps: its virtual address, and the offset and size of its content in the file.
struct Segment {
    address: u64,
    offset: u64,
    size: u64,
}

type Data<'data> = Limited<&'data ReadCache<Reader>>;

struct Image<'data> {
    data: Data<'data>,
    endian: Endianness,
    loads: Vec<Segment>,
}

impl<'data> Image<'data> {
    /// Converts a virtual address to an offset in the file. Also returns the number of bytes from this offset to the
    /// end of the segment.
    fn place(&self, address: u64) -> Result<(u64, u64), Fault> {
        self.loads
            .iter()
            .find_map(|load| {
                let within = address.checked_sub(load.address).filter(|within| *within < load.size)?;
                Some((load.offset.checked_add(within)?, load.size - within))
            })
            .ok_or_else(|| damaged("an address is outside of every segment"))
    }

    fn word(&self, offset: u64) -> Result<u32, Fault> {
        let word: &U32<Endianness> = self.data.read_at(offset).map_err(|()| damaged("a table ends early"))?;
        Ok(word.get(self.endian))
    }

    fn text(&self, address: u64, offset: u64) -> Result<&'data [u8], Fault> {
        let (start, room) = self.place(address.wrapping_add(offset))?;
        let room = room.min(LONGEST);
        let short = self.data.read_bytes_at_until(start..start.saturating_add(room), 0);
        // `read_bytes_at_until` gives up after 4096 bytes.
        let long = || {
            let bytes = self.data.read_bytes_at(start, room)?;
            bytes.split(|byte| *byte == 0).next().filter(|text| text.len() < bytes.len()).ok_or(())
        };
        short.or_else(|()| long()).map_err(|()| damaged("a name has no end"))
    }
}

/// Contents of the dynamic section. The fields `symbols`, `strings`, `gnu_hash` and `hash` are virtual addresses of
/// tables. `needed`, `rpath` and `runpath` are offsets of names in the string table. `program` is whether the file is a
/// position-independent executable.
#[derive(Default)]
struct Tables {
    symbols: Option<u64>,
    strings: Option<u64>,
    gnu_hash: Option<u64>,
    hash: Option<u64>,
    needed: Vec<u64>,
    rpath: Vec<u64>,
    runpath: Vec<u64>,
    program: bool,
}

pub(super) fn read<Elf: FileHeader<Endian = Endianness>>(data: Data<'_>, size: u64) -> Result<LibraryFacts, Fault> {
    let header = Elf::parse(data)?;
    let endian = header.endian()?;
    let kind = match header.e_type(endian) {
        elf::ET_DYN => None,
        elf::ET_REL => Some("an object file that was not linked"),
        elf::ET_EXEC => Some("a program"),
        elf::ET_CORE => Some("a memory dump"),
        _ => Some("an ELF file of an unknown kind"),
    };
    if let Some(what) = kind {
        return Err(Fault::Other(what.to_owned()));
    }
    let os = match header.e_ident().os_abi {
        elf::ELFOSABI_NONE | elf::ELFOSABI_GNU => OperatingSystem::Linux,
        elf::ELFOSABI_FREEBSD => OperatingSystem::FreeBsd,
        _ => OperatingSystem::Other,
    };
    let target = Target { os, architecture: architecture(header.e_machine(endian), header.is_type_64()) };

    let segments = header.program_headers(endian, data)?;
    let mut loads = Vec::new();
    let mut tables = Tables::default();
    let mut dynamic: &[Elf::Dyn] = &[];
    for segment in segments {
        if segment.p_type(endian) == elf::PT_LOAD {
            let (offset, size) = segment.file_range(endian);
            loads.push(Segment { address: segment.p_vaddr(endian).into(), offset, size });
        } else if let Some(found) = segment.dynamic(endian, data)? {
            dynamic = found;
        }
    }
    for entry in dynamic {
        let value: u64 = entry.d_val(endian).into();
        match entry.tag(endian) {
            elf::DT_NULL => break,
            elf::DT_NEEDED => tables.needed.push(value),
            elf::DT_RPATH => tables.rpath.push(value),
            elf::DT_RUNPATH => tables.runpath.push(value),
            elf::DT_SYMTAB => tables.symbols = Some(value),
            elf::DT_STRTAB => tables.strings = Some(value),
            elf::DT_GNU_HASH => tables.gnu_hash = Some(value),
            elf::DT_HASH => tables.hash = Some(value),
            elf::DT_FLAGS_1 => tables.program = value & u64::from(elf::DF_1_PIE) != 0,
            _ => {}
        }
    }
    if tables.program {
        return Err(Fault::Other("a program".to_owned()));
    }

    if [&tables.needed, &tables.rpath, &tables.runpath].iter().any(|list| list.len() > MOST_NAMES) {
        return Err(damaged("it needs too many libraries"));
    }
    let image = Image { data, endian, loads };
    let strings = tables.strings.unwrap_or(0);
    let texts = |offsets: &[u64]| -> Result<Vec<String>, Fault> {
        offsets.iter().map(|at| Ok(String::from_utf8_lossy(image.text(strings, *at)?).into_owned())).collect()
    };
    let folders = |texts: Vec<String>| {
        texts.iter().flat_map(|text| text.split(':')).filter(|folder| !folder.is_empty()).map(str::to_owned).collect()
    };
    let exports = Exports::find(|name| exported::<Elf>(&image, &tables, strings, name.as_bytes()))?;
    Ok(LibraryFacts {
        format: LibraryFormat::Elf,
        targets: vec![target],
        exports,
        needed: texts(&tables.needed)?,
        rpath: folders(texts(&tables.rpath)?),
        runpath: folders(texts(&tables.runpath)?),
        size,
    })
}

/// Returns whether the dynamic symbol table defines a symbol with this name. Looks the name up in the library's hash
/// table.
fn exported<Elf: FileHeader<Endian = Endianness>>(
    image: &Image<'_>,
    tables: &Tables,
    strings: u64,
    name: &[u8],
) -> Result<bool, Fault> {
    let Some(symbols) = tables.symbols else { return Ok(false) };
    let is_it = |index: u32| -> Result<bool, Fault> {
        let step = u64::try_from(size_of::<Elf::Sym>()).unwrap_or(u64::MAX).saturating_mul(index.into());
        let (at, _) = image.place(symbols.wrapping_add(step))?;
        let symbol: &Elf::Sym = image.data.read_at(at).map_err(|()| damaged("the symbol table ends early"))?;
        Ok(symbol.st_shndx(image.endian) != elf::SHN_UNDEF
            && symbol.st_bind() != elf::STB_LOCAL
            && image.text(strings, symbol.st_name(image.endian).into())? == name)
    };
    match (tables.gnu_hash, tables.hash) {
        (Some(table), _) => gnu_lookup::<Elf>(image, table, name, is_it),
        (None, Some(table)) => sysv_lookup(image, table, name, is_it),
        (None, None) => Ok(false),
    }
}

/// Looks up a symbol in the Bloom filter, the bucket and the chain of a GNU hash table at the address `table`. `is_it`
/// returns whether the symbol with a given index is the wanted symbol.
fn gnu_lookup<Elf: FileHeader<Endian = Endianness>>(
    image: &Image<'_>,
    table: u64,
    name: &[u8],
    is_it: impl Fn(u32) -> Result<bool, Fault>,
) -> Result<bool, Fault> {
    let (start, room) = image.place(table)?;
    let [buckets, base, filters, shift] =
        [image.word(start)?, image.word(start + 4)?, image.word(start + 8)?, image.word(start + 12)?];
    if buckets == 0 || filters == 0 {
        return Ok(false);
    }
    let hash = elf::gnu_hash(name);
    let wide = size_of::<Elf::Word>() == 8;
    let bits: u32 = if wide { 64 } else { 32 };
    let filter_at = start + 16 + u64::from((hash / bits) % filters) * u64::from(bits / 8);
    let filter = if wide {
        let filter: &U64<Endianness> =
            image.data.read_at(filter_at).map_err(|()| damaged("the hash table ends early"))?;
        filter.get(image.endian)
    } else {
        image.word(filter_at)?.into()
    };
    let set = |bit: u32| filter >> (bit % bits) & 1 == 1;
    if !set(hash) || !set(hash.checked_shr(shift).unwrap_or(0)) {
        return Ok(false);
    }
    let bucket_at = start + 16 + u64::from(filters) * u64::from(bits / 8);
    let chain_at = bucket_at + u64::from(buckets) * 4;
    let mut index = image.word(bucket_at + u64::from(hash % buckets) * 4)?;
    if index < base {
        return Ok(false);
    }
    for _ in 0..MOST_STEPS {
        let at = chain_at + u64::from(index - base) * 4;
        if at >= start.saturating_add(room) {
            return Err(damaged("the hash table ends early"));
        }
        let value = image.word(at)?;
        if value | 1 == hash | 1 && is_it(index)? {
            return Ok(true);
        }
        if value & 1 == 1 {
            return Ok(false);
        }
        index = index.checked_add(1).ok_or_else(|| damaged("the hash table has no end"))?;
    }
    Err(damaged("the hash table has no end"))
}

/// Looks up a symbol in the bucket and the chain of a System V hash table at the address `table`. `is_it` returns
/// whether the symbol with a given index is the wanted symbol.
fn sysv_lookup(
    image: &Image<'_>,
    table: u64,
    name: &[u8],
    is_it: impl Fn(u32) -> Result<bool, Fault>,
) -> Result<bool, Fault> {
    let (start, _) = image.place(table)?;
    let (buckets, chains) = (image.word(start)?, image.word(start + 4)?);
    if buckets == 0 {
        return Ok(false);
    }
    let chain_at = start + 8 + u64::from(buckets) * 4;
    let mut index = image.word(start + 8 + u64::from(elf::hash(name) % buckets) * 4)?;
    // The chain of a damaged table may be a cycle.
    for _ in 0..chains.min(MOST_STEPS) {
        if index == 0 {
            return Ok(false);
        }
        if is_it(index)? {
            return Ok(true);
        }
        index = image.word(chain_at + u64::from(index) * 4)?;
    }
    Ok(false)
}

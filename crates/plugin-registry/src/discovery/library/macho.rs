//! Reads Mach-O libraries for one architecture, and universal files for several architectures.

use object::endian::Endianness;
use object::macho;
use object::read::macho::{FatArch, LoadCommandVariant, MachHeader, MachOFatFile32, MachOFatFile64, Nlist};
use object::read::{ReadCache, ReadRef};

use super::facts::{Exports, Fault, LibraryFacts, LibraryFormat, damaged};
use super::limited::{Limited, MOST_NAMES, short_name};
use super::reader::Reader;
use crate::discovery::target::{Architecture, OperatingSystem, Target};

/// Maximum number of slices in a universal file. A Java class file has the same magic number, followed by a version
/// that is larger than this limit.
const MOST_SLICES: u32 = 32;

fn architecture(cpu: u32) -> Architecture {
    match cpu {
        macho::CPU_TYPE_X86_64 => Architecture::X86_64,
        macho::CPU_TYPE_X86 => Architecture::X86,
        macho::CPU_TYPE_ARM64 => Architecture::Aarch64,
        macho::CPU_TYPE_ARM => Architecture::Arm,
        other => Architecture::Other(other),
    }
}

pub(super) fn read(data: Limited<&ReadCache<Reader>>, size: u64) -> Result<LibraryFacts, Fault> {
    let mut facts = LibraryFacts {
        format: LibraryFormat::MachO,
        targets: Vec::new(),
        exports: Exports::default(),
        needed: Vec::new(),
        rpath: Vec::new(),
        runpath: Vec::new(),
        size,
    };
    let head = data.read_bytes_at(0, 8).map_err(|()| Fault::Other("a file of a few bytes".to_owned()))?;
    if head[..3] != [0xca, 0xfe, 0xba] {
        slice(data, &mut facts)?;
        return Ok(facts);
    }
    let count = u32::from_be_bytes([head[4], head[5], head[6], head[7]]);
    if count > MOST_SLICES {
        return Err(Fault::Other("a Java class file".to_owned()));
    }
    let ranges: Vec<(u64, u64)> = if head[3] == 0xbe {
        MachOFatFile32::parse(data)?.arches().iter().map(FatArch::file_range).collect()
    } else {
        MachOFatFile64::parse(data)?.arches().iter().map(FatArch::file_range).collect()
    };
    for (offset, size) in ranges {
        slice(Limited(data.0.range(offset, size)), &mut facts)?;
    }
    Ok(facts)
}

fn slice<'data, R: ReadRef<'data>>(data: R, facts: &mut LibraryFacts) -> Result<(), Fault> {
    let magic = data.read_bytes_at(0, 4).map_err(|()| Fault::Other("a file of a few bytes".to_owned()))?;
    match magic {
        [0xcf, 0xfa, 0xed, 0xfe] | [0xfe, 0xed, 0xfa, 0xcf] => {
            commands::<macho::MachHeader64<Endianness>, R>(data, facts)
        }
        [0xce, 0xfa, 0xed, 0xfe] | [0xfe, 0xed, 0xfa, 0xce] => {
            commands::<macho::MachHeader32<Endianness>, R>(data, facts)
        }
        _ => Err(Fault::Other("a universal file without a Mach-O library".to_owned())),
    }
}

fn commands<'data, Mach: MachHeader<Endian = Endianness>, R: ReadRef<'data>>(
    data: R,
    facts: &mut LibraryFacts,
) -> Result<(), Fault> {
    let header = Mach::parse(data, 0)?;
    let endian = header.endian()?;
    match header.filetype(endian) {
        macho::MH_DYLIB | macho::MH_BUNDLE => {}
        macho::MH_EXECUTE => return Err(Fault::Other("a program".to_owned())),
        macho::MH_OBJECT => return Err(Fault::Other("an object file that was not linked".to_owned())),
        _ => return Err(Fault::Other("a Mach-O file of another kind".to_owned())),
    }
    facts.targets.push(Target { os: OperatingSystem::MacOs, architecture: architecture(header.cputype(endian)) });
    let (mut trie, mut table) = (None, None);
    let mut commands = header.load_commands(endian, data, 0)?;
    while let Some(command) = commands.next()? {
        let text = |at| command.string(endian, at).map(|text| String::from_utf8_lossy(text).into_owned());
        match command.variant()? {
            // A weak or lazy dependency may be absent, so it is not a needed library.
            LoadCommandVariant::Dylib(dylib)
                if !matches!(command.cmd(), macho::LC_LAZY_LOAD_DYLIB | macho::LC_LOAD_WEAK_DYLIB) =>
            {
                add(&mut facts.needed, text(dylib.dylib.name)?)?;
            }
            LoadCommandVariant::Rpath(rpath) => add(&mut facts.runpath, text(rpath.path)?)?,
            LoadCommandVariant::DyldInfo(info) => {
                trie = Some((info.export_off.get(endian), info.export_size.get(endian)));
            }
            LoadCommandVariant::LinkeditData(link) if command.cmd() == macho::LC_DYLD_EXPORTS_TRIE => {
                trie = Some((link.dataoff.get(endian), link.datasize.get(endian)));
            }
            LoadCommandVariant::Symtab(symtab) => table = Some(symtab),
            _ => {}
        }
    }
    if let Some((offset, size)) = trie.filter(|(_, size)| *size != 0) {
        let bytes =
            data.read_bytes_at(offset.into(), size.into()).map_err(|()| damaged("its list of exports ends early"))?;
        facts.exports.join(Exports::find(|name| Ok::<_, Fault>(in_trie(bytes, format!("_{name}").as_bytes())))?);
    } else if let Some(table) = table {
        let symbols = table.symbols::<Mach, R>(endian, data)?;
        let strings = data
            .read_bytes_at(table.stroff.get(endian).into(), table.strsize.get(endian).into())
            .map_err(|()| damaged("its symbol names end early"))?;
        for symbol in symbols.iter() {
            let exported = symbol.n_type() & macho::N_EXT != 0 && symbol.is_definition();
            let name = usize::try_from(symbol.n_strx(endian)).map(|at| short_name(strings, at)).unwrap_or_default();
            if let (true, Some(name)) = (exported, name.strip_prefix(b"_")) {
                facts.exports.note(name);
            }
        }
    }
    Ok(())
}

fn add(list: &mut Vec<String>, item: String) -> Result<(), Fault> {
    if list.len() >= MOST_NAMES {
        return Err(damaged("it needs too many libraries"));
    }
    if !list.contains(&item) {
        list.push(item);
    }
    Ok(())
}

/// Returns whether an export trie contains a name. Also returns `false` if the trie is damaged.
fn in_trie(trie: &[u8], name: &[u8]) -> bool {
    let (mut at, mut rest) = (0, name);
    // Each step consumes at least one byte of the name, because edges with empty labels are skipped. Only a damaged
    // trie has such edges.
    for _ in 0..=name.len() {
        let Some(mut node) = trie.get(at..) else { return false };
        let Some(terminal) = uleb(&mut node) else { return false };
        if rest.is_empty() {
            return terminal != 0;
        }
        let Some(mut node) = usize::try_from(terminal).ok().and_then(|skip| node.get(skip..)) else { return false };
        let Some((children, after)) = node.split_first() else { return false };
        node = after;
        let mut next = None;
        for _ in 0..*children {
            let Some(end) = node.iter().position(|byte| *byte == 0) else { return false };
            let label = &node[..end];
            node = &node[end + 1..];
            let Some(offset) = uleb(&mut node) else { return false };
            if !label.is_empty()
                && let Some(remaining) = rest.strip_prefix(label)
            {
                next = Some((offset, remaining));
                break;
            }
        }
        let Some((offset, remaining)) = next else { return false };
        let Ok(offset) = usize::try_from(offset) else { return false };
        (at, rest) = (offset, remaining);
    }
    false
}

/// Reads an unsigned LEB128 integer from the start of `bytes`, and advances `bytes`. Returns `None` if the integer is
/// incomplete or has more than 10 bytes.
fn uleb(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0u64;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a trie with the names `_GetPjrtApi` and `_GetOther`, which share the edge `_Get`.
    fn trie() -> Vec<u8> {
        let mut bytes = vec![0, 1];
        bytes.extend(b"_Get\0");
        bytes.push(8);
        bytes.extend([0, 2]);
        bytes.extend(b"PjrtApi\0");
        bytes.push(26);
        bytes.extend(b"Other\0");
        bytes.push(26);
        bytes.extend([2, 0, 0, 0]);
        bytes
    }

    #[test]
    fn walks_a_trie() {
        let trie = trie();
        assert_eq!(trie[26], 2);
        assert!(in_trie(&trie, b"_GetPjrtApi"));
        assert!(in_trie(&trie, b"_GetOther"));
        assert!(!in_trie(&trie, b"_Get"));
        assert!(!in_trie(&trie, b"_GetPjrtApi2"));
    }

    #[test]
    fn survives_a_damaged_trie() {
        let whole = trie();
        for end in 0..whole.len() {
            in_trie(&whole[..end], b"_GetPjrtApi");
        }
        // The only child of the root is the root itself, which must not cause an endless loop.
        assert!(!in_trie(&[0, 1, b'_', 0, 0], b"____"));
        assert!(!in_trie(&[0xff; 16], b"_GetPjrtApi"));
    }
}

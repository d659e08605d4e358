//! Reads the properties of a library that determine its wheel: its system, its exports and its dependencies. Does not
//! load the library.

use std::collections::BTreeSet;
use std::fs::File;
use std::path::Path;

use object::read::elf::{Dyn, ElfFile, FileHeader};
use object::read::macho::{FatArch, MachHeader, MachOFatFile, MachOFile};
use object::read::{ReadCache, ReadRef};
use object::{Architecture, Endianness, FileKind, Object, elf, macho};

/// The entry function of a PJRT plugin.
pub(crate) const ENTRY: &str = "GetPjrtApi";

/// The properties that the headers of a shared library declare.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Library {
    /// `linux`, `macos` or `windows`.
    pub(crate) os: &'static str,
    /// Architectures as `std::env::consts::ARCH` spells them. A universal file of macOS has several.
    pub(crate) architectures: Vec<&'static str>,
    /// Names of exported functions and variables.
    pub(crate) exports: BTreeSet<String>,
    /// File names of the libraries on which this library depends (Linux only).
    pub(crate) needed: Vec<String>,
    /// Versions of the symbols that this library imports from its dependencies, such as `GLIBC_2.28` (Linux only).
    pub(crate) versions: BTreeSet<String>,
    /// The oldest version of macOS that this library supports (macOS only).
    pub(crate) macos: Option<(u32, u32)>,
}

impl Library {
    /// Returns the system and the architectures, for messages.
    pub(crate) fn target(&self) -> String {
        format!("{} on {}", self.os, self.architectures.join(" and "))
    }

    /// Returns the combined properties of two libraries that are loaded together. Returns `None` if no system can load
    /// both.
    pub(crate) fn joined(&self, other: &Self) -> Option<Self> {
        let mut joined = self.clone();
        joined.architectures.retain(|architecture| other.architectures.contains(architecture));
        joined.needed.extend(other.needed.iter().cloned());
        // If one of the libraries records no symbol versions, the oldest system that can load it is unknown.
        if self.versions.is_empty() || other.versions.is_empty() {
            joined.versions.clear();
        } else {
            joined.versions.extend(other.versions.iter().cloned());
        }
        joined.macos = self.macos.max(other.macos);
        (self.os == other.os && !joined.architectures.is_empty()).then_some(joined)
    }
}

/// Reads the library of a plugin. Returns an error if it does not export [`ENTRY`].
pub(crate) fn read(path: &Path) -> Result<Library, String> {
    let library = inspect(path)?;
    if !library.exports.contains(ENTRY) {
        return Err(format!("library {}: not a PJRT plugin, because it does not export {ENTRY}", path.display()));
    }
    Ok(library)
}

/// Reads a library without checking whether it is a plugin.
pub(crate) fn inspect(path: &Path) -> Result<Library, String> {
    let shown = path.display();
    let metadata = std::fs::metadata(path).map_err(|error| format!("library {shown}: {error}"))?;
    if !metadata.is_file() {
        return Err(format!("library {shown}: not a file"));
    }
    let file = File::open(path).map_err(|error| format!("library {shown}: {error}"))?;
    parse(&ReadCache::new(file)).map_err(|what| format!("library {shown}: {what}"))
}

fn parse<'data, R: ReadRef<'data>>(data: R) -> Result<Library, String> {
    let kind = FileKind::parse(data).map_err(|_| "not a shared library".to_owned())?;
    let damaged = |error: object::Error| format!("a damaged library ({error})");
    match kind {
        FileKind::Elf32 => read_elf::<elf::FileHeader32<Endianness>, R>(data),
        FileKind::Elf64 => read_elf::<elf::FileHeader64<Endianness>, R>(data),
        FileKind::MachO32 => read_macho::<macho::MachHeader32<Endianness>, R>(data),
        FileKind::MachO64 => read_macho::<macho::MachHeader64<Endianness>, R>(data),
        FileKind::MachOFat32 => read_fat::<macho::FatArch32, R>(data),
        FileKind::MachOFat64 => read_fat::<macho::FatArch64, R>(data),
        FileKind::Pe32 | FileKind::Pe64 => {
            let file = object::File::parse(data).map_err(damaged)?;
            Ok(Library {
                os: "windows",
                architectures: vec![architecture(file.architecture())?],
                exports: exports(&file, "").map_err(damaged)?,
                ..Library::default()
            })
        }
        _ => Err("not a shared library".to_owned()),
    }
}

/// Returns the names that an object file exports, without the prefix that its format adds.
fn exports<'data>(file: &impl Object<'data>, prefix: &str) -> object::Result<BTreeSet<String>> {
    let names = file.exports()?;
    let names = names.iter().map(|export| String::from_utf8_lossy(export.name()).into_owned());
    Ok(names.map(|name| name.strip_prefix(prefix).map(str::to_owned).unwrap_or(name)).collect())
}

fn architecture(found: Architecture) -> Result<&'static str, String> {
    Ok(match found {
        Architecture::X86_64 => "x86_64",
        Architecture::I386 => "x86",
        Architecture::Aarch64 => "aarch64",
        Architecture::Arm => "arm",
        Architecture::Riscv64 => "riscv64",
        Architecture::PowerPc64 => "powerpc64",
        Architecture::S390x => "s390x",
        Architecture::LoongArch64 => "loongarch64",
        other => return Err(format!("built for an architecture without Python wheels ({other:?})")),
    })
}

fn read_elf<'data, Elf, R>(data: R) -> Result<Library, String>
where
    Elf: FileHeader<Endian = Endianness>,
    R: ReadRef<'data>,
{
    let damaged = |error: object::Error| format!("a damaged library ({error})");
    let file = ElfFile::<Elf, R>::parse(data).map_err(damaged)?;
    let endian = file.endian();
    if file.elf_header().e_type(endian) != elf::ET_DYN {
        return Err("an ELF file that is not a shared library".to_owned());
    }
    let mut library =
        Library { os: "linux", architectures: vec![architecture(file.architecture())?], ..Library::default() };
    library.exports = exports(&file, "").map_err(damaged)?;
    let sections = file.elf_section_table();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    if let Some((entries, strings)) = sections.dynamic(endian, data).map_err(damaged)? {
        let strings = sections.strings(endian, data, strings).map_err(damaged)?;
        for entry in entries.iter().filter(|entry| entry.tag(endian) == elf::DT_NEEDED) {
            library.needed.push(text(entry.string(endian, strings).map_err(damaged)?));
        }
    }
    if let Some((mut needs, strings)) = sections.gnu_verneed(endian, data).map_err(damaged)? {
        let strings = sections.strings(endian, data, strings).map_err(damaged)?;
        while let Some((_, mut versions)) = needs.next().map_err(damaged)? {
            while let Some(version) = versions.next().map_err(damaged)? {
                library.versions.insert(text(version.name(endian, strings).map_err(damaged)?));
            }
        }
    }
    Ok(library)
}

fn read_macho<'data, Mach, R>(data: R) -> Result<Library, String>
where
    Mach: MachHeader<Endian = Endianness>,
    R: ReadRef<'data>,
{
    let damaged = |error: object::Error| format!("a damaged library ({error})");
    let file = MachOFile::<Mach, R>::parse(data).map_err(damaged)?;
    let endian = file.endian();
    let mut library =
        Library { os: "macos", architectures: vec![architecture(file.architecture())?], ..Library::default() };
    library.exports = exports(&file, "_").map_err(damaged)?;
    if let Some(version) = file.build_version().map_err(damaged)? {
        let oldest = version.minos.get(endian);
        library.macos = Some((oldest >> 16, oldest >> 8 & 0xff));
    }
    Ok(library)
}

fn read_fat<'data, Fat: FatArch, R: ReadRef<'data>>(data: R) -> Result<Library, String> {
    let damaged = |error: object::Error| format!("a damaged library ({error})");
    let file = MachOFatFile::<Fat>::parse(data).map_err(damaged)?;
    let mut joined: Option<Library> = None;
    for part in file.arches() {
        let part = parse(part.data(data).map_err(damaged)?)?;
        joined = Some(match joined {
            None => part,
            Some(mut joined) => {
                joined.architectures.extend(part.architectures);
                joined.exports.retain(|name| part.exports.contains(name));
                joined.macos = joined.macos.max(part.macos);
                joined
            }
        });
    }
    joined.ok_or_else(|| "a universal file without a library".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_are_joined() {
        let library = |architectures: &[&'static str], version: &str| Library {
            os: "linux",
            architectures: architectures.to_vec(),
            versions: BTreeSet::from([version.to_owned()]),
            ..Library::default()
        };
        let (vendor, layers) = (library(&["x86_64", "aarch64"], "GLIBC_2.17"), library(&["x86_64"], "GLIBC_2.34"));
        let joined = vendor.joined(&layers).unwrap();
        assert_eq!(joined.architectures, ["x86_64"]);
        assert_eq!(joined.versions.len(), 2);
        assert_eq!(layers.joined(&library(&["aarch64"], "GLIBC_2.17")), None);
        assert_eq!(layers.joined(&Library { os: "macos", ..layers.clone() }), None);
        assert!(layers.joined(&Library { versions: BTreeSet::new(), ..layers.clone() }).unwrap().versions.is_empty());
    }

    #[test]
    fn rejects_other_files() {
        let folder = std::env::temp_dir().join(format!("pjrt-package-library-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        assert!(read(&folder).unwrap_err().ends_with("not a file"));
        let path = folder.join("absent.so");
        assert!(read(&path).unwrap_err().ends_with("(os error 2)"));
        for (content, says) in [
            (&b""[..], "not a shared library"),
            (b"text that is longer than sixteen bytes", "not a shared library"),
            (b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x03", "a damaged library"),
        ] {
            std::fs::write(&path, content).unwrap();
            let error = read(&path).unwrap_err();
            assert!(error.contains(says), "{error}");
        }
        // This test binary is an ELF, Mach-O or PE file for this machine, but not a plugin.
        let error = read(&std::env::current_exe().unwrap()).unwrap_err();
        assert!(error.contains("not a PJRT plugin") || error.contains("not a shared library"), "{error}");
        std::fs::remove_dir_all(&folder).unwrap();
    }
}

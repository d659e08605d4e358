//! What a shared library says about itself, read from its headers. Nothing is loaded or run.
//!
//! Only the bytes that matter are read: of a library of any size a few dozen short ranges, so that a look costs tens of
//! microseconds.

mod elf;
mod ld_cache;
mod limited;
mod macho;
mod pe;
mod reader;
mod search;

use std::path::Path;

use object::read::{ReadCache, ReadRef};

use limited::Limited;
use reader::Reader;

use super::folder;
use super::refusal::Refusal;
use super::target::Target;

pub(super) use search::LibrarySearch;

/// Container format of a shared library.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LibraryFormat {
    /// Linux and most others.
    Elf,
    /// macOS.
    MachO,
    /// Windows.
    Pe,
}

/// Which of the functions that matter here a library exports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Exports {
    /// `GetPjrtApi`: it is a PJRT plugin.
    pub get_pjrt_api: bool,
    /// [`DESCRIPTOR_SYMBOL`]: it carries a descriptor of this SDK.
    pub descriptor: bool,
    /// `TFNPD_InitPlugin`: TensorFlow accepts it as a next-pluggable-device plugin.
    pub tensorflow: bool,
}

/// Function that makes a library a PJRT plugin.
const ENTRY_SYMBOL: &str = "GetPjrtApi";
/// Function through which a plugin written with this SDK gives its descriptor.
pub const DESCRIPTOR_SYMBOL: &str = "DevicePlugin_GetDescriptor";
/// Function that TensorFlow wants of a next-pluggable-device plugin.
const TENSORFLOW_SYMBOL: &str = "TFNPD_InitPlugin";

impl Exports {
    /// Asks for each of the functions.
    fn find<E>(mut exported: impl FnMut(&str) -> Result<bool, E>) -> Result<Self, E> {
        Ok(Self {
            get_pjrt_api: exported(ENTRY_SYMBOL)?,
            descriptor: exported(DESCRIPTOR_SYMBOL)?,
            tensorflow: exported(TENSORFLOW_SYMBOL)?,
        })
    }

    /// Notes a name met in a list of exported names.
    fn note(&mut self, name: &[u8]) {
        self.get_pjrt_api |= name == ENTRY_SYMBOL.as_bytes();
        self.descriptor |= name == DESCRIPTOR_SYMBOL.as_bytes();
        self.tensorflow |= name == TENSORFLOW_SYMBOL.as_bytes();
    }

    fn join(&mut self, other: Self) {
        self.get_pjrt_api |= other.get_pjrt_api;
        self.descriptor |= other.descriptor;
        self.tensorflow |= other.tensorflow;
    }
}

/// What a shared library's headers say.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct LibraryFacts {
    /// Container format.
    pub format: LibraryFormat,
    /// What it was built for; several for a universal Mach-O file.
    pub targets: Vec<Target>,
    /// Functions it exports.
    pub exports: Exports,
    /// Names of the libraries it needs.
    pub needed: Vec<String>,
    /// Folders it searches for them before `LD_LIBRARY_PATH` (`DT_RPATH`), as written.
    pub rpath: Vec<String>,
    /// Folders it searches for them after `LD_LIBRARY_PATH` (`DT_RUNPATH`, `LC_RPATH`), as written.
    pub runpath: Vec<String>,
    /// Size of the file in bytes.
    pub size: u64,
}

/// Why a file is no shared library that can be read.
enum Fault {
    /// It is something else.
    Other(String),
    /// It claims to be one and is damaged.
    Damaged(String),
}

impl From<object::read::Error> for Fault {
    fn from(error: object::read::Error) -> Self {
        Self::Damaged(error.to_string())
    }
}

fn damaged(what: &str) -> Fault {
    Fault::Damaged(what.to_owned())
}

/// Reads a shared library's headers.
///
/// # Errors
///
/// [`Refusal::Missing`], [`Refusal::Unreadable`] or [`Refusal::NotALibrary`].
pub fn inspect(path: &Path) -> Result<LibraryFacts, Refusal> {
    let failed = |error: std::io::Error| match error.kind() {
        std::io::ErrorKind::NotFound => Refusal::Missing { path: path.to_owned() },
        _ => Refusal::Unreadable { path: path.to_owned(), message: error.to_string() },
    };
    // A pipe or a device would block or never end.
    let metadata = std::fs::metadata(path).map_err(failed)?;
    let other = |what: &str| Err(Refusal::NotALibrary { path: path.to_owned(), what: what.to_owned() });
    if metadata.is_dir() {
        return other("a folder");
    }
    if !metadata.is_file() {
        return other("a device or pipe");
    }
    let cache = ReadCache::new(Reader::new(folder::open(path).map_err(failed)?, metadata.len()));
    parse(&cache, metadata.len()).map_err(|fault| Refusal::NotALibrary {
        path: path.to_owned(),
        what: match fault {
            Fault::Other(what) => what,
            Fault::Damaged(error) => format!("a damaged library ({error})"),
        },
    })
}

fn parse(cache: &ReadCache<Reader>, size: u64) -> Result<LibraryFacts, Fault> {
    let data = Limited(cache);
    let head = data
        .read_bytes_at(0, size.min(64))
        .map_err(|()| Fault::Other("a file whose first bytes cannot be read".to_owned()))?;
    match head {
        [0x7f, b'E', b'L', b'F', 1, ..] => elf::read::<object::elf::FileHeader32<_>>(data, size),
        [0x7f, b'E', b'L', b'F', 2, ..] => elf::read::<object::elf::FileHeader64<_>>(data, size),
        [0xcf, 0xfa, 0xed, 0xfe, ..]
        | [0xfe, 0xed, 0xfa, 0xcf, ..]
        | [0xce, 0xfa, 0xed, 0xfe, ..]
        | [0xfe, 0xed, 0xfa, 0xce, ..]
        | [0xca, 0xfe, 0xba, 0xbe | 0xbf, ..] => macho::read(data, size),
        [b'M', b'Z', ..] => pe::read(data, size),
        _ => Err(Fault::Other(describe(head))),
    }
}

/// What a file is that is no shared library, from its first bytes.
fn describe(head: &[u8]) -> String {
    let starts = |text: &str| head.starts_with(text.as_bytes());
    if head.is_empty() {
        "an empty file"
    } else if starts("version https://git-lfs") {
        "a Git LFS pointer, whose content was not fetched"
    } else if starts("!<arch>\n") {
        "a static library"
    } else if starts("#!") {
        "a script"
    } else if starts("/* GNU ld script") || starts("INPUT") || starts("GROUP") {
        "a linker script"
    } else if starts("PK\x03\x04") {
        "a zip archive"
    } else if head.iter().all(|byte| byte.is_ascii_graphic() || byte.is_ascii_whitespace()) {
        "a text file"
    } else {
        "a file of another kind"
    }
    .to_owned()
}

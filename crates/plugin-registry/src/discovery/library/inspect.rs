//! Reads the headers of a shared library in ELF, Mach-O or PE format.

use std::path::Path;

use object::read::{ReadCache, ReadRef};

use super::facts::{Fault, LibraryFacts};
use super::limited::Limited;
use super::reader::Reader;
use super::{elf, macho, pe};
use crate::discovery::folder;
use crate::discovery::refusal::Refusal;

/// Reads a shared library's headers without loading the library.
///
/// # Errors
///
/// Returns [`Refusal::Missing`] if the file does not exist, [`Refusal::Unreadable`] if it cannot be read, or
/// [`Refusal::NotALibrary`] if it is not a valid shared library.
pub fn inspect(path: &Path) -> Result<LibraryFacts, Refusal> {
    let failed = |error: std::io::Error| match error.kind() {
        std::io::ErrorKind::NotFound => Refusal::Missing { path: path.to_owned() },
        _ => Refusal::Unreadable { path: path.to_owned(), message: error.to_string() },
    };
    // Reject pipes and devices, because reading one might block or never end.
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

/// Describes a file that is not a shared library, by its first bytes.
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

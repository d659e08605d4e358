//! The facts that discovery reads from a shared library's headers.

use crate::discovery::target::Target;

/// Container format of a shared library.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LibraryFormat {
    /// The format of Linux and most other systems.
    Elf,
    /// The format of macOS.
    MachO,
    /// The format of Windows.
    Pe,
}

/// Whether a library exports each of the entry functions that discovery knows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Exports {
    /// `GetPjrtApi`, the entry function of a PJRT plugin.
    pub get_pjrt_api: bool,
    /// [`DESCRIPTOR_SYMBOL`], which returns a description of the plugin.
    pub descriptor: bool,
    /// `TFNPD_InitPlugin`, which TensorFlow requires of a next-pluggable-device plugin.
    pub tensorflow: bool,
}

/// The entry function of a PJRT plugin.
const ENTRY_SYMBOL: &str = "GetPjrtApi";
/// The function through which a plugin written with this SDK returns its description.
pub const DESCRIPTOR_SYMBOL: &str = "DevicePlugin_GetDescriptor";
/// The function that TensorFlow requires of a next-pluggable-device plugin.
const TENSORFLOW_SYMBOL: &str = "TFNPD_InitPlugin";

impl Exports {
    /// Checks with `exported` whether the library exports each entry function.
    pub(super) fn find<E>(mut exported: impl FnMut(&str) -> Result<bool, E>) -> Result<Self, E> {
        Ok(Self {
            get_pjrt_api: exported(ENTRY_SYMBOL)?,
            descriptor: exported(DESCRIPTOR_SYMBOL)?,
            tensorflow: exported(TENSORFLOW_SYMBOL)?,
        })
    }

    /// Records an exported symbol, if it is an entry function.
    pub(super) fn note(&mut self, name: &[u8]) {
        self.get_pjrt_api |= name == ENTRY_SYMBOL.as_bytes();
        self.descriptor |= name == DESCRIPTOR_SYMBOL.as_bytes();
        self.tensorflow |= name == TENSORFLOW_SYMBOL.as_bytes();
    }

    pub(super) fn join(&mut self, other: Self) {
        self.get_pjrt_api |= other.get_pjrt_api;
        self.descriptor |= other.descriptor;
        self.tensorflow |= other.tensorflow;
    }
}

/// The contents of a shared library's headers.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct LibraryFacts {
    /// Container format.
    pub format: LibraryFormat,
    /// Targets for which the library was built. A universal Mach-O file has several.
    pub targets: Vec<Target>,
    /// Entry functions that the library exports.
    pub exports: Exports,
    /// Names of the libraries on which the library depends.
    pub needed: Vec<String>,
    /// Folders in which the loader searches for the libraries in `needed` before `LD_LIBRARY_PATH` (`DT_RPATH`), with
    /// `$ORIGIN` not expanded.
    pub rpath: Vec<String>,
    /// Folders in which the loader searches for the libraries in `needed` after `LD_LIBRARY_PATH` (`DT_RUNPATH`,
    /// `LC_RPATH`), with `$ORIGIN` and `@loader_path` not expanded.
    pub runpath: Vec<String>,
    /// Size of the file in bytes.
    pub size: u64,
}

/// The reason why a file cannot be read as a shared library.
pub(super) enum Fault {
    /// The file is not a shared library. The field describes the file.
    Other(String),
    /// The file has the magic number of a shared library, but its headers are damaged. The field describes the damage.
    Damaged(String),
}

impl From<object::read::Error> for Fault {
    fn from(error: object::read::Error) -> Self {
        Self::Damaged(error.to_string())
    }
}

pub(super) fn damaged(what: &str) -> Fault {
    Fault::Damaged(what.to_owned())
}

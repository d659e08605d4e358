//! What a shared library says about itself, read from its headers. Nothing is loaded or run.

use super::target::Target;

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

/// Function through which a plugin written with this SDK gives its descriptor.
pub const DESCRIPTOR_SYMBOL: &str = "DevicePlugin_GetDescriptor";

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

//! The operating system and architecture for which a shared library was built.

use std::fmt;

use plugin_manifest::Manifest;
use plugin_manifest::manifest::LibraryFile;
use plugin_manifest::variants::{LibraryChoice, MachineProperties};

/// The operating system of a shared library, according to its file format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum OperatingSystem {
    /// ELF file whose OS ABI is unset (System V) or GNU.
    Linux,
    /// Mach-O file.
    MacOs,
    /// PE file.
    Windows,
    /// ELF file with the OS ABI of FreeBSD.
    FreeBsd,
    /// Any other operating system.
    Other,
}

impl fmt::Display for OperatingSystem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Linux => "Linux",
            Self::MacOs => "macOS",
            Self::Windows => "Windows",
            Self::FreeBsd => "FreeBSD",
            Self::Other => "an unknown system",
        })
    }
}

impl OperatingSystem {
    /// Returns the system's name as `std::env::consts::OS` spells it.
    pub fn rust_name(self) -> &'static str {
        match self {
            Self::Linux => "linux",
            Self::MacOs => "macos",
            Self::Windows => "windows",
            Self::FreeBsd => "freebsd",
            Self::Other => "other",
        }
    }
}

/// The instruction set of a shared library, with Rust's names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Architecture {
    /// 64-bit x86.
    X86_64,
    /// 32-bit x86.
    X86,
    /// 64-bit ARM.
    Aarch64,
    /// 32-bit ARM.
    Arm,
    /// 64-bit RISC-V.
    Riscv64,
    /// 64-bit PowerPC.
    PowerPc64,
    /// IBM Z.
    S390x,
    /// 64-bit LoongArch.
    LoongArch64,
    /// Any other instruction set, with its machine number in the file format.
    Other(u32),
}

impl fmt::Display for Architecture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::X86_64 => "x86_64",
            Self::X86 => "x86",
            Self::Aarch64 => "aarch64",
            Self::Arm => "arm",
            Self::Riscv64 => "riscv64",
            Self::PowerPc64 => "powerpc64",
            Self::S390x => "s390x",
            Self::LoongArch64 => "loongarch64",
            Self::Other(number) => return write!(f, "machine {number:#x}"),
        })
    }
}

/// The platform for which a program or a library was built.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
// Exhaustive, because a target always consists of these two fields.
pub struct Target {
    /// The operating system.
    pub os: OperatingSystem,
    /// The instruction set.
    pub architecture: Architecture,
}

impl Target {
    /// Returns whether a program for this target can load a library that was built for the targets in `library`.
    /// Returns `true` if this target is unknown, so that the dynamic loader decides.
    pub fn loads(&self, library: &[Self]) -> bool {
        let known = self.os != OperatingSystem::Other && !matches!(self.architecture, Architecture::Other(_));
        !known || library.contains(self)
    }

    /// Returns the libraries that a manifest names for this target, in the order of the manifest.
    pub(super) fn libraries_of(self, manifest: &Manifest) -> impl Iterator<Item = &LibraryFile> {
        let (os, architecture) = (self.os.rust_name(), self.architecture.to_string());
        manifest.library.iter().filter(move |file| file.is_for(os, &architecture))
    }

    /// Chooses the library for a machine among the libraries that a manifest names for this target.
    pub(super) fn choose(self, manifest: &Manifest, machine: &MachineProperties) -> LibraryChoice {
        manifest.choose_library(self.os.rust_name(), &self.architecture.to_string(), machine)
    }

    /// Returns the target for which this program was built.
    pub const fn host() -> Self {
        let os = if cfg!(target_os = "linux") {
            OperatingSystem::Linux
        } else if cfg!(target_os = "macos") {
            OperatingSystem::MacOs
        } else if cfg!(target_os = "windows") {
            OperatingSystem::Windows
        } else if cfg!(target_os = "freebsd") {
            OperatingSystem::FreeBsd
        } else {
            OperatingSystem::Other
        };
        let architecture = if cfg!(target_arch = "x86_64") {
            Architecture::X86_64
        } else if cfg!(target_arch = "x86") {
            Architecture::X86
        } else if cfg!(target_arch = "aarch64") {
            Architecture::Aarch64
        } else if cfg!(target_arch = "arm") {
            Architecture::Arm
        } else if cfg!(target_arch = "riscv64") {
            Architecture::Riscv64
        } else if cfg!(target_arch = "powerpc64") {
            Architecture::PowerPc64
        } else if cfg!(target_arch = "s390x") {
            Architecture::S390x
        } else if cfg!(target_arch = "loongarch64") {
            Architecture::LoongArch64
        } else {
            Architecture::Other(0)
        };
        Self { os, architecture }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} on {}", self.architecture, self.os)
    }
}

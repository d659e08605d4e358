//! Decides which wheels fit a machine.

use std::fmt;
use std::path::Path;

use super::wheel_name::WheelName;
use crate::discovery::{Architecture, Discovery, OperatingSystem, Target, read_file};

/// Maximum size in bytes of a C library whose version is read. Real ones have about 2 MB.
const LARGEST_LIBC: u64 = 64 << 20;
/// The text before the minor version in the banner of the GNU C library.
const BANNER: &[u8] = b"stable release version 2.";
/// The text before the minor version in the symbol versions of the GNU C library.
const SYMBOL_VERSION: &[u8] = b"GLIBC_2.";

/// The C library of a machine with Linux.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Libc {
    /// The GNU C library 2, with its minor version.
    Glibc(u32),
    /// musl 1.
    Musl,
    /// No C library was found, or the machine does not run Linux. Only wheels without a demand fit.
    Unknown,
}

/// The properties of a machine that decide which wheels fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Platform {
    /// Operating system and processor.
    pub target: Target,
    /// The C library.
    pub libc: Libc,
    /// Version of macOS. `None` on other systems.
    pub macos: Option<(u32, u32)>,
}

/// How well a wheel fits. Greater is better.
pub(super) type Fit = (u32, u32, u32);

impl Platform {
    /// Creates the description of a machine.
    pub fn new(target: Target, libc: Libc, macos: Option<(u32, u32)>) -> Self {
        Self { target, libc, macos }
    }

    /// Reads the properties of the machine that `discovery` searches, without running a program.
    pub fn of(discovery: &Discovery) -> Self {
        let target = discovery.host;
        let libc = if target.os == OperatingSystem::Linux { libc(discovery) } else { Libc::Unknown };
        let macos = (target.os == OperatingSystem::MacOs).then(|| macos(discovery)).flatten();
        Self { target, libc, macos }
    }

    /// Returns how well a wheel fits this machine, or `None` if it does not fit. Libraries are independent of Python,
    /// so all Python versions are accepted, and wheels for any Python version are preferred.
    pub(super) fn fit(&self, wheel: &WheelName) -> Option<Fit> {
        let platform = wheel.platforms.iter().filter_map(|tag| self.platform_fit(tag)).max()?;
        let python = if wheel.is_for_any_python() {
            u32::MAX
        } else {
            // Of the wheels for one version of Python, take the newest, preferably not for a free-threaded one.
            let minor = |tag: &String| tag.strip_prefix("cp3").and_then(|minor| minor.parse::<u16>().ok());
            let abi3 = wheel.abis.iter().any(|abi| abi == "abi3");
            let free_threaded = wheel.abis.iter().all(|abi| abi.starts_with("cp") && abi.ends_with('t'));
            let newest = wheel.pythons.iter().filter_map(minor).max().map_or(0, |minor| 2 * u32::from(minor) + 2);
            newest + if abi3 { 1000 } else { 0 } - u32::from(free_threaded && newest > 0)
        };
        Some((python, platform, wheel.build))
    }

    fn platform_fit(&self, tag: &str) -> Option<u32> {
        if tag == "any" {
            return Some(0);
        }
        let rest = |prefix: &str| tag.strip_prefix(prefix);
        match self.target.os {
            OperatingSystem::Linux => {
                let fixed = [("manylinux1_", 5), ("manylinux2010_", 12), ("manylinux2014_", 17)];
                let fixed = fixed.iter().find_map(|(prefix, minor)| Some((*minor, rest(prefix)?)));
                let numbered = || {
                    let (minor, architecture) = rest("manylinux_2_")?.split_once('_')?;
                    Some((minor.parse::<u16>().ok()?.into(), architecture))
                };
                if let Some((minor, architecture)) = fixed.or_else(numbered) {
                    let newest = matches!(self.libc, Libc::Glibc(have) if have >= minor);
                    return (newest && self.is_architecture(architecture)).then_some(minor + 2);
                }
                if let Some((_, architecture)) = rest("musllinux_1_").and_then(|rest| rest.split_once('_')) {
                    return (self.libc == Libc::Musl && self.is_architecture(architecture)).then_some(2);
                }
                rest("linux_").filter(|architecture| self.is_architecture(architecture)).map(|_| 1)
            }
            OperatingSystem::MacOs => {
                let mut parts = rest("macosx_")?.splitn(3, '_');
                let mut number = || Some(u32::from(parts.next()?.parse::<u16>().ok()?));
                let needs = (number()?, number()?);
                let architecture = parts.next()?;
                let fits = self.is_architecture(architecture) || architecture == "universal2";
                (fits && self.macos.is_none_or(|have| have >= needs)).then_some(needs.0 + 1)
            }
            OperatingSystem::Windows if tag == "win32" => (self.target.architecture == Architecture::X86).then_some(1),
            OperatingSystem::Windows => rest("win_").filter(|name| self.is_architecture(name)).map(|_| 1),
            _ => None,
        }
    }

    /// Returns whether this is the name of the machine's architecture in a platform tag.
    fn is_architecture(&self, name: &str) -> bool {
        let own = self.target.architecture;
        match name {
            "amd64" => own == Architecture::X86_64,
            "arm64" => own == Architecture::Aarch64,
            "i686" => own == Architecture::X86,
            "armv7l" => own == Architecture::Arm,
            "ppc64le" => own == Architecture::PowerPc64,
            other => own.to_string() == other,
        }
    }
}

impl fmt::Display for Platform {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.target)?;
        match (self.libc, self.macos) {
            (Libc::Glibc(minor), _) => write!(f, ", glibc 2.{minor}"),
            (Libc::Musl, _) => f.write_str(", musl"),
            (_, Some((major, minor))) => write!(f, " {major}.{minor}"),
            _ => Ok(()),
        }
    }
}

/// Finds the C library and reads its version from the file.
fn libc(discovery: &Discovery) -> Libc {
    const GLIBC: &str = "libc.so.6";
    // On some systems, the library is in a folder of its own, but this process has loaded it.
    let loaded = || {
        let maps = read_file(&discovery.system("/proc/self/maps"), 16 << 20).ok()?;
        let maps = String::from_utf8_lossy(&maps).into_owned();
        let mut paths = maps.lines().filter_map(|line| line.find('/').map(|start| Path::new(&line[start..])));
        paths.find(|path| path.ends_with(GLIBC)).map(Path::to_owned)
    };
    if let Some(path) = discovery.find_library(GLIBC).or_else(loaded) {
        return glibc_minor(&path).map_or(Libc::Unknown, Libc::Glibc);
    }
    let loader = format!("ld-musl-{}.so.1", discovery.host.architecture);
    if discovery.find_library(&loader).is_some() { Libc::Musl } else { Libc::Unknown }
}

/// Returns the minor version in the banner of the GNU C library, or otherwise the newest of its symbol versions.
fn glibc_minor(path: &Path) -> Option<u32> {
    let bytes = read_file(path, LARGEST_LIBC).ok()?;
    numbers_after(&bytes, BANNER).next().or_else(|| numbers_after(&bytes, SYMBOL_VERSION).max())
}

/// Returns the decimal numbers that follow each occurrence of `text`.
fn numbers_after<'a>(bytes: &'a [u8], text: &'a [u8]) -> impl Iterator<Item = u32> + 'a {
    let starts = bytes.windows(text.len()).enumerate().filter(move |(_, window)| *window == text);
    starts.filter_map(move |(at, _)| {
        let digits = bytes[at + text.len()..].iter().take(3).take_while(|byte| byte.is_ascii_digit());
        String::from_utf8(digits.copied().collect()).ok()?.parse().ok()
    })
}

/// Reads the version of macOS from the system's property list.
fn macos(discovery: &Discovery) -> Option<(u32, u32)> {
    let path = discovery.system("/System/Library/CoreServices/SystemVersion.plist");
    let text = String::from_utf8(read_file(&path, 1 << 20).ok()?).ok()?;
    let (_, rest) = text.split_once("<key>ProductVersion</key>")?;
    let version = rest.split_once("<string>")?.1.split('<').next()?;
    let mut parts = version.split('.').map(|part| part.parse().unwrap_or(0));
    Some((parts.next()?, parts.next().unwrap_or(0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(os: OperatingSystem, architecture: Architecture, libc: Libc) -> Platform {
        Platform::new(Target { os, architecture }, libc, (os == OperatingSystem::MacOs).then_some((14, 2)))
    }

    fn fit(machine: &Platform, tags: &str) -> Option<Fit> {
        machine.fit(&WheelName::parse(&format!("a-1-{tags}.whl")).unwrap())
    }

    #[test]
    fn platforms() {
        use Architecture::{Aarch64, X86_64};
        use OperatingSystem::{Linux, MacOs, Windows};
        let linux = machine(Linux, X86_64, Libc::Glibc(28));
        for (machine, fitting, others) in [
            (
                linux,
                ["py3-none-manylinux_2_28_x86_64", "py3-none-manylinux2014_x86_64", "py3-none-linux_x86_64"],
                ["py3-none-manylinux_2_31_x86_64", "py3-none-manylinux_2_28_aarch64", "py3-none-musllinux_1_2_x86_64"],
            ),
            (
                machine(Linux, Aarch64, Libc::Musl),
                ["py3-none-musllinux_1_1_aarch64", "py3-none-any", "py3-none-linux_aarch64"],
                ["py3-none-manylinux_2_17_aarch64", "py3-none-win_arm64", "py3-none-macosx_11_0_arm64"],
            ),
            (
                machine(MacOs, Aarch64, Libc::Unknown),
                ["py3-none-macosx_11_0_arm64", "py3-none-macosx_14_2_universal2", "py3-none-any"],
                ["py3-none-macosx_15_0_arm64", "py3-none-macosx_11_0_x86_64", "py3-none-linux_aarch64"],
            ),
            (
                machine(Windows, X86_64, Libc::Unknown),
                ["py3-none-win_amd64", "cp313-cp313-win_amd64", "py3-none-any"],
                ["py3-none-win32", "py3-none-win_arm64", "py3-none-linux_x86_64"],
            ),
        ] {
            for tags in fitting {
                assert!(fit(&machine, tags).is_some(), "{machine}: {tags}");
            }
            for tags in others {
                assert_eq!(fit(&machine, tags), None, "{machine}: {tags}");
            }
        }
        // Numbers that no system has.
        for tags in ["py3-none-manylinux_2_4294967295_x86_64", "cp34294967295-none-linux_x86_64"] {
            let _ = fit(&linux, tags);
        }
        assert_eq!(fit(&machine(MacOs, Aarch64, Libc::Unknown), "py3-none-macosx_4294967295_0_arm64"), None);
        // Better ones come later.
        let order = [
            "cp311-cp311-manylinux_2_28_x86_64",
            "cp314-cp314t-manylinux_2_17_x86_64",
            "cp314-cp314-manylinux_2_17_x86_64",
            "cp39-abi3-manylinux_2_17_x86_64",
            "py3-none-any",
            "py3-none-linux_x86_64",
            "py3-none-manylinux2014_x86_64",
            "py3-none-manylinux_2_17_x86_64.manylinux_2_28_x86_64",
        ];
        let fits: Vec<_> = order.iter().map(|tags| fit(&linux, tags).unwrap()).collect();
        assert!(fits.is_sorted_by(|one, other| one < other), "{fits:?}");
    }

    #[test]
    fn version_of_the_c_library() {
        let numbers = |bytes: &[u8], text: &[u8]| numbers_after(bytes, text).collect::<Vec<_>>();
        assert_eq!(numbers(b"GNU C Library (x) stable release version 2.36.\n", BANNER), [36]);
        assert_eq!(numbers(b"\0GLIBC_2.2.5\0GLIBC_2.39\0GLIBC_2.", SYMBOL_VERSION), [2, 39]);
        if cfg!(all(target_os = "linux", target_env = "gnu")) {
            let here = Platform::of(&Discovery::from_environment());
            assert!(matches!(here.libc, Libc::Glibc(17..)), "{here}");
        }
    }
}

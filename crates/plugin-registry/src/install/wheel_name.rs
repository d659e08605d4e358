//! File names of wheels: name, version, and the tags of the Python versions and platforms that they are for.

use std::str::FromStr;

use pep440_rs::Version;

use crate::discovery::normalize;

/// The parts of a wheel's file name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct WheelName {
    /// Normalized name of the package.
    pub(super) package: String,
    pub(super) version: Version,
    /// Number that breaks ties between files of the same version.
    pub(super) build: u32,
    /// Tags of Python versions, such as `py3` or `cp313`.
    pub(super) pythons: Vec<String>,
    /// Tags of Python's binary interface, such as `none`.
    pub(super) abis: Vec<String>,
    /// Tags of platforms, such as `manylinux_2_27_x86_64`.
    pub(super) platforms: Vec<String>,
}

impl WheelName {
    /// Parses a file name. Returns `None` if it is not the name of a wheel.
    pub(super) fn parse(file: &str) -> Option<Self> {
        let parts: Vec<&str> = file.strip_suffix(".whl")?.split('-').collect();
        let (package, version, build, tags) = match parts[..] {
            [package, version, python, abi, platform] => (package, version, "", [python, abi, platform]),
            [package, version, build, python, abi, platform] => (package, version, build, [python, abi, platform]),
            _ => return None,
        };
        let digits = build.bytes().take_while(u8::is_ascii_digit).count();
        let [pythons, abis, platforms] = tags.map(|tags| tags.split('.').map(str::to_owned).collect());
        Some(Self {
            package: normalize(package),
            version: Version::from_str(version).ok()?,
            build: build[..digits].parse().unwrap_or(0),
            pythons,
            abis,
            platforms,
        })
    }

    /// Returns whether the wheel is for any version of Python 3.
    pub(super) fn is_for_any_python(&self) -> bool {
        self.pythons.iter().any(|python| python == "py3") && self.abis.iter().any(|abi| abi == "none")
    }

    /// Returns whether the wheel is for any platform, so that it cannot contain a library.
    pub(super) fn is_for_any_platform(&self) -> bool {
        self.platforms.iter().any(|platform| platform == "any")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts() {
        let name =
            WheelName::parse("jax_cuda13_pjrt-0.12.0.1-2b-cp312.cp313-abi3-manylinux2014_x86_64.any.whl").unwrap();
        assert_eq!((name.package.as_str(), name.build), ("jax-cuda13-pjrt", 2));
        assert_eq!(name.version.to_string(), "0.12.0.1");
        assert_eq!((name.pythons.len(), name.abis.len(), name.platforms.len()), (2, 1, 2));
        assert!(!name.is_for_any_python() && name.is_for_any_platform());
        for file in ["a-1.tar.gz", "a-1.whl", "a-x-py3-none-any.whl", "a-1-1-1-py3-none-any.whl", ".whl"] {
            assert_eq!(WheelName::parse(file), None, "{file}");
        }
    }
}

//! Program formats, StableHLO versions, dynamic shapes and partitioning that the device's compiler supports.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::c_enums::codes;
use crate::{Error, Result, StablehloVersions};

codes! {
    /// Format of a program. The names are the format names that `PJRT_Program` uses.
    pub enum ProgramFormat, "a program format" {
        /// Serialized `HloModuleProto`.
        Hlo = 1 "hlo",
        /// Serialized `HloModuleProtoWithConfig`.
        HloWithConfig = 2 "hlo_with_config",
        /// StableHLO as MLIR text, as MLIR bytecode, or as a portable artifact.
        Mlir = 3 "mlir",
    }
}

/// The program formats that the compiler accepts, with the preferred one first. Never empty.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct ProgramFormats(Vec<ProgramFormat>);

impl ProgramFormats {
    /// Creates the formats of a compiler that accepts only `format`. [`Self::or`] adds further formats.
    pub fn preferring(format: ProgramFormat) -> Self {
        Self(vec![format])
    }

    /// Adds another format that the compiler accepts.
    #[must_use]
    pub fn or(mut self, format: ProgramFormat) -> Self {
        if !self.0.contains(&format) {
            self.0.push(format);
        }
        self
    }

    /// Returns whether the compiler accepts this format.
    pub fn accepts(&self, format: ProgramFormat) -> bool {
        self.0.contains(&format)
    }

    /// Returns the formats, with the preferred one first.
    pub fn as_slice(&self) -> &[ProgramFormat] {
        &self.0
    }
}

/// HLO and StableHLO, because PyTorch/XLA sends HLO and JAX sends StableHLO. HLO is the preferred format.
impl Default for ProgramFormats {
    fn default() -> Self {
        Self::preferring(ProgramFormat::Hlo).or(ProgramFormat::Mlir)
    }
}

impl TryFrom<Vec<ProgramFormat>> for ProgramFormats {
    type Error = Error;

    /// # Errors
    ///
    /// Returns an error if `formats` is empty.
    fn try_from(formats: Vec<ProgramFormat>) -> Result<Self> {
        let mut formats = formats.into_iter();
        let first = formats.next().ok_or_else(|| {
            Error::invalid_argument("the list of program formats is empty; name at least one, such as mlir")
        })?;
        Ok(formats.fold(Self::preferring(first), Self::or))
    }
}

impl<'de> Deserialize<'de> for ProgramFormats {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let formats = Vec::<ProgramFormat>::deserialize(deserializer)?;
        Self::try_from(formats).map_err(|error| serde::de::Error::custom(error.message()))
    }
}

codes! {
    /// Whether an executable can return its optimized program.
    #[derive(Default)]
    pub enum OptimizedProgram, "an answer about optimized programs" {
        /// `PJRT_Executable_OptimizedProgram` returns the program, as PyTorch/XLA requires.
        #[default]
        Available = 0 "available",
        /// `PJRT_Executable_OptimizedProgram` does not return a program.
        Unavailable = 1 "unavailable",
    }
}

codes! {
    /// Support for arrays whose extents are known only at run time.
    #[derive(Default)]
    pub enum DynamicShapes, "a kind of dynamic shapes" {
        /// The compiler supports only static extents.
        #[default]
        None = 0 "none",
        /// A dynamic extent must have an upper bound in the program.
        Bounded = 1 "bounded",
        /// A dynamic extent does not need an upper bound.
        Unbounded = 2 "unbounded",
    }
}

codes! {
    /// Whether the compiler can partition one program across several devices.
    #[derive(Default)]
    pub enum Spmd, "an answer about SPMD" {
        /// The compiler can partition programs.
        #[default]
        Supported = 0 "supported",
        /// The compiler cannot partition programs, so frameworks compile one program for each device.
        Unsupported = 1 "unsupported",
        /// Like [`Self::Supported`], but the plugin must be initialized again when the framework switches to SPMD.
        Reinitialize = 2 "reinitialize",
    }
}

impl From<bool> for Spmd {
    fn from(supported: bool) -> Self {
        if supported { Self::Supported } else { Self::Unsupported }
    }
}

/// A StableHLO version. Its JSON form is a string such as `1.13.7`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
// Exhaustive, because a version always consists of these three numbers.
pub struct StablehloVersion {
    /// Major version.
    pub major: u32,
    /// Minor version.
    pub minor: u32,
    /// Patch version.
    pub patch: u32,
}

impl StablehloVersion {
    /// Creates a version from its three numbers.
    pub const fn new(major: u32, minor: u32, patch: u32) -> Self {
        Self { major, minor, patch }
    }
}

impl fmt::Display for StablehloVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)
    }
}

/// Parses three integers that are separated by dots.
impl FromStr for StablehloVersion {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let numbers: Vec<u32> = text.split('.').map_while(|number| number.parse().ok()).collect();
        match numbers[..] {
            [major, minor, patch] if text.matches('.').count() == 2 => Ok(Self::new(major, minor, patch)),
            _ => {
                Err(Error::invalid_argument(format!("{text:?} is not a version of StableHLO; write it as \"1.13.7\"")))
            }
        }
    }
}

impl Serialize for StablehloVersion {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for StablehloVersion {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<str>::deserialize(deserializer)?;
        text.parse().map_err(|error: Error| serde::de::Error::custom(error.message()))
    }
}

/// Inclusive range of the StableHLO versions that the compiler reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct StablehloRange {
    /// The oldest version.
    pub minimum: StablehloVersion,
    /// The newest version. A framework serializes programs for this version, or for its own StableHLO version if its
    /// own is older.
    pub current: StablehloVersion,
}

impl StablehloRange {
    /// Creates the range of all versions from `minimum` to `current`.
    pub const fn new(minimum: StablehloVersion, current: StablehloVersion) -> Self {
        Self { minimum, current }
    }
}

impl From<StablehloRange> for StablehloVersions {
    fn from(range: StablehloRange) -> Self {
        let numbers =
            |version: StablehloVersion| [i64::from(version.major), i64::from(version.minor), i64::from(version.patch)];
        Self { current: numbers(range.current), minimum: numbers(range.minimum) }
    }
}

impl TryFrom<StablehloVersions> for StablehloRange {
    type Error = Error;

    /// # Errors
    ///
    /// Returns an error if a version number is negative or does not fit into `u32`.
    fn try_from(versions: StablehloVersions) -> Result<Self> {
        let version = |numbers: [i64; 3], which: &str| {
            let small = |number: i64| u32::try_from(number).ok();
            let [major, minor, patch] = numbers.map(small);
            major
                .zip(minor)
                .zip(patch)
                .map(|((major, minor), patch)| StablehloVersion::new(major, minor, patch))
                .ok_or_else(|| {
                    Error::invalid_argument(format!(
                        "the {which} StableHLO version {numbers:?} has a number below 0 or above 4294967295; write three numbers such as [1, 13, 7]"
                    ))
                })
        };
        Ok(Self::new(version(versions.minimum, "minimum")?, version(versions.current, "current")?))
    }
}

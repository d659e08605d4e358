//! Program formats of the device's compiler, and partitioning.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::c_enums::codes;
use crate::{Error, Result, StablehloVersions};

codes! {
    /// Form of a program, as `PJRT_Program` names it.
    pub enum ProgramFormat, "a program format" {
        /// Serialized `HloModuleProto`.
        Hlo = 1 "hlo",
        /// Serialized `HloModuleProtoWithConfig`.
        HloWithConfig = 2 "hlo_with_config",
        /// StableHLO: MLIR text, bytecode, or a portable artifact.
        Mlir = 3 "mlir",
    }
}

/// The program formats that the compiler accepts, the preferred one first; never empty.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct ProgramFormats(Vec<ProgramFormat>);

impl ProgramFormats {
    /// Only this format.
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

    /// The compiler's preferred format.
    pub fn preferred(&self) -> ProgramFormat {
        // The list is never empty. The fallback is the format that frameworks send to an unknown device.
        self.0.first().copied().unwrap_or(ProgramFormat::Hlo)
    }

    /// Whether the compiler accepts this format.
    pub fn accepts(&self, format: ProgramFormat) -> bool {
        self.0.contains(&format)
    }

    /// The formats, the preferred one first.
    pub fn as_slice(&self) -> &[ProgramFormat] {
        &self.0
    }
}

/// HLO, which PyTorch/XLA sends, then StableHLO, which JAX sends.
impl Default for ProgramFormats {
    fn default() -> Self {
        Self::preferring(ProgramFormat::Hlo).or(ProgramFormat::Mlir)
    }
}

impl TryFrom<Vec<ProgramFormat>> for ProgramFormats {
    type Error = Error;

    /// # Errors
    ///
    /// If the list is empty.
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
        /// The function returns no program.
        Unavailable = 1 "unavailable",
    }
}

codes! {
    /// Arrays whose extents are known only at run time.
    #[derive(Default)]
    pub enum DynamicShapes, "a kind of dynamic shapes" {
        /// All extents are static.
        #[default]
        None = 0 "none",
        /// A dynamic extent has a bound in the program.
        Bounded = 1 "bounded",
        /// A dynamic extent needs no bound.
        Unbounded = 2 "unbounded",
    }
}

codes! {
    /// Whether the compiler partitions one program for several devices.
    #[derive(Default)]
    pub enum Spmd, "an answer about SPMD" {
        /// The compiler partitions programs.
        #[default]
        Supported = 0 "supported",
        /// Frameworks compile one program for each device.
        Unsupported = 1 "unsupported",
        /// Like supported, but the plugin's set-up must run again when the framework switches to SPMD.
        Reinitialize = 2 "reinitialize",
    }
}

impl From<bool> for Spmd {
    fn from(supported: bool) -> Self {
        if supported { Self::Supported } else { Self::Unsupported }
    }
}

/// A version of StableHLO, `1.13.7` in JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
// Exhaustive: these three numbers are a version.
pub struct StablehloVersion {
    /// Major version.
    pub major: u32,
    /// Minor version.
    pub minor: u32,
    /// Patch version.
    pub patch: u32,
}

impl StablehloVersion {
    /// The version with these three numbers.
    pub const fn new(major: u32, minor: u32, patch: u32) -> Self {
        Self { major, minor, patch }
    }
}

impl fmt::Display for StablehloVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)
    }
}

/// Parses three numbers separated by dots.
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

/// The versions of StableHLO that the compiler reads, including both ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct StablehloRange {
    /// The oldest version.
    pub minimum: StablehloVersion,
    /// The newest version. Frameworks serialize programs for it, or for their own version if that is older.
    pub current: StablehloVersion,
}

impl StablehloRange {
    /// All versions from `minimum` to `current`.
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
    /// If a number is negative or has more than 32 bits.
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

//! Program formats, dynamic shapes and partitioning that the device's compiler supports.

use serde::{Deserialize, Serialize};

use crate::names::codes;

codes! {
    /// Format of a program. The names are the format names that `PJRT_Program` uses.
    pub enum ProgramFormat {
        /// Serialized `HloModuleProto`.
        Hlo = 1 "hlo",
        /// Serialized `HloModuleProtoWithConfig`.
        HloWithConfig = 2 "hlo_with_config",
        /// StableHLO as MLIR text, as MLIR bytecode, or as a portable artifact.
        Mlir = 3 "mlir",
    }
}

/// The program formats that the compiler accepts, with the preferred one first. Never empty.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Vec<ProgramFormat>")]
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
    type Error = &'static str;

    /// # Errors
    ///
    /// Returns an error if `formats` is empty.
    fn try_from(formats: Vec<ProgramFormat>) -> Result<Self, &'static str> {
        let mut formats = formats.into_iter();
        let first = formats.next().ok_or("the list of program formats is empty; name at least one, such as mlir")?;
        Ok(formats.fold(Self::preferring(first), Self::or))
    }
}

codes! {
    /// Whether an executable can return its optimized program.
    #[derive(Default)]
    pub enum OptimizedProgram {
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
    pub enum DynamicShapes {
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
    pub enum Spmd {
        /// The compiler can partition programs.
        #[default]
        Supported = 0 "supported",
        /// The compiler cannot partition programs, so frameworks compile one program for each device.
        Unsupported = 1 "unsupported",
        /// Like [`Self::Supported`], but the plugin must be initialized again when the framework switches to SPMD.
        Reinitialize = 2 "reinitialize",
    }
}

//! Parsing of StableHLO programs.

use ::stablehlo::VerifyLevel;
use ::stablehlo::ir::{Func, Module, Version};
use plugin_manifest::program_reader::{FORMATS, read};

use crate::{Error, Program, Result, StablehloVersions};

/// The StableHLO versions that [`parse`] reads, for
/// [`DevicePlugin::stablehlo_versions`](crate::DevicePlugin::stablehlo_versions). A framework serializes programs for
/// the newest of these versions, or for an older one.
pub const VERSIONS: StablehloVersions =
    StablehloVersions { minimum: numbers(Version::OLDEST), current: numbers(Version::NEWEST) };

const fn numbers(Version(major, minor, patch): Version) -> [u32; 3] {
    [major, minor, patch]
}

/// Parses a program of the format `mlir`: a portable artifact, or text if the default feature `text` is enabled. If the
/// feature `hlo` is enabled, it also parses `hlo` (a serialized `HloModuleProto`) and `hlo_with_config` (a serialized
/// `HloModuleProtoWithConfig`).
///
/// `level` selects the checks of the verifier. [`VerifyLevel::STRUCTURE`] suffices for programs of frameworks, which
/// check the other rules themselves. It also makes the plugin smaller. [`VerifyLevel::FULL`] checks all rules.
///
/// # Errors
///
/// Returns `UNIMPLEMENTED` for other formats, and for text if the feature `text` is disabled. Returns
/// `INVALID_ARGUMENT` with the source location if the program is invalid.
pub fn parse(program: &Program, level: VerifyLevel) -> Result<Module> {
    if cfg!(not(feature = "text")) && program.format() == "mlir" && !::stablehlo::is_artifact(program.code()) {
        return Err(Error::unimplemented(
            "the program is StableHLO text, but this device reads portable artifacts; serialize the program as one, or \
             build the plugin with the feature `text` of `device-plugin`",
        ));
    }
    let read = read(program, level).ok_or_else(|| {
        let hlo = if FORMATS.contains(&"hlo") { " and HLO (formats \"hlo\" and \"hlo_with_config\")" } else { "" };
        Error::unimplemented(format!(
            "unknown program format {:?}; this device reads StableHLO (format \"mlir\"){hlo}",
            program.format()
        ))
    })?;
    read.map_err(|error| Error::invalid_argument(error.to_string()))
}

/// Returns the entry function of a program.
///
/// # Errors
///
/// Returns `INVALID_ARGUMENT` if the module has no entry function.
pub fn entry(module: &Module) -> Result<&Func> {
    module.entry().ok_or_else(|| {
        Error::invalid_argument(
            "the program has neither a function `main` nor a single public function; name one of them `main`",
        )
    })
}

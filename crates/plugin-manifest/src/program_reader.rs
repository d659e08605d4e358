//! Reads programs with the `stablehlo` crate. Requires the feature `stablehlo`.

use stablehlo::VerifyLevel;
use stablehlo::ir::Module;

use crate::Program;

/// The program formats that [`read`] supports.
pub const FORMATS: &[&str] = if cfg!(feature = "hlo") { &["mlir", "hlo", "hlo_with_config"] } else { &["mlir"] };

/// Reads a program of format `mlir`. With the feature `hlo`, also reads `hlo` (a serialized `HloModuleProto`) and
/// `hlo_with_config` (a serialized `HloModuleProtoWithConfig`). The error of the reader contains the op and its
/// location in separate fields. Returns `None` for any other format.
pub fn read(program: &Program, level: VerifyLevel) -> Option<stablehlo::Result<Module>> {
    let code = program.code().clone();
    Some(match program.format() {
        "mlir" => stablehlo::parse(code, level),
        #[cfg(feature = "hlo")]
        "hlo" => stablehlo::parse_hlo(code, level),
        #[cfg(feature = "hlo")]
        "hlo_with_config" => stablehlo::parse_hlo_with_config(code, level),
        _ => return None,
    })
}

//! Conversion of StableHLO programs to HLO, for profiles.

use plugin_manifest::program_reader::read;
use stablehlo::VerifyLevel;

use crate::Program;

/// Returns the program as a serialized `HloModuleProto`, without shardings, because the HLO writer of this SDK does not
/// support them. Returns `None` for formats that the SDK does not read.
pub(crate) fn to_hlo(program: &Program) -> Option<stablehlo::Result<Vec<u8>>> {
    let module = read(program, VerifyLevel::STRUCTURE)?;
    Some(module.and_then(|module| {
        let module = stablehlo_passes::remove_shardings(&module)?.unwrap_or(module);
        stablehlo::write_hlo(&module)
    }))
}

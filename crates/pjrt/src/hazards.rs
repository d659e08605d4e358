//! Rejects programs that are known to crash XLA's plugins, before a plugin receives them.

use pjrt_types::Program;
use stablehlo::hazards::{Hazard, hazards, may_have_hazards, oversized_type};

use crate::error::Error;

/// Returns an error if the program contains a known hazard. A hazard is a construct that crashes XLA's plugins. Accepts
/// a program in an unknown format, and a program that the crate `stablehlo` cannot parse, because the plugin may be
/// able to parse it.
pub(crate) fn check(program: &Program) -> Result<(), Error> {
    if program.format() == "mlir"
        && let Some(ty) = oversized_type(program.code())
    {
        return Err(Error::invalid(format!(
            "the program would crash XLA's plugins: {ty} has more than 2^63 - 1 bytes, not counting extents of 0; use \
             smaller extents"
        )));
    }
    if !may_have_hazards(program.code()) {
        return Ok(());
    }
    let code = program.code().clone();
    let module = match program.format() {
        "mlir" => stablehlo::parse(code, stablehlo::VerifyLevel::FULL),
        "hlo" => stablehlo::parse_hlo(code, stablehlo::VerifyLevel::FULL),
        "hlo_with_config" => stablehlo::parse_hlo_with_config(code, stablehlo::VerifyLevel::FULL),
        _ => return Ok(()),
    };
    let found: Vec<String> = module.iter().flat_map(hazards).map(|hazard: Hazard| hazard.to_string()).collect();
    if found.is_empty() {
        return Ok(());
    }
    Err(Error::invalid(format!("the program would crash XLA's plugins: {}", found.join("; "))))
}

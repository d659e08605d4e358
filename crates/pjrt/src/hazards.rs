//! Programs that XLA's plugins do not survive, refused before a plugin sees them.

use stablehlo::hazards::{Hazard, hazards, may_have_hazards};

use crate::error::Error;
use crate::program::Program;

/// Refuses a program with a hazard that can be seen. A program that this reader does not understand passes: the plugin
/// may understand it.
pub(crate) fn check(program: &Program) -> Result<(), Error> {
    if !may_have_hazards(program.code()) {
        return Ok(());
    }
    let code = program.code().to_vec();
    let module = match program.format() {
        "mlir" => stablehlo::parse(code),
        "hlo" => stablehlo::parse_hlo(code),
        "hlo_with_config" => stablehlo::parse_hlo_with_config(code),
        _ => return Ok(()),
    };
    let found: Vec<String> = module.iter().flat_map(hazards).map(|hazard: Hazard| hazard.to_string()).collect();
    if found.is_empty() {
        return Ok(());
    }
    Err(Error::invalid(format!("the program would end the process of XLA's plugins: {}", found.join("; "))))
}

//! Programs of the cases.

use pjrt::stablehlo::ForPlugin;
use pjrt::{Plugin, Program};

use crate::stop::Stop;

/// Converts StableHLO text to the portable artifact that a framework would send to this plugin.
pub(crate) fn for_plugin(text: &str, plugin: &Plugin) -> Result<Program, Stop> {
    let module = module(text)?;
    Program::for_plugin(&module, plugin).map_err(Stop::from)
}

/// Reads StableHLO text.
pub(crate) fn module(text: &str) -> Result<pjrt::stablehlo::ir::Module, Stop> {
    stablehlo::parse(text.to_owned(), stablehlo::VerifyLevel::STRUCTURE)
        .map_err(|error| Stop::Fail(format!("the suite's program is not valid: {error}")))
}

/// Writes a function `main` with this body, which has one line for each operation.
pub(crate) fn main(parameters: &str, results: &str, body: &str) -> String {
    format!("func.func public @main({parameters}) -> {results} {{\n{body}\n}}\n")
}

/// Adds 1 to an `f32` array.
pub(crate) fn add_one(len: usize) -> String {
    let ty = format!("tensor<{len}xf32>");
    main(
        &format!("%x: {ty}"),
        &ty,
        &format!(
            "  %one = stablehlo.constant dense<1.0> : {ty}
  %y = stablehlo.add %x, %one : {ty}
  return %y : {ty}"
        ),
    )
}

/// Applies an operation with one operand to an array.
pub(crate) fn unary(op: &str, from: &str, to: &str) -> String {
    let signature = if from == to { from.to_owned() } else { format!("({from}) -> {to}") };
    main(&format!("%x: {from}"), to, &format!("  %y = stablehlo.{op} %x : {signature}\n  return %y : {to}"))
}

/// Applies an elementwise operation with two operands.
pub(crate) fn binary(op: &str, ty: &str) -> String {
    main(&format!("%x: {ty}, %y: {ty}"), ty, &format!("  %z = stablehlo.{op} %x, %y : {ty}\n  return %z : {ty}"))
}

//! StableHLO programs for the cases.

use pjrt::stablehlo::ForPlugin;
use pjrt::stablehlo::ir::Version;
use pjrt::{Plugin, Program, Value};

use crate::stop::Stop;

/// Converts StableHLO text to the portable artifact that a framework would send to this plugin.
pub(crate) fn for_plugin(text: &str, plugin: &Plugin) -> Result<Program, Stop> {
    let module = module(text)?;
    Program::for_plugin(&module, plugin).map_err(Stop::from)
}

/// Returns the StableHLO version in the plugin's attribute of this name.
pub(crate) fn announced_version(plugin: &Plugin, name: &str) -> Result<Option<Vec<i64>>, Stop> {
    let announced = plugin.attributes()?.into_iter().find(|attribute| attribute.name == name);
    Ok(announced.and_then(|attribute| match attribute.value {
        Value::Int64List(list) => Some(list),
        _ => None,
    }))
}

/// Skips the case if the plugin reports that it reads only StableHLO versions before `version`.
pub(crate) fn needs_stablehlo(version: Version, plugin: &Plugin) -> Result<(), Stop> {
    match announced_version(plugin, "stablehlo_current_version")? {
        Some(current) if current[..] < [version.0, version.1, version.2].map(i64::from)[..] => {
            let current: Vec<_> = current.iter().map(i64::to_string).collect();
            let current = current.join(".");
            Err(Stop::Skip(format!("the case needs StableHLO {version}, but the plugin reads up to {current}")))
        }
        _ => Ok(()),
    }
}

/// Parses StableHLO text, and verifies the structure of the module.
pub(crate) fn module(text: &str) -> Result<pjrt::stablehlo::ir::Module, Stop> {
    stablehlo::parse(text.to_owned(), stablehlo::VerifyLevel::STRUCTURE)
        .map_err(|error| Stop::Fail(format!("the suite's program is not valid: {error}")))
}

/// Returns the text of a function `main` with these parameters and results. `body` has one line for each operation.
pub(crate) fn main(parameters: &str, results: &str, body: &str) -> String {
    format!("func.func public @main({parameters}) -> {results} {{\n{body}\n}}\n")
}

/// Returns a program that adds 1 to each element of an `f32` array of `len` elements.
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

/// Returns a program that applies an operation to one operand. `from` is the type of the operand, and `to` is the type
/// of the result.
pub(crate) fn unary(op: &str, from: &str, to: &str) -> String {
    let signature = if from == to { from.to_owned() } else { format!("({from}) -> {to}") };
    main(&format!("%x: {from}"), to, &format!("  %y = stablehlo.{op} %x : {signature}\n  return %y : {to}"))
}

/// Returns a program that applies an elementwise operation to two operands of type `ty`.
pub(crate) fn binary(op: &str, ty: &str) -> String {
    main(&format!("%x: {ty}, %y: {ty}"), ty, &format!("  %z = stablehlo.{op} %x, %y : {ty}\n  return %z : {ty}"))
}

/// Number of `f32` elements that [`receiver`] receives.
pub(crate) const VALUES: usize = 4;
/// Id of the channel on which programs receive values from the host.
pub(crate) const FROM_HOST: i64 = 6;

/// Returns the text of the operation that receives a value from the host. As in the programs of frameworks, an
/// attribute of the operation contains the name of the transfer.
pub(crate) fn receive(token: &str) -> String {
    format!(
        "\"stablehlo.recv\"({token}) {{channel_handle = #stablehlo.channel_handle<handle = {FROM_HOST}, type = 3>, \
         is_host_transfer = true, mhlo.frontend_attributes = {{_xla_host_transfer_rendezvous = \"from_host\"}}}} : \
         (!stablehlo.token) -> (tensor<{VALUES}xf32>, !stablehlo.token)"
    )
}

/// Returns a program that receives a value from the host, and returns the value.
pub(crate) fn receiver() -> String {
    let value = format!("tensor<{VALUES}xf32>");
    let receive = receive("%t");
    let body = format!("  %t = stablehlo.create_token : !stablehlo.token\n  %r:2 = {receive}\n  return %r#0 : {value}");
    main("", &value, &body)
}

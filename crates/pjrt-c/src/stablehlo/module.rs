//! `dp_module`: a StableHLO program.

use std::sync::Arc;

use ::stablehlo::{PrintOptions, VerifyLevel};
use pjrt::Program;
use pjrt::stablehlo::ForPlugin;
use pjrt::stablehlo::ir::{Module, Version};
use pjrt_c_macros::c_function;

use crate::border::bytes::dp_bytes;
use crate::border::error::{dp_code, dp_error};
use crate::border::failure::{Failure, Outcome};
use crate::border::handle::Owned;
use crate::client::dp_client;
use crate::program::dp_program;
use crate::stablehlo::function::dp_function;

/// A StableHLO program that was read or built.
pub struct dp_module {
    pub(crate) inner: Arc<Module>,
}

impl dp_module {
    pub(crate) fn new(module: Module) -> Self {
        Self { inner: Arc::new(module) }
    }
}

/// Reads and checks a program: StableHLO as text, bytecode or portable artifact (`mlir`), or an HLO module (`hlo` or
/// `hlo_with_config`).
#[c_function]
pub fn dp_module_read(program: &dp_program) -> Outcome<Owned<dp_module>> {
    let code = program.inner.code().clone();
    let module = match program.inner.format() {
        "mlir" => ::stablehlo::parse(code, VerifyLevel::FULL)?,
        "hlo" => ::stablehlo::parse_hlo(code, VerifyLevel::FULL)?,
        "hlo_with_config" => ::stablehlo::parse_hlo_with_config(code, VerifyLevel::FULL)?,
        other => {
            let message = format!("programs in the format {other:?} cannot be read; mlir, hlo and hlo_with_config can");
            return Err(Failure::new(pjrt::ErrorCode::UNIMPLEMENTED, message));
        }
    };
    Ok(Owned(dp_module::new(module)))
}

/// Prints the program as StableHLO text. `generic` chooses MLIR's generic form, and `locations` adds the places in the
/// source.
#[c_function]
pub fn dp_module_print(module: &dp_module, generic: bool, locations: bool) -> Outcome<Owned<dp_bytes>> {
    let mut options = PrintOptions::default();
    (options.generic, options.locations) = (generic, locations);
    Ok(Owned(dp_bytes::new(module.inner.print(&options))))
}

/// Writes the program as a portable artifact of a StableHLO version, such as `1.9.0`. NULL means the newest version
/// that this library knows. Returns an error if the program has an op that the version lacks.
#[c_function]
pub fn dp_module_write(module: &dp_module, version: Option<&str>) -> Outcome<Owned<dp_bytes>> {
    let version = version.map_or(Ok(Version::NEWEST), str::parse)?;
    Ok(Owned(dp_bytes::new(::stablehlo::write(&module.inner, version)?)))
}

/// Writes the program in a version that the client's plugin reads, for `dp_client_compile`.
#[c_function]
pub fn dp_module_program_for(module: &dp_module, client: &dp_client) -> Outcome<Owned<dp_program>> {
    Ok(Owned(dp_program::new(Program::for_plugin(&module.inner, &client.inner.plugin())?)))
}

/// Returns the number of functions.
#[c_function]
pub fn dp_module_function_count(module: &dp_module) -> usize {
    module.inner.funcs.len()
}

/// Returns the function at `index`, counted from 0.
#[c_function]
pub fn dp_module_function_at(module: &dp_module, index: usize) -> Outcome<Owned<dp_function>> {
    crate::border::memory::at(&module.inner.funcs, index)?;
    Ok(Owned(dp_function::new(module.inner.clone(), index)))
}

/// Returns the function that a program runs, which is `main`.
#[c_function]
pub fn dp_module_main(module: &dp_module) -> Outcome<Owned<dp_function>> {
    let entry = module.inner.entry().ok_or_else(|| Failure::argument("the program has no function `main`"))?;
    let index = module.inner.funcs.iter().position(|func| std::ptr::eq(func, entry)).unwrap_or(0);
    Ok(Owned(dp_function::new(module.inner.clone(), index)))
}

/// Replaces all calls by the ops of the called functions.
#[c_function]
pub fn dp_module_inline(module: &dp_module) -> Outcome<Owned<dp_module>> {
    Ok(Owned(dp_module::new(::stablehlo::inline(&module.inner, &[])?)))
}

//! Reads the plugin description that a library exports through `DevicePlugin_GetDescriptor`.

use std::ffi::c_void;
use std::path::Path;

use pjrt::Plugin;
use plugin_manifest::c_view::descriptor::{DP_GET_DESCRIPTOR, dp_descriptor};
use plugin_manifest::{Descriptor, Faults};

use crate::Error;
use crate::discovery::{check_trusted, inspect};

/// Returns the plugin description that a library exports, or `None` if the library does not export one.
///
/// If the library's symbol table does not list `DevicePlugin_GetDescriptor`, the library is not loaded. A loaded
/// library stays loaded until the process ends. The library's PJRT function table is not read. A process with elevated
/// privileges rejects a library that others than root can change.
///
/// # Errors
///
/// Returns [`Error::Refused`] if this process has elevated privileges and others than root can change the file,
/// [`Error::Load`] if the library cannot be loaded, or [`Error::Description`] with all faults of an invalid
/// description.
///
/// # Safety
///
/// The library can be trusted ([contract](pjrt::contracts) R1).
pub unsafe fn describe(path: impl AsRef<Path>) -> Result<Option<Descriptor>, Error> {
    let path = path.as_ref();
    check_trusted(path)
        .map_err(|refusal| Error::Refused { name: path.display().to_string(), refusals: vec![refusal] })?;
    // Some third-party libraries crash at process exit if they were loaded and never used. Do not load a library that
    // exports no description.
    if inspect(path).is_ok_and(|facts| !facts.exports.descriptor) {
        return Ok(None);
    }
    // SAFETY: R1 (the library is trusted): this function's caller guarantees it, and a function named
    // `DevicePlugin_GetDescriptor` has the declared type.
    let found = unsafe { Plugin::description(path, DP_GET_DESCRIPTOR) }.map_err(Error::Load)?;
    // SAFETY: R1 (the library is trusted): the function of a trusted library returns a valid descriptor that never
    // changes.
    unsafe { read(found) }.map_err(|faults| Error::Description { name: path.display().to_string(), faults })
}

/// Returns the description that the library of a loaded plugin exports, or `None` if it exports none.
///
/// # Errors
///
/// Returns an error if the description is invalid. The error contains all faults.
pub(crate) fn describe_loaded(plugin: &Plugin) -> Result<Option<Descriptor>, Faults> {
    // SAFETY: R1 (the library is trusted): the caller of the load vouched for the library, and a function named
    // `DevicePlugin_GetDescriptor` has the declared type.
    let found = unsafe { plugin.own_description(DP_GET_DESCRIPTOR) };
    // SAFETY: R1 (the library is trusted): the function of a trusted library returns a valid descriptor that never
    // changes.
    unsafe { read(found) }
}

/// Reads the descriptor that a library's `DevicePlugin_GetDescriptor` returned.
///
/// # Safety
///
/// If `found` is `Some`, the pointer satisfies contracts D1 to D3 (the descriptor is valid and constant).
unsafe fn read(found: Option<*const c_void>) -> Result<Option<Descriptor>, Faults> {
    let Some(raw) = found else { return Ok(None) };
    // SAFETY: D1 to D3 (the descriptor is valid and constant): this function's caller guarantees them.
    unsafe { Descriptor::from_raw(raw.cast::<dp_descriptor>()) }.map(Some)
}

//! Reads the description that a library exports.

use std::ffi::c_void;
use std::path::Path;

use pjrt::Plugin;
use plugin_manifest::describe::descriptor::{DP_GET_DESCRIPTOR, dp_descriptor};
use plugin_manifest::{Descriptor, Faults};

use crate::Error;
use crate::discovery::inspect;

/// Returns the description that a library exports, or `None` if it exports none.
///
/// The library is loaded only if its symbol table lists the function that returns the description, and it then stays
/// loaded. Its PJRT table is not used. As with [`open`](crate::open), the caller guarantees that the library may be
/// loaded.
///
/// # Errors
///
/// [`Error::Load`] if the library cannot be loaded, [`Error::Description`] with all faults of the description.
pub fn describe(path: impl AsRef<Path>) -> Result<Option<Descriptor>, Error> {
    let path = path.as_ref();
    // Some third-party libraries crash at process exit if they were loaded and never used.
    if inspect(path).is_ok_and(|facts| !facts.exports.descriptor) {
        return Ok(None);
    }
    // SAFETY: R1 (the library is trusted): the caller vouches for it, and a function of this name has this type.
    let found = unsafe { Plugin::description(path, DP_GET_DESCRIPTOR) }.map_err(Error::Load)?;
    // SAFETY: R1, as above: the function returns a valid descriptor that never changes.
    unsafe { read(found) }.map_err(|faults| Error::Description { name: path.display().to_string(), faults })
}

/// Returns the description that the library of a loaded plugin exports, or `None` if it exports none.
///
/// # Errors
///
/// All faults of the description.
pub(crate) fn describe_loaded(plugin: &Plugin) -> Result<Option<Descriptor>, Faults> {
    // SAFETY: R1 (the library is trusted). It was trusted before it was loaded, and a function of this name has this
    // type.
    let found = unsafe { plugin.own_description(DP_GET_DESCRIPTOR) };
    // SAFETY: R1, as above: the function returns a valid descriptor that never changes.
    unsafe { read(found) }
}

/// Reads the descriptor that `DevicePlugin_GetDescriptor` of a library returned.
///
/// # Safety
///
/// The pointer keeps D1 to D3 (the descriptor is valid and constant).
unsafe fn read(found: Option<*const c_void>) -> Result<Option<Descriptor>, Faults> {
    let Some(raw) = found else { return Ok(None) };
    // SAFETY: this function's contract: the pointer keeps D1 to D3.
    unsafe { Descriptor::from_raw(raw.cast::<dp_descriptor>()) }.map(Some)
}

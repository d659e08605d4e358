//! What a library says of itself.

use std::ffi::c_void;
use std::path::Path;

use device_plugin::Descriptor;
use device_plugin::describe::descriptor::{DP_GET_DESCRIPTOR, dp_descriptor};
use pjrt::Plugin;

use crate::{Error, discovery};

/// The description a library carries, none where it carries none. The library is loaded for it only where its symbols
/// say that it has one, and stays loaded; its table is not asked for. As [`open`](crate::open), the caller vouches for the library.
///
/// # Errors
///
/// [`Error::Load`] where the library cannot be loaded, [`Error::Description`] with all faults of the description.
pub fn describe(path: impl AsRef<Path>) -> Result<Option<Descriptor>, Error> {
    let path = path.as_ref();
    // Some libraries of other makers crash when a process ends that loaded them and did nothing with them.
    if discovery::inspect(path).is_ok_and(|facts| !facts.exports.descriptor) {
        return Ok(None);
    }
    // SAFETY: R1: the caller vouches for the library, and a function of this name has this type.
    let found = unsafe { Plugin::description(path, DP_GET_DESCRIPTOR) }.map_err(Error::Load)?;
    // SAFETY: R1, as above: the function returns what `Descriptor::from_raw` reads, and it stays as it is.
    unsafe { read(found, path) }
}

/// The description that the library of a loaded plugin carries, none where it carries none.
///
/// # Errors
///
/// [`Error::Description`] with all faults of the description.
pub(crate) fn describe_loaded(plugin: &Plugin) -> Result<Option<Descriptor>, Error> {
    // SAFETY: R1: somebody vouched for the library before it was loaded, and a function of this name has this type.
    let found = unsafe { plugin.own_description(DP_GET_DESCRIPTOR) };
    // SAFETY: R1, as above: the function returns what `Descriptor::from_raw` reads, and it stays as it is.
    unsafe { read(found, plugin.path().unwrap_or(Path::new("the program"))) }
}

/// Reads what `DevicePlugin_GetDescriptor` of a library returned.
///
/// # Safety
///
/// D1 to D3 for what it returned.
unsafe fn read(found: Option<*const c_void>, path: &Path) -> Result<Option<Descriptor>, Error> {
    let Some(raw) = found else { return Ok(None) };
    // SAFETY: this function's contract.
    let descriptor = unsafe { Descriptor::from_raw(raw.cast::<dp_descriptor>()) };
    descriptor.map(Some).map_err(|faults| Error::Description { name: path.display().to_string(), faults })
}

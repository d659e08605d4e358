//! Loads the plugin to which the layers forward calls.

use std::path::Path;

use libloading::Library;
use pjrt_sys::{PJRT_Api, StaticApi};

/// Loads a plugin and returns its table. The library stays mapped until the process ends.
///
/// The user who names the library in an environment variable vouches for it, as with `LD_LIBRARY_PATH`. The variable has
/// no effect with elevated privileges.
///
/// # Errors
///
/// If the library cannot be loaded or is not a plugin. The text names the library.
pub(crate) fn load(path: &Path) -> Result<StaticApi, String> {
    let fault = |what: String| format!("{}: {what}", path.display());
    // The source is the loader's own message. The error itself only names the function that failed.
    let reason = |error: libloading::Error| {
        fault(std::error::Error::source(&error).map_or_else(|| error.to_string(), ToString::to_string))
    };
    // SAFETY: L1 (plugin): whoever names the library vouches for its initializers.
    let library = unsafe { Library::new(path) }.map_err(reason)?;
    let library = Box::leak(Box::new(library));
    // SAFETY: L1 (plugin): a symbol of this name has this type.
    let entry = unsafe { library.get::<unsafe extern "C" fn() -> *const PJRT_Api>(b"GetPjrtApi\0") };
    let entry = entry.map_err(reason)?;
    // SAFETY: L1 (plugin): the function may be called at any time.
    let table = unsafe { entry() };
    if table.is_null() {
        return Err(fault("its GetPjrtApi returned null".to_owned()));
    }
    // SAFETY: L1 (plugin).
    Ok(unsafe { StaticApi::new(table) })
}

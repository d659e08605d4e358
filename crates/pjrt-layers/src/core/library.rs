//! Loads the plugin to which the layers forward calls, and finds the folder of this library.

use std::path::{Path, PathBuf};

use libloading::Library;
use pjrt_sys::{PJRT_Api, StaticApi};

/// Loads a plugin and returns its table. The library stays mapped until the process ends.
///
/// Loading runs the library's initializers. The user who configures the path of the library is responsible for them, as
/// with `LD_LIBRARY_PATH`. The environment variable for the path has no effect in a process with elevated privileges.
///
/// # Errors
///
/// Returns an error if the library cannot be loaded or is not a plugin. The message contains the library's path.
pub(crate) fn load(path: &Path) -> Result<StaticApi, String> {
    let fault = |what: String| format!("{}: {what}", path.display());
    // The source error contains the loader's own message. The error itself only names the failed function.
    let reason = |error: libloading::Error| {
        fault(std::error::Error::source(&error).map_or_else(|| error.to_string(), ToString::to_string))
    };
    // SAFETY: L1 (plugin): the user who names the library is responsible for its initializers.
    let library = unsafe { open(path) }.map_err(reason)?;
    let library = Box::leak(Box::new(library));
    // SAFETY: L1 (plugin): a symbol of this name has this type.
    let entry = unsafe { library.get::<unsafe extern "C" fn() -> *const PJRT_Api>(b"GetPjrtApi\0") };
    let entry = entry.map_err(reason)?;
    // SAFETY: L1 (plugin): the function may be called at any time.
    let table = unsafe { entry() };
    if table.is_null() {
        return Err(fault("its GetPjrtApi returned null".to_owned()));
    }
    // SAFETY: L1 (plugin): the plugin's table keeps the contract of `StaticApi`.
    Ok(unsafe { StaticApi::new(table) })
}

/// Opens a library.
///
/// # Safety
///
/// It must be sound to run the library's initializers.
#[cfg(not(windows))]
unsafe fn open(path: &Path) -> Result<Library, libloading::Error> {
    // SAFETY: L1 (plugin): running the initializers is this function's contract.
    unsafe { Library::new(path) }
}

/// Opens a library. Windows does not search for the library's dependencies in the current folder or in the folders of
/// `PATH`. The search order is the same as for `pjrt::Plugin::load`.
///
/// # Safety
///
/// It must be sound to run the library's initializers.
#[cfg(windows)]
unsafe fn open(path: &Path) -> Result<Library, libloading::Error> {
    use libloading::os::windows::{self, LOAD_LIBRARY_SEARCH_DEFAULT_DIRS, LOAD_LIBRARY_SEARCH_DLL_LOAD_DIR};

    // The flags need an absolute path. Only an empty path fails here, and Windows rejects it.
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let flags = LOAD_LIBRARY_SEARCH_DLL_LOAD_DIR | LOAD_LIBRARY_SEARCH_DEFAULT_DIRS;
    // SAFETY: L1 (plugin): running the initializers is this function's contract.
    unsafe { windows::Library::load_with_flags(absolute, flags) }.map(Library::from)
}

/// Returns the folder of the library that contains this crate, if the system reports it.
#[cfg(unix)]
#[expect(clippy::disallowed_methods, reason = "the loader terminates the text and does not report its length")]
pub(crate) fn library_folder() -> Option<PathBuf> {
    use std::ffi::{CStr, OsStr};
    use std::os::unix::ffi::OsStrExt;

    let address = library_folder as *const ();
    let mut found = std::mem::MaybeUninit::<libc::Dl_info>::zeroed();
    // SAFETY: L8 (system): `dladdr` takes any address, and writes the struct.
    if unsafe { libc::dladdr(address.cast(), found.as_mut_ptr()) } == 0 {
        return None;
    }
    // SAFETY: L8 (system): all bytes of the struct are initialized.
    let name = unsafe { found.assume_init() }.dli_fname;
    if name.is_null() {
        return None;
    }
    // SAFETY: L8 (system): the name is a C string that lives as long as the library.
    let name = unsafe { CStr::from_ptr(name) };
    // A relative name may be the program's `argv[0]`, which does not identify a folder.
    let path = Path::new(OsStr::from_bytes(name.to_bytes()));
    path.is_absolute().then(|| path.parent()).flatten().map(Path::to_owned)
}

/// Returns `None` on systems other than Unix. Only environment variables configure the layers there.
#[cfg(not(unix))]
pub(crate) fn library_folder() -> Option<PathBuf> {
    None
}

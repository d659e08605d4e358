//! Opens shared libraries and calls their exported functions. Only this module opens libraries.

use std::ffi::c_void;
use std::mem::ManuallyDrop;
use std::path::Path;

use libloading::Library;
use pjrt_sys::PJRT_Api;

use crate::table::load_error::{LoadErrorKind, LoaderError};

/// Opens a library. The system also opens the library's dependencies, and runs the initializers of all these libraries.
///
/// # Safety
///
/// The initializers of the library and of its dependencies may run.
#[cfg(not(windows))]
unsafe fn open(path: &Path) -> Result<Library, libloading::Error> {
    // SAFETY: this function's contract: the initializers may run.
    unsafe { Library::new(path) }
}

/// Opens a library. Windows searches for the library's dependencies in the folder of the library, the folder of the
/// program, the system folder and the folders that were added with `AddDllDirectory`. By default, Windows would ignore
/// the library's folder and search the current folder and the folders in `PATH`, where an attacker may have placed a
/// library.
///
/// # Safety
///
/// The initializers of the library and of its dependencies may run.
#[cfg(windows)]
unsafe fn open(path: &Path) -> Result<Library, libloading::Error> {
    use libloading::os::windows::{self, LOAD_LIBRARY_SEARCH_DEFAULT_DIRS, LOAD_LIBRARY_SEARCH_DLL_LOAD_DIR};

    // The flags require an absolute path. `absolute` fails only for an empty path, which Windows then rejects.
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let flags = LOAD_LIBRARY_SEARCH_DLL_LOAD_DIR | LOAD_LIBRARY_SEARCH_DEFAULT_DIRS;
    // SAFETY: this function's contract: the initializers may run.
    unsafe { windows::Library::load_with_flags(absolute, flags) }.map(Library::from)
}

/// Opens a library and calls its function `GetPjrtApi`.
///
/// A library that exports `GetPjrtApi` is never closed. Plugins start threads, register exit handlers and return
/// pointers that must stay valid until the process ends, so their code must stay mapped.
///
/// # Safety
///
/// The library's initializers and its `GetPjrtApi` may run. The library keeps contract C1.
pub(crate) unsafe fn get_pjrt_api(path: &Path) -> Result<(Mapped, *const PJRT_Api), LoadErrorKind> {
    // The loader reports a missing file and a missing dependency with the same message, so check first whether the file
    // exists.
    std::fs::File::open(path).map_err(|error| LoadErrorKind::File(error.into()))?;
    // SAFETY: this function's contract: the library's initializers may run.
    let library = unsafe { open(path) }.map_err(|error| LoadErrorKind::Library(error.into()))?;
    // SAFETY: C1 (table): a symbol of this name has this type.
    let entry = unsafe { library.get::<unsafe extern "C" fn() -> *const PJRT_Api>(b"GetPjrtApi\0") };
    let entry = *entry.map_err(|error| LoadErrorKind::NoEntryPoint(error.into()))?;
    let mapped = Mapped(Box::leak(Box::new(library)));
    // SAFETY: C1 (table): the function has this type and may be called at any time.
    Ok((mapped, unsafe { entry() }))
}

/// Opens a library and calls its exported function `function`. This function takes no arguments and returns a pointer.
/// Returns `None` if the library does not export the function.
///
/// # Safety
///
/// The library's initializers may run. An exported function of this name takes no arguments, returns a pointer, and may
/// be called at any time.
pub(crate) unsafe fn get_pointer(path: &Path, function: &str) -> Result<Option<*const c_void>, LoadErrorKind> {
    std::fs::File::open(path).map_err(|error| LoadErrorKind::File(error.into()))?;
    // SAFETY: this function's contract: the library's initializers may run.
    let library = unsafe { open(path) }.map_err(|error| LoadErrorKind::Library(error.into()))?;
    // Keep the library mapped even if it lacks the function, because its initializers may have started threads.
    let library = ManuallyDrop::new(library);
    // SAFETY: this function's contract: a function of this name has this type.
    Ok(unsafe { call_pointer(&library, function) })
}

/// # Safety
///
/// An exported function of this name takes no arguments, returns a pointer, and may be called at any time.
unsafe fn call_pointer(library: &Library, function: &str) -> Option<*const c_void> {
    // SAFETY: this function's contract: a function of this name has this type.
    let found = unsafe { library.get::<unsafe extern "C" fn() -> *const c_void>(function) };
    let found = *found.ok()?;
    // SAFETY: this function's contract: the function may be called at any time.
    Some(unsafe { found() })
}

/// A library that stays mapped until the process ends.
#[derive(Clone, Copy)]
pub(crate) struct Mapped(&'static Library);

impl Mapped {
    /// Calls the exported function `function`. This function takes no arguments and returns a pointer. Returns `None`
    /// if the library does not export the function.
    ///
    /// # Safety
    ///
    /// An exported function of this name takes no arguments, returns a pointer, and may be called at any time.
    pub(crate) unsafe fn pointer(self, function: &str) -> Option<*const c_void> {
        // SAFETY: this function's contract: a function of this name has this type.
        unsafe { call_pointer(self.0, function) }
    }

    /// Calls the exported function `function`. This function takes no arguments and returns nothing. Returns an error
    /// if the library does not export the function.
    ///
    /// # Safety
    ///
    /// An exported function of this name takes no arguments, returns nothing, and may be called now.
    pub(crate) unsafe fn call(self, function: &str) -> Result<(), LoadErrorKind> {
        // SAFETY: this function's contract: a function of this name has this type.
        let found = unsafe { self.0.get::<unsafe extern "C" fn()>(function) };
        let missing = |why| LoadErrorKind::NoFunction { function: function.to_owned(), why };
        let found = *found.map_err(|error| missing(error.into()))?;
        // SAFETY: this function's contract: the function may be called now.
        unsafe { found() };
        Ok(())
    }
}

impl From<libloading::Error> for LoaderError {
    fn from(error: libloading::Error) -> Self {
        // The error's source contains the loader's message. The message of the error itself only names the system
        // function that failed.
        let message = std::error::Error::source(&error).map_or_else(|| error.to_string(), ToString::to_string);
        Self::with_cause(message, error)
    }
}

//! Opens shared libraries and calls functions that they export. No other file of this crate opens a library.

use std::ffi::c_void;
use std::mem::ManuallyDrop;
use std::path::Path;

use libloading::Library;
use pjrt_sys::PJRT_Api;

use crate::load_error::LoadErrorKind;
use crate::loader_error::LoaderError;

/// Opens a library. The system searches for the libraries that it needs, and runs the initializers of all of them.
///
/// # Safety
///
/// The initializers may run.
#[cfg(not(windows))]
unsafe fn open(path: &Path) -> Result<Library, libloading::Error> {
    // SAFETY: running the initializers is this function's contract.
    unsafe { Library::new(path) }
}

/// Opens a library. Windows searches for the libraries that it needs in its folder, in that of the program, in the
/// system's folder and in those of `AddDllDirectory`. By default, Windows would ignore the library's folder, and use the
/// current folder and those in `PATH`, in which others may have put a library.
///
/// # Safety
///
/// The initializers may run.
#[cfg(windows)]
unsafe fn open(path: &Path) -> Result<Library, libloading::Error> {
    use libloading::os::windows::{self, LOAD_LIBRARY_SEARCH_DEFAULT_DIRS, LOAD_LIBRARY_SEARCH_DLL_LOAD_DIR};

    // The flags need an absolute path. Only an empty path fails here, and Windows rejects it.
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let flags = LOAD_LIBRARY_SEARCH_DLL_LOAD_DIR | LOAD_LIBRARY_SEARCH_DEFAULT_DIRS;
    // SAFETY: running the initializers is this function's contract.
    unsafe { windows::Library::load_with_flags(absolute, flags) }.map(Library::from)
}

/// Opens a library and calls its `GetPjrtApi`.
///
/// A library that returned a table is never closed. Plugins start threads, register exit handlers and return pointers
/// that live "as long as the process". This cannot be undone, so their code must stay mapped.
///
/// # Safety
///
/// The library's initializers and its `GetPjrtApi` may run and keep contract C1.
pub(crate) unsafe fn get_pjrt_api(path: &Path) -> Result<(Mapped, *const PJRT_Api), LoadErrorKind> {
    // The loader's messages for a missing file and for a missing dependency are the same, so check for the file first.
    std::fs::File::open(path).map_err(|error| LoadErrorKind::File(error.into()))?;
    // SAFETY: running the library's initializers is this function's contract.
    let library = unsafe { open(path) }.map_err(|error| LoadErrorKind::Library(error.into()))?;
    // SAFETY: C1: a symbol of this name has this type.
    let entry = unsafe { library.get::<unsafe extern "C" fn() -> *const PJRT_Api>(b"GetPjrtApi\0") };
    let entry = *entry.map_err(|error| LoadErrorKind::NoEntryPoint(error.into()))?;
    let mapped = Mapped(Box::leak(Box::new(library)));
    // SAFETY: C1: the function has this type and may be called at any time.
    Ok((mapped, unsafe { entry() }))
}

/// Calls a function of a library that takes nothing and returns a pointer. Returns `None` if the library has no such
/// function.
///
/// # Safety
///
/// The library's initializers may run, and a function of that name has this type and may be called at any time.
pub(crate) unsafe fn get_pointer(path: &Path, function: &str) -> Result<Option<*const c_void>, LoadErrorKind> {
    std::fs::File::open(path).map_err(|error| LoadErrorKind::File(error.into()))?;
    // SAFETY: running the library's initializers is this function's contract.
    let library = unsafe { open(path) }.map_err(|error| LoadErrorKind::Library(error.into()))?;
    // The library stays mapped even without the function, because it may have started threads when it was opened.
    let library = ManuallyDrop::new(library);
    // SAFETY: this function's contract: a function of that name has this type.
    Ok(unsafe { call_pointer(&library, function) })
}

/// # Safety
///
/// A function of that name takes nothing, returns a pointer, and may be called at any time.
unsafe fn call_pointer(library: &Library, function: &str) -> Option<*const c_void> {
    // SAFETY: a symbol of this name has this type, by this function's contract.
    let found = unsafe { library.get::<unsafe extern "C" fn() -> *const c_void>(function) };
    let found = *found.ok()?;
    // SAFETY: this function's contract: the function may be called at any time.
    Some(unsafe { found() })
}

/// A library that stays mapped until the process ends.
#[derive(Clone, Copy)]
pub(crate) struct Mapped(&'static Library);

impl Mapped {
    /// Calls a function of the library that takes nothing and returns a pointer. Returns `None` if the library has no
    /// such function.
    ///
    /// # Safety
    ///
    /// A function of that name has this type and may be called at any time.
    pub(crate) unsafe fn pointer(self, function: &str) -> Option<*const c_void> {
        // SAFETY: this function's contract: a function of that name has this type.
        unsafe { call_pointer(self.0, function) }
    }

    /// Calls a function of the library that takes and returns nothing.
    ///
    /// # Safety
    ///
    /// A function of that name has this type and may be called now.
    pub(crate) unsafe fn call(self, function: &str) -> Result<(), LoadErrorKind> {
        // SAFETY: a symbol of this name has this type, by this function's contract.
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
        // The source is the loader's own message. The error itself only names the function that failed.
        let message = std::error::Error::source(&error).map_or_else(|| error.to_string(), ToString::to_string);
        Self::with_cause(message, error)
    }
}

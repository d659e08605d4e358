//! Loads the plugin to which the layers forward calls, and finds the folder of this library.

#[cfg(any(target_os = "linux", target_os = "android"))]
use std::fs;
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

/// Returns the folder of the library or program that contains this crate. Returns `None` if the system does not report
/// it, for example if `/proc` is not mounted.
///
/// For the main program, the C library only knows `argv[0]`, which the process that started the program chooses. The
/// kernel's list of mapped files has the true path. For a shared library, this function returns the folder of the path
/// with which the library was loaded, because the library may have been loaded through a link in another folder.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(crate) fn library_folder() -> Option<PathBuf> {
    let file = mapped_file(&fs::read("/proc/self/maps").ok()?, (library_folder as *const ()).addr())?;
    let is_program = std::env::current_exe().is_ok_and(|program| program == file);
    // A relative path depends on the current folder, which may have changed since the library was loaded.
    let loaded = name_of_library().filter(|name| !is_program && name.is_absolute());
    let loaded = loaded.filter(|name| fs::canonicalize(name).is_ok_and(|real| real == file));
    loaded.unwrap_or(file).parent().map(Path::to_owned)
}

/// Returns the file that is mapped at an address, according to the kernel's list of mappings. A line of the list is
/// `START-END MODE OFFSET DEVICE INODE PATH`, with the addresses in hexadecimal.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn mapped_file(maps: &[u8], address: usize) -> Option<PathBuf> {
    use std::os::unix::ffi::OsStrExt;

    let line = maps.split(|byte| *byte == b'\n').find(|line| {
        let range = line.split(|byte| *byte == b' ').next().and_then(|range| str::from_utf8(range).ok());
        let number = |text: &str| usize::from_str_radix(text, 16).ok();
        let range = range.and_then(|range| range.split_once('-'));
        range.and_then(|(start, end)| Some(number(start)?..number(end)?)).is_some_and(|range| range.contains(&address))
    })?;
    // The path is the rest of the line from the first slash. A path with a line feed, which the list escapes, is not
    // found.
    let path = &line[line.iter().position(|byte| *byte == b'/')?..];
    Some(PathBuf::from(std::ffi::OsStr::from_bytes(path)))
}

/// Returns the folder of the library that contains this crate, if the system reports it.
#[cfg(all(unix, not(any(target_os = "linux", target_os = "android"))))]
pub(crate) fn library_folder() -> Option<PathBuf> {
    // A relative name does not identify a folder.
    name_of_library().filter(|name| name.is_absolute())?.parent().map(Path::to_owned)
}

/// Returns the name with which the library that contains this crate was loaded. For the main program, Linux returns
/// `argv[0]`.
#[cfg(unix)]
#[expect(clippy::disallowed_methods, reason = "the loader terminates the text and does not report its length")]
fn name_of_library() -> Option<PathBuf> {
    use std::ffi::{CStr, OsStr};
    use std::os::unix::ffi::OsStrExt;

    let address = name_of_library as *const ();
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
    Some(PathBuf::from(OsStr::from_bytes(name.to_bytes())))
}

/// Returns `None` on systems other than Unix. Only environment variables configure the layers there.
#[cfg(not(unix))]
pub(crate) fn library_folder() -> Option<PathBuf> {
    None
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    /// The test program contains this crate, so its folder is that of the program.
    #[test]
    fn folder_of_program() {
        let program = std::env::current_exe().expect("the path of the test");
        assert_eq!(library_folder().as_deref(), program.parent());
    }

    #[test]
    fn mappings() {
        let maps = b"00001000-00002000 r--p 00000000 fe:01 7 /opt/a b/lib.so\n\
            00002000-00003000 r-xp 00001000 fe:01 7 /opt/a b/lib.so\n\
            00003000-00004000 rw-p 00000000 00:00 0 \n\
            00005000-00006000 r-xp 00000000 fe:01 8 /opt/other.so (deleted)\n\
            7fff0000-7fff1000 r-xp 00000000 00:00 0 [vdso]\n";
        let at = |address| mapped_file(maps, address);
        assert_eq!((at(0x1000), at(0x2fff)), (Some("/opt/a b/lib.so".into()), Some("/opt/a b/lib.so".into())));
        assert_eq!((at(0x3000), at(0x4000), at(0x7fff_0000)), (None, None, None));
        assert_eq!(at(0x5000), Some("/opt/other.so (deleted)".into()));
    }
}

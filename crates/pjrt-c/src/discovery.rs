//! `dp_discovery`: settings of the search for plugins.

use std::ffi::c_char;

use plugin_registry::discovery::Discovery;

use crate::error::{dp_code, dp_error};
use crate::failure::Outcome;
use crate::guard;

/// Settings of the search for plugins: environment variables, folders and file system. Creating or changing the
/// settings does not start a search. `dp_registry_new` performs the search.
pub struct dp_discovery {
    inner: Discovery,
}

impl dp_discovery {
    pub(crate) fn settings(&self) -> Discovery {
        self.inner.clone()
    }
}

/// Creates settings for a search of this machine, with the environment and home folder of this process. The caller
/// frees them with `dp_discovery_free`.
#[unsafe(no_mangle)]
pub extern "C" fn dp_discovery_new() -> *mut dp_discovery {
    guard::give(dp_discovery { inner: Discovery::from_environment() })
}

/// Creates settings for a search of the file system below the folder `root`, with an empty environment and without a
/// home folder. Use it for tests, and for programs that choose the searched folders themselves. Paths in variables or
/// files are used unchanged, even if they are not below `root`.
///
/// # Safety
///
/// The caller must keep the contracts K1 and K4 of [`pjrt::contracts`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dp_discovery_new_isolated(
    root: *const c_char,
    out: *mut *mut dp_discovery,
    error: *mut *mut dp_error,
) -> dp_code {
    // SAFETY: K4 (strings end in NUL).
    let body = || Ok(guard::give(dp_discovery { inner: Discovery::isolated(unsafe { guard::path(root, "root") }?) }));
    // SAFETY: K1 (outputs are writable).
    unsafe { guard::call("dp_discovery_new_isolated", out, error, body) }
}

/// Frees the settings. Ignores NULL.
///
/// # Safety
///
/// The caller must keep the contracts K2 and K3 of [`pjrt::contracts`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dp_discovery_free(discovery: *mut dp_discovery) {
    // SAFETY: K2 (objects are live) and K3 (exclusive use).
    unsafe { guard::free(discovery) }
}

/// Runs the body of the C function named `function`. `change` receives the current settings and returns the new ones.
///
/// # Safety
///
/// The caller must keep the contracts K1 to K4 of [`pjrt::contracts`].
unsafe fn change(
    function: &'static str,
    discovery: Option<&mut dp_discovery>,
    error: *mut *mut dp_error,
    change: impl FnOnce(Discovery) -> Outcome<Discovery>,
) -> dp_code {
    let body = |discovery: &mut dp_discovery| {
        discovery.inner = change(discovery.inner.clone())?;
        Ok(())
    };
    // SAFETY: K1 (outputs are writable).
    unsafe { guard::change(function, (discovery, "discovery"), error, body) }
}

/// Sets one environment variable for the search. The environment of the process does not change.
///
/// # Safety
///
/// The caller must keep the contracts K1 to K4 of [`pjrt::contracts`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dp_discovery_set_variable(
    discovery: Option<&mut dp_discovery>,
    name: *const c_char,
    value: *const c_char,
    error: *mut *mut dp_error,
) -> dp_code {
    let set = |discovery: Discovery| {
        // SAFETY: K4 (strings end in NUL).
        Ok(discovery.variable(unsafe { guard::some_text(name, "name") }?, unsafe { guard::text(value, "value") }?))
    };
    // SAFETY: K1 (outputs are writable) to K3 (exclusive use).
    unsafe { change("dp_discovery_set_variable", discovery, error, set) }
}

/// Sets the home folder of the user. The search looks for plugins in its subfolders, such as `.local/lib`.
///
/// # Safety
///
/// The caller must keep the contracts K1 to K4 of [`pjrt::contracts`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dp_discovery_set_home(
    discovery: Option<&mut dp_discovery>,
    home: *const c_char,
    error: *mut *mut dp_error,
) -> dp_code {
    // SAFETY: K4 (strings end in NUL).
    let set = |discovery: Discovery| Ok(discovery.home(unsafe { guard::path(home, "home") }?));
    // SAFETY: K1 (outputs are writable) to K3 (exclusive use).
    unsafe { change("dp_discovery_set_home", discovery, error, set) }
}

/// Sets whether the search includes Python environments. The search reads the files of the environments and does not
/// run Python. The default is true.
///
/// # Safety
///
/// The caller must keep the contracts K1 to K3 of [`pjrt::contracts`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dp_discovery_set_python(
    discovery: Option<&mut dp_discovery>,
    read: bool,
    error: *mut *mut dp_error,
) -> dp_code {
    // SAFETY: K1 (outputs are writable) to K3 (exclusive use).
    unsafe { change("dp_discovery_set_python", discovery, error, |discovery| Ok(discovery.python(read))) }
}

/// Sets whether the search includes conventional folders, such as `/usr/local/lib/pjrt`, and conventional file names,
/// such as `libtpu.so`. The default is true.
///
/// # Safety
///
/// The caller must keep the contracts K1 to K3 of [`pjrt::contracts`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dp_discovery_set_conventional(
    discovery: Option<&mut dp_discovery>,
    search: bool,
    error: *mut *mut dp_error,
) -> dp_code {
    // SAFETY: K1 (outputs are writable) to K3 (exclusive use).
    unsafe { change("dp_discovery_set_conventional", discovery, error, |discovery| Ok(discovery.conventional(search))) }
}

/// Sets whether the search compares each library with the sha256 in its manifest. The comparison reads the whole
/// library. The default is false.
///
/// # Safety
///
/// The caller must keep the contracts K1 to K3 of [`pjrt::contracts`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dp_discovery_set_verify_sha256(
    discovery: Option<&mut dp_discovery>,
    verify: bool,
    error: *mut *mut dp_error,
) -> dp_code {
    // SAFETY: K1 (outputs are writable) to K3 (exclusive use).
    unsafe {
        change("dp_discovery_set_verify_sha256", discovery, error, |discovery| Ok(discovery.verify_sha256(verify)))
    }
}

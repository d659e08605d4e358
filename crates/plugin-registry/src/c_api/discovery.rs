//! `dp_discovery`: where plugins are looked for.

use std::ffi::c_char;

use crate::discovery::Discovery;

use super::error::{dp_code, dp_error};
use super::guard::{self, Call, Outcome};

/// Where plugins are looked for: the environment, folders and file system of a machine, by default of this one. It is
/// data; `dp_registry_new` searches.
pub struct dp_discovery {
    inner: Discovery,
}

impl dp_discovery {
    pub(super) fn settings(&self) -> Discovery {
        self.inner.clone()
    }
}

/// This process's environment, home folder and file system. The caller frees it with `dp_discovery_free`.
#[unsafe(no_mangle)]
pub extern "C" fn dp_discovery_new() -> *mut dp_discovery {
    guard::give(dp_discovery { inner: Discovery::from_environment() })
}

/// A machine whose file system lies below the folder `root`, with an empty environment and no home folder: for tests,
/// and for programs that decide themselves what is looked at. Paths that variables or files name are taken as they are.
///
/// # Safety
///
/// K1 and K4.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dp_discovery_new_isolated(
    root: *const c_char,
    out: *mut *mut dp_discovery,
    error: *mut *mut dp_error,
) -> dp_code {
    let body = |call: &Call| Ok(guard::give(dp_discovery { inner: Discovery::isolated(call.path(root, "root")?) }));
    // SAFETY: this function's contract.
    unsafe { guard::call("dp_discovery_new_isolated", out, error, body) }
}

/// Frees it; NULL is nothing.
///
/// # Safety
///
/// K2 and K3.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dp_discovery_free(discovery: *mut dp_discovery) {
    // SAFETY: this function's contract.
    unsafe { guard::free(discovery) }
}

/// # Safety
///
/// K1 to K4.
unsafe fn change(
    function: &'static str,
    discovery: *mut dp_discovery,
    error: *mut *mut dp_error,
    change: impl FnOnce(&Call, Discovery) -> Outcome<Discovery>,
) -> dp_code {
    let body = |call: &Call| {
        let discovery = call.object_mut(discovery, "discovery")?;
        discovery.inner = change(call, discovery.inner.clone())?;
        Ok(())
    };
    // SAFETY: this function's contract.
    unsafe { guard::run(function, error, body) }
}

/// Sets one variable of the environment that discovery sees; the process's own stays as it is.
///
/// # Safety
///
/// K1 to K4.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dp_discovery_set_variable(
    discovery: *mut dp_discovery,
    name: *const c_char,
    value: *const c_char,
    error: *mut *mut dp_error,
) -> dp_code {
    let set = |call: &Call, discovery: Discovery| {
        Ok(discovery.variable(call.some_text(name, "name")?, call.text(value, "value")?))
    };
    // SAFETY: this function's contract.
    unsafe { change("dp_discovery_set_variable", discovery, error, set) }
}

/// Sets the home folder, below which `~/.config`, `~/.local` and the like are looked up.
///
/// # Safety
///
/// K1 to K4.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dp_discovery_set_home(
    discovery: *mut dp_discovery,
    home: *const c_char,
    error: *mut *mut dp_error,
) -> dp_code {
    let set = |call: &Call, discovery: Discovery| Ok(discovery.home(call.path(home, "home")?));
    // SAFETY: this function's contract.
    unsafe { change("dp_discovery_set_home", discovery, error, set) }
}

/// Whether Python environments are read, as files; they are unless this says otherwise.
///
/// # Safety
///
/// K1 to K3.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dp_discovery_set_python(
    discovery: *mut dp_discovery,
    read: bool,
    error: *mut *mut dp_error,
) -> dp_code {
    // SAFETY: this function's contract.
    unsafe { change("dp_discovery_set_python", discovery, error, |_, discovery| Ok(discovery.python(read))) }
}

/// Whether conventional folders and file names are searched; they are unless this says otherwise.
///
/// # Safety
///
/// K1 to K3.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dp_discovery_set_conventional(
    discovery: *mut dp_discovery,
    search: bool,
    error: *mut *mut dp_error,
) -> dp_code {
    // SAFETY: this function's contract.
    unsafe {
        change("dp_discovery_set_conventional", discovery, error, |_, discovery| Ok(discovery.conventional(search)))
    }
}

/// Whether the content of every library is compared with the sha256 of its manifest, which reads whole files; not unless
/// this says so.
///
/// # Safety
///
/// K1 to K3.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dp_discovery_set_verify_sha256(
    discovery: *mut dp_discovery,
    verify: bool,
    error: *mut *mut dp_error,
) -> dp_code {
    // SAFETY: this function's contract.
    unsafe {
        change("dp_discovery_set_verify_sha256", discovery, error, |_, discovery| Ok(discovery.verify_sha256(verify)))
    }
}

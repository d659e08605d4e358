//! `dp_discovery`: settings of the search for plugins.

use crate::border::error::{dp_code, dp_error};
use crate::border::handle::Owned;
use crate::border::memory::Name;
use pjrt_c_macros::c_function;
use plugin_registry::discovery::Discovery;
use std::path::PathBuf;

use crate::border::failure::Outcome;
use crate::border::handle;

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

/// Returns the settings for a search of this machine, which includes the plugins that are installed with this library.
pub(crate) fn of_this_process() -> Discovery {
    let found = Discovery::from_environment();
    match installed_data() {
        Some(folder) => found.data_folder(folder),
        None => found,
    }
}

/// Returns the data folder of the prefix in which this library, or the program that contains it, is installed:
/// `PREFIX/share` for the file `PREFIX/lib/libdevice_plugin.so` or `PREFIX/bin/program`.
fn installed_data() -> Option<PathBuf> {
    if !cfg!(target_os = "linux") {
        return None;
    }
    let code = dp_discovery_new as *const () as usize;
    let contains = |line: &str| {
        let (start, end) = line.split_once(' ')?.0.split_once('-')?;
        let range = usize::from_str_radix(start, 16).ok()?..usize::from_str_radix(end, 16).ok()?;
        range.contains(&code).then(|| line.find('/').map(|at| PathBuf::from(&line[at..])))?
    };
    let file = std::fs::read_to_string("/proc/self/maps").ok()?.lines().find_map(contains)?;
    Some(file.parent()?.parent()?.join("share"))
}

/// Creates settings for a search of this machine, with the environment and home folder of this process. The search
/// includes `share/pjrt/plugins.d` of the prefix in which this library, or a program that contains it, is installed.
#[c_function]
pub fn dp_discovery_new() -> *mut dp_discovery {
    handle::give(dp_discovery { inner: of_this_process() })
}

/// Creates settings for a search of the file system below the folder `root`, with an empty environment and without a
/// home folder. Use it for tests, and for programs that choose the searched folders themselves. Paths in variables or
/// files are used unchanged, even if they are not below `root`.
#[c_function]
pub fn dp_discovery_new_isolated(root: PathBuf) -> Outcome<Owned<dp_discovery>> {
    Ok(Owned(dp_discovery { inner: Discovery::isolated(root) }))
}

impl dp_discovery {
    fn change(&mut self, change: impl FnOnce(Discovery) -> Discovery) -> Outcome<()> {
        self.inner = change(self.inner.clone());
        Ok(())
    }
}

/// Sets one environment variable for the search. The environment of the process does not change.
#[c_function]
pub fn dp_discovery_set_variable(discovery: &mut dp_discovery, name: Name<'_>, value: &str) -> Outcome<()> {
    discovery.change(|discovery| discovery.variable(name, value))
}

/// Sets the home folder of the user. The search looks for plugins in its subfolders, such as `.local/lib`.
#[c_function]
pub fn dp_discovery_set_home(discovery: &mut dp_discovery, home: PathBuf) -> Outcome<()> {
    discovery.change(|discovery| discovery.home(home))
}

/// Sets whether the search includes Python environments. The search reads the files of the environments and does not
/// run Python. The default is true.
#[c_function]
pub fn dp_discovery_set_python(discovery: &mut dp_discovery, read: bool) -> Outcome<()> {
    discovery.change(|discovery| discovery.python(read))
}

/// Sets whether the search includes conventional folders, such as `/usr/local/lib/pjrt`, and conventional file names,
/// such as `libtpu.so`. The default is true.
#[c_function]
pub fn dp_discovery_set_conventional(discovery: &mut dp_discovery, search: bool) -> Outcome<()> {
    discovery.change(|discovery| discovery.conventional(search))
}

/// Sets whether the search compares each library with the sha256 in its manifest. The comparison reads the whole
/// library. The default is false.
#[c_function]
pub fn dp_discovery_set_verify_sha256(discovery: &mut dp_discovery, verify: bool) -> Outcome<()> {
    discovery.change(|discovery| discovery.verify_sha256(verify))
}

//! Opens a plugin in one step, by its name or by the path of its library.

use std::path::Path;

use crate::discovery::{check_trusted, is_library_name};
use crate::error::Error;
use crate::location::has_folder;
use crate::policy::Policy;
use crate::registry::{LoadedPlugin, PluginEntry, PluginRegistry};

/// Returns the names and aliases of the plugins that are linked into the program. [`open`] finds these plugins without
/// a search.
pub fn names() -> Vec<String> {
    let linked = PluginRegistry::global().linked_entries();
    linked.iter().flat_map(|entry| [&[entry.name().to_owned()][..], &entry.manifest().aliases].concat()).collect()
}

/// Loads a plugin by its name, in [`PluginRegistry::global`]. Prefers a plugin that is linked into the program, such as
/// `cpu`, the embedded device, to one that discovery finds on the machine. Opening a plugin again returns the same
/// plugin.
///
/// [`open_path`] loads a plugin by the path of its library.
///
/// # Errors
///
/// The errors of [`find`] and [`PluginEntry::load`] apply.
pub fn open(name: &str) -> Result<LoadedPlugin, Error> {
    find(name)?.load()
}

/// Loads the plugin in a library, in [`PluginRegistry::global`]. Opening a library again returns the same plugin.
///
/// # Errors
///
/// The errors of [`find_path`] and [`PluginEntry::load`] apply.
///
/// # Safety
///
/// The library is a PJRT plugin that can be trusted ([contract](pjrt::contracts) R1).
pub unsafe fn open_path(path: impl AsRef<Path>) -> Result<LoadedPlugin, Error> {
    // SAFETY: R1 (the library is trusted): this function's caller guarantees it.
    unsafe { find_path(path) }?.load()
}

/// Returns the plugin that [`open`] loads, without loading it.
///
/// # Errors
///
/// Returns [`Error::Select`] with the known plugins if no plugin has this name, or [`Error::PathNotName`] if `name` is
/// a path with a folder or the file name of an existing shared library.
pub fn find(name: &str) -> Result<PluginEntry, Error> {
    let registry = PluginRegistry::global();
    let policy = Policy::named(name);
    if let Ok(entry) = registry.select_linked(&policy) {
        return Ok(entry);
    }
    // A plugin's name contains no separator. A string with a separator means a file, whether or not the file exists.
    let path = Path::new(name);
    if is_file_name(name) && (path.exists() || path.components().nth(1).is_some()) {
        return Err(Error::PathNotName { path: path.to_owned() });
    }
    Ok(registry.select(&policy)?)
}

/// Returns the plugin that [`open_path`] loads, without loading it.
///
/// # Errors
///
/// Returns [`Error::Refused`] if this process has elevated privileges and users other than root can change the file.
/// Otherwise, the errors of [`PluginRegistry::register_library`] apply.
///
/// # Safety
///
/// The library is a PJRT plugin that can be trusted ([contract](pjrt::contracts) R1). The entry loads it without
/// `unsafe`.
pub unsafe fn find_path(path: impl AsRef<Path>) -> Result<PluginEntry, Error> {
    let path = path.as_ref();
    if let Err(refusal) = check_trusted(path) {
        return Err(Error::Refused { name: path.display().to_string(), refusals: vec![refusal] });
    }
    // SAFETY: R1 (the library is trusted): this function's caller guarantees it.
    unsafe { PluginRegistry::global().find_or_register_library(path) }
}

/// Returns whether a string can mean a file, which is the case for a path with a folder and for the name of a shared
/// library. A file or folder named `cuda` in the current folder does not hide the plugin `cuda`.
fn is_file_name(name: &str) -> bool {
    has_folder(Path::new(name)) || is_library_name(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_not_relative_paths() {
        for path in ["./cuda", "lib/x", "/x", "libx.so", "x.so.1", "x.dylib", "X.DLL"] {
            assert!(is_file_name(path), "{path}");
        }
        // Tests run in the package's folder, which contains a folder `src`.
        for name in ["cuda", "cpu", "src", "x.json", ""] {
            assert!(!is_file_name(name), "{name}");
        }
        assert!(Path::new("src").exists());
        assert!(matches!(find("src"), Err(Error::Select(_))));
        for path in ["src/open.rs", "./src", "/nonexistent/libx.so"] {
            assert!(
                matches!(find(path), Err(Error::PathNotName { path: named }) if named == Path::new(path)),
                "{path}"
            );
        }
    }
}

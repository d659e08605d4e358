//! Opens a plugin in one step, by its name or its path.

use std::path::Path;

use crate::discovery::{Refusal, check_trusted, is_library_name};
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

/// Loads a plugin by its name or by the path of its shared library, in [`PluginRegistry::global`]. Tries in this order:
///
/// 1. a plugin with this name that is linked into the program, such as `cpu`, the embedded device;
/// 2. a file, if `name` is a path with a folder or the file name of an existing shared library;
/// 3. a plugin with this name that discovery finds on the machine.
///
/// Opening a plugin again returns the same plugin. In a process with elevated privileges, `open` rejects files that
/// users other than root can change.
///
/// # Errors
///
/// Returns [`Error::Select`] with the known plugins if no plugin has this name. Otherwise, the errors of [`find`] and
/// [`PluginEntry::load`] apply.
pub fn open(name: &str) -> Result<LoadedPlugin, Error> {
    find(name)?.load()
}

/// Returns the plugin that [`open`] loads, without loading it.
///
/// # Errors
///
/// Returns [`Error::Select`] with the known plugins if no plugin has this name. Returns [`Error::Refused`] if this
/// process has elevated privileges and other users can change the file. Otherwise, the errors of
/// [`PluginRegistry::register_library`] apply.
pub fn find(name: &str) -> Result<PluginEntry, Error> {
    let registry = PluginRegistry::global();
    let policy = Policy::named(name);
    if let Ok(entry) = registry.select_linked(&policy) {
        return Ok(entry);
    }
    // A plugin's name contains no separator. A string with a separator means a file, whether or not the file exists.
    let path = Path::new(name);
    if is_file_name(name) && (path.exists() || path.components().nth(1).is_some()) {
        let refusals: Vec<Refusal> = check_trusted(path).err().into_iter().collect();
        if !refusals.is_empty() {
            return Err(Error::Refused { name: name.to_owned(), refusals });
        }
        return registry.find_or_register_library(path);
    }
    Ok(registry.select(&policy)?)
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
    }
}

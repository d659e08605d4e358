//! A plugin in one step, by its name or its path.

use std::path::Path;
use std::sync::OnceLock;

use pjrt::Plugin;

use crate::discovery::{Discovery, Refusal, check_trusted, is_library_name};
use crate::registry::record::has_folder;
use crate::{Error, PluginEntry, PluginRegistry, Policy};

/// Names of the plugins that are linked into the program, which [`open`] knows without a search.
pub fn names() -> Vec<String> {
    let linked = opened().entries().into_iter().filter(|entry| entry.candidate().library.path().is_none());
    linked.flat_map(|entry| [&[entry.name().to_owned()][..], &entry.manifest().aliases].concat()).collect()
}

/// Opens a plugin by name or by the path of its shared library: one linked into the program (`cpu`, the embedded
/// device), else a file where the text is the path of one (with a folder, or with the ending of a shared library), else
/// one found on this machine. Opening it again gives the same plugin.
///
/// A process with elevated privileges opens only files that nobody but root can change.
///
/// # Errors
///
/// [`Error::Select`] lists the plugins there are, where there is none of that name; else those of
/// [`PluginEntry::load`](crate::PluginEntry::load).
pub fn open(name: &str) -> Result<Plugin, Error> {
    find(name)?.load().map(|loaded| loaded.plugin().clone())
}

/// The plugin that [`open`] opens, not loaded.
///
/// # Errors
///
/// [`Error::Select`] lists the plugins there are, where there is none of that name; those of
/// [`PluginRegistry::register_library`] for a file.
pub fn find(name: &str) -> Result<PluginEntry, Error> {
    let opened = opened();
    let policy = Policy::named(name);
    match opened.select(&policy) {
        Ok(entry) if entry.candidate().library.path().is_none() => return Ok(entry),
        _ => {}
    }
    // No plugin's name has a separator: who writes one means a file, and is told when there is none.
    let path = Path::new(name);
    if is_file_name(name) && (path.exists() || path.components().nth(1).is_some()) {
        let refusals: Vec<Refusal> = check_trusted(path).err().into_iter().collect();
        if !refusals.is_empty() {
            return Err(Error::Refused { name: name.to_owned(), refusals });
        }
        return opened.register_library(name, None);
    }
    Ok(PluginRegistry::global().select(&policy)?)
}

/// Whether a text can mean a file: a path with a folder, or the name of a shared library. A file or folder that happens
/// to be called `cuda` does not stand for the plugin `cuda`, wherever the program runs.
fn is_file_name(name: &str) -> bool {
    has_folder(Path::new(name)) || is_library_name(name)
}

/// What was opened so far. It lives as long as the process: nobody says when the plugins are no longer wanted.
fn opened() -> &'static PluginRegistry {
    static OPENED: OnceLock<PluginRegistry> = OnceLock::new();
    OPENED.get_or_init(|| PluginRegistry::builder().linked().overrides(Discovery::from_environment()).build())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_not_files_of_the_current_folder() {
        for path in ["./cuda", "lib/x", "/x", "libx.so", "x.so.1", "x.dylib", "X.DLL"] {
            assert!(is_file_name(path), "{path}");
        }
        // A package's folder is the current one of its tests.
        for name in ["cuda", "cpu", "src", "x.json", ""] {
            assert!(!is_file_name(name), "{name}");
        }
        assert!(Path::new("src").exists());
        assert!(matches!(find("src"), Err(Error::Select(_))));
    }
}

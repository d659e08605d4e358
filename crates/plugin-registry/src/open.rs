//! A plugin in one step, by its name or its path.

use std::path::Path;
use std::sync::OnceLock;

use pjrt::Plugin;

use crate::{Error, PluginEntry, PluginRegistry, Policy};

/// Names of the plugins that are linked into the program, which [`open`] knows without a search.
pub fn names() -> Vec<String> {
    let linked = opened().entries().into_iter().filter(|entry| entry.candidate().library.path().is_none());
    linked.flat_map(|entry| [&[entry.name().to_owned()][..], &entry.manifest().aliases].concat()).collect()
}

/// Opens a plugin by name or by the path of its shared library: one linked into the program (`cpu`, the embedded
/// device), else a file where the text is the path of one or has a separator, else one found on this machine. Opening it again gives the
/// same plugin.
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
    // No name has a separator: who writes one means a file, and is told when there is none.
    if Path::new(name).exists() || Path::new(name).components().nth(1).is_some() {
        return opened.register_library(name, None);
    }
    Ok(PluginRegistry::global().select(&policy)?)
}

/// What was opened so far. It lives as long as the process: nobody says when the plugins are no longer wanted.
fn opened() -> &'static PluginRegistry {
    static OPENED: OnceLock<PluginRegistry> = OnceLock::new();
    OPENED.get_or_init(|| PluginRegistry::builder().linked().build())
}

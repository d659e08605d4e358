//! The shared state of a registry.

use std::fmt;
use std::path::Path;
use std::sync::{Arc, OnceLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use plugin_manifest::{Descriptor, Library};

use super::id::PluginId;
use super::library::ShutdownGuard;
use super::record::{Precedence, Record};
use super::table::Table;
use crate::discovery::{Discovery, check_trusted};
use crate::error::Error;
use crate::hardware::HardwareProbe;
use crate::lease::LockFolder;

/// A set of plugins that a program can select and load. Clones are handles of the same registry, and can be used on any
/// thread.
///
/// [`PluginEntry::load`](crate::PluginEntry::load) loads a plugin, and
/// [`LoadedPlugin::client`](crate::LoadedPlugin::client) creates a client. The registry does not load plugins or create
/// clients by itself. When the last handle, entry and loaded plugin of a registry are dropped, the registry shuts down
/// the plugins that have no clients.
#[derive(Clone)]
pub struct PluginRegistry(pub(super) Arc<Core>);

/// The state that all handles of a registry share.
pub(super) struct Core {
    pub(super) discovery: Option<Discovery>,
    pub(super) locks: LockFolder,
    pub(super) table: RwLock<Table>,
    /// Initialized by the first search. Threads that need the results of the search wait until the search has ended.
    pub(super) first_search: OnceLock<()>,
}

impl PluginRegistry {
    pub(super) fn read(&self) -> RwLockReadGuard<'_, Table> {
        self.0.table.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn write(&self) -> RwLockWriteGuard<'_, Table> {
        self.0.table.write().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn probe(&self) -> Arc<HardwareProbe> {
        self.read().probe.clone()
    }

    /// Returns whether `other` is a handle of the same registry.
    pub fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Returns the folder with the lock files of exclusive devices.
    pub fn locks(&self) -> &LockFolder {
        &self.0.locks
    }

    /// Checks that an id is not stale, and that its plugin is enabled.
    pub(super) fn check(&self, id: PluginId, name: &str) -> Result<(), Error> {
        self.read().check(id, name)
    }

    /// Checks that a file that a search found may still be loaded, because it may have changed since the search.
    /// Accepts every file that the program registered by its path. With elevated privileges, only root may control a
    /// file beside the program, because the user who started the program may have put a hard link to it into another
    /// folder.
    pub(super) fn check_file(&self, record: &Record, path: &Path) -> Result<(), Error> {
        let is_beside = |descriptor: &Descriptor| matches!(descriptor.library(), Library::Beside { .. });
        if record.descriptor.as_ref().is_some_and(is_beside) {
            check_trusted(path)
                .map_err(|refusal| Error::Refused { name: record.manifest.name.clone(), refusals: vec![refusal] })?;
        }
        let is_from_search = record.precedence != Precedence::Program;
        let Some(discovery) = self.0.discovery.as_ref().filter(|_| is_from_search) else { return Ok(()) };
        let refusals = discovery.refusals_of(&record.candidate, path);
        if refusals.is_empty() {
            return Ok(());
        }
        Err(Error::Refused { name: record.manifest.name.clone(), refusals })
    }

    /// Keeps a plugin loaded. Fails if the plugin was disabled, replaced or removed while its library was loading,
    /// because the registry would never release such a plugin.
    pub(super) fn keep(&self, id: PluginId, record: &Record, guard: &Arc<ShutdownGuard>) -> Result<(), Error> {
        let table = self.read();
        table.check(id, &record.manifest.name)?;
        let before = record.guard().replace(guard.clone());
        drop(table);
        drop(before);
        Ok(())
    }
}

impl fmt::Debug for PluginRegistry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let table = self.read();
        f.debug_list().entries(table.rows().map(|(_, _, record)| record.manifest.name.as_str())).finish()
    }
}

//! What a process knows of each library that a registry loaded: one set-up, one shutdown, whoever asks.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use device_plugin::{Descriptor, Library};
use pjrt::Plugin;

use super::record::{Key, beside};
use super::setup::{LoadOptions, Outstanding, Setup};
use crate::error::Error;

/// A library, loaded or not, shared by all registries of the process.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    state: Mutex<State>,
    /// Clients that registries made of it and that are alive.
    clients: AtomicUsize,
}

#[derive(Debug, Default)]
struct State {
    loaded: Option<(Plugin, Setup)>,
    current: Weak<Use>,
    /// Its C function to shut it down was called: nothing may use it again.
    ended: bool,
}

/// Keeps a loaded plugin from being shut down. One at a time for each library; the registries that loaded it and the
/// clients they made hold it.
#[derive(Debug)]
pub(crate) struct Use {
    shared: Arc<Shared>,
    plugin: Plugin,
    descriptor: Descriptor,
}

/// A client that is alive.
#[derive(Debug)]
pub(crate) struct Guest {
    used: Arc<Use>,
}

impl Shared {
    /// What the process knows of a library.
    pub(crate) fn of(key: &Key) -> Arc<Self> {
        static LIBRARIES: OnceLock<Mutex<HashMap<Key, Arc<Shared>>>> = OnceLock::new();
        let libraries = LIBRARIES.get_or_init(Mutex::default);
        libraries.lock().unwrap_or_else(PoisonError::into_inner).entry(key.clone()).or_default().clone()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Loads the library unless that has happened, with the set-up it needs. Only who wants the same library waits.
    pub(crate) fn load(
        self: &Arc<Self>,
        descriptor: &Descriptor,
        options: &LoadOptions<'_>,
    ) -> Result<(Arc<Use>, Setup, Vec<Outstanding>), Error> {
        let name = &descriptor.manifest().name;
        let mut state = self.state();
        if state.ended {
            return Err(Error::ShutDown { name: name.clone() });
        }
        let (plugin, setup, outstanding) = match &state.loaded {
            Some((plugin, applied)) => {
                applied.confirm(descriptor, options)?;
                (plugin.clone(), applied.clone(), Vec::new())
            }
            None => {
                let (setup, outstanding) = Setup::carry_out(descriptor, options)?;
                let plugin = open(descriptor)?;
                state.loaded = Some((plugin.clone(), setup.clone()));
                (plugin, setup, outstanding)
            }
        };
        let used = state.current.upgrade().unwrap_or_else(|| {
            let used = Use { shared: self.clone(), plugin, descriptor: descriptor.clone() };
            let used = Arc::new(used);
            state.current = Arc::downgrade(&used);
            used
        });
        Ok((used, setup, outstanding))
    }

    pub(crate) fn clients(&self) -> usize {
        self.clients.load(Ordering::Acquire)
    }
}

fn open(descriptor: &Descriptor) -> Result<Plugin, Error> {
    let name = &descriptor.manifest().name;
    let path: PathBuf = match descriptor.library() {
        Library::Static(table) => return Ok(Plugin::from_static(*table)?),
        Library::Path(path) => path.clone(),
        Library::Beside(file) => beside(file),
        Library::Computed(path) => {
            path().map_err(|error| Error::Path { name: name.clone(), error: Box::new(error) })?
        }
        _ => return Err(Error::NoLibrary { name: name.clone() }),
    };
    Ok(load(&path)?)
}

fn load(path: &Path) -> Result<Plugin, pjrt::LoadError> {
    // SAFETY: R1: who registered the library, named it or let it be discovered promised C1 to C9 for it.
    unsafe { Plugin::load(path) }
}

impl Use {
    pub(crate) fn plugin(&self) -> &Plugin {
        &self.plugin
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// Counts a client, until the guest is dropped.
    pub(crate) fn admit(self: &Arc<Self>) -> Guest {
        self.shared.clients.fetch_add(1, Ordering::AcqRel);
        Guest { used: self.clone() }
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        self.used.shared.clients.fetch_sub(1, Ordering::AcqRel);
    }
}

/// The last registry and the last client are gone: the plugin's shutdown hooks run, unless somebody loaded it again
/// meanwhile.
impl Drop for Use {
    fn drop(&mut self) {
        let mut state = self.shared.state();
        if state.ended || state.current.strong_count() > 0 {
            return;
        }
        let name = &self.descriptor.manifest().name;
        tracing::debug!(plugin = %name, "shutting the plugin down");
        if let Err(error) = self.descriptor.shutdown() {
            tracing::warn!(plugin = %name, %error, "the plugin's shutdown hook failed");
        }
        let Some(function) = &self.descriptor.manifest().shutdown_symbol else { return };
        state.ended = true;
        // SAFETY: R2: the manifest is right about the function, no client is left, and `ended` lets nobody call it
        // again.
        if let Err(error) = unsafe { self.plugin.call_function(function) } {
            tracing::warn!(plugin = %name, %error, "the plugin's shutdown function could not be called");
        }
    }
}

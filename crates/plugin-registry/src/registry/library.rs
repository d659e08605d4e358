//! What a process knows of each library that a registry loaded: one set-up, one shutdown, whoever asks.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::Instant;

use device_plugin::{Descriptor, Library, StaticApi};
use pjrt::Plugin;

use super::loaded_file::{FileChange, LoadedFile};
use super::record::{Key, beside, has_folder};
use super::setup::{IfReplaced, LoadOptions, Outstanding, Setup};
use crate::describe::describe_loaded;
use crate::discovery::{Discovery, Refusal};
use crate::error::Error;

/// A library, loaded or not, shared by all registries of the process.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    state: Mutex<State>,
    /// Clients that registries made of it and that are alive.
    clients: Mutex<usize>,
    /// Signalled when the last of them is gone.
    alone: Condvar,
    /// Whether this is a file that replaced the one that was loaded first.
    is_replacement: bool,
    /// The library of the file that replaced this one's, once it is to be loaded.
    successor: OnceLock<Arc<Shared>>,
}

#[derive(Debug, Default)]
struct State {
    loaded: Option<Loaded>,
    current: Weak<Use>,
    /// Its C function to shut it down was called: nothing may use it again.
    ended: bool,
}

/// A library that was loaded.
#[derive(Debug)]
struct Loaded {
    plugin: Plugin,
    setup: Setup,
    /// `None` for a table within the program.
    file: Option<LoadedFile>,
}

/// Keeps a loaded plugin from being shut down. One at a time for each library; the registries that loaded it and the
/// clients they made hold it.
#[derive(Debug)]
pub(crate) struct Use {
    shared: Arc<Shared>,
    plugin: Plugin,
    descriptor: Descriptor,
    /// What the library says of itself, where it exports that.
    own: Option<Descriptor>,
}

/// A client that is alive.
#[derive(Debug)]
pub(crate) struct Guest {
    shared: Arc<Shared>,
    /// Taken when it is dropped.
    used: Option<Arc<Use>>,
}

impl Shared {
    /// What the process knows of a library.
    pub(crate) fn of(source: &Source) -> Arc<Self> {
        static LIBRARIES: OnceLock<Mutex<HashMap<Key, Arc<Shared>>>> = OnceLock::new();
        let libraries = LIBRARIES.get_or_init(Mutex::default);
        libraries.lock().unwrap_or_else(PoisonError::into_inner).entry(source.key()).or_default().clone()
    }

    /// The library of the newest file that was loaded from this path. If the file was replaced and the options ask for
    /// the new one, this is its library, which is not loaded yet.
    pub(crate) fn newest(self: Arc<Self>, options: &LoadOptions<'_>) -> Arc<Self> {
        let mut newest = self;
        loop {
            if let Some(successor) = newest.successor.get() {
                newest = successor.clone();
                continue;
            }
            let change = newest.state().loaded.as_ref().and_then(Loaded::change);
            if change != Some(FileChange::Replaced) || options.choice_if_replaced() != IfReplaced::LoadBeside {
                return newest;
            }
            newest =
                newest.successor.get_or_init(|| Arc::new(Self { is_replacement: true, ..Self::default() })).clone();
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Loads the library unless that has happened, with the set-up it needs. Only who wants the same library waits.
    /// `check` has the last word on a file that is about to be loaded.
    pub(crate) fn load(
        self: &Arc<Self>,
        source: &Source,
        descriptor: &Descriptor,
        options: &LoadOptions<'_>,
        check: impl FnOnce(&Path) -> Result<(), Error>,
    ) -> Result<(Arc<Use>, Setup, Vec<Outstanding>), Error> {
        let name = &descriptor.manifest().name;
        let mut state = self.state();
        if state.ended {
            return Err(Error::ShutDown { name: name.clone() });
        }
        let (plugin, setup, outstanding) = match &state.loaded {
            Some(loaded) => {
                loaded.setup.confirm(descriptor, options)?;
                loaded.expect_unchanged(name, options)?;
                (loaded.plugin.clone(), loaded.setup.clone(), Vec::new())
            }
            None => {
                if let Source::File(path) = source {
                    check(path)?;
                }
                let (setup, outstanding) = Setup::carry_out(descriptor, options)?;
                // Before the library is loaded: a file that takes its path meanwhile is a change.
                let file = source.file().and_then(|path| LoadedFile::open(path).ok());
                let plugin = source.open(self.is_replacement)?;
                state.loaded = Some(Loaded { plugin: plugin.clone(), setup: setup.clone(), file });
                (plugin, setup, outstanding)
            }
        };
        let used = state.current.upgrade().unwrap_or_else(|| {
            let own = own_description(&plugin);
            let used = Use { shared: self.clone(), plugin, descriptor: descriptor.clone(), own };
            let used = Arc::new(used);
            state.current = Arc::downgrade(&used);
            used
        });
        Ok((used, setup, outstanding))
    }

    pub(crate) fn clients(&self) -> usize {
        *self.counted()
    }

    /// Waits until no client is left, or the time is up. Returns how many there still are.
    pub(crate) fn wait_for_clients(&self, until: Instant) -> usize {
        let mut clients = self.counted();
        loop {
            let rest = until.saturating_duration_since(Instant::now());
            if *clients == 0 || rest.is_zero() {
                return *clients;
            }
            clients = self.alone.wait_timeout(clients, rest).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn counted(&self) -> MutexGuard<'_, usize> {
        self.clients.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Loaded {
    fn change(&self) -> Option<FileChange> {
        self.file.as_ref()?.change()
    }

    /// Refuses a library whose file changed, unless the options accept that.
    fn expect_unchanged(&self, name: &str, options: &LoadOptions<'_>) -> Result<(), Error> {
        let Some((file, change)) = self.file.as_ref().and_then(|file| Some((file, file.change()?))) else {
            return Ok(());
        };
        if options.choice_if_replaced() == IfReplaced::KeepLoaded {
            tracing::warn!(plugin = %name, path = %file.path().display(), ?change, "the library's file has changed");
            return Ok(());
        }
        Err(Error::Replaced { name: name.to_owned(), path: file.path().to_owned(), change })
    }
}

/// Where a plugin's table comes from, once that is known.
pub(crate) enum Source {
    Table(StaticApi),
    File(PathBuf),
}

impl Source {
    pub(crate) fn of(descriptor: &Descriptor) -> Result<Self, Error> {
        let name = &descriptor.manifest().name;
        match descriptor.library() {
            Library::Static(table) => Ok(Self::Table(*table)),
            // A bare name is never a file of the current folder: who can write there would choose what is run.
            Library::Path(path) if has_folder(path) => Ok(Self::File(path.clone())),
            Library::Path(path) => {
                let found = path.to_str().and_then(|name| Discovery::from_environment().find_library(name));
                found.map(Self::File).ok_or_else(|| {
                    let refusal = Refusal::NotInLibrarySearch { name: path.display().to_string() };
                    Error::Refused { name: name.clone(), refusals: vec![refusal] }
                })
            }
            Library::Beside(file) => Ok(Self::File(beside(file))),
            Library::Computed(path) => {
                let path = path().map_err(|error| Error::Path { name: name.clone(), error: Box::new(error) })?;
                Ok(Self::File(path))
            }
            _ => Err(Error::NoLibrary { name: name.clone() }),
        }
    }

    /// What is the same for all who load it.
    fn key(&self) -> Key {
        match self {
            Self::Table(table) => Key::Table(table.as_raw().addr()),
            Self::File(path) => Key::file(path),
        }
    }

    fn file(&self) -> Option<&Path> {
        match self {
            Self::Table(_) => None,
            Self::File(path) => Some(path),
        }
    }

    fn open(&self, is_replacement: bool) -> Result<Plugin, pjrt::LoadError> {
        match self {
            Self::Table(table) => Plugin::from_static(*table),
            Self::File(path) => load(path, is_replacement),
        }
    }
}

/// What a library says of itself once it is loaded, where it says anything.
fn own_description(plugin: &Plugin) -> Option<Descriptor> {
    let own = describe_loaded(plugin);
    own.inspect_err(|error| tracing::warn!(%error, "a library's own description is left out")).ok()?
}

fn load(path: &Path, is_replacement: bool) -> Result<Plugin, pjrt::LoadError> {
    if is_replacement {
        // SAFETY: R1: who registered the library, named it or let it be discovered promised C1 to C9 for it.
        return unsafe { Plugin::load_replacement(path) };
    }
    // SAFETY: R1: as above.
    unsafe { Plugin::load(path) }
}

impl Use {
    pub(crate) fn plugin(&self) -> &Plugin {
        &self.plugin
    }

    /// What the library says of itself, where it exports that.
    pub(crate) fn own(&self) -> Option<&Descriptor> {
        self.own.as_ref()
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// Counts a client, until the guest is dropped.
    pub(crate) fn admit(self: &Arc<Self>) -> Guest {
        *self.shared.counted() += 1;
        Guest { shared: self.shared.clone(), used: Some(self.clone()) }
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        // First, so that whoever waits for the last client runs the shutdown hooks, or finds that they have run.
        drop(self.used.take());
        let mut clients = self.shared.counted();
        *clients -= 1;
        if *clients == 0 {
            self.shared.alone.notify_all();
        }
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
        for descriptor in [Some(&self.descriptor), self.own.as_ref()].into_iter().flatten() {
            if let Err(error) = descriptor.shutdown() {
                tracing::warn!(plugin = %name, %error, "the plugin's shutdown hook failed");
            }
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

//! The process-wide state of each library that a registry loaded. A library is set up once and shut down once, no
//! matter how many registries use it.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::thread::{self, ThreadId};
use std::time::Instant;

use pjrt::Plugin;
use plugin_manifest::{Descriptor, Faults};

use super::load_options::{IfReplaced, PluginLoadOptions};
use super::loaded_file::{FileChange, LoadedFile};
use super::missing_variable::MissingVariable;
use super::setup::Setup;
use crate::describe::describe_loaded;
use crate::discovery::{Discovery, Refusal};
use crate::error::Error;
use crate::location::{Location, has_folder};

/// The state of a library, which may not be loaded yet. All registries of the process share it.
#[derive(Debug, Default)]
pub(crate) struct ProcessLibrary {
    state: Mutex<State>,
    /// The thread that runs code of the plugin while it holds the lock of `state`.
    running: Mutex<Option<ThreadId>>,
    /// Number of live clients that registries created with this library.
    clients: Mutex<usize>,
    /// Signaled when the last client is destroyed.
    no_clients: Condvar,
    /// Whether this library's file replaced another file that was loaded from the same path.
    is_replacement: bool,
    /// State of the library whose file replaced the file of this library. Set when the new file is about to be loaded.
    successor: OnceLock<Arc<ProcessLibrary>>,
}

#[derive(Debug, Default)]
struct State {
    loaded: Option<Loaded>,
    guard: Weak<ShutdownGuard>,
    /// Whether the plugin's C shutdown function was called. If so, the library must not be used again.
    ended: bool,
}

/// A library that was loaded.
#[derive(Debug)]
struct Loaded {
    plugin: Plugin,
    setup: Setup,
    /// `None` for a function table that is linked into the program, or if the file could not be opened.
    file: Option<LoadedFile>,
}

/// The result of [`ProcessLibrary::load`].
pub(super) struct Load {
    pub(super) guard: Arc<ShutdownGuard>,
    pub(super) setup: Setup,
    /// Variables that the plugin requires, but that the process did not have when this call loaded the library.
    pub(super) missing: Vec<MissingVariable>,
}

/// Shuts a plugin down when the guard is dropped. At most one guard of each library exists. The registries that loaded
/// the library and the clients that they created share the guard.
#[derive(Debug)]
pub(crate) struct ShutdownGuard {
    library: Arc<ProcessLibrary>,
    plugin: Plugin,
    descriptor: Descriptor,
    /// The description that the library exports, if any.
    own_descriptor: Option<Descriptor>,
}

/// Ends the mark of [`ProcessLibrary::run_plugin`]. Declare the value after the lock, so that it is dropped first.
struct RunsPlugin<'a>(&'a ProcessLibrary);

impl Drop for RunsPlugin<'_> {
    fn drop(&mut self) {
        *self.0.running() = None;
    }
}

/// Represents one live client in the count of its library.
#[derive(Debug)]
pub(crate) struct ClientGuard {
    library: Arc<ProcessLibrary>,
    /// `None` only while the value is being dropped.
    shutdown: Option<Arc<ShutdownGuard>>,
}

impl ProcessLibrary {
    /// Returns the process-wide state of the library at a resolved location.
    pub(super) fn at(location: &Location) -> Arc<Self> {
        static LIBRARIES: OnceLock<Mutex<HashMap<Option<Location>, Arc<ProcessLibrary>>>> = OnceLock::new();
        let libraries = LIBRARIES.get_or_init(Mutex::default);
        libraries.lock().unwrap_or_else(PoisonError::into_inner).entry(location.canonical()).or_default().clone()
    }

    /// Returns the state of the newest file that was loaded from this path. If that file was replaced and the options
    /// request the new file, returns the state of the new file, which is not loaded yet.
    pub(super) fn newest(self: Arc<Self>, name: &str, options: &PluginLoadOptions<'_>) -> Result<Arc<Self>, Error> {
        let mut newest = self;
        loop {
            if let Some(successor) = newest.successor.get() {
                newest = successor.clone();
                continue;
            }
            let change = newest.state(name)?.loaded.as_ref().and_then(Loaded::change);
            if change != Some(FileChange::Replaced) || options.if_replaced != IfReplaced::LoadBeside {
                return Ok(newest);
            }
            newest =
                newest.successor.get_or_init(|| Arc::new(Self { is_replacement: true, ..Self::default() })).clone();
        }
    }

    /// Locks the state. Returns an error if this thread runs code of the plugin that already holds the lock.
    fn state(&self, name: &str) -> Result<MutexGuard<'_, State>, Error> {
        if *self.running() == Some(thread::current().id()) {
            return Err(Error::Reentered { name: name.to_owned() });
        }
        Ok(self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn running(&self) -> MutexGuard<'_, Option<ThreadId>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Marks that this thread runs code of the plugin while it holds the lock of the state, until the result is
    /// dropped.
    fn run_plugin(&self) -> RunsPlugin<'_> {
        *self.running() = Some(thread::current().id());
        RunsPlugin(self)
    }

    /// Loads the library and sets the plugin up, unless the library is already loaded. Threads that load different
    /// libraries do not wait for each other. `check` may reject a file right before it is loaded.
    pub(super) fn load(
        self: &Arc<Self>,
        location: &Location,
        descriptor: &Descriptor,
        options: &PluginLoadOptions<'_>,
        check: impl FnOnce(&Path) -> Result<(), Error>,
    ) -> Result<Load, Error> {
        let name = &descriptor.manifest().name;
        let mut state = self.state(name)?;
        let _running = self.run_plugin();
        if state.ended {
            return Err(Error::ShutDown { name: name.clone() });
        }
        let (plugin, setup, missing) = match &state.loaded {
            Some(loaded) => {
                loaded.setup.confirm(descriptor, options)?;
                loaded.expect_unchanged(name, options)?;
                (loaded.plugin.clone(), loaded.setup.clone(), Vec::new())
            }
            None => {
                if let Some(path) = location.path() {
                    check(path)?;
                }
                let (setup, missing) = Setup::prepare(descriptor, options)?;
                // Open the file before the library is loaded. If another file takes the path in the meantime, this
                // counts as a change.
                let file = location.path().and_then(|path| LoadedFile::open(path).ok());
                let plugin = open(location, name, self.is_replacement)?;
                state.loaded = Some(Loaded { plugin: plugin.clone(), setup: setup.clone(), file });
                (plugin, setup, missing)
            }
        };
        let guard = state.guard.upgrade().unwrap_or_else(|| {
            let own_descriptor = own_descriptor(&plugin);
            let guard = ShutdownGuard { library: self.clone(), plugin, descriptor: descriptor.clone(), own_descriptor };
            let guard = Arc::new(guard);
            state.guard = Arc::downgrade(&guard);
            guard
        });
        Ok(Load { guard, setup, missing })
    }

    pub(super) fn clients(&self) -> usize {
        *self.client_count()
    }

    /// Waits until no client is left or the deadline has passed. Returns the number of remaining clients.
    pub(super) fn wait_for_clients(&self, deadline: Instant) -> usize {
        let mut clients = self.client_count();
        loop {
            let rest = deadline.saturating_duration_since(Instant::now());
            if *clients == 0 || rest.is_zero() {
                return *clients;
            }
            clients = self.no_clients.wait_timeout(clients, rest).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn client_count(&self) -> MutexGuard<'_, usize> {
        self.clients.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Loaded {
    fn change(&self) -> Option<FileChange> {
        self.file.as_ref()?.change()
    }

    /// Returns an error if the library's file changed, unless the options accept the change.
    fn expect_unchanged(&self, name: &str, options: &PluginLoadOptions<'_>) -> Result<(), Error> {
        let Some((file, change)) = self.file.as_ref().and_then(|file| Some((file, file.change()?))) else {
            return Ok(());
        };
        if options.if_replaced == IfReplaced::KeepLoaded {
            tracing::warn!(plugin = %name, path = %file.path().display(), ?change, "the library's file has changed");
            return Ok(());
        }
        Err(Error::Replaced { name: name.to_owned(), path: file.path().to_owned(), change })
    }
}

/// Finds the library file or the function table of a plugin.
pub(super) fn resolve(descriptor: &Descriptor) -> Result<Location, Error> {
    let name = &descriptor.manifest().name;
    match Location::from(descriptor.library()) {
        // A name without a folder never means a file in the current folder. Otherwise, anyone who can write to that
        // folder could choose the code that runs.
        Location::File(path) if !has_folder(&path) => {
            let found = path.to_str().and_then(|name| Discovery::from_environment().find_library(name));
            found.map(Location::File).ok_or_else(|| {
                let refusal = Refusal::NotInLibrarySearch { name: path.display().to_string() };
                Error::Refused { name: name.clone(), refusals: vec![refusal] }
            })
        }
        Location::Computed(path) => {
            let path = path().map_err(|error| Error::Path { name: name.clone(), error })?;
            Ok(Location::File(path))
        }
        Location::Unknown => Err(Error::NoLibrary { name: name.clone() }),
        resolved => Ok(resolved),
    }
}

/// Opens the library at a resolved location.
fn open(location: &Location, name: &str, is_replacement: bool) -> Result<Plugin, Error> {
    Ok(match location {
        Location::Linked(table) => Plugin::from_static(*table)?,
        Location::File(path) => load(path, is_replacement)?,
        Location::Computed(_) | Location::Unknown => return Err(Error::NoLibrary { name: name.to_owned() }),
    })
}

fn load(path: &PathBuf, is_replacement: bool) -> Result<Plugin, pjrt::LoadError> {
    if is_replacement {
        // SAFETY: R1 (the library is trusted): the party that registered, named or installed the library promised C1 to
        // C11 for it.
        return unsafe { Plugin::load_replacement(path) };
    }
    // SAFETY: R1 (the library is trusted): the party that registered, named or installed the library promised C1 to C11
    // for it.
    unsafe { Plugin::load(path) }
}

/// Reads the description that a loaded library exports, if it has one.
fn own_descriptor(plugin: &Plugin) -> Option<Descriptor> {
    let own: Result<_, Faults> = describe_loaded(plugin);
    own.inspect_err(|faults| {
        let path = plugin.path().unwrap_or(Path::new("this program"));
        tracing::warn!(path = %path.display(), %faults, "ignored the library's own description, which has faults");
    })
    .ok()?
}

impl ShutdownGuard {
    pub(super) fn plugin(&self) -> &Plugin {
        &self.plugin
    }

    /// Returns the description that the library exports, if any.
    pub(super) fn own_descriptor(&self) -> Option<&Descriptor> {
        self.own_descriptor.as_ref()
    }

    pub(super) fn library(&self) -> &Arc<ProcessLibrary> {
        &self.library
    }

    /// Counts a client until the returned guard is dropped.
    pub(super) fn count_client(self: &Arc<Self>) -> ClientGuard {
        *self.library.client_count() += 1;
        ClientGuard { library: self.library.clone(), shutdown: Some(self.clone()) }
    }
}

impl Drop for ClientGuard {
    fn drop(&mut self) {
        // Drop the shutdown guard before the count reaches zero. A thread that waits for the last client then either
        // runs the shutdown hooks by dropping the last guard, or finds that the hooks have run.
        drop(self.shutdown.take());
        let mut clients = self.library.client_count();
        *clients -= 1;
        if *clients == 0 {
            self.library.no_clients.notify_all();
        }
    }
}

/// Runs the plugin's shutdown hooks when the last registry and the last client have released the library. Does nothing
/// if a registry has loaded the library again.
impl Drop for ShutdownGuard {
    fn drop(&mut self) {
        let name = &self.descriptor.manifest().name;
        // No code of the plugin can drop its guard while it runs, because no guard exists then.
        let Ok(mut state) = self.library.state(name) else { return };
        let _running = self.library.run_plugin();
        if state.ended || state.guard.strong_count() > 0 {
            return;
        }
        tracing::debug!(plugin = %name, "shutting the plugin down");
        for descriptor in [Some(&self.descriptor), self.own_descriptor.as_ref()].into_iter().flatten() {
            if let Err(error) = descriptor.shutdown() {
                tracing::warn!(plugin = %name, %error, "the plugin's shutdown hook failed");
            }
        }
        let Some(function) = &self.descriptor.manifest().shutdown_symbol else { return };
        state.ended = true;
        // SAFETY: R2 (the function has this type): the manifest names a function of the C type `void (void)`, no client
        // is left, and `ended` prevents every further use of the library.
        if let Err(error) = unsafe { self.plugin.call_function(function) } {
            tracing::warn!(plugin = %name, %error, "the plugin's shutdown function could not be called");
        }
    }
}

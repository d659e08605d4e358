//! The plugins a program knows: registered by it, named by its user, or found on the machine.

mod entry;
mod id;
pub(crate) mod library;
mod loaded;
mod loaded_file;
pub(crate) mod record;
mod setup;
mod sources;

pub use entry::{PluginEntry, Status};
pub use id::PluginId;
pub use loaded::{ClientLease, LoadedPlugin};
pub use loaded_file::FileChange;
pub use setup::{IfReplaced, LoadOptions, Outstanding, ProcessEnvironment};

use std::fmt;
use std::path::Path;
use std::sync::{Arc, OnceLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::{Duration, Instant};

use device_plugin::{Descriptor, DevicePlugin, Manifest};

use crate::discovery::{Discovery, Note, Searched, SelectionHint};
use crate::error::Error;
use crate::hardware::Machine;
use crate::lease::LockFolder;
use crate::policy::Policy;
use crate::select::{Choice, SelectError, choose};
use library::Use;
use record::{Record, Tier};

/// The plugins a program knows. Clones are the same registry, for use by any thread.
///
/// Nothing is loaded before [`PluginEntry::load`], and no client is made before [`LoadedPlugin::client`]. When the last
/// clone, entry and loaded plugin are gone, the plugins without clients are shut down.
#[derive(Clone)]
pub struct PluginRegistry(Arc<Inner>);

struct Inner {
    discovery: Option<Discovery>,
    /// Where the user's word on capabilities is read; it is not searched.
    overrides: Option<Discovery>,
    locks: LockFolder,
    state: RwLock<State>,
}

struct State {
    slots: Vec<Slot>,
    machine: Arc<Machine>,
    hints: Vec<SelectionHint>,
    notes: Vec<Note>,
    searched: Vec<Searched>,
    /// Counts records, so that equal ones have an order.
    made: usize,
}

/// A place for a plugin. Places are never taken away, so that old ids stay recognizable.
#[derive(Default)]
struct Slot {
    generation: u32,
    record: Option<Arc<Record>>,
    /// Why it is switched off, if it is.
    disabled: Option<String>,
}

/// How a registry is made.
#[derive(Debug, Default)]
pub struct RegistryBuilder {
    discovery: Option<Discovery>,
    overrides: Option<Discovery>,
    machine: Option<Machine>,
    locks: Option<LockFolder>,
    linked: bool,
}

impl RegistryBuilder {
    /// Adds what is found by that search.
    #[must_use]
    pub fn discovery(mut self, discovery: Discovery) -> Self {
        self.discovery = Some(discovery);
        self
    }

    /// Takes the user's word on capabilities from the environment of that search, without searching.
    pub(crate) fn overrides(mut self, discovery: Discovery) -> Self {
        self.overrides = Some(discovery);
        self
    }

    /// Adds the plugins that are linked into the program: the embedded CPU device (with the feature `cpu`), and those
    /// that registered themselves.
    #[must_use]
    pub fn linked(mut self) -> Self {
        self.linked = true;
        self
    }

    /// Looks for hardware on that machine rather than this one.
    #[must_use]
    pub fn machine(mut self, machine: Machine) -> Self {
        self.machine = Some(machine);
        self
    }

    /// Keeps the locks of exclusive devices in that folder rather than this user's.
    #[must_use]
    pub fn locks(mut self, locks: LockFolder) -> Self {
        self.locks = Some(locks);
        self
    }

    /// The registry. What is wrong with a plugin found is told by its entry.
    pub fn build(self) -> PluginRegistry {
        let state = State {
            slots: Vec::new(),
            machine: Arc::new(self.machine.unwrap_or_else(Machine::here)),
            hints: Vec::new(),
            notes: Vec::new(),
            searched: Vec::new(),
            made: 0,
        };
        let locks = self.locks.unwrap_or_else(LockFolder::of_this_user);
        let registry = PluginRegistry(Arc::new(Inner {
            overrides: self.overrides.or_else(|| self.discovery.clone()),
            discovery: self.discovery,
            locks,
            state: RwLock::new(state),
        }));
        if self.linked {
            registry.add_linked();
        }
        registry.refresh();
        registry
    }
}

impl PluginRegistry {
    /// A registry of the plugins linked into the program and those found on this machine, as this process's
    /// environment says. Reads files, and loads nothing.
    pub fn discover() -> Self {
        Self::with(Discovery::from_environment())
    }

    /// A registry of the plugins linked into the program and those found by that search.
    pub fn with(discovery: Discovery) -> Self {
        Self::builder().linked().discovery(discovery).build()
    }

    /// A registry without plugins.
    pub fn empty() -> Self {
        Self::builder().build()
    }

    /// Makes a registry piece by piece, from nothing.
    pub fn builder() -> RegistryBuilder {
        RegistryBuilder::default()
    }

    /// The registry of the process, made by [`Self::discover`] when first asked for. It is never dropped:
    /// [`Self::shutdown`] shuts its plugins down.
    pub fn global() -> &'static Self {
        static GLOBAL: OnceLock<PluginRegistry> = OnceLock::new();
        GLOBAL.get_or_init(Self::discover)
    }

    /// Whether the other is the same registry.
    pub fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    fn read(&self) -> RwLockReadGuard<'_, State> {
        self.0.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, State> {
        self.0.state.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Registers a plugin written in Rust. The same plugin again is no change.
    ///
    /// # Errors
    ///
    /// All faults of its description; [`Error::NameTaken`] where the program registered another one of that name,
    /// [`Error::DescribedOtherwise`] where it registered the same one with another description.
    pub fn register<P: DevicePlugin>(&self) -> Result<PluginEntry, Error> {
        let described = Descriptor::of::<P>();
        self.register_descriptor(described.map_err(|faults| Error::Description { name: P::NAME.to_owned(), faults })?)
    }

    /// Registers a plugin by its description. The same plugin again is no change.
    ///
    /// # Errors
    ///
    /// [`Error::NameTaken`] where the program registered another one of that name,
    /// [`Error::DescribedOtherwise`] where it registered the same one with another description.
    pub fn register_descriptor(&self, descriptor: Descriptor) -> Result<PluginEntry, Error> {
        let record = self.described(descriptor, "the program", Tier::Program);
        self.insert(record)
    }

    /// Registers a library by its path, with what it says of itself in `manifest`, else in the manifest beside it, else
    /// nothing. The same library again is no change. It is not loaded; what its file tells against it is told by the
    /// entry.
    ///
    /// Registering a library vouches for it: see [contract](pjrt::contracts) R1.
    ///
    /// # Errors
    ///
    /// All faults of the manifest; [`Error::NameTaken`] where the program registered another one of that name,
    /// [`Error::DescribedOtherwise`] where it registered the same one with another description.
    pub fn register_library(&self, path: impl AsRef<Path>, manifest: Option<Manifest>) -> Result<PluginEntry, Error> {
        let record = self.library(path.as_ref(), manifest)?;
        self.insert(record)
    }

    /// Puts a plugin in another one's place, whatever their names. Handles of the other one are stale; its clients
    /// live on.
    ///
    /// # Errors
    ///
    /// [`Error::Stale`] where the id is; [`Error::NameTaken`] as for registering.
    pub fn replace(&self, id: PluginId, descriptor: Descriptor) -> Result<PluginEntry, Error> {
        let mut record = self.described(descriptor, "the program", Tier::Program);
        let mut state = self.write();
        let before = state.current(id)?;
        state.name_is_free(&record, Some(id.index()))?;
        record.order = state.next_order();
        let slot = state.slot_mut(id.index());
        slot.renew(Some(Arc::new(record)));
        slot.disabled = None;
        let (id, record) = (slot.id(id.index()), slot.record.clone());
        drop(state);
        drop(before.used().take());
        record.map(|record| self.entry(id, record)).ok_or_else(|| unknown(id))
    }

    /// Switches a plugin off: it is not selected, and its handles are stale. Its clients live on. The id of the plugin
    /// that is switched off is returned.
    ///
    /// # Errors
    ///
    /// [`Error::Stale`] where the id is.
    pub fn disable(&self, id: PluginId, reason: impl Into<String>) -> Result<PluginId, Error> {
        let mut state = self.write();
        state.current(id)?;
        let slot = state.slot_mut(id.index());
        slot.generation = slot.generation.wrapping_add(1);
        slot.disabled = Some(reason.into());
        Ok(slot.id(id.index()))
    }

    /// Switches a plugin on again.
    ///
    /// # Errors
    ///
    /// [`Error::Stale`] where the id is.
    pub fn enable(&self, id: PluginId) -> Result<PluginEntry, Error> {
        let mut state = self.write();
        let record = state.current(id)?;
        let slot = state.slot_mut(id.index());
        if slot.disabled.take().is_some() {
            slot.generation = slot.generation.wrapping_add(1);
        }
        let id = slot.id(id.index());
        drop(state);
        Ok(self.entry(id, record))
    }

    /// Takes a plugin out of the registry. Its handles are stale; its clients live on, and it is shut down after the
    /// last.
    ///
    /// # Errors
    ///
    /// [`Error::Stale`] where the id is.
    pub fn remove(&self, id: PluginId) -> Result<(), Error> {
        let mut state = self.write();
        let record = state.current(id)?;
        let slot = state.slot_mut(id.index());
        slot.renew(None);
        slot.disabled = None;
        drop(state);
        // Shutting down runs the plugin's code, which may use this registry: no lock is held.
        drop(record.used().take());
        Ok(())
    }

    /// Unloads a plugin as far as that is safe: it is shut down and its handles are stale, but its code stays mapped
    /// until the process ends, because threads and exit handlers may run it. Its new id is returned; loading it again
    /// uses the same code.
    ///
    /// # Errors
    ///
    /// [`Error::Stale`] where the id is; [`Error::InUse`] where it has clients.
    pub fn unload(&self, id: PluginId) -> Result<PluginId, Error> {
        let mut state = self.write();
        let record = state.current(id)?;
        let mut used = record.used();
        let clients = used.as_ref().map_or(0, |used| used.shared().clients());
        if clients > 0 {
            return Err(Error::InUse { name: record.manifest.name.clone(), clients });
        }
        let taken = used.take();
        drop(used);
        let slot = state.slot_mut(id.index());
        slot.generation = slot.generation.wrapping_add(1);
        let id = slot.id(id.index());
        drop(state);
        drop(taken);
        Ok(id)
    }

    /// Every plugin of the registry, also those that cannot be used and say why, in the order they came in.
    pub fn entries(&self) -> Vec<PluginEntry> {
        let state = self.read();
        let slots = state.slots.iter().zip(0u32..);
        let plugins: Vec<(PluginId, Arc<Record>)> =
            slots.filter_map(|(slot, index)| Some((slot.id(index), slot.record.clone()?))).collect();
        drop(state);
        plugins.into_iter().map(|(id, record)| self.entry(id, record)).collect()
    }

    /// The plugin of an id.
    ///
    /// # Errors
    ///
    /// [`Error::Stale`] or [`Error::Unknown`].
    pub fn get(&self, id: PluginId) -> Result<PluginEntry, Error> {
        let record = self.read().current(id)?;
        Ok(self.entry(id, record))
    }

    /// What the environment wishes for, the strongest wish first.
    pub fn hints(&self) -> Vec<SelectionHint> {
        self.read().hints.clone()
    }

    /// What the search noticed that belongs to no plugin.
    pub fn notes(&self) -> Vec<Note> {
        self.read().notes.clone()
    }

    /// Where the search looked.
    pub fn searched(&self) -> Vec<Searched> {
        self.read().searched.clone()
    }

    /// The folder of the locks of exclusive devices.
    pub fn locks(&self) -> &LockFolder {
        &self.0.locks
    }

    /// The plugin that fits a policy best; [`crate::select`] has the order.
    ///
    /// # Errors
    ///
    /// [`SelectError`] lists every plugin and why it does not fit.
    pub fn select(&self, policy: &Policy) -> Result<PluginEntry, SelectError> {
        let (id, record) = self.choose(policy, 1)?.remove(0);
        Ok(self.entry(id, record))
    }

    /// All plugins that fit a policy, best first: those of its first wish, then those of the others.
    ///
    /// # Errors
    ///
    /// [`SelectError`] where none fits.
    pub fn ranked(&self, policy: &Policy) -> Result<Vec<PluginEntry>, SelectError> {
        let chosen = self.choose(policy, usize::MAX)?;
        Ok(chosen.into_iter().map(|(id, record)| self.entry(id, record)).collect())
    }

    fn choose(&self, policy: &Policy, count: usize) -> Result<Vec<(PluginId, Arc<Record>)>, SelectError> {
        let state = self.read();
        let places: Vec<(u32, &Slot, &Arc<Record>)> =
            (0u32..).zip(&state.slots).filter_map(|(index, slot)| Some((index, slot, slot.record.as_ref()?))).collect();
        let choices: Vec<Choice<'_>> = places
            .iter()
            .map(|(_, slot, record)| {
                let disabled = slot.disabled.as_deref();
                Choice { record, hardware: record.hardware(), disabled }
            })
            .collect();
        let chosen = choose(policy, &state.hints, &choices)?.into_iter().take(count);
        let chosen = chosen.map(|chosen| {
            let (index, slot, record) = places[chosen];
            (slot.id(index), record.clone())
        });
        Ok(chosen.collect())
    }

    /// Searches and looks for hardware again. Plugins that are no longer found, or that changed, get stale handles;
    /// what the program registered stays, and so does what was switched off.
    pub fn refresh(&self) {
        let found = self.0.discovery.as_ref().map(Discovery::discover);
        let machine = Arc::new(self.read().machine.again());
        self.take_in(found.unwrap_or_default(), machine);
    }

    /// Ends the registry's use of its plugins: all handles are stale, and each plugin is shut down when its last
    /// client is gone, now where it has none. The plugins that have clients are returned, with how many.
    ///
    /// Call this, or [`Self::shutdown_within`], before the process ends: plugins may crash if they still have work then.
    pub fn shutdown(&self) -> Vec<(String, usize)> {
        self.shutdown_until(Instant::now())
    }

    /// Ends the registry's use of its plugins as [`Self::shutdown`] does, and waits up to `timeout` for their clients to
    /// be destroyed. [`Client::shutdown`](pjrt::Client::shutdown) destroys one, after it waited for its operations; so does
    /// dropping its last handle on another thread. The plugins that still have clients are returned, with how many; each
    /// is shut down after its last.
    pub fn shutdown_within(&self, timeout: Duration) -> Vec<(String, usize)> {
        let now = Instant::now();
        // Decades from now for a time that no clock holds.
        self.shutdown_until(now.checked_add(timeout).unwrap_or(now + Duration::from_secs(1 << 30)))
    }

    fn shutdown_until(&self, until: Instant) -> Vec<(String, usize)> {
        let mut state = self.write();
        let mut ended = Vec::new();
        for slot in &mut state.slots {
            let Some(record) = slot.record.clone() else { continue };
            slot.generation = slot.generation.wrapping_add(1);
            slot.disabled = Some("the registry was shut down".to_owned());
            if let Some(used) = record.used().take() {
                ended.push((record.manifest.name.clone(), used));
            }
        }
        drop(state);
        let mut waiting = Vec::new();
        for (name, used) in ended {
            let clients = used.shared().wait_for_clients(until);
            if clients > 0 {
                waiting.push((name, clients));
            }
            // Here the shutdown hook runs, or with the last client.
            drop(used);
        }
        waiting
    }

    fn entry(&self, id: PluginId, record: Arc<Record>) -> PluginEntry {
        PluginEntry::new(self.clone(), id, record)
    }

    /// Whether the plugin of an id is still the one the handle was made for, and switched on.
    fn check(&self, id: PluginId, name: &str) -> Result<(), Error> {
        self.read().check(id, name)
    }

    /// Whether a file that a search found may still be loaded. Time has passed since, and files are replaced.
    fn check_file(&self, record: &Record, path: &Path) -> Result<(), Error> {
        let Some(discovery) = self.0.discovery.as_ref().filter(|_| record.tier != Tier::Program) else { return Ok(()) };
        let refusals = discovery.refusals_of(&record.candidate, path);
        if refusals.is_empty() {
            return Ok(());
        }
        Err(Error::Refused { name: record.manifest.name.clone(), refusals })
    }

    /// Remembers that a plugin is loaded, unless it was switched off or replaced while its library was loading: then
    /// nobody would let go of it again.
    fn keep(&self, id: PluginId, record: &Record, used: &Arc<Use>) -> Result<(), Error> {
        let state = self.read();
        state.check(id, &record.manifest.name)?;
        let before = record.used().replace(used.clone());
        drop(state);
        drop(before);
        Ok(())
    }
}

// Where both are held, the state's lock is taken before a record's.
impl State {
    fn check(&self, id: PluginId, name: &str) -> Result<(), Error> {
        let slot = usize::try_from(id.index()).ok().and_then(|index| self.slots.get(index));
        match slot {
            Some(slot) if slot.generation == id.generation() && slot.record.is_some() => match &slot.disabled {
                None => Ok(()),
                Some(reason) => Err(Error::Disabled { name: name.to_owned(), reason: reason.clone() }),
            },
            _ => Err(Error::Stale { name: name.to_owned(), id }),
        }
    }

    /// The record of an id that is not stale.
    fn current(&self, id: PluginId) -> Result<Arc<Record>, Error> {
        let slot =
            usize::try_from(id.index()).ok().and_then(|index| self.slots.get(index)).ok_or_else(|| unknown(id))?;
        match &slot.record {
            Some(record) if slot.generation == id.generation() => Ok(record.clone()),
            Some(record) => Err(Error::Stale { name: record.manifest.name.clone(), id }),
            None => Err(Error::Stale { name: "that was removed".to_owned(), id }),
        }
    }

    fn slot_mut(&mut self, index: u32) -> &mut Slot {
        let index = usize::try_from(index).unwrap_or(usize::MAX);
        if index >= self.slots.len() {
            self.slots.resize_with(index + 1, Slot::default);
        }
        &mut self.slots[index]
    }

    fn next_order(&mut self) -> usize {
        self.made += 1;
        self.made
    }

    /// Refuses a name that the program gave to another plugin.
    fn name_is_free(&self, record: &Record, except: Option<u32>) -> Result<(), Error> {
        // A file's name is nobody's choice.
        if record.is_named_by_file() {
            return Ok(());
        }
        let others = (0u32..).zip(&self.slots).filter(|(index, _)| Some(*index) != except);
        let mut others = others.filter_map(|(_, slot)| slot.record.as_ref());
        let other = others.find(|other| other.tier == Tier::Program && other.manifest.name == record.manifest.name);
        match other {
            Some(other) => Err(Error::NameTaken { name: record.manifest.name.clone(), by: other.origin() }),
            None => Ok(()),
        }
    }
}

impl Slot {
    fn id(&self, index: u32) -> PluginId {
        PluginId::new(index, self.generation)
    }

    /// Puts another plugin here.
    fn renew(&mut self, record: Option<Arc<Record>>) {
        self.generation = self.generation.wrapping_add(1);
        self.record = record;
    }
}

fn unknown(id: PluginId) -> Error {
    Error::Unknown { asked: format!("with the id {id}") }
}

impl fmt::Debug for PluginRegistry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.read();
        let names = state.slots.iter().filter_map(|slot| Some(slot.record.as_ref()?.manifest.name.as_str()));
        f.debug_list().entries(names).finish()
    }
}

//! Lists, selects, disables and shuts down the plugins of a registry.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::core::PluginRegistry;
use super::entry::PluginEntry;
use super::id::PluginId;
use super::record::Record;
use crate::discovery::{Note, Searched, SelectionHint};
use crate::error::Error;
use crate::location::Location;
use crate::policy::Policy;
use crate::select::{Choice, choose};
use crate::select_error::SelectError;

impl PluginRegistry {
    /// Returns all plugins of the registry in the order of their ids. Includes plugins that cannot be used.
    pub fn entries(&self) -> Vec<PluginEntry> {
        self.ensure_searched();
        self.entries_where(|_| true)
    }

    /// Returns the plugins that are linked into the program. Does not run a search.
    pub(crate) fn linked_entries(&self) -> Vec<PluginEntry> {
        self.entries_where(is_linked)
    }

    fn entries_where(&self, wanted: impl Fn(&Record) -> bool) -> Vec<PluginEntry> {
        let table = self.read();
        let wanted = table.rows().filter(|(_, _, record)| wanted(record));
        let plugins: Vec<(PluginId, Arc<Record>)> = wanted.map(|(id, _, record)| (id, record.clone())).collect();
        drop(table);
        plugins.into_iter().map(|(id, record)| self.entry(id, record)).collect()
    }

    /// Returns the plugin with this id.
    ///
    /// # Errors
    ///
    /// Returns [`Error::Stale`] if the plugin was removed or changed, or [`Error::Unknown`] if no plugin ever had the
    /// id's index.
    pub fn get(&self, id: PluginId) -> Result<PluginEntry, Error> {
        let record = self.read().current(id)?;
        Ok(self.entry(id, record))
    }

    /// Returns the plugins that environment variables request. The variable with the highest precedence is first.
    pub fn hints(&self) -> Vec<SelectionHint> {
        self.ensure_searched();
        self.read().hints.clone()
    }

    /// Returns the findings of the search that do not concern a single plugin.
    pub fn notes(&self) -> Vec<Note> {
        self.ensure_searched();
        self.read().notes.clone()
    }

    /// Returns the files and folders that were searched.
    pub fn searched(&self) -> Vec<Searched> {
        self.ensure_searched();
        self.read().searched.clone()
    }

    /// Returns the plugin that fits a policy best. See [`crate::select`] for the order.
    ///
    /// # Errors
    ///
    /// Returns a [`SelectError`] that lists every plugin and the reason why it does not fit.
    pub fn select(&self, policy: &Policy) -> Result<PluginEntry, SelectError> {
        self.ensure_searched();
        let (id, record) = self.choose(policy, |_| true)?.remove(0);
        Ok(self.entry(id, record))
    }

    /// Returns the plugin that fits a policy best among the plugins that are linked into the program. Does not run a
    /// search.
    pub(crate) fn select_linked(&self, policy: &Policy) -> Result<PluginEntry, SelectError> {
        let (id, record) = self.choose(policy, is_linked)?.remove(0);
        Ok(self.entry(id, record))
    }

    /// Returns all plugins that fit a policy, best first. Plugins that fit an earlier preference of the policy come
    /// first.
    ///
    /// # Errors
    ///
    /// Returns a [`SelectError`] if no plugin fits.
    pub fn ranked(&self, policy: &Policy) -> Result<Vec<PluginEntry>, SelectError> {
        self.ensure_searched();
        let chosen = self.choose(policy, |_| true)?;
        Ok(chosen.into_iter().map(|(id, record)| self.entry(id, record)).collect())
    }

    fn choose(
        &self,
        policy: &Policy,
        considered: impl Fn(&Record) -> bool,
    ) -> Result<Vec<(PluginId, Arc<Record>)>, SelectError> {
        let table = self.read();
        let rows: Vec<_> = table.rows().filter(|(_, _, record)| considered(record)).collect();
        let choices: Vec<Choice<'_>> = rows
            .iter()
            .map(|(_, row, record)| Choice { record, hardware: record.hardware(), disabled: row.disabled.as_deref() })
            .collect();
        let chosen = choose(policy, &table.hints, &choices)?;
        Ok(chosen.into_iter().map(|index| (rows[index].0, rows[index].2.clone())).collect())
    }

    /// Disables a plugin, so that it is not selected and its ids and entries become stale. Its existing clients remain
    /// usable. Returns the new id of the disabled plugin.
    ///
    /// # Errors
    ///
    /// Returns [`Error::Stale`] if the id is stale, or [`Error::Unknown`] if no plugin ever had the id's index.
    pub fn disable(&self, id: PluginId, reason: impl Into<String>) -> Result<PluginId, Error> {
        let mut table = self.write();
        table.current(id)?;
        table.set_disabled(id.index(), Some(reason.into()));
        Ok(table.end_generation(id.index()))
    }

    /// Enables a disabled plugin and returns its entry. Its earlier ids become stale. Has no effect on an enabled
    /// plugin.
    ///
    /// # Errors
    ///
    /// Returns [`Error::Stale`] if the id is stale, or [`Error::Unknown`] if no plugin ever had the id's index.
    pub fn enable(&self, id: PluginId) -> Result<PluginEntry, Error> {
        let mut table = self.write();
        let record = table.current(id)?;
        let was_disabled = table.set_disabled(id.index(), None).is_some();
        let id = if was_disabled { table.end_generation(id.index()) } else { id };
        drop(table);
        Ok(self.entry(id, record))
    }

    /// Removes a plugin from the registry. Its ids and entries become stale. Its existing clients remain usable. The
    /// plugin is shut down after its last client is destroyed.
    ///
    /// # Errors
    ///
    /// Returns [`Error::Stale`] if the id is stale, or [`Error::Unknown`] if no plugin ever had the id's index.
    pub fn remove(&self, id: PluginId) -> Result<(), Error> {
        let mut table = self.write();
        let record = table.current(id)?;
        table.clear(id.index());
        drop(table);
        record.release();
        Ok(())
    }

    /// Unloads a plugin: makes its ids and entries stale, and shuts the plugin down if no other registry uses it. The
    /// code of the library stays mapped until the process ends, because threads and exit handlers may run it. Loading
    /// the plugin again uses the same code. Returns the plugin's new id.
    ///
    /// # Errors
    ///
    /// Returns [`Error::Stale`] if the id is stale, [`Error::Unknown`] if no plugin ever had the id's index, or
    /// [`Error::InUse`] if the plugin has clients.
    pub fn unload(&self, id: PluginId) -> Result<PluginId, Error> {
        let mut table = self.write();
        let record = table.current(id)?;
        let mut guard = record.guard();
        let clients = guard.as_ref().map_or(0, |guard| guard.library().clients());
        if clients > 0 {
            return Err(Error::InUse { name: record.manifest.name.clone(), clients });
        }
        let taken = guard.take();
        drop(guard);
        let id = table.end_generation(id.index());
        drop(table);
        drop(taken);
        Ok(id)
    }

    /// Shuts down all plugins of the registry. All ids and entries become stale. A plugin without clients is shut down
    /// immediately. Any other plugin is shut down after its last client is destroyed. Returns each plugin that has
    /// clients, and the number of its clients.
    ///
    /// Call this function, or [`Self::shutdown_within`], before the process ends. A plugin with pending work may crash
    /// when the process ends.
    pub fn shutdown(&self) -> Vec<(String, usize)> {
        self.shutdown_until(Instant::now())
    }

    /// Shuts down all plugins of the registry as [`Self::shutdown`] does, and waits up to `timeout` for their clients
    /// to be destroyed. A client is destroyed by [`Client::shutdown`](pjrt::Client::shutdown), which waits for its
    /// operations, or by dropping its last handle on another thread. Returns the plugins that still have clients, and
    /// the number of their clients. Each of these plugins is shut down after its last client is destroyed.
    pub fn shutdown_within(&self, timeout: Duration) -> Vec<(String, usize)> {
        let now = Instant::now();
        // If the clock cannot represent the deadline, use one that is 34 years away.
        self.shutdown_until(now.checked_add(timeout).unwrap_or(now + Duration::from_secs(1 << 30)))
    }

    fn shutdown_until(&self, deadline: Instant) -> Vec<(String, usize)> {
        let mut table = self.write();
        let rows: Vec<(PluginId, Arc<Record>)> = table.rows().map(|(id, _, record)| (id, record.clone())).collect();
        let mut guards = Vec::new();
        for (id, record) in rows {
            table.set_disabled(id.index(), Some("the registry was shut down".to_owned()));
            table.end_generation(id.index());
            if let Some(guard) = record.guard().take() {
                table.ended.add(&record.manifest.name, guard.library());
                guards.push(guard);
            }
        }
        let ended = table.ended.clone();
        drop(table);
        // Dropping a guard runs the plugin's shutdown hooks, either now or when the last client is destroyed.
        let remaining = ended.wait(deadline, |library| guards.retain(|guard| !Arc::ptr_eq(guard.library(), library)));
        self.write().ended.forget_unused();
        remaining
    }
}

/// Returns whether a plugin is linked into the program, either as a function table or as a function that computes the
/// path of its library.
fn is_linked(record: &Record) -> bool {
    matches!(record.candidate.location, Location::Linked(_) | Location::Computed(_))
}

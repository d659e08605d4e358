//! Stores the plugins of a registry.

use std::collections::HashSet;
use std::sync::Arc;

use super::ended_plugins::EndedPlugins;
use super::id::PluginId;
use super::record::{Precedence, Record};
use crate::discovery::{Note, Searched, SelectionHint, SourceKind};
use crate::error::Error;
use crate::hardware::HardwareProbe;
use crate::location::Location;

/// The plugins of a registry, and the report of its last search. The rows form a generational arena: a [`PluginId`]
/// consists of the index of a row and the generation of the row.
#[derive(Debug)]
pub(super) struct Table {
    rows: Vec<Row>,
    pub(super) probe: Arc<HardwareProbe>,
    pub(super) hints: Vec<SelectionHint>,
    pub(super) notes: Vec<Note>,
    pub(super) searched: Vec<Searched>,
    /// Plugins that this registry no longer uses. A shutdown waits for their clients.
    pub(super) ended: EndedPlugins,
    /// Number of records that were created. The selection uses this count to order otherwise equal plugins.
    made: usize,
}

/// A slot for a plugin. Rows are never removed, so that an old id is recognized as stale.
#[derive(Debug, Default)]
pub(super) struct Row {
    generation: u32,
    pub(super) record: Option<Arc<Record>>,
    /// The reason why the plugin is disabled, if it is.
    pub(super) disabled: Option<String>,
}

// Lock order: a thread that needs both locks locks the table first, and then the record.
impl Table {
    pub(super) fn new(probe: HardwareProbe) -> Self {
        Self {
            rows: Vec::new(),
            probe: Arc::new(probe),
            hints: Vec::new(),
            notes: Vec::new(),
            searched: Vec::new(),
            ended: EndedPlugins::default(),
            made: 0,
        }
    }

    /// Returns the rows that contain a record, in the order of their indices, each with its id and its record.
    pub(super) fn rows(&self) -> impl Iterator<Item = (PluginId, &Row, &Arc<Record>)> {
        let rows = (0u32..).zip(&self.rows);
        rows.filter_map(|(index, row)| Some((row.id(index), row, row.record.as_ref()?)))
    }

    /// Checks that an id is not stale, and that its plugin is enabled.
    pub(super) fn check(&self, id: PluginId, name: &str) -> Result<(), Error> {
        match self.row(id.index()) {
            Some(row) if row.generation == id.generation() && row.record.is_some() => match &row.disabled {
                None => Ok(()),
                Some(reason) => Err(Error::Disabled { name: name.to_owned(), reason: reason.clone() }),
            },
            _ => Err(Error::Stale { name: name.to_owned(), id }),
        }
    }

    /// Returns the record of a plugin, or an error if the id is stale or unknown.
    pub(super) fn current(&self, id: PluginId) -> Result<Arc<Record>, Error> {
        let unknown = || Error::Unknown { asked: format!("with the id {id}") };
        let row = self.row(id.index()).ok_or_else(unknown)?;
        match &row.record {
            Some(record) if row.generation == id.generation() => Ok(record.clone()),
            Some(record) => Err(Error::Stale { name: record.manifest.name.clone(), id }),
            None => Err(Error::Stale { name: "that was removed".to_owned(), id }),
        }
    }

    fn row(&self, index: u32) -> Option<&Row> {
        usize::try_from(index).ok().and_then(|index| self.rows.get(index))
    }

    fn row_mut(&mut self, index: u32) -> &mut Row {
        let index = usize::try_from(index).unwrap_or(usize::MAX);
        if index >= self.rows.len() {
            self.rows.resize_with(index + 1, Row::default);
        }
        &mut self.rows[index]
    }

    /// Ends the generation of a row, so that existing ids of its plugin become stale. Returns the new id.
    pub(super) fn end_generation(&mut self, index: u32) -> PluginId {
        let row = self.row_mut(index);
        row.generation = row.generation.wrapping_add(1);
        row.id(index)
    }

    /// Sets the reason why the plugin of a row is disabled. Returns the previous reason.
    pub(super) fn set_disabled(&mut self, index: u32, reason: Option<String>) -> Option<String> {
        std::mem::replace(&mut self.row_mut(index).disabled, reason)
    }

    /// Puts a record into a row. Ids of the previous plugin become stale. A disabled row stays disabled.
    pub(super) fn put(&mut self, index: u32, mut record: Record) -> (PluginId, Arc<Record>) {
        self.made += 1;
        record.order = self.made;
        let record = Arc::new(record);
        let row = self.row_mut(index);
        row.generation = row.generation.wrapping_add(1);
        row.record = Some(record.clone());
        (row.id(index), record)
    }

    /// Removes the plugin of a row and returns its record. Ids of the plugin become stale.
    pub(super) fn clear(&mut self, index: u32) -> Option<Arc<Record>> {
        self.end_generation(index);
        let row = self.row_mut(index);
        row.disabled = None;
        row.record.take()
    }

    /// Returns the index of an empty row, or of a new row if all rows are in use.
    pub(super) fn free_index(&self) -> Result<u32, Error> {
        let index = self.rows.iter().position(|row| row.record.is_none()).unwrap_or(self.rows.len());
        u32::try_from(index).map_err(|_| Error::Unknown { asked: "above 4294967295".to_owned() })
    }

    /// Returns the plugin whose library has this canonical location.
    pub(super) fn find(&self, location: &Location) -> Option<(PluginId, &Row, &Arc<Record>)> {
        self.rows().find(|(_, _, record)| record.location.as_ref() == Some(location))
    }

    /// Returns an error if the program gave the name of the record to another plugin. Ignores the plugin in row
    /// `except`, which the record may replace.
    pub(super) fn check_name(&self, record: &Record, except: Option<u32>) -> Result<(), Error> {
        // The program did not choose a name that was derived from a file, so such a name does not conflict.
        if record.is_named_by_file() {
            return Ok(());
        }
        let mut others = self.rows().filter(|(id, ..)| Some(id.index()) != except).map(|(_, _, record)| record);
        let taken =
            others.find(|other| other.precedence == Precedence::Program && other.manifest.name == record.manifest.name);
        match taken {
            Some(other) => Err(Error::NameTaken { name: record.manifest.name.clone(), by: other.origin() }),
            None => Ok(()),
        }
    }

    /// Replaces the plugins that the previous search found with those of a new search. Plugins that did not change keep
    /// their rows and ids. Returns the records that were removed or replaced.
    pub(super) fn merge(&mut self, records: Vec<Record>) -> Vec<Arc<Record>> {
        let mut removed = Vec::new();
        let mut found = HashSet::new();
        for record in records {
            let known = self.rows().find(|(_, _, known)| known.is_same_plugin(&record));
            let index = match known.map(|(id, _, known)| (id.index(), known.clone())) {
                Some((index, known)) => {
                    if is_superseded(&known, &record) {
                        self.put(index, record);
                        removed.push(known);
                    }
                    index
                }
                None => {
                    let Ok(index) = self.free_index() else { break };
                    self.put(index, record).0.index()
                }
            };
            found.insert(index);
        }
        let gone = self.rows().filter(|(id, _, record)| !found.contains(&id.index()) && is_from_search(record));
        let gone: Vec<u32> = gone.map(|(id, ..)| id.index()).collect();
        removed.extend(gone.into_iter().filter_map(|index| self.clear(index)));
        removed
    }
}

/// Returns whether a plugin that was found again replaces the known record. A plugin that the program registered is not
/// replaced, and neither is a plugin whose function table is linked into the program. A plugin that did not change is
/// not replaced either, so that its id stays valid.
fn is_superseded(known: &Record, found: &Record) -> bool {
    let linked = matches!(known.candidate.location, Location::Linked(_));
    known.precedence != Precedence::Program && !linked && !known.is_same(found)
}

/// Returns whether a plugin was found by a search, rather than added by the program.
fn is_from_search(record: &Record) -> bool {
    record.precedence != Precedence::Program && record.candidate.provenance.source != SourceKind::Explicit
}

impl Row {
    pub(super) fn id(&self, index: u32) -> PluginId {
        PluginId::new(index, self.generation)
    }
}

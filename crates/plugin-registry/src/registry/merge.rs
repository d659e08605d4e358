//! Merges the results of a search into the registry.

use std::path::Path;
use std::sync::Arc;

use plugin_manifest::{Descriptor, Fault, Library, Manifest};

use super::core::PluginRegistry;
use super::manifest::generic_manifest;
use super::record::{Precedence, Record};
use crate::discovery::{Candidate, Discovered, Discovery, Refusal, SourceKind};
use crate::hardware::HardwareProbe;

impl PluginRegistry {
    /// Searches for plugins and hardware again. Ids and entries become stale if their plugin is no longer found or has
    /// changed. Plugins that the program registered stay in the registry, and disabled plugins stay disabled.
    pub fn refresh(&self) {
        if !self.search_first() {
            release(self.search());
        }
    }

    /// Runs the first search, unless it has already run. If another thread is running it, waits for that thread.
    pub(super) fn ensure_searched(&self) {
        self.search_first();
    }

    /// Runs the first search, unless it has already run. Returns whether this call ran the search.
    fn search_first(&self) -> bool {
        let mut removed = None;
        self.0.first_search.get_or_init(|| removed = Some(self.search()));
        let has_searched = removed.is_some();
        // Release the removed records after the initialization, because shutting a plugin down runs its code, which may
        // use this registry.
        release(removed.unwrap_or_default());
        has_searched
    }

    /// Searches, and returns the records that were removed from the table. The caller must release these records.
    fn search(&self) -> Vec<Arc<Record>> {
        let discovered = self.0.discovery.as_ref().map(Discovery::discover);
        let probe = Arc::new(self.probe().fresh());
        self.merge_discovered(discovered.unwrap_or_default(), probe)
    }

    /// Replaces the results of the last search. Creates the new records before it locks the table. Returns the records
    /// that were removed from the table.
    fn merge_discovered(&self, discovered: Discovered, probe: Arc<HardwareProbe>) -> Vec<Arc<Record>> {
        let Discovered { candidates, hints, notes, searched, .. } = discovered;
        let records = candidates.into_iter().map(|candidate| self.found(candidate, &probe)).collect();
        let mut table = self.write();
        for (_, _, record) in table.rows() {
            record.update_hardware(&probe);
        }
        (table.probe, table.hints, table.notes, table.searched) = (probe, hints, notes, searched);
        table.merge(records)
    }

    /// Creates the record of a candidate that a search found.
    fn found(&self, candidate: Candidate, probe: &HardwareProbe) -> Record {
        let has_own_manifest = candidate.manifest.is_some();
        let precedence = match candidate.provenance.source {
            SourceKind::Explicit => Precedence::Program,
            SourceKind::ManifestOverride | SourceKind::ManifestAdded | SourceKind::Environment => Precedence::User,
            _ => Precedence::Found,
        };
        let (candidate, descriptor) = describe(candidate);
        let mut record = self.record(candidate, descriptor, precedence, probe);
        record.has_own_manifest = has_own_manifest;
        record
    }
}

/// Ends the registry's use of removed plugins. The caller must not hold a lock, because shutting a plugin down runs its
/// code.
fn release(removed: Vec<Arc<Record>>) {
    for record in removed {
        record.release();
    }
}

/// Creates the description of a candidate. Returns only the manifest if the path of the library is unknown or the
/// manifest has faults. The faults become refusals of the candidate.
fn describe(mut candidate: Candidate) -> (Candidate, Result<Descriptor, Manifest>) {
    let manifest = generic_manifest(&candidate);
    let Some(path) = candidate.location.path().map(Path::to_owned) else { return (candidate, Err(manifest)) };
    // SAFETY: R1 (the library is trusted): whoever created the registry vouches for the places that it searches.
    let library = unsafe { Library::path(path.clone()) };
    let descriptor = Descriptor::new(manifest.clone(), library, Arc::new(()));
    let descriptor = descriptor.map_err(|faults| {
        for Fault { field, message, .. } in faults.into_vec() {
            candidate.refusals.push(Refusal::MalformedManifest { path: path.clone(), field, message });
        }
        manifest
    });
    (candidate, descriptor)
}

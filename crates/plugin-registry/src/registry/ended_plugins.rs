//! Plugins that a registry no longer uses, but whose clients may still exist.

use std::sync::Arc;
use std::time::Instant;

use super::library::ProcessLibrary;

/// The libraries that a registry no longer uses, by plugin name. A shutdown of the registry waits for their clients. A
/// library stays in the list until a shutdown finds that it has no clients. If shutdowns overlap or follow each other,
/// each shutdown therefore waits for all clients.
#[derive(Clone, Debug, Default)]
pub(super) struct EndedPlugins(Vec<(String, Arc<ProcessLibrary>)>);

impl EndedPlugins {
    pub(super) fn add(&mut self, name: &str, library: &Arc<ProcessLibrary>) {
        if !self.0.iter().any(|(_, known)| Arc::ptr_eq(known, library)) {
            self.0.push((name.to_owned(), library.clone()));
        }
    }

    /// Waits for each library until it has no clients or the deadline has passed, and then calls `release`. Returns the
    /// plugins that still have clients, with the number of clients.
    pub(super) fn wait(
        &self,
        deadline: Instant,
        mut release: impl FnMut(&Arc<ProcessLibrary>),
    ) -> Vec<(String, usize)> {
        let mut remaining = Vec::new();
        for (name, library) in &self.0 {
            let clients = library.wait_for_clients(deadline);
            if clients > 0 {
                remaining.push((name.clone(), clients));
            }
            release(library);
        }
        remaining
    }

    /// Removes the libraries that have no clients.
    pub(super) fn forget_unused(&mut self) {
        self.0.retain(|(_, library)| library.clients() > 0);
    }
}

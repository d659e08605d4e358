//! Identifiers of plugins. An id becomes stale when its plugin changes.

use std::fmt;

/// Identifies a plugin in a registry. When the plugin is disabled, replaced, unloaded or removed, the id becomes stale.
/// Every use of a stale id returns an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PluginId {
    index: u32,
    generation: u32,
}

impl PluginId {
    /// Creates an id from an index and a generation.
    pub const fn new(index: u32, generation: u32) -> Self {
        Self { index, generation }
    }

    /// Returns the index of the plugin in the registry.
    pub const fn index(self) -> u32 {
        self.index
    }

    /// Returns the generation, which counts the changes of the plugin at this index.
    pub const fn generation(self) -> u32 {
        self.generation
    }
}

impl fmt::Display for PluginId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.index, self.generation)
    }
}

//! Ids of plugins. An id becomes stale when its plugin changes.

use std::fmt;

/// Identifies a plugin of a registry. When the plugin is disabled, replaced, unloaded or removed, its generation ends. The id
/// is then stale for ever, and every use of it is an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PluginId {
    index: u32,
    generation: u32,
}

impl PluginId {
    /// Creates an id from its parts.
    pub const fn new(index: u32, generation: u32) -> Self {
        Self { index, generation }
    }

    /// Returns the position in the registry.
    pub const fn index(self) -> u32 {
        self.index
    }

    /// Returns the number of changes at that position.
    pub const fn generation(self) -> u32 {
        self.generation
    }
}

impl fmt::Display for PluginId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.index, self.generation)
    }
}

//! Handles that tell when what they named is gone.

use std::fmt;

/// Names a plugin of a registry. When the plugin is disabled, replaced, unloaded or removed, its generation ends, and
/// the id is stale for good: whatever is asked with it is an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PluginId {
    index: u32,
    generation: u32,
}

impl PluginId {
    /// An id from its parts, as a C program holds them. One that names nothing is stale.
    pub const fn new(index: u32, generation: u32) -> Self {
        Self { index, generation }
    }

    /// Position in the registry.
    pub const fn index(self) -> u32 {
        self.index
    }

    /// How often what is at that position has changed.
    pub const fn generation(self) -> u32 {
        self.generation
    }
}

impl fmt::Display for PluginId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.index, self.generation)
    }
}

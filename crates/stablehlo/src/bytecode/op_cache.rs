//! Cache of op kinds. All ops with the same name and the same properties share one entry.

use crate::ir::{Attributes, OpKind};

/// Kind and attributes of all ops with one name and one set of properties.
pub(super) struct CachedOp {
    pub(super) name: usize,
    pub(super) kind: OpKind,
    pub(super) extra: Attributes,
    /// Cost of copying the kind and the attributes.
    pub(super) weight: usize,
}

/// Maximum number of ops for which a new cache reserves memory.
const FIRST_OPS: usize = 64;

/// The cached ops.
pub(super) struct OpCache {
    /// For each index of properties, the index of its entry in `known` plus one, or 0 if there is no entry.
    by_properties: Vec<u32>,
    /// For each op name, the index of its entry in `known` plus one, or 0 if there is no entry. Used for ops without
    /// properties.
    by_name: Vec<u32>,
    known: Vec<CachedOp>,
}

impl OpCache {
    /// Creates an empty cache for a file with this many op names and entries of properties.
    pub(super) fn new(names: usize, properties: usize) -> Self {
        let known = Vec::with_capacity(names.max(properties).min(FIRST_OPS));
        Self { by_properties: vec![0; properties], by_name: vec![0; names], known }
    }

    #[inline]
    pub(super) fn find(&self, name: usize, properties: Option<usize>) -> Option<&CachedOp> {
        let position = match properties {
            Some(properties) => self.by_properties.get(properties),
            None => self.by_name.get(name),
        };
        self.known.get((*position? as usize).checked_sub(1)?).filter(|known| known.name == name)
    }

    /// Adds an entry for ops with these properties. If `properties` is `None`, the entry is for ops with this name and
    /// without properties. Does nothing if the cache already has such an entry.
    pub(super) fn add(&mut self, properties: Option<usize>, known: CachedOp) {
        let (list, index) = match properties {
            Some(properties) => (&mut self.by_properties, properties),
            None => (&mut self.by_name, known.name),
        };
        if let (Some(entry @ 0), Ok(position)) = (list.get_mut(index), u32::try_from(self.known.len() + 1)) {
            *entry = position;
            self.known.push(known);
        }
    }
}

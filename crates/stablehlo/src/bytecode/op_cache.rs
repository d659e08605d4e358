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

/// The cached ops.
#[derive(Default)]
pub(super) struct OpCache {
    /// For each index of properties, the index of its entry in `known` plus one, or 0 if there is no entry.
    by_properties: Vec<u32>,
    /// For each op name, the index of its entry in `known` plus one, or 0 if there is no entry. Used for ops without
    /// properties.
    by_name: Vec<u32>,
    known: Vec<CachedOp>,
}

impl OpCache {
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
        if list.len() <= index {
            list.resize(index + 1, 0);
        }
        if list[index] == 0
            && let Ok(position) = u32::try_from(self.known.len() + 1)
        {
            list[index] = position;
            self.known.push(known);
        }
    }
}

//! A cache of the typed form of ops, for all ops with the same name and properties.

use crate::ir::{Attributes, OpKind};

/// The typed form of ops with one name and one set of properties.
pub(super) struct CachedOp {
    pub(super) name: usize,
    pub(super) kind: OpKind,
    pub(super) extra: Attributes,
    /// The cost of a copy.
    pub(super) weight: usize,
}

/// The cached ops.
#[derive(Default)]
pub(super) struct OpCache {
    /// By the number of the properties: the position in `known` plus one, or 0 if there is no entry.
    by_properties: Vec<u32>,
    /// The same for ops without properties, by the number of the name.
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

    /// Adds the first op with these properties.
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

//! The ranges of host memory that a client has mapped.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::{Error, Result};

/// The mapped ranges, sorted by address.
#[derive(Default)]
pub(crate) struct Mappings(Mutex<Vec<Mapping>>);

#[derive(Clone, Copy)]
struct Mapping {
    address: usize,
    size: usize,
    phase: Phase,
}

/// The state of a range. The lock is not held while the backend runs, so the state shows other threads that the backend
/// is mapping or unmapping the range.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    Mapping,
    Mapped,
    Unmapping,
}

impl Mappings {
    fn lock(&self) -> MutexGuard<'_, Vec<Mapping>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records a range that is about to be mapped. Returns `false` if the range overlaps with a recorded range.
    pub(super) fn add(&self, address: usize, size: usize) -> bool {
        let mut known = self.lock();
        let end = address.saturating_add(size);
        let at = known.partition_point(|mapping| mapping.address < end);
        let before = at.checked_sub(1).map(|before| known[before]);
        let overlaps = before.is_some_and(|before| before.address.saturating_add(before.size) > address);
        if !overlaps {
            known.insert(at, Mapping { address, size, phase: Phase::Mapping });
        }
        !overlaps
    }

    /// Marks the range that begins at `address` as being unmapped, so that only one call unmaps it. Returns an error if
    /// no mapped range begins at `address`, or if another call is mapping or unmapping this range.
    pub(super) fn begin_unmap(&self, address: usize) -> Result<()> {
        let mut known = self.lock();
        let Some(mapping) = known.iter_mut().find(|mapping| mapping.address == address) else {
            return Err(Error::argument(format!(
                "no mapping begins at {address:#x}; pass the address that was mapped"
            )));
        };
        let busy = match mapping.phase {
            Phase::Mapped => {
                mapping.phase = Phase::Unmapping;
                return Ok(());
            }
            Phase::Mapping => "still being mapped by another call",
            Phase::Unmapping => "already being unmapped by another call",
        };
        let message = format!("the memory at {address:#x} is {busy}; wait until that call returns");
        Err(Error::failed_precondition(message).unnamed())
    }
}

/// A change of a range's state during a call of the backend. If the backend fails or panics, the range returns to its
/// former state.
pub(super) struct Change<'a> {
    pub(super) mappings: &'a Mappings,
    pub(super) address: usize,
    /// The state after the backend has succeeded. `None` removes the range.
    pub(super) after: Option<Phase>,
    /// The state after the backend has failed. `None` removes the range.
    pub(super) before: Option<Phase>,
}

impl Change<'_> {
    pub(super) fn done(mut self) {
        self.before = self.after;
    }
}

impl Drop for Change<'_> {
    fn drop(&mut self) {
        let mut known = self.mappings.lock();
        match self.before {
            Some(phase) => {
                if let Some(mapping) = known.iter_mut().find(|mapping| mapping.address == self.address) {
                    mapping.phase = phase;
                }
            }
            None => known.retain(|mapping| mapping.address != self.address),
        }
    }
}

//! Maps host memory for direct access by devices.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::abi::table::entry::entries;
use crate::features::FeatureCalls;
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
enum Phase {
    Mapping,
    Mapped,
    Unmapping,
}

impl Mappings {
    fn lock(&self) -> MutexGuard<'_, Vec<Mapping>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records a range that is about to be mapped. Returns `false` if the range overlaps with a recorded range.
    fn add(&self, address: usize, size: usize) -> bool {
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
    fn begin_unmap(&self, address: usize) -> Result<()> {
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
struct Change<'a> {
    mappings: &'a Mappings,
    address: usize,
    /// The state after the backend has succeeded. `None` removes the range.
    after: Option<Phase>,
    /// The state after the backend has failed. `None` removes the range.
    before: Option<Phase>,
}

impl Change<'_> {
    fn done(mut self) {
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

entries! {
    PJRT_Client_DmaMap(args, client) {
        let (address, size) = (args.data.addr(), args.size);
        if address == 0 || size == 0 || address.checked_add(size).is_none() {
            return Err(Error::argument(format!("cannot map {size} bytes at {address:#x}; the range must not be empty, \
                 null or exceed the address space")));
        }
        let mappings = &client.mappings;
        if !mappings.add(address, size) {
            return Err(Error::failed_precondition(format!(
                "some of the {size} bytes at {address:#x} are mapped already; unmap them first"
            )).unnamed());
        }
        let change = Change { mappings, address, after: Some(Phase::Mapped), before: None };
        client.backend.dma_map(address, size)?;
        change.done();
        Ok(())
    }

    PJRT_Client_DmaUnmap(args, client) {
        let (address, mappings) = (args.data.addr(), &client.mappings);
        mappings.begin_unmap(address)?;
        let change = Change { mappings, address, after: None, before: Some(Phase::Mapped) };
        client.backend.dma_unmap(address)?;
        change.done();
        Ok(())
    }
}

//! Host memory that devices access directly.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::abi::entry::entries;
use crate::{Backend, Error};

/// What is mapped: sizes by address.
#[derive(Default)]
pub(crate) struct Mappings(Mutex<BTreeMap<usize, usize>>);

impl Mappings {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<usize, usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes a range; false when part of it is mapped already.
    fn add(&self, address: usize, size: usize) -> bool {
        let mut known = self.lock();
        let end = address.saturating_add(size);
        let overlaps =
            known.range(..end).next_back().is_some_and(|(start, size)| start.saturating_add(*size) > address);
        if !overlaps {
            known.insert(address, size);
        }
        !overlaps
    }
}

/// A range that is noted, and mapped only once this is forgotten: errors and panics leave it unmapped.
struct New<'a> {
    mappings: &'a Mappings,
    address: usize,
}

impl Drop for New<'_> {
    fn drop(&mut self) {
        self.mappings.lock().remove(&self.address);
    }
}

entries! {
    PJRT_Client_DmaMap(args, client) {
        let (address, size) = (args.data.addr(), args.size);
        if address == 0 || size == 0 || address.checked_add(size).is_none() {
            return Err(Error::argument(format!("{size} bytes at {address:#x} are no memory to map")));
        }
        if !client.mappings.add(address, size) {
            return Err(Error::failed_precondition(format!(
                "some of the {size} bytes at {address:#x} are mapped already; unmap them first"
            )).unnamed());
        }
        let new = New { mappings: &client.mappings, address };
        client.backend.dma_map(address, size)?;
        std::mem::forget(new);
        Ok(())
    }

    PJRT_Client_DmaUnmap(args, client) {
        let address = args.data.addr();
        if !client.mappings.lock().contains_key(&address) {
            return Err(Error::argument(format!("nothing is mapped at {address:#x}")));
        }
        client.backend.dma_unmap(address)?;
        client.mappings.lock().remove(&address);
        Ok(())
    }
}

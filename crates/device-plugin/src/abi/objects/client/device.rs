//! The object behind a `PJRT_Device*`: a device of a client.

use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Arc, OnceLock};

use pjrt_sys::PJRT_Memory;

use crate::abi::objects::device_description::DeviceDescription;
use crate::abi::objects::owned_arrays::Pointers;
use crate::abi::objects::topology::Topology;

/// The object behind a `PJRT_Device*`. The client owns it.
pub(crate) struct Device {
    topology: Arc<Topology>,
    pub(crate) index: usize,
    pub(crate) memory_indices: Vec<usize>,
    memories: OnceLock<Pointers<PJRT_Memory>>,
    /// The client, which owns the device. Null until [`Device::link_client`] is called.
    client: AtomicPtr<()>,
}

impl Device {
    pub(crate) fn new(topology: Arc<Topology>, index: usize, memory_indices: Vec<usize>) -> Self {
        let client = AtomicPtr::new(null_mut());
        Self { topology, index, memory_indices, memories: OnceLock::new(), client }
    }

    pub(crate) fn link_memories(&self, all: &[*mut PJRT_Memory]) {
        self.memories.get_or_init(|| self.memory_indices.iter().map(|memory| all[*memory]).collect());
    }

    /// Stores the address of the client.
    pub(crate) fn link_client(&self, client: *const ()) {
        self.client.store(client.cast_mut(), Ordering::Relaxed);
    }

    /// Returns the address of the client, or null if the device has no client.
    pub(crate) fn client_address(&self) -> *const () {
        self.client.load(Ordering::Relaxed)
    }

    pub(crate) fn description(&self) -> &DeviceDescription {
        &self.topology.descriptions[self.index]
    }

    pub(crate) fn memories(&self) -> &[*mut PJRT_Memory] {
        self.memories.get().map_or(&[], Pointers::as_slice)
    }
}

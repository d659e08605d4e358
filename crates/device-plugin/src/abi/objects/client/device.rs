//! `PJRT_Device`: a device of a client.

use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Arc, OnceLock};

use pjrt_sys::PJRT_Memory;
use plugin_macros::entry;

use crate::abi::objects::device_description::DeviceDescription;
use crate::abi::objects::owned_arrays::Pointers;
use crate::abi::objects::topology::Topology;
use crate::abi::table::ffi_read::handles;
use crate::{Error, Result};

/// The object behind a `PJRT_Device*`. The client owns it.
pub(crate) struct Device {
    topology: Arc<Topology>,
    pub(crate) index: usize,
    pub(crate) memory_indices: Vec<usize>,
    memories: OnceLock<Pointers<PJRT_Memory>>,
    /// The client, which owns the device. Null until [`Device::link_client`] is called.
    client: AtomicPtr<()>,
}

handles! {
    PJRT_Device => Device;
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

    fn memories(&self) -> &[*mut PJRT_Memory] {
        self.memories.get().map_or(&[], Pointers::as_slice)
    }
}

#[entry]
unsafe fn PJRT_Device_GetDescription<P: crate::DevicePlugin>(
    args: &mut pjrt_sys::PJRT_Device_GetDescription_Args,
    device: &Device,
) -> Result<()> {
    args.device_description = std::ptr::from_ref(device.description()).cast_mut().cast();
    Ok(())
}

#[entry]
unsafe fn PJRT_Device_IsAddressable<P: crate::DevicePlugin>(
    args: &mut pjrt_sys::PJRT_Device_IsAddressable_Args,
    device: &Device,
) -> Result<()> {
    args.is_addressable = device.description().info.addressable.into();
    Ok(())
}

#[entry]
unsafe fn PJRT_Device_LocalHardwareId<P: crate::DevicePlugin>(
    args: &mut pjrt_sys::PJRT_Device_LocalHardwareId_Args,
    device: &Device,
) -> Result<()> {
    args.local_hardware_id = device.description().info.local_hardware_id;
    Ok(())
}

#[entry]
unsafe fn PJRT_Device_AddressableMemories<P: crate::DevicePlugin>(
    args: &mut pjrt_sys::PJRT_Device_AddressableMemories_Args,
    device: &Device,
) -> Result<()> {
    args.memories = device.memories().as_ptr();
    args.num_memories = device.memories().len();
    Ok(())
}

#[entry]
unsafe fn PJRT_Device_DefaultMemory<P: crate::DevicePlugin>(
    args: &mut pjrt_sys::PJRT_Device_DefaultMemory_Args,
    device: &Device,
) -> Result<()> {
    let memory = device.memories().first();
    args.memory =
        *memory.ok_or_else(|| Error::invalid_argument("the device is not addressable by this process").unnamed())?;
    Ok(())
}

#[entry]
unsafe fn PJRT_Device_GetAttributes<P: crate::DevicePlugin>(
    args: &mut pjrt_sys::PJRT_Device_GetAttributes_Args,
    device: &Device,
) -> Result<()> {
    // The topology owns the attributes, so the deleter does nothing.
    unsafe extern "C" fn keep(_: *mut pjrt_sys::PJRT_Device_Attributes) {}
    let attributes = device.description().attributes.raw();
    args.attributes = attributes.as_ptr();
    args.num_attributes = attributes.len();
    args.device_attributes = std::ptr::from_ref(device.description()).cast_mut().cast();
    args.attributes_deleter = Some(keep);
    Ok(())
}

//! The objects and functions of `PJRT_Device` and `PJRT_DeviceDescription`.

use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Arc, OnceLock};

use pjrt_sys::{Bool, PJRT_Memory, PJRT_MemoryDescription};

use crate::abi::objects::client::state::Client;
use crate::abi::objects::owned_arrays::{NamedValues, Pointers};
use crate::abi::objects::topology::Topology;
use crate::abi::reclaim::refcount::Counted;
use crate::abi::table::entry::entries;
use crate::abi::table::ffi_read::handles;
use crate::features::FeatureCalls;
use crate::{DeviceInfo, DevicePlugin, Error, MemoryInfo, Result};

/// The object behind a `PJRT_Device*`. The client owns it.
pub(crate) struct Device {
    topology: Arc<Topology>,
    pub(crate) index: usize,
    pub(crate) memory_indices: Vec<usize>,
    memories: OnceLock<Pointers<PJRT_Memory>>,
    /// The client, which owns the device. Null until [`Device::link_client`] is called.
    client: AtomicPtr<()>,
}

/// The object behind a `PJRT_DeviceDescription*`. The topology owns it.
pub(crate) struct DeviceDescription {
    pub(crate) info: DeviceInfo,
    attributes: NamedValues,
    /// The memories that the device can address, in the device's order of preference. `memory_handles` points to them.
    _memories: Box<[MemoryDescription]>,
    pub(crate) memory_handles: Pointers<PJRT_MemoryDescription>,
}

/// The object behind a `PJRT_MemoryDescription*`. The device description owns it.
pub(crate) struct MemoryDescription {
    pub(crate) kind: String,
    pub(crate) kind_id: i32,
}

handles! {
    PJRT_Device => Device;
    PJRT_DeviceDescription => DeviceDescription;
    PJRT_MemoryDescription => MemoryDescription;
}

impl DeviceDescription {
    pub(crate) fn new(mut info: DeviceInfo, memories: &[MemoryInfo]) -> Self {
        if info.debug_string.is_empty() {
            info.debug_string = format!("{}(id={}, process={})", info.kind, info.id, info.process_index);
        }
        if info.display_string.is_empty() {
            info.display_string = format!("{}:{}", info.kind, info.id);
        }
        let attributes = NamedValues::attributes(info.attributes.clone());
        let reached = memories.iter().filter(|memory| memory.devices.contains(&info.id));
        let describe = |memory: &MemoryInfo| MemoryDescription { kind: memory.kind.clone(), kind_id: memory.kind_id };
        let memories: Box<[_]> = reached.map(describe).collect();
        Self { info, attributes, memory_handles: Pointers::of(&memories), _memories: memories }
    }
}

impl Device {
    pub(crate) fn new(topology: Arc<Topology>, index: usize, memory_indices: Vec<usize>) -> Self {
        let client = AtomicPtr::new(null_mut());
        Self { topology, index, memory_indices, memories: OnceLock::new(), client }
    }

    pub(crate) fn link_memories(&self, all: &[*mut PJRT_Memory]) {
        self.memories.get_or_init(|| self.memory_indices.iter().map(|memory| all[*memory]).collect());
    }

    pub(crate) fn link_client<B: crate::Backend>(&self, client: &Counted<Client<B>>) {
        self.client.store(std::ptr::from_ref(client).cast_mut().cast(), Ordering::Relaxed);
    }

    pub(crate) fn description(&self) -> &DeviceDescription {
        &self.topology.descriptions[self.index]
    }

    fn memories(&self) -> &[*mut PJRT_Memory] {
        self.memories.get().map_or(&[], Pointers::as_slice)
    }

    pub(crate) fn client<P: DevicePlugin>(&self) -> Result<&Counted<Client<P::Backend>>> {
        let client: *const Counted<Client<P::Backend>> = self.client.load(Ordering::Relaxed).cast();
        // SAFETY: V6 (lifetimes): the pointer is null or refers to the client that owns this device, and a plugin has
        // only one backend type.
        unsafe { client.as_ref() }.ok_or_else(|| {
            Error::internal("the device belongs to a topology without a client; use a device of a client")
        })
    }
}

entries! {
    PJRT_DeviceDescription_Id(args, device_description) {
        args.id = device_description.info.id;
        Ok(())
    }

    PJRT_DeviceDescription_ProcessIndex(args, device_description) {
        args.process_index = device_description.info.process_index;
        Ok(())
    }

    PJRT_DeviceDescription_Attributes(args, device_description) {
        let attributes = device_description.attributes.raw();
        args.attributes = attributes.as_ptr();
        args.num_attributes = attributes.len();
        Ok(())
    }

    PJRT_DeviceDescription_Kind(args, device_description) {
        args.device_kind = device_description.info.kind.as_ptr().cast();
        args.device_kind_size = device_description.info.kind.len();
        Ok(())
    }

    PJRT_DeviceDescription_DebugString(args, device_description) {
        args.debug_string = device_description.info.debug_string.as_ptr().cast();
        args.debug_string_size = device_description.info.debug_string.len();
        Ok(())
    }

    PJRT_DeviceDescription_ToString(args, device_description) {
        args.to_string = device_description.info.display_string.as_ptr().cast();
        args.to_string_size = device_description.info.display_string.len();
        Ok(())
    }

    PJRT_Device_GetDescription(args, device) {
        args.device_description = std::ptr::from_ref(device.description()).cast_mut().cast();
        Ok(())
    }

    PJRT_Device_IsAddressable(args, device) {
        args.is_addressable = device.description().info.addressable.into();
        Ok(())
    }

    PJRT_Device_LocalHardwareId(args, device) {
        args.local_hardware_id = device.description().info.local_hardware_id;
        Ok(())
    }

    PJRT_Device_AddressableMemories(args, device) {
        args.memories = device.memories().as_ptr();
        args.num_memories = device.memories().len();
        Ok(())
    }

    PJRT_Device_DefaultMemory(args, device) {
        let memory = device.memories().first();
        args.memory = *memory.ok_or_else(|| Error::invalid_argument("the device is not addressable by this process").unnamed())?;
        Ok(())
    }

    PJRT_Device_GetAttributes(args, device) {
        // The topology owns the attributes, so the deleter does nothing.
        unsafe extern "C" fn keep(_: *mut pjrt_sys::PJRT_Device_Attributes) {}
        let attributes = device.description().attributes.raw();
        args.attributes = attributes.as_ptr();
        args.num_attributes = attributes.len();
        args.device_attributes = std::ptr::from_ref(device.description()).cast_mut().cast();
        args.attributes_deleter = Some(keep);
        Ok(())
    }

    PJRT_Device_MemoryStats(args, device) {
        let client = device.client::<P>()?;
        let stats = client.backend.memory_stats(device.index)?;
        let set = |value: &mut i64, is_set: &mut Bool, stat: Option<i64>| {
            *value = stat.unwrap_or(0);
            *is_set = stat.is_some().into();
        };
        args.bytes_in_use = stats.bytes_in_use;
        set(&mut args.peak_bytes_in_use, &mut args.peak_bytes_in_use_is_set, stats.peak_bytes_in_use);
        set(&mut args.num_allocs, &mut args.num_allocs_is_set, stats.num_allocs);
        set(&mut args.largest_alloc_size, &mut args.largest_alloc_size_is_set, stats.largest_alloc_size);
        set(&mut args.bytes_limit, &mut args.bytes_limit_is_set, stats.bytes_limit);
        set(&mut args.bytes_reserved, &mut args.bytes_reserved_is_set, stats.bytes_reserved);
        set(&mut args.peak_bytes_reserved, &mut args.peak_bytes_reserved_is_set, stats.peak_bytes_reserved);
        set(&mut args.bytes_reservable_limit, &mut args.bytes_reservable_limit_is_set, stats.bytes_reservable_limit);
        let largest_free = stats.largest_free_block_bytes;
        set(&mut args.largest_free_block_bytes, &mut args.largest_free_block_bytes_is_set, largest_free);
        set(&mut args.pool_bytes, &mut args.pool_bytes_is_set, stats.pool_bytes);
        set(&mut args.peak_pool_bytes, &mut args.peak_pool_bytes_is_set, stats.peak_pool_bytes);
        set(&mut args.peak_allocated_bytes, &mut args.peak_allocated_bytes_is_set, stats.peak_allocated_bytes);
        Ok(())
    }
}

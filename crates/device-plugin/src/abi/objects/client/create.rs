//! Creates clients.

use std::sync::Arc;

use pjrt_sys::PJRT_Api;

use crate::abi::objects::client::at_exit::Registration;
use crate::abi::objects::client::buffer::RetiredBuffers;
use crate::abi::objects::client::device::Device;
use crate::abi::objects::client::extents::KnownExtents;
use crate::abi::objects::client::handle::Client;
use crate::abi::objects::client::mappings::Mappings;
use crate::abi::objects::client::memory::Memory;
use crate::abi::objects::executable::deferred_launches::DeferredLaunches;
use crate::abi::objects::executable::launch_order::Order;
use crate::abi::objects::opaque_tokens::OpaqueTokens;
use crate::abi::objects::owned_arrays::Pointers;
use crate::abi::objects::topology::Topology;
use crate::abi::reclaim::hazard::HazardDomain;
use crate::abi::reclaim::refcount::Ref;
use crate::features::FeatureCalls;
use crate::{Backend, ClientOptions, DeviceInfo, Error, Result, TopologyInfo};

impl<B: Backend> Client<B> {
    /// Creates a client. Its first word is the address of the plugin's function table, so that other code of the
    /// process can call the plugin with only a client. XLA's clients have had this first word since May 2026.
    /// `default_platform` is the name of the platform if the backend does not name it.
    pub(crate) fn create(table: *const PJRT_Api, default_platform: &str, options: &ClientOptions) -> Result<Ref<Self>> {
        let backend = B::create(options)?;
        let info = TopologyInfo {
            platform_name: backend.platform_name().unwrap_or_else(|| default_platform.to_owned()),
            platform_version: backend.platform_version(),
            devices: backend.devices(),
            memories: backend.memories(),
            attributes: backend.topology_attributes(),
        };
        let topology = Arc::new(Topology::new(info)?);
        let ids: Vec<i32> = topology.info.devices.iter().map(|info| info.id).collect();
        let addressable: Vec<bool> = topology.info.devices.iter().map(|info| info.addressable).collect();
        let mut memories = Vec::new();
        for (id, info) in topology.info.memories.iter().enumerate() {
            let index = |device: &i32| ids.iter().position(|id| id == device);
            memories.push(Memory::new(id, info.clone(), info.devices.iter().filter_map(index).collect()));
        }
        let memories_of = |device: usize| {
            let with = memories.iter().enumerate().filter(move |(_, memory)| memory.device_indices.contains(&device));
            with.map(|(i, _)| i).collect::<Vec<_>>()
        };
        let devices: Vec<Device> =
            (0..ids.len()).map(|index| Device::new(Arc::clone(&topology), index, memories_of(index))).collect();
        if let Some(device) = (0..ids.len()).find(|i| addressable[*i] && devices[*i].memory_indices.is_empty()) {
            return Err(Error::internal(format!(
                "the backend lists no memory for the addressable device {}",
                ids[device]
            )));
        }

        let device_handles = Pointers::of(&devices);
        let memory_handles = Pointers::of(&memories);
        let addressable_handles =
            Pointers::of(devices.iter().zip(&addressable).filter(|(_, yes)| **yes).map(|(device, _)| device));
        for device in &devices {
            device.link_memories(memory_handles.as_slice());
        }
        for memory in &memories {
            memory.link_devices(device_handles.as_slice());
        }
        let process_index = backend.process_index();
        let elsewhere =
            topology.info.devices.iter().find(|info| info.addressable && info.process_index != process_index);
        if let Some(DeviceInfo { id, process_index: other, .. }) = elsewhere {
            return Err(Error::internal(format!(
                "device {id} is addressable and belongs to process {other}, but Distributed::process_index is \
                 {process_index}"
            )));
        }
        let client = Ref::new(
            table.cast(),
            Self {
                at_exit: Registration::new(backend.at_exit()),
                backend,
                process_index,
                topology,
                devices,
                device_handles,
                addressable_handles,
                memories,
                memory_handles,
                hazards: HazardDomain::new(),
                retired: RetiredBuffers::new(),
                deferred: DeferredLaunches::default(),
                order: Order::default(),
                mappings: Mappings::default(),
                aliases: OpaqueTokens::new(),
                alias_sources: Arc::default(),
                extents: KnownExtents::default(),
            },
        );
        for device in &client.devices {
            device.link_client(std::ptr::from_ref(&*client).cast());
        }
        Ok(client)
    }
}

//! The object behind a `PJRT_Client*`.

use std::sync::Arc;

use pjrt_sys::{PJRT_Api, PJRT_Buffer_MemoryLayout, PJRT_Device, PJRT_Memory};

use crate::abi::objects::client::alias_sources::AliasSources;
use crate::abi::objects::client::at_exit::Registration;
use crate::abi::objects::client::buffer::RetiredBuffers;
use crate::abi::objects::client::device::Device;
use crate::abi::objects::client::dma::Mappings;
use crate::abi::objects::client::dynamic_dims::KnownExtents;
use crate::abi::objects::client::memory::Memory;
use crate::abi::objects::client::placeholder_buffer::PlaceholderBuffer;
use crate::abi::objects::executable::deferred_launch::DeferredLaunches;
use crate::abi::objects::executable::launches::Order;
use crate::abi::objects::opaque_tokens::OpaqueTokens;
use crate::abi::objects::owned_arrays::Pointers;
use crate::abi::objects::topology::Topology;
use crate::abi::reclaim::hazard::HazardDomain;
use crate::abi::reclaim::refcount::{Counted, Reclaimed, Ref};
use crate::abi::table::ffi_read::{self, handles};
use crate::array_layout::ArrayLayout;
use crate::features::FeatureCalls;
use crate::{Backend, ClientOptions, DeviceInfo, DevicePlugin, Error, Placement, Result, Shape, TopologyInfo};

/// A client: the backend, and the objects that represent its devices and memories. Buffers and executables keep the
/// client alive, so a framework may destroy the client before them.
pub(crate) struct Client<B: Backend> {
    /// The hook that runs if the process ends before the client is destroyed.
    pub(crate) at_exit: Registration,
    pub(crate) backend: B,
    pub(crate) process_index: i32,
    pub(crate) topology: Arc<Topology>,
    pub(crate) devices: Vec<Device>,
    pub(crate) device_handles: Pointers<PJRT_Device>,
    pub(crate) addressable_handles: Pointers<PJRT_Device>,
    pub(crate) memories: Vec<Memory>,
    pub(crate) memory_handles: Pointers<PJRT_Memory>,
    /// Publishes the buffers that executions use, and counts the outputs that executions create.
    pub(crate) hazards: Arc<HazardDomain>,
    /// Deleted buffers that executions may still use.
    pub(crate) retired: RetiredBuffers<B>,
    /// Launches that wait for their arguments.
    pub(crate) deferred: DeferredLaunches<B>,
    /// Prevents deferred launches on several devices from overlapping with other launches on several devices.
    pub(crate) order: Order,
    pub(crate) mappings: Mappings,
    /// Alias buffers, which wait for the framework to name the buffer whose data they take over.
    pub(crate) aliases: OpaqueTokens<PlaceholderBuffer<B>>,
    /// The buffers whose data alias buffers wait for.
    pub(crate) alias_sources: Arc<AliasSources>,
    pub(crate) extents: KnownExtents,
}

handles! {
    PJRT_Client => Counted<Client<P::Backend>>;
}

impl<B: Backend> Reclaimed for Client<B> {
    #[inline]
    fn domain(&self) -> &Arc<HazardDomain> {
        &self.hazards
    }
}

impl<B: Backend> Client<B> {
    /// Creates a client. Its first word is the address of the plugin's function table, so that other code of the
    /// process can call the plugin with only a client. XLA's clients have had this first word since May 2026.
    pub(crate) fn create<P: DevicePlugin<Backend = B>>(
        table: *const PJRT_Api,
        options: &ClientOptions,
    ) -> Result<Ref<Self>> {
        let backend = B::create(options)?;
        let info = TopologyInfo {
            platform_name: backend.platform_name().unwrap_or_else(|| P::NAME.to_owned()),
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
            device.link_client(&client);
        }
        Ok(client)
    }

    /// Returns the index of a device of this client.
    pub(crate) fn device_index(&self, device: *mut PJRT_Device) -> Result<usize> {
        self.device_handles.position(device).ok_or_else(|| {
            Error::argument(if device.is_null() { "device is null" } else { "device belongs to another client" })
        })
    }

    /// Returns the index of a memory of this client.
    pub(crate) fn memory_index(&self, memory: *mut PJRT_Memory) -> Result<usize> {
        self.memory_handles.position(memory).ok_or_else(|| {
            Error::argument(if memory.is_null() { "memory is null" } else { "memory belongs to another client" })
        })
    }

    /// Returns the placement in the default memory of a device.
    pub(crate) fn default_placement(&self, device: usize) -> Result<Placement> {
        let memory = self.devices.get(device).and_then(|device| device.memory_indices.first());
        let memory = memory.ok_or_else(|| self.not_addressable(device))?;
        Ok(Placement { device, memory: *memory })
    }

    /// Returns the placement in a device's memory of the given kind, or in its default memory if `kind` is empty.
    pub(crate) fn placement_of_kind(&self, device: usize, kind: &str) -> Result<Placement> {
        if kind.is_empty() {
            return self.default_placement(device);
        }
        let indices = self.devices.get(device).map_or(&[][..], |device| &device.memory_indices);
        let memory = indices.iter().find(|memory| self.memories[**memory].info.kind == kind);
        let memory = memory.ok_or_else(|| {
            let known: Vec<_> = indices.iter().map(|memory| &*self.memories[*memory].info.kind).collect();
            let (id, known) = (self.device_id(device), known.join(", "));
            Error::invalid_argument(format!("device {id} has no memory of kind {kind:?}; it has {known}"))
        })?;
        Ok(Placement { device, memory: *memory })
    }

    /// Returns the layout of an array: the layout that the framework requested, or else the default layout. `field` is
    /// the name of the layout in error messages.
    ///
    /// # Safety
    ///
    /// V3 (arrays and text) holds for the layout.
    pub(crate) unsafe fn form(
        &self,
        shape: &Shape,
        layout: *const PJRT_Buffer_MemoryLayout,
        field: &str,
    ) -> Result<ArrayLayout> {
        // SAFETY: V3 (arrays and text), which the caller promises.
        let layout = unsafe { ffi_read::device_layout(layout, shape) }?;
        ArrayLayout::requested::<B>(&self.topology.info, shape, layout, field)
    }

    /// Returns the placement of a buffer that the framework requests by memory, by device or by both.
    pub(crate) fn placement(&self, device: *mut PJRT_Device, memory: *mut PJRT_Memory) -> Result<Placement> {
        if memory.is_null() {
            return self.default_placement(self.device_index(device)?);
        }
        let memory = self.memory_index(memory)?;
        let devices = &self.memories[memory].device_indices;
        if device.is_null() {
            return Ok(Placement { device: devices[0], memory });
        }
        let device = self.device_index(device)?;
        if devices.contains(&device) {
            return Ok(Placement { device, memory });
        }
        let kind = &self.memories[memory].info.kind;
        Err(Error::argument(format!("device {} cannot access that memory of kind {kind:?}", self.device_id(device))))
    }

    pub(crate) fn device_id(&self, device: usize) -> i32 {
        self.topology.descriptions.get(device).map_or(-1, |device| device.info.id)
    }

    fn not_addressable(&self, device: usize) -> Error {
        Error::invalid_argument(format!("device {} is not addressable by this process", self.device_id(device)))
    }
}

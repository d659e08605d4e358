//! The object behind a `PJRT_Client*`.

use std::sync::Arc;

use pjrt_sys::{PJRT_Device, PJRT_Memory};

use crate::abi::objects::client::alias_sources::AliasSources;
use crate::abi::objects::client::at_exit::Registration;
use crate::abi::objects::client::buffer::{Buffer, BufferOwner, HasClient, RetiredBuffers};
use crate::abi::objects::client::device::Device;
use crate::abi::objects::client::extents::KnownExtents;
use crate::abi::objects::client::mappings::Mappings;
use crate::abi::objects::client::memory::Memory;
use crate::abi::objects::client::placeholder_buffer::PlaceholderBuffer;
use crate::abi::objects::executable::deferred_launches::DeferredLaunches;
use crate::abi::objects::executable::launch_order::Order;
use crate::abi::objects::opaque_tokens::OpaqueTokens;
use crate::abi::objects::owned_arrays::Pointers;
use crate::abi::objects::topology::Topology;
use crate::abi::reclaim::hazard::HazardDomain;
use crate::abi::reclaim::refcount::{Counted, Reclaimed};
use crate::{Backend, Error, Result};

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
    pub(crate) retired: RetiredBuffers<Self>,
    /// Launches that wait for their arguments.
    pub(crate) deferred: DeferredLaunches,
    /// Prevents deferred launches on several devices from overlapping with other launches on several devices.
    pub(crate) order: Order,
    pub(crate) mappings: Mappings,
    /// Alias buffers, which wait for the framework to name the buffer whose data they take over.
    pub(crate) aliases: OpaqueTokens<PlaceholderBuffer<B::Buffer>>,
    /// The buffers for whose data other buffers wait.
    pub(crate) alias_sources: Arc<AliasSources>,
    pub(crate) extents: KnownExtents,
}

/// A buffer of a client.
pub(crate) type BufferHandle<B> = Buffer<Client<B>>;

impl<B: Backend> HasClient for B {
    type Client = Client<B>;
}

impl<B: Backend> Reclaimed for Client<B> {
    #[inline]
    fn domain(&self) -> &Arc<HazardDomain> {
        &self.hazards
    }
}

impl<B: Backend> BufferOwner for Client<B> {
    type Value = B::Buffer;

    const HAS_DYNAMIC_SHAPES: bool = B::FEATURES.dynamic_shapes.is_some();

    #[inline]
    fn is_dynamic(&self, value: &B::Buffer) -> bool {
        let feature = const { &B::FEATURES.dynamic_shapes };
        feature.as_ref().is_some_and(|feature| (feature.is_dynamic)(&self.backend, value))
    }

    fn extents(&self) -> &KnownExtents {
        &self.extents
    }

    fn retired(&self) -> &RetiredBuffers<Self> {
        &self.retired
    }
}

impl<B: Backend> Client<B> {
    /// Returns the client of a device. Returns an error if the device belongs to a topology.
    pub(crate) fn of_device(device: &Device) -> Result<&Counted<Self>> {
        let client = device.client_address().cast::<Counted<Self>>();
        // SAFETY: V6 (lifetimes): the pointer is null or refers to the client that owns this device, and a plugin has
        // only one backend type.
        unsafe { client.as_ref() }.ok_or_else(|| {
            Error::internal("the device belongs to a topology without a client; use a device of a client")
        })
    }
}

//! Finds the devices, memories and layouts of a client that a framework requests.

use pjrt_sys::{PJRT_Buffer_MemoryLayout, PJRT_Device, PJRT_Memory};

use crate::abi::objects::client::handle::Client;
use crate::abi::table::layout_read;
use crate::array_layout::ArrayLayout;
use crate::{Backend, Error, Placement, Result, Shape};

impl<B: Backend> Client<B> {
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
            let known: Vec<_> = indices.iter().map(|memory| self.memories[*memory].info.kind.clone()).collect();
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
    pub(crate) unsafe fn array_layout(
        &self,
        shape: &Shape,
        layout: *const PJRT_Buffer_MemoryLayout,
        field: &str,
    ) -> Result<ArrayLayout> {
        // SAFETY: V3 (arrays and text), which the caller promises.
        let layout = unsafe { layout_read::device_layout(layout, shape) }?;
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

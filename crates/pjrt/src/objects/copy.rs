//! `PJRT_Buffer_CopyToDevice` and `PJRT_Buffer_CopyToMemory`: copies to other devices and memories.

use std::ptr;

use pjrt_sys::*;

use crate::error::Error;
use crate::objects::buffer::Buffer;
use crate::objects::device::Device;
use crate::objects::memory::Memory;
use crate::objects::placement::Placement;
use crate::table::read;

impl Buffer {
    /// Copies the buffer to another device or memory of the client.
    ///
    /// # Errors
    ///
    /// Returns an error if the device or memory belongs to another client. The plugin may also reject a device or
    /// memory that already holds the buffer.
    #[doc(alias = "PJRT_Buffer_CopyToDevice")]
    #[doc(alias = "PJRT_Buffer_CopyToMemory")]
    pub fn copy_to<'a>(&self, placement: impl Into<Placement<'a>>) -> Result<Self, Error> {
        let placement = placement.into();
        placement.check(self.handle().owner())?;
        match placement {
            Placement::Default => self.copy_to_device(&self.client().default_device()?),
            Placement::Device(device) => self.copy_to_device(device),
            Placement::Memory(memory) => self.copy_to_memory(memory),
        }
    }

    fn copy_to_device(&self, device: &Device) -> Result<Self, Error> {
        let mut args = PJRT_Buffer_CopyToDevice_Args::new();
        args.buffer = self.live()?.as_ptr();
        args.dst_device = device.handle().as_ptr();
        let call = || {
            args.dst_buffer = ptr::null_mut();
            // SAFETY: C2 (calls): the buffer and device are live and belong to one client.
            unsafe { self.handle().api().call::<slot::PJRT_Buffer_CopyToDevice>(&mut args) }
        };
        self.handle().owner().allocating(|| vec![device.clone()], call)?;
        let raw = read::object(args.dst_buffer)
            .map_err(|broken| Error::malformed(slot::PJRT_Buffer_CopyToDevice::NAME, broken))?;
        // SAFETY: C3 (objects): the plugin created the buffer for this caller.
        Ok(unsafe { Self::new(raw, self.handle().owner().clone(), Some(device.raw())) })
    }

    fn copy_to_memory(&self, memory: &Memory) -> Result<Self, Error> {
        let mut args = PJRT_Buffer_CopyToMemory_Args::new();
        args.buffer = self.live()?.as_ptr();
        args.dst_memory = memory.handle().as_ptr();
        let call = || {
            args.dst_buffer = ptr::null_mut();
            // SAFETY: C2 (calls): the buffer and memory are live and belong to one client.
            unsafe { self.handle().api().call::<slot::PJRT_Buffer_CopyToMemory>(&mut args) }
        };
        self.handle().owner().allocating(|| memory.devices().unwrap_or_default(), call)?;
        let raw = read::object(args.dst_buffer)
            .map_err(|broken| Error::malformed(slot::PJRT_Buffer_CopyToMemory::NAME, broken))?;
        // SAFETY: C3 (objects): the plugin created the buffer for this caller.
        Ok(unsafe { Self::new(raw, self.handle().owner().clone(), None) })
    }
}

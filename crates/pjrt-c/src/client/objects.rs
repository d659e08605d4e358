//! The objects for devices and memories.

use pjrt::{Device, DeviceDescription, Memory, Placement};

use crate::border::failure::{Failure, Outcome};
use crate::border::handle::{self, Owned};
use crate::border::memory;
use crate::border::text::Lazy;

/// A device of a client.
pub struct dp_device {
    pub(crate) inner: Device,
    pub(crate) kind: Lazy,
    pub(crate) shown: Lazy,
    pub(crate) debug: Lazy,
}

impl dp_device {
    pub(crate) fn new(inner: Device) -> Self {
        Self { inner, kind: Lazy::default(), shown: Lazy::default(), debug: Lazy::default() }
    }
}

/// A device of a topology. The program that compiles for it need not have such a device.
pub struct dp_device_description {
    pub(crate) inner: DeviceDescription,
    pub(crate) kind: Lazy,
    pub(crate) shown: Lazy,
    pub(crate) debug: Lazy,
}

impl dp_device_description {
    pub(crate) fn new(inner: DeviceDescription) -> Self {
        Self { inner, kind: Lazy::default(), shown: Lazy::default(), debug: Lazy::default() }
    }
}

/// A memory that devices of a client can use.
pub struct dp_memory {
    pub(crate) inner: Memory,
    pub(crate) kind: Lazy,
    pub(crate) shown: Lazy,
    pub(crate) debug: Lazy,
}

impl dp_memory {
    pub(crate) fn new(inner: Memory) -> Self {
        Self { inner, kind: Lazy::default(), shown: Lazy::default(), debug: Lazy::default() }
    }
}

/// Returns the device or memory that the caller named.
///
/// # Safety
///
/// The caller must keep contract K2 (exclusive use) for the handles, during `'a`.
pub(crate) unsafe fn placement<'a>(device: *const dp_device, memory: *const dp_memory) -> Outcome<Placement<'a>> {
    // SAFETY: K2 (exclusive use).
    let device: Option<&dp_device> = unsafe { handle::optional(device, "device") }?;
    // SAFETY: K2 (exclusive use).
    let memory: Option<&dp_memory> = unsafe { handle::optional(memory, "memory") }?;
    match (device, memory) {
        (None, None) => Ok(Placement::Default),
        (Some(device), None) => Ok((&device.inner).into()),
        (None, Some(memory)) => Ok((&memory.inner).into()),
        (Some(_), Some(_)) => Err(Failure::argument("both a device and a memory are given; a memory is enough")),
    }
}

/// Returns the device at an index of a list.
pub(crate) fn device_at(devices: Vec<Device>, index: usize) -> Outcome<Owned<dp_device>> {
    Ok(Owned(dp_device::new(memory::at(&devices, index)?.clone())))
}

//! What a server serves: a client of a plugin, with its devices and memories in the order in which messages name them.

use std::sync::Arc;

use pjrt::{Client, Device, Error, Memory};

use crate::server::describe;
use crate::server::limits::{Limits, OUTSTANDING};
use crate::server::table::invalid;
use crate::wire::messages::{Failure, Welcome};

/// The client that a server serves.
pub(crate) struct Served {
    pub(crate) client: Client,
    /// All devices, including those of other processes.
    pub(crate) devices: Vec<Device>,
    /// The memories. The default memory of each device comes before the other memories.
    pub(crate) memories: Vec<Memory>,
    pub(crate) welcome: Welcome,
    pub(crate) limits: Limits,
}

impl Served {
    pub(crate) fn new(client: Client, limits: Limits) -> Result<Self, Error> {
        let devices = client.devices()?;
        let mut memories: Vec<Memory> = Vec::new();
        let defaults =
            client.addressable_devices()?.iter().map(Device::default_memory).collect::<Result<Vec<_>, _>>()?;
        for memory in defaults.into_iter().chain(client.memories()?) {
            if !memories.contains(&memory) {
                memories.push(memory);
            }
        }
        let mut welcome = describe::welcome(&client, &devices, &memories)?;
        welcome.max_outstanding = OUTSTANDING;
        Ok(Self { client, devices, memories, welcome, limits })
    }

    /// Returns the device that a message names.
    pub(crate) fn device(&self, index: u32) -> Result<&Device, Arc<Failure>> {
        let unknown = || invalid(&format!("unknown device {index}; the server has {}", self.devices.len()));
        self.devices.get(index as usize).ok_or_else(unknown)
    }

    /// Returns the memory that a message names.
    pub(crate) fn memory(&self, index: u32) -> Result<&Memory, Arc<Failure>> {
        let unknown = || invalid(&format!("unknown memory {index}; the server has {}", self.memories.len()));
        self.memories.get(index as usize).ok_or_else(unknown)
    }

    /// Returns the index of a device.
    pub(crate) fn index(&self, device: &Device) -> Option<u32> {
        self.devices.iter().position(|own| own == device).and_then(|index| u32::try_from(index).ok())
    }
}

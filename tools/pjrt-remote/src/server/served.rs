//! What a server serves: a client of a plugin, with its devices and memories in the order in which messages name them.

use pjrt::{Client, Device, Error, Memory};

use crate::server::describe;
use crate::server::limits::Limits;
use crate::wire::messages::Welcome;

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
        welcome.max_outstanding = limits.outstanding;
        Ok(Self { client, devices, memories, welcome, limits })
    }

    /// Returns the index of a device.
    pub(crate) fn index(&self, device: &Device) -> Option<u32> {
        self.devices.iter().position(|own| own == device).and_then(|index| u32::try_from(index).ok())
    }
}

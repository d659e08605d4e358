//! What a server serves: a client of a plugin, with its devices and memories in the order in which messages name them.

use std::borrow::Cow;
use std::sync::Arc;

use pjrt::{Client, CompileOptions, Device, DeviceAssignment, Error, Memory};

use crate::server::describe;
use crate::server::failure::{Outcome, invalid};
use crate::server::launches::LaunchIds;
use crate::server::limits::{Limits, OUTSTANDING, SPARE};
use crate::wire::frame::Spare;
use crate::wire::messages::Welcome;

/// The client that a server serves.
pub(crate) struct Served {
    pub(crate) client: Client,
    /// All devices, including those of other processes, or those that the limits name.
    pub(crate) devices: Vec<Device>,
    /// The memories. The default memory of each device comes before the other memories.
    pub(crate) memories: Vec<Memory>,
    pub(crate) welcome: Welcome,
    pub(crate) limits: Limits,
    pub(crate) launch_ids: LaunchIds,
    pub(crate) spare: Arc<Spare>,
}

impl Served {
    pub(crate) fn new(client: Client, limits: Limits) -> Result<Self, String> {
        Self::describe(client, limits).unwrap_or_else(|error| Err(error.to_string()))
    }

    fn describe(client: Client, limits: Limits) -> Result<Result<Self, String>, Error> {
        let (mut devices, mut own) = (client.devices()?, client.addressable_devices()?);
        let launch_ids = LaunchIds::new(devices.len() != own.len());
        if !limits.devices.is_empty() {
            let choose = |id: &i32| {
                let position = own.iter().position(|device| device.id().is_ok_and(|own| own == *id));
                position.map(|index| own[index].clone()).ok_or_else(|| {
                    let ids: Vec<_> = own.iter().filter_map(|device| device.id().ok()).collect();
                    format!("the plugin has no device {id}; its devices are {ids:?}")
                })
            };
            own = match limits.devices.iter().map(choose).collect() {
                Ok(chosen) => chosen,
                Err(message) => return Ok(Err(message)),
            };
            devices.clone_from(&own);
        }
        let mut memories: Vec<Memory> = Vec::new();
        let defaults = own.iter().map(Device::default_memory).collect::<Result<Vec<_>, _>>()?;
        let mut others = Vec::new();
        for memory in client.memories()? {
            if limits.devices.is_empty() || memory.devices()?.iter().any(|device| devices.contains(device)) {
                others.push(memory);
            }
        }
        for memory in defaults.into_iter().chain(others) {
            if !memories.contains(&memory) {
                memories.push(memory);
            }
        }
        let mut welcome = describe::welcome(&client, &devices, &memories)?;
        welcome.max_outstanding = OUTSTANDING;
        let spare = Arc::new(Spare::new(SPARE));
        Ok(Ok(Self { client, devices, memories, welcome, limits, launch_ids, spare }))
    }

    /// Returns the device that a message names.
    pub(crate) fn device(&self, index: u32) -> Outcome<&Device> {
        let unknown = || invalid(&format!("unknown device {index}; the server has {}", self.devices.len()));
        self.devices.get(index as usize).ok_or_else(unknown)
    }

    /// Returns the memory that a message names.
    pub(crate) fn memory(&self, index: u32) -> Outcome<&Memory> {
        let unknown = || invalid(&format!("unknown memory {index}; the server has {}", self.memories.len()));
        self.memories.get(index as usize).ok_or_else(unknown)
    }

    /// Returns the index of a device.
    pub(crate) fn index(&self, device: &Device) -> Option<u32> {
        self.devices.iter().position(|own| own == device).and_then(|index| u32::try_from(index).ok())
    }

    /// Returns the options with which to compile a program. If the limits name devices and the client assigns none, the
    /// program runs on the first of them.
    pub(crate) fn compile_options<'a>(&self, encoded: &'a [u8]) -> Outcome<Cow<'a, [u8]>> {
        if self.limits.devices.is_empty() {
            return Ok(Cow::Borrowed(encoded));
        }
        let mut options = CompileOptions::decode(encoded).map_err(|error| invalid(&error.to_string()))?;
        let count = |count| usize::try_from(count).unwrap_or_default();
        let (replicas, partitions) = (count(options.num_replicas), count(options.num_partitions));
        let devices = self.limits.devices.iter().take(replicas.saturating_mul(partitions)).map(|id| i64::from(*id));
        if options.device_assignment.is_none() && !options.compile_portable_executable {
            options.device_assignment = DeviceAssignment::new(replicas, partitions, devices.collect());
        }
        Ok(Cow::Owned(options.encode()))
    }
}

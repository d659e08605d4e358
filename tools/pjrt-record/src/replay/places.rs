//! The devices and memories of the replay's plugin that replace the recorded devices and memories.

use std::collections::HashMap;

use pjrt::{Client, CompileOptions, Device, DeviceAssignment, Memory, Placement};

use crate::message::ClientDescription;

/// A client of the replay's plugin, with its devices and memories by their recorded IDs.
#[derive(Debug)]
pub(super) struct Places {
    pub(super) client: Client,
    devices: HashMap<i32, Device>,
    memories: HashMap<i32, Memory>,
    /// Number of devices of the client that this process can use.
    count: usize,
}

impl Places {
    /// Assigns each recorded addressable device to the client's addressable device at the same position. Assigns each
    /// recorded memory to a memory of a device that replaces one of its devices: the memory of the same kind, or else
    /// the default memory.
    pub(super) fn new(client: Client, recorded: &ClientDescription) -> Result<Self, pjrt::Error> {
        let own = client.addressable_devices()?;
        let count = own.len();
        let addressable = recorded.devices.iter().filter(|device| device.addressable);
        let devices: HashMap<i32, Device> = addressable.map(|device| device.id).zip(own).collect();
        let mut memories = HashMap::new();
        for memory in &recorded.memories {
            let Some(device) = memory.devices.iter().find_map(|id| devices.get(id)) else { continue };
            let same = device.memories()?.into_iter().find(|own| own.kind().is_ok_and(|kind| kind == memory.kind));
            memories.insert(memory.id, same.map_or_else(|| device.default_memory(), Ok)?);
        }
        Ok(Self { client, devices, memories, count })
    }

    pub(super) fn device(&self, id: i32) -> Result<&Device, String> {
        self.devices.get(&id).ok_or_else(|| {
            format!(
                "the recording uses the device with the id {id}, and this client has {} devices: create it with more \
                 devices by an option of the plugin",
                self.count
            )
        })
    }

    pub(super) fn memory(&self, id: i32) -> Result<&Memory, String> {
        self.memories.get(&id).ok_or_else(|| format!("no memory of this client stands for the memory with the id {id}"))
    }

    /// Returns the memory for a call that specifies a memory or a device. If it specifies neither, returns the default
    /// memory of the client's default device.
    pub(super) fn any_memory(&self, device: Option<i32>, memory: Option<i32>) -> Result<Memory, String> {
        if let Some(memory) = memory {
            return self.memory(memory).cloned();
        }
        let device = match device {
            Some(device) => self.device(device)?.clone(),
            None => self.client.default_device().map_err(|error| error.to_string())?,
        };
        device.default_memory().map_err(|error| error.to_string())
    }

    pub(super) fn placement(&self, device: Option<i32>, memory: Option<i32>) -> Result<Placement<'_>, String> {
        Ok(match (memory, device) {
            (Some(memory), _) => Placement::Memory(self.memory(memory)?),
            (None, Some(device)) => Placement::Device(self.device(device)?),
            (None, None) => Placement::Default,
        })
    }

    /// Returns a copy of the recorded compile options in which the IDs of this client's devices replace the recorded
    /// IDs. Options that need no change keep their encoded bytes.
    pub(super) fn compile_options(&self, recorded: Vec<u8>) -> Result<Vec<u8>, String> {
        let Ok(mut options) = CompileOptions::decode(&recorded) else { return Ok(recorded) };
        let Some(assignment) = &options.device_assignment else { return Ok(recorded) };
        let mut ids = Vec::new();
        for id in assignment.devices() {
            let device = self.device(i32::try_from(*id).unwrap_or(-1))?;
            ids.push(i64::from(device.id().map_err(|error| error.to_string())?));
        }
        if ids == assignment.devices() {
            return Ok(recorded);
        }
        options.device_assignment = DeviceAssignment::new(assignment.num_replicas(), assignment.num_partitions(), ids);
        Ok(options.encode())
    }
}

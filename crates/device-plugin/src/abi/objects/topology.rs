//! `PJRT_TopologyDescription`: describes the devices of a client, or of a machine that need not be present.

use pjrt_sys::{PJRT_DeviceDescription, PJRT_TopologyDescription};

use crate::abi::objects::device_description::DeviceDescription;
use crate::abi::objects::owned_arrays::{NamedValues, Pointers};
use crate::serialized_format::{Reader, Writer};
use crate::{DeviceInfo, Error, MemoryInfo, Result, TopologyInfo};

/// The object behind a `PJRT_TopologyDescription*`.
pub(crate) struct Topology {
    pub(crate) platform_name: String,
    pub(crate) platform_version: String,
    pub(crate) descriptions: Vec<DeviceDescription>,
    pub(super) description_handles: Pointers<PJRT_DeviceDescription>,
    pub(super) attributes: NamedValues,
    /// The description that the backend returned.
    pub(crate) info: TopologyInfo,
    /// The ids of the memory kinds, sorted.
    pub(super) kind_ids: Vec<i32>,
    /// Whether the framework destroys the topology. A client's topology is destroyed together with the client.
    pub(super) owned: bool,
}

/// First bytes of a serialized topology. The digit is the version of the format.
const MAGIC: &[u8] = b"device-plugin topology 3\n";

impl Topology {
    /// Creates a topology from the backend's description of its devices and memories. Returns an error if the
    /// description is inconsistent.
    pub(crate) fn new(info: TopologyInfo) -> Result<Self> {
        if info.devices.is_empty() {
            return Err(Error::internal("the backend lists no devices"));
        }
        for (i, device) in info.devices.iter().enumerate() {
            if info.devices[..i].iter().any(|other| other.id == device.id) {
                return Err(Error::internal(format!("the backend lists two devices with the id {}", device.id)));
            }
        }
        for (i, MemoryInfo { kind, kind_id, devices, .. }) in info.memories.iter().enumerate() {
            let stranger = devices.iter().find(|id| info.devices.iter().all(|device| device.id != **id));
            // All these errors share one format string, because each additional format string would add a few hundred
            // bytes to every plugin.
            let mut why = match stranger {
                _ if devices.is_empty() => "is not attached to any device",
                Some(_) => "is attached to the unknown device ",
                None if kind.is_empty() => "has an empty kind; frameworks choose memories by kind",
                None => "",
            };
            let unknown = stranger.map_or_else(String::new, i32::to_string);
            let earlier = if why.is_empty() { &info.memories[..i] } else { &[] };
            for other in earlier {
                if (other.kind == *kind) != (other.kind_id == *kind_id) {
                    why = "shares only one of kind and kind_id with an earlier memory; give each kind one kind_id";
                } else if other.kind == *kind && devices.iter().any(|id| other.devices.contains(id)) {
                    why = "is the second memory of that kind on a device; give it another kind";
                }
            }
            if !why.is_empty() {
                return Err(Error::internal(format!("memory {i} of kind {kind:?} {why}{unknown}")));
            }
        }
        // Inserting into a sorted vector is fast enough, because there are few kinds even if there are many memories.
        let mut kind_ids: Vec<i32> = Vec::new();
        for MemoryInfo { kind_id, .. } in &info.memories {
            if let Err(at) = kind_ids.binary_search(kind_id) {
                kind_ids.insert(at, *kind_id);
            }
        }
        let descriptions: Vec<_> =
            info.devices.iter().map(|device| DeviceDescription::new(device.clone(), &info.memories)).collect();
        Ok(Self {
            platform_name: info.platform_name.clone(),
            platform_version: info.platform_version.clone(),
            description_handles: Pointers::of(&descriptions),
            descriptions,
            attributes: NamedValues::attributes(info.attributes.clone()),
            info,
            kind_ids,
            owned: false,
        })
    }

    /// Returns the index of the device with this id.
    pub(crate) fn device_of_id(&self, id: i64) -> Result<usize> {
        let find = self.descriptions.iter().position(|device| i64::from(device.info.id) == id);
        find.ok_or_else(|| {
            let ids: Vec<_> = self.descriptions.iter().map(|device| device.info.id.to_string()).collect();
            Error::invalid_argument(format!("unknown device id {id}; known are {}", ids.join(", ")))
        })
    }

    /// Returns the kind of a device's default memory.
    pub(crate) fn default_kind(&self, device: usize) -> Result<&str> {
        let id = self.descriptions.get(device).map(|device| device.info.id);
        let memory = self.info.memories.iter().find(|memory| id.is_some_and(|id| memory.devices.contains(&id)));
        let memory = memory.ok_or_else(|| {
            Error::invalid_argument(format!("the backend lists no memory for device {}", id.unwrap_or(-1)))
        })?;
        Ok(&memory.kind)
    }

    /// Converts a topology without a client to a handle that the framework owns and destroys.
    pub(super) fn into_raw(mut self) -> *mut PJRT_TopologyDescription {
        self.owned = true;
        Box::into_raw(Box::new(self)).cast()
    }

    /// Serializes the topology together with the plugin's name.
    pub(super) fn serialize(&self, plugin: &str) -> Vec<u8> {
        let mut out = Writer::new(MAGIC);
        out.text(plugin);
        out.text(&self.platform_name);
        out.text(&self.platform_version);
        out.count(self.descriptions.len());
        for DeviceDescription { info, .. } in &self.descriptions {
            for number in [info.id, info.process_index, info.local_hardware_id, i32::from(info.addressable)] {
                out.int(number.into());
            }
            out.text(&info.kind);
            out.text(&info.debug_string);
            out.text(&info.display_string);
            out.values(&info.attributes);
        }
        out.count(self.info.memories.len());
        for memory in &self.info.memories {
            out.text(&memory.kind);
            out.int(memory.kind_id.into());
            out.int(memory.on_host.into());
            out.count(memory.devices.len());
            memory.devices.iter().for_each(|id| out.int((*id).into()));
        }
        out.values(&self.info.attributes);
        out.finish()
    }

    /// Deserializes a topology. Returns an error if the bytes are damaged, or if a plugin with another name serialized
    /// them.
    pub(super) fn deserialize(bytes: &[u8], plugin: &str) -> Result<Self> {
        let mut from = Reader::new(bytes, MAGIC, "a topology")?;
        let author = from.text()?;
        if author != plugin {
            return Err(Error::invalid_argument(format!(
                "the topology was serialized by the plugin {author:?}, but this plugin is {plugin:?}; load it with \
                 {author:?}"
            )));
        }
        let name = from.text()?;
        let version = from.text()?;
        let mut devices = Vec::new();
        for _ in 0..from.count()? {
            let (id, process, hardware) = (from.int32()?, from.int32()?, from.int32()?);
            let addressable = from.int()? != 0;
            let mut info = DeviceInfo::new(id, "");
            (info.process_index, info.local_hardware_id, info.addressable) = (process, hardware, addressable);
            (info.kind, info.debug_string, info.display_string) = (from.text()?, from.text()?, from.text()?);
            info.attributes = from.values()?;
            devices.push(info);
        }
        let mut memories = Vec::new();
        for _ in 0..from.count()? {
            let mut memory = MemoryInfo::new(from.text()?, from.int32()?, []);
            memory.on_host = from.int()? != 0;
            memory.devices = (0..from.count()?).map(|_| from.int32()).collect::<Result<_>>()?;
            memories.push(memory);
        }
        let attributes = from.values()?;
        from.finish()?;
        Self::new(TopologyInfo { platform_name: name, platform_version: version, devices, memories, attributes })
            .map_err(|error| Error::invalid_argument(error.message()))
    }
}

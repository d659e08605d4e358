//! `PJRT_TopologyDescription`.

use std::hash::{DefaultHasher, Hash, Hasher};

use pjrt_sys::{PJRT_DeviceDescription, PJRT_TopologyDescription};

use crate::abi::device::DeviceDescription;
use crate::abi::entry::entries;
use crate::abi::lists::{Blob, NamedValues, Pointers, delete_blob};
use crate::abi::raw;
use crate::abi::raw::handles;
use crate::envelope::{Reader, Writer};
use crate::{Backend, DeviceInfo, NamedValue, Result};

/// The devices of a client, or of a machine that need not be present.
pub(crate) struct Topology {
    pub(crate) platform_name: String,
    pub(crate) platform_version: String,
    pub(crate) descriptions: Vec<DeviceDescription>,
    description_handles: Pointers<PJRT_DeviceDescription>,
    attribute_values: Vec<NamedValue>,
    attributes: NamedValues,
    /// Whether the framework is to destroy it; a client's topology goes with the client.
    owned: bool,
}

handles! {
    PJRT_TopologyDescription => Topology;
}

/// First bytes of a serialized topology; the digit is the version of the form.
const MAGIC: &[u8] = b"device-plugin topology 1\n";

impl Topology {
    pub(crate) fn new(
        platform_name: String,
        platform_version: String,
        devices: Vec<DeviceInfo>,
        attributes: Vec<NamedValue>,
    ) -> Self {
        let descriptions: Vec<_> = devices.into_iter().map(DeviceDescription::new).collect();
        let description_handles = Pointers::of(&descriptions);
        let attribute_values = attributes.clone();
        let attributes = NamedValues::attributes(attributes);
        Self {
            platform_name,
            platform_version,
            descriptions,
            description_handles,
            attribute_values,
            attributes,
            owned: false,
        }
    }

    /// Gives a topology that no client owns to the framework, which destroys it.
    fn into_raw(mut self) -> *mut PJRT_TopologyDescription {
        self.owned = true;
        Box::into_raw(Box::new(self)).cast()
    }

    fn serialize(&self) -> Vec<u8> {
        let mut out = Writer::new(MAGIC);
        out.text(&self.platform_name);
        out.text(&self.platform_version);
        out.count(self.descriptions.len());
        for DeviceDescription { info, .. } in &self.descriptions {
            for number in [info.id, info.process_index, info.local_hardware_id, i32::from(info.addressable)] {
                out.int(number.into());
            }
            out.text(&info.kind);
            out.text(&info.debug_string);
            out.text(&info.to_string);
            out.values(&info.attributes);
        }
        out.values(&self.attribute_values);
        out.finish()
    }

    fn deserialize(bytes: &[u8]) -> Result<Self> {
        let mut from = Reader::new(bytes, MAGIC, "a topology")?;
        let name = from.text()?;
        let version = from.text()?;
        let mut devices = Vec::new();
        for _ in 0..from.count()? {
            let (id, process, hardware) = (from.int32()?, from.int32()?, from.int32()?);
            let addressable = from.int()? != 0;
            let mut info = DeviceInfo::new(id, "");
            (info.process_index, info.local_hardware_id, info.addressable) = (process, hardware, addressable);
            (info.kind, info.debug_string, info.to_string) = (from.text()?, from.text()?, from.text()?);
            info.attributes = from.values()?;
            devices.push(info);
        }
        let attributes = from.values()?;
        from.finish()?;
        Ok(Self::new(name, version, devices, attributes))
    }
}

entries! {
    PJRT_TopologyDescription_Create(args) {
        // SAFETY: V3.
        let name = unsafe { raw::text(args.topology_name, args.topology_name_size, "topology_name") }?;
        // SAFETY: V1 and V3.
        let options = unsafe { raw::named_values(args.create_options, args.num_options, "create_options") }?;
        let info = P::Backend::topology(name, &options)?;
        let topology = Topology::new(P::NAME.to_owned(), String::new(), info.devices, info.attributes);
        args.topology = topology.into_raw();
        Ok(())
    }

    PJRT_TopologyDescription_Destroy(args) {
        // SAFETY: V2 and V5.
        let topology = unsafe { args.topology.cast::<Topology>().as_ref() };
        if topology.is_some_and(|topology| topology.owned) {
            // SAFETY: V2, this came from `into_raw` and is given up.
            drop(unsafe { Box::from_raw(args.topology.cast::<Topology>()) });
        }
        Ok(())
    }

    PJRT_TopologyDescription_PlatformName(args, topology) {
        args.platform_name = topology.platform_name.as_ptr().cast();
        args.platform_name_size = topology.platform_name.len();
        Ok(())
    }

    PJRT_TopologyDescription_PlatformVersion(args, topology) {
        args.platform_version = topology.platform_version.as_ptr().cast();
        args.platform_version_size = topology.platform_version.len();
        Ok(())
    }

    PJRT_TopologyDescription_GetDeviceDescriptions(args, topology) {
        let descriptions = topology.description_handles.as_slice();
        args.descriptions = descriptions.as_ptr();
        args.num_descriptions = descriptions.len();
        Ok(())
    }

    PJRT_TopologyDescription_Attributes(args, topology) {
        args.attributes = topology.attributes.raw().as_ptr();
        args.num_attributes = topology.attributes.raw().len();
        Ok(())
    }

    PJRT_TopologyDescription_Fingerprint(args, topology) {
        let mut hasher = DefaultHasher::new();
        topology.serialize().hash(&mut hasher);
        args.fingerprint = hasher.finish();
        Ok(())
    }

    PJRT_TopologyDescription_Serialize(args, topology) {
        let blob = Blob::new(topology.serialize());
        args.serialized_bytes = blob.bytes;
        args.serialized_bytes_size = blob.size;
        args.serialized_topology = blob.owner.cast();
        args.serialized_topology_deleter = Some(delete_blob);
        Ok(())
    }

    PJRT_TopologyDescription_Deserialize(args) {
        // SAFETY: V3.
        let bytes = unsafe {
            raw::slice(args.serialized_topology.cast::<u8>(), args.serialized_topology_size, "serialized_topology")
        }?;
        args.topology = Topology::deserialize(bytes)?.into_raw();
        Ok(())
    }
}

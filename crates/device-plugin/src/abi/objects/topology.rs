//! `PJRT_TopologyDescription`: describes the devices of a client, or of a machine that need not be present.

use std::hash::{DefaultHasher, Hash, Hasher};

use pjrt_sys::{PJRT_DeviceDescription, PJRT_TopologyDescription};

use crate::abi::objects::device_description::DeviceDescription;
use crate::abi::objects::owned_arrays::{Blob, Bytes, NamedValues, Pointers, delete_blob};
use crate::abi::table::entry::entries;
use crate::abi::table::ffi_read;
use crate::abi::table::ffi_read::handles;
use crate::array_layout::ArrayLayout;
use crate::features::FeatureCalls;
use crate::hlo::{message, varint};
use crate::serialized_format::{Reader, Writer};
use crate::{DeviceInfo, ElementType, Error, MemoryInfo, Result, TopologyInfo};

/// The object behind a `PJRT_TopologyDescription*`.
pub(crate) struct Topology {
    pub(crate) platform_name: String,
    pub(crate) platform_version: String,
    pub(crate) descriptions: Vec<DeviceDescription>,
    description_handles: Pointers<PJRT_DeviceDescription>,
    attributes: NamedValues,
    /// The description that the backend returned.
    pub(crate) info: TopologyInfo,
    /// The ids of the memory kinds, sorted.
    kind_ids: Vec<i32>,
    /// Whether the framework destroys the topology. A client's topology is destroyed together with the client.
    owned: bool,
}

handles! {
    PJRT_TopologyDescription => Topology;
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
    fn into_raw(mut self) -> *mut PJRT_TopologyDescription {
        self.owned = true;
        Box::into_raw(Box::new(self)).cast()
    }

    /// Serializes the topology together with the plugin's name.
    fn serialize(&self, plugin: &str) -> Vec<u8> {
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
    fn deserialize(bytes: &[u8], plugin: &str) -> Result<Self> {
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

/// Returns the value of an element type in XLA's enum `PrimitiveType`.
fn primitive_type(element_type: ElementType) -> Result<usize> {
    Ok(match element_type {
        ElementType::Pred => 1,
        ElementType::S8 => 2,
        ElementType::S16 => 3,
        ElementType::S32 => 4,
        ElementType::S64 => 5,
        ElementType::U8 => 6,
        ElementType::U16 => 7,
        ElementType::U32 => 8,
        ElementType::U64 => 9,
        ElementType::F16 => 10,
        ElementType::F32 => 11,
        ElementType::F64 => 12,
        ElementType::C64 => 15,
        ElementType::Bf16 => 16,
        ElementType::Token => 17,
        ElementType::C128 => 18,
        ElementType::F8E5M2 => 19,
        ElementType::F8E4M3FN => 20,
        ElementType::S4 => 21,
        ElementType::U4 => 22,
        ElementType::F8E4M3B11FNUZ => 23,
        ElementType::F8E5M2FNUZ => 24,
        ElementType::F8E4M3FNUZ => 25,
        ElementType::S2 => 26,
        ElementType::U2 => 27,
        ElementType::F8E4M3 => 28,
        ElementType::F8E3M4 => 29,
        ElementType::S1 => 30,
        ElementType::U1 => 31,
        ElementType::F4E2M1FN => 32,
        ElementType::F8E8M0FNU => 33,
        other => {
            return Err(Error::unimplemented(format!("{other} has no number in XLA")));
        }
    })
}

/// Serializes the shape and the device layout of an array as XLA's `ShapeProto` message.
fn shape_proto(form: &ArrayLayout) -> Result<Vec<u8>> {
    const ELEMENT_TYPE: u8 = 2;
    const DIMENSIONS: u8 = 3;
    const LAYOUT: u8 = 5;
    const IS_DYNAMIC_DIMENSION: u8 = 6;
    const MINOR_TO_MAJOR: u8 = 1;
    const TILES: u8 = 6;
    const TILE_DIMENSIONS: u8 = 1;
    let size =
        |n: i64| usize::try_from(n).map_err(|_| Error::argument(format!("dims contains the negative extent {n}")));
    let mut proto = vec![ELEMENT_TYPE << 3];
    varint(&mut proto, primitive_type(form.element_type)?);
    let mut packed = Vec::new();
    for extent in form.dims() {
        varint(&mut packed, size(*extent)?);
    }
    message(&mut proto, DIMENSIONS, &packed);
    let (mut order, mut layout) = (Vec::new(), Vec::new());
    let own = form.layout();
    for dimension in &own.minor_to_major {
        varint(&mut order, size(*dimension)?);
    }
    message(&mut layout, MINOR_TO_MAJOR, &order);
    for extents in &own.tiles {
        let (mut packed, mut tile) = (Vec::new(), Vec::new());
        for extent in extents {
            // A negative tile extent is XLA's marker for combined dimensions. Protobuf encodes a negative integer in
            // two's complement.
            varint(&mut packed, usize::try_from(extent.cast_unsigned()).unwrap_or(usize::MAX));
        }
        message(&mut tile, TILE_DIMENSIONS, &packed);
        message(&mut layout, TILES, &tile);
    }
    message(&mut proto, LAYOUT, &layout);
    message(&mut proto, IS_DYNAMIC_DIMENSION, &vec![0; form.dims().len()]);
    Ok(proto)
}

entries! {
    PJRT_TopologyDescription_Create(args) {
        // SAFETY: V3 (arrays and text).
        let name = unsafe { ffi_read::text(args.topology_name, args.topology_name_size, "topology_name") }?;
        // SAFETY: V1 (argument structs) and V3 (arrays and text).
        let options = unsafe { ffi_read::named_values(args.create_options, args.num_options, "create_options") }?;
        let mut info = P::Backend::topology(name, &options)?;
        if info.platform_name.is_empty() {
            P::NAME.clone_into(&mut info.platform_name);
        }
        args.topology = Topology::new(info)?.into_raw();
        Ok(())
    }

    #[destroys]
    PJRT_TopologyDescription_Destroy(args) {
        // SAFETY: V2 (handles) and V5 (opaque types).
        let topology = unsafe { args.topology.cast::<Topology>().as_ref() };
        if topology.is_some_and(|topology| topology.owned) {
            // SAFETY: V2 (handles): `into_raw` boxed the topology, and the framework no longer uses it.
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

    PJRT_TopologyDescription_GetMemorySpaceKindIds(args, topology) {
        args.memory_space_kind_ids = topology.kind_ids.as_ptr();
        args.num_memory_space_kind_ids = topology.kind_ids.len();
        Ok(())
    }

    PJRT_TopologyDescription_MakeCanonicalShapeForMemorySpace(args, topology) {
        if !topology.kind_ids.contains(&args.memory_space_kind_id) {
            return Err(Error::argument(format!(
                "unknown memory_space_kind_id {}; known are {:?}", args.memory_space_kind_id, topology.kind_ids
            )));
        }
        // SAFETY: V3 (arrays and text).
        let shape = unsafe { ffi_read::shape(args.element_type.0, args.dims, args.num_dims) }?;
        // SAFETY: V3 (arrays and text).
        let layout = unsafe { ffi_read::device_layout(args.layout, &shape) }?;
        let bytes = shape_proto(&ArrayLayout::requested::<P::Backend>(&topology.info, &shape, layout, "layout")?)?;
        args.serialized_shape_size = bytes.len();
        args.serialized_shape = Bytes::give(&bytes);
        args.serialized_shape_deleter = Some(Bytes::delete);
        Ok(())
    }

    PJRT_TopologyDescription_Fingerprint(args, topology) {
        let mut hasher = DefaultHasher::new();
        topology.serialize(P::NAME).hash(&mut hasher);
        args.fingerprint = hasher.finish();
        Ok(())
    }

    PJRT_TopologyDescription_Serialize(args, topology) {
        let blob = Blob::new(topology.serialize(P::NAME));
        args.serialized_bytes = blob.bytes;
        args.serialized_bytes_size = blob.size;
        args.serialized_topology = blob.owner.cast();
        args.serialized_topology_deleter = Some(delete_blob);
        Ok(())
    }

    PJRT_TopologyDescription_Deserialize(args) {
        // SAFETY: V3 (arrays and text).
        let bytes = unsafe {
            ffi_read::slice(args.serialized_topology.cast::<u8>(), args.serialized_topology_size, "serialized_topology")
        }?;
        args.topology = Topology::deserialize(bytes, P::NAME)?.into_raw();
        Ok(())
    }
}

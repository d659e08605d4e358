//! The functions of `PJRT_TopologyDescription`.

use std::hash::{DefaultHasher, Hash, Hasher};

use plugin_macros::entry;

use crate::abi::objects::owned_arrays::{Blob, Bytes, delete_blob};
use crate::abi::objects::topology::Topology;
use crate::abi::table::ffi_read;
use crate::abi::table::handles::handles;
use crate::abi::table::layout_read;
use crate::array_layout::ArrayLayout;
use crate::features::FeatureCalls;
use crate::hlo::{message, varint};
use crate::{DevicePlugin, ElementType, Error, Result};

handles! {
    PJRT_TopologyDescription => Topology;
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
fn shape_proto(array: &ArrayLayout) -> Result<Vec<u8>> {
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
    varint(&mut proto, primitive_type(array.element_type)?);
    let mut packed = Vec::new();
    for extent in array.dims() {
        varint(&mut packed, size(*extent)?);
    }
    message(&mut proto, DIMENSIONS, &packed);
    let (mut order, mut layout) = (Vec::new(), Vec::new());
    let own = array.to_layout();
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
    message(&mut proto, IS_DYNAMIC_DIMENSION, &vec![0; array.dims().len()]);
    Ok(proto)
}

#[entry]
unsafe fn PJRT_TopologyDescription_Create<P: DevicePlugin>(
    args: &mut pjrt_sys::PJRT_TopologyDescription_Create_Args,
) -> Result<()> {
    // SAFETY: V3 (arrays and text).
    let name = unsafe { ffi_read::text(args.topology_name, args.topology_name_size, "topology_name") }?;
    // SAFETY: V1 (argument structs) and V3 (arrays and text).
    let options = unsafe { ffi_read::named_values(args.create_options, args.num_options, "create_options") }?;
    let mut info = P::Backend::topology(name, &options)?;
    if info.platform_name.is_empty() {
        P::name().clone_into(&mut info.platform_name);
    }
    args.topology = Topology::new(info)?.into_raw();
    Ok(())
}

#[entry(destroys)]
unsafe fn PJRT_TopologyDescription_Destroy<P: DevicePlugin>(
    args: &mut pjrt_sys::PJRT_TopologyDescription_Destroy_Args,
) -> Result<()> {
    // SAFETY: V2 (handles) and V5 (opaque types).
    let topology = unsafe { args.topology.cast::<Topology>().as_ref() };
    if topology.is_some_and(|topology| topology.owned) {
        // SAFETY: V2 (handles): `into_raw` boxed the topology, and the framework no longer uses it.
        drop(unsafe { Box::from_raw(args.topology.cast::<Topology>()) });
    }
    Ok(())
}

#[entry]
unsafe fn PJRT_TopologyDescription_PlatformName<P: DevicePlugin>(
    args: &mut pjrt_sys::PJRT_TopologyDescription_PlatformName_Args,
    topology: &Topology,
) -> Result<()> {
    args.platform_name = topology.platform_name.as_ptr().cast();
    args.platform_name_size = topology.platform_name.len();
    Ok(())
}

#[entry]
unsafe fn PJRT_TopologyDescription_PlatformVersion<P: DevicePlugin>(
    args: &mut pjrt_sys::PJRT_TopologyDescription_PlatformVersion_Args,
    topology: &Topology,
) -> Result<()> {
    args.platform_version = topology.platform_version.as_ptr().cast();
    args.platform_version_size = topology.platform_version.len();
    Ok(())
}

#[entry]
unsafe fn PJRT_TopologyDescription_GetDeviceDescriptions<P: DevicePlugin>(
    args: &mut pjrt_sys::PJRT_TopologyDescription_GetDeviceDescriptions_Args,
    topology: &Topology,
) -> Result<()> {
    let descriptions = topology.description_handles.as_slice();
    args.descriptions = descriptions.as_ptr();
    args.num_descriptions = descriptions.len();
    Ok(())
}

#[entry]
unsafe fn PJRT_TopologyDescription_Attributes<P: DevicePlugin>(
    args: &mut pjrt_sys::PJRT_TopologyDescription_Attributes_Args,
    topology: &Topology,
) -> Result<()> {
    args.attributes = topology.attributes.raw().as_ptr();
    args.num_attributes = topology.attributes.raw().len();
    Ok(())
}

#[entry]
unsafe fn PJRT_TopologyDescription_GetMemorySpaceKindIds<P: DevicePlugin>(
    args: &mut pjrt_sys::PJRT_TopologyDescription_GetMemorySpaceKindIds_Args,
    topology: &Topology,
) -> Result<()> {
    args.memory_space_kind_ids = topology.kind_ids.as_ptr();
    args.num_memory_space_kind_ids = topology.kind_ids.len();
    Ok(())
}

#[entry]
unsafe fn PJRT_TopologyDescription_MakeCanonicalShapeForMemorySpace<P: DevicePlugin>(
    args: &mut pjrt_sys::PJRT_TopologyDescription_MakeCanonicalShapeForMemorySpace_Args,
    topology: &Topology,
) -> Result<()> {
    if !topology.kind_ids.contains(&args.memory_space_kind_id) {
        return Err(Error::argument(format!(
            "unknown memory_space_kind_id {}; known are {:?}",
            args.memory_space_kind_id, topology.kind_ids
        )));
    }
    // SAFETY: V3 (arrays and text).
    let shape = unsafe { ffi_read::shape(args.element_type.0, args.dims, args.num_dims) }?;
    // SAFETY: V3 (arrays and text).
    let layout = unsafe { layout_read::device_layout(args.layout, &shape) }?;
    let bytes = shape_proto(&ArrayLayout::requested::<P::Backend>(&topology.info, &shape, layout, "layout")?)?;
    args.serialized_shape_size = bytes.len();
    args.serialized_shape = Bytes::give(&bytes);
    args.serialized_shape_deleter = Some(Bytes::delete);
    Ok(())
}

#[entry]
unsafe fn PJRT_TopologyDescription_Fingerprint<P: DevicePlugin>(
    args: &mut pjrt_sys::PJRT_TopologyDescription_Fingerprint_Args,
    topology: &Topology,
) -> Result<()> {
    let mut hasher = DefaultHasher::new();
    topology.serialize(P::name()).hash(&mut hasher);
    args.fingerprint = hasher.finish();
    Ok(())
}

#[entry]
unsafe fn PJRT_TopologyDescription_Serialize<P: DevicePlugin>(
    args: &mut pjrt_sys::PJRT_TopologyDescription_Serialize_Args,
    topology: &Topology,
) -> Result<()> {
    let blob = Blob::new(topology.serialize(P::name()));
    args.serialized_bytes = blob.bytes;
    args.serialized_bytes_size = blob.size;
    args.serialized_topology = blob.owner.cast();
    args.serialized_topology_deleter = Some(delete_blob);
    Ok(())
}

#[entry]
unsafe fn PJRT_TopologyDescription_Deserialize<P: DevicePlugin>(
    args: &mut pjrt_sys::PJRT_TopologyDescription_Deserialize_Args,
) -> Result<()> {
    // SAFETY: V3 (arrays and text).
    let bytes = unsafe {
        ffi_read::slice(args.serialized_topology.cast::<u8>(), args.serialized_topology_size, "serialized_topology")
    }?;
    args.topology = Topology::deserialize(bytes, P::name())?.into_raw();
    Ok(())
}

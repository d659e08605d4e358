//! Topologies.

use pjrt::raw::AsRaw;
use pjrt::{Function, TopologyDescription};
use pjrt_sys::{PJRT_Buffer_Type, slot};

use super::kind::{DIMENSIONS, End, Kind, Operation, ask, checksum, drop_all, list, named, operation, query, released};
use crate::case::Profiles;
use crate::raw::failure::text;

pub(crate) const TOPOLOGY: Kind<TopologyDescription> = Kind {
    name: "shared.topology",
    why: "a framework compiles ahead of time for one topology from several threads",
    profiles: Profiles::FULL,
    compiles: false,
    operations: &[
        query!(
            PJRT_TopologyDescription_PlatformName,
            |on, args| args.topology = on.extra.as_raw(),
            text(args.platform_name, args.platform_name_size)
        ),
        query!(
            PJRT_TopologyDescription_PlatformVersion,
            |on, args| args.topology = on.extra.as_raw(),
            text(args.platform_version, args.platform_version_size)
        ),
        query!(
            PJRT_TopologyDescription_GetDeviceDescriptions,
            |on, args| args.topology = on.extra.as_raw(),
            list(args.descriptions, args.num_descriptions)
        ),
        query!(
            PJRT_TopologyDescription_Attributes,
            |on, args| args.topology = on.extra.as_raw(),
            named(args.attributes, args.num_attributes)
        ),
        query!(PJRT_TopologyDescription_Fingerprint, |on, args| args.topology = on.extra.as_raw(), args.fingerprint),
        query!(
            PJRT_TopologyDescription_GetMemorySpaceKindIds,
            |on, args| args.topology = on.extra.as_raw(),
            list(args.memory_space_kind_ids, args.num_memory_space_kind_ids)
        ),
        operation!([PJRT_TopologyDescription_Serialize], |on| {
            let args = ask::<slot::PJRT_TopologyDescription_Serialize>(on.plugin(), |args| {
                args.topology = on.extra.as_raw();
            })?;
            let bytes = released(
                args.serialized_bytes,
                args.serialized_bytes_size,
                args.serialized_topology,
                args.serialized_topology_deleter,
            );
            // The order of fields in the bytes may differ.
            Ok(format!("{} bytes", bytes.len()))
        }),
        operation!(
            [PJRT_TopologyDescription_GetMemorySpaceKindIds, PJRT_TopologyDescription_MakeCanonicalShapeForMemorySpace],
            |on| {
                let kinds = ask::<slot::PJRT_TopologyDescription_GetMemorySpaceKindIds>(on.plugin(), |args| {
                    args.topology = on.extra.as_raw();
                })?;
                let kinds = list(kinds.memory_space_kind_ids, kinds.num_memory_space_kind_ids);
                let args =
                    ask::<slot::PJRT_TopologyDescription_MakeCanonicalShapeForMemorySpace>(on.plugin(), |args| {
                        args.topology = on.extra.as_raw();
                        args.memory_space_kind_id = kinds.first().copied().unwrap_or_default();
                        (args.dims, args.num_dims) = (DIMENSIONS.as_ptr(), DIMENSIONS.len());
                        args.element_type = PJRT_Buffer_Type::PJRT_Buffer_Type_F32;
                    })?;
                let shape = list(args.serialized_shape.cast::<u8>(), args.serialized_shape_size);
                if let Some(delete) = args.serialized_shape_deleter {
                    // SAFETY: C3 (objects): the deleter runs once, after the last use of the bytes.
                    unsafe { delete(args.serialized_shape) };
                }
                Ok(checksum(&shape))
            }
        ),
    ],
    make: |_, objects| Ok(objects.client.topology()?),
    end: End::Never,
    finish: drop_all,
};

//! Faults of extensions.

use pjrt_sys::{PJRT_Buffer_Type, extension_slot, slot};

use crate::device::{ask, leaked, list};
use crate::mutant::Mutant;

pub(super) const MUTANTS: &[Mutant] = &[
    Mutant::new("extensions.layout_text_reversed", "PJRT_Layouts_MemoryLayout_Serialize: the layout", |device| {
        device.after::<extension_slot::PJRT_Layouts_MemoryLayout_Serialize>(|args| {
            let text = String::from_utf8(crate::device::bytes(args.serialized_bytes, args.serialized_bytes_size));
            let text = text.unwrap_or_default();
            let order: Vec<&str> = text.trim_matches(['{', '}']).split(',').rev().collect();
            let text = format!("{{{}}}", order.join(",")).into_bytes();
            (args.serialized_bytes_size, args.serialized_bytes) = (text.len(), leaked(text).cast());
        });
    }),
    Mutant::new("extensions.layout_text_cut", "PJRT_Layouts_MemoryLayout_Serialize: the whole layout", |device| {
        device.after::<extension_slot::PJRT_Layouts_MemoryLayout_Serialize>(|args| args.serialized_bytes_size -= 1);
    }),
    Mutant::new(
        "extensions.default_layout_of_vector",
        "PJRT_Layouts_PJRT_Client_GetDefaultLayout: of the shape",
        |device| {
            device.before::<extension_slot::PJRT_Layouts_PJRT_Client_GetDefaultLayout>(|args| {
                args.num_dims = args.num_dims.min(1);
            });
        },
    ),
    Mutant::new(
        "extensions.layout_of_first_dimension",
        "PJRT_Layouts_PJRT_Topology_GetDefaultLayout: of the shape",
        |device| {
            device.before::<extension_slot::PJRT_Layouts_PJRT_Topology_GetDefaultLayout>(|args| {
                args.num_dims = args.num_dims.min(1);
            });
        },
    ),
    Mutant::new(
        "extensions.output_layouts_missing",
        "PJRT_Layouts_PJRT_Executable_GetOutputLayouts: one for each",
        |device| {
            device.after::<extension_slot::PJRT_Layouts_PJRT_Executable_GetOutputLayouts>(|args| args.num_outputs = 0);
        },
    ),
    Mutant::new(
        "extensions.parameter_layouts_missing",
        "PJRT_Layouts_PJRT_Executable_GetParameterLayouts: one for each",
        |device| {
            device.after::<extension_slot::PJRT_Layouts_PJRT_Executable_GetParameterLayouts>(|args| {
                args.num_parameters = args.num_parameters.min(1);
            });
        },
    ),
    Mutant::new(
        "extensions.described_memories_missing",
        "DeviceDescription_MemoryDescriptions: the memories",
        |device| {
            device.after::<extension_slot::PJRT_DeviceDescription_MemoryDescriptions>(|args| {
                args.num_memory_descriptions = 0;
            });
        },
    ),
    Mutant::new("extensions.described_memory_kind", "PJRT_MemoryDescription_Kind: the kind of the memory", |device| {
        device.after::<extension_slot::PJRT_MemoryDescription_Kind>(|args| args.kind_size -= 1);
    }),
    Mutant::new("extensions.ffi_types_share_id", "PJRT_FFI_Type_Register: each type has its own id", |device| {
        device.after::<extension_slot::PJRT_FFI_Type_Register>(|args| args.type_id = 7);
    }),
    Mutant::new(
        "extensions.output_shardings_missing",
        "PJRT_Shardings_PJRT_Executable_OutputShardings: one for each",
        |device| {
            device.after::<extension_slot::PJRT_Shardings_PJRT_Executable_OutputShardings>(|args| {
                (args.shardings, args.sharding_sizes) = (leaked([std::ptr::null(); 2]), leaked([0_usize; 2]));
                args.num_outputs = 2;
            });
        },
    ),
    Mutant::new(
        "data.default_layout_column_major",
        "PJRT_Buffer_GetMemoryLayout: the layout without device_layout",
        |device| {
            device.after::<slot::PJRT_Buffer_GetMemoryLayout>(|args| {
                let found = ask::<slot::PJRT_Buffer_Dimensions>(|new| new.buffer = args.buffer);
                let rank = found.map_or(0, |found| list(found.dims, found.num_dims).len());
                args.layout.__bindgen_anon_1.tiled.minor_to_major = leaked(vec![0_i64; rank]);
                args.layout.__bindgen_anon_1.tiled.minor_to_major_size = rank;
            });
        },
    ),
    Mutant::new("data.unknown_type_reported", "PJRT_Buffer_ElementType: a type of PJRT_Buffer_Type", |device| {
        device.after::<slot::PJRT_Buffer_ElementType>(|args| {
            if args.type_ == PJRT_Buffer_Type::PJRT_Buffer_Type_U16 {
                args.type_ = PJRT_Buffer_Type(77);
            }
        });
    }),
];

//! Faults of the function table, of struct sizes, of the extension chain and of the plugin's attributes.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use pjrt_sys::{
    AbiStruct, PJRT_Error_Code, PJRT_Extension_Type, PJRT_NamedValue, PJRT_Plugin_Attributes_Args, PJRT_Program,
    extension_slot, slot,
};

use crate::device::{Answer, Device, bytes, error, leaked, list, read_at};
use crate::mutant::Mutant;

const INVALID: PJRT_Error_Code = PJRT_Error_Code::PJRT_Error_Code_INVALID_ARGUMENT;
const LAYOUTS: u32 = PJRT_Extension_Type::PJRT_Extension_Type_Layouts.0;

pub(super) const MUTANTS: &[Mutant] = &[
    Mutant::new(
        "abi.table_too_short",
        "PJRT_Api: struct_size is the size of the table in the header of the announced version",
        |device| device.tables.announce(size_of_table(device) - 24),
    ),
    Mutant::new("abi.table_ends_within_slot", "PJRT_Api: the table consists of whole function pointers", |device| {
        device.tables.announce(size_of_table(device) - 4);
    }),
    Mutant::new("abi.major_version", "PJRT_API_MAJOR: an incompatible table has another major version", |device| {
        device.tables.version(1, 0);
    }),
    Mutant::new("abi.minor_version_before_reordering", "PJRT_API_MINOR: the version of the table's header", |device| {
        device.tables.version(0, 50);
    }),
    Mutant::new("abi.missing_function", "PJRT_Api: frameworks call PJRT_Buffer_Delete without a check", |device| {
        device.remove::<slot::PJRT_Buffer_Delete>();
    }),
    Mutant::new(
        "abi.missing_function_of_jax",
        "PJRT_Api: JAX calls PJRT_Buffer_CopyToMemory without a check",
        |device| {
            device.remove::<slot::PJRT_Buffer_CopyToMemory>();
        },
    ),
    Mutant::new("abi.all_functions_missing", "PJRT_Api: the table has functions", |device| {
        macro_rules! remove {
            ($($slot:ident),* $(,)?) => {$(device.remove::<slot::$slot>();)*};
        }
        pjrt_sys::for_each_slot!(remove);
    }),
    Mutant::new(
        "client.functions_without_effect",
        "PJRT_Api: the functions have the effects that the header names",
        |device| {
            macro_rules! skip {
            ($($slot:ident),* $(,)?) => {$(device.skip::<slot::$slot>();)*};
        }
            pjrt_sys::for_each_slot!(skip);
        },
    ),
    Mutant::new("abi.extensions_cyclic", "PJRT_Extension_Base: next is null in the last extension", |device| {
        device.cyclic = true;
    }),
    Mutant::new("abi.extension_listed_twice", "PJRT_Extension_Base: each type occurs once in the chain", |device| {
        let again: Vec<_> = device.tables.extensions.iter().take(1).cloned().collect();
        device.tables.extensions.extend(again);
    }),
    Mutant::new("abi.extension_too_short", "PJRT_Extension_Base: struct_size is the size of the extension", |device| {
        device.tables.announce_extension(LAYOUTS, 16);
    }),
    Mutant::new(
        "abi.extension_without_functions",
        "PJRT_Layouts_Extension: a listed extension has its functions",
        |device| {
            use extension_slot as layouts;
            device.remove::<layouts::PJRT_Layouts_MemoryLayout_Destroy>();
            device.remove::<layouts::PJRT_Layouts_MemoryLayout_Serialize>();
            device.remove::<layouts::PJRT_Layouts_PJRT_Client_GetDefaultLayout>();
            device.remove::<layouts::PJRT_Layouts_PJRT_Buffer_MemoryLayout>();
            device.remove::<layouts::PJRT_Layouts_PJRT_Topology_GetDefaultLayout>();
            device.remove::<layouts::PJRT_Layouts_PJRT_Executable_GetOutputLayouts>();
            device.remove::<layouts::PJRT_Layouts_PJRT_Executable_GetParameterLayouts>();
        },
    ),
    Mutant::new(
        "abi.short_struct_accepted",
        "struct_size: a struct that lacks required fields is an error",
        |device| {
            device.replace_all::<slot::PJRT_Plugin_Attributes>(|call| {
                if call.args.struct_size < 32 { Answer::SUCCESS } else { call.pass() }
            });
        },
    ),
    Mutant::new(
        "abi.short_struct_wrong_code",
        "struct_size: a struct that is too small is an INVALID_ARGUMENT",
        |device| {
            device.replace_all::<slot::PJRT_Client_Devices>(|call| {
                if call.args.struct_size < 24 {
                    return error(PJRT_Error_Code::PJRT_Error_Code_DATA_LOSS, "the struct is too small");
                }
                call.pass()
            });
        },
    ),
    Mutant::new(
        "abi.long_struct_refused",
        "struct_size: structs of newer callers are longer, and are accepted",
        |device| {
            device.replace::<slot::PJRT_Client_PlatformName>(|call| {
                if call.args.struct_size > pjrt_sys::PJRT_Client_PlatformName_Args::STRUCT_SIZE {
                    return error(INVALID, "the struct is too large");
                }
                call.pass()
            });
        },
    ),
    Mutant::new(
        "abi.long_struct_overwritten",
        "struct_size: a function writes only the fields that it knows",
        |device| {
            device.replace::<slot::PJRT_Buffer_Dimensions>(|call| {
                call.more[0] = 1;
                call.pass()
            });
        },
    ),
    Mutant::new("abi.older_options_refused", "PJRT_ExecuteOptions: an older caller's options are shorter", |device| {
        device.replace::<slot::PJRT_LoadedExecutable_Execute>(|call| {
            let size: usize = read_at(call.args.options.cast(), 0);
            if size < pjrt_sys::PJRT_ExecuteOptions::STRUCT_SIZE {
                return error(INVALID, "the options have another size");
            }
            call.pass()
        });
    }),
    Mutant::new("abi.attributes_change", "PJRT_Plugin_Attributes: the attributes do not change", |device| {
        let calls = AtomicUsize::new(0);
        device.after::<slot::PJRT_Plugin_Attributes>(move |args| {
            let call = calls.fetch_add(1, Ordering::Relaxed);
            args.num_attributes -= usize::from(call % 2 == 1);
        });
    }),
    Mutant::new("abi.attribute_listed_twice", "PJRT_Plugin_Attributes: lists each attribute once", |device| {
        device.after::<slot::PJRT_Plugin_Attributes>(|args| {
            let mut values = list(args.attributes, args.num_attributes);
            values.extend(values.first().copied());
            (args.num_attributes, args.attributes) = (values.len(), leaked(values));
        });
    }),
    Mutant::new("abi.attributes_missing", "jaxlib: a plugin announces its StableHLO versions", |device| {
        device.after::<slot::PJRT_Plugin_Attributes>(|args| args.num_attributes = 0);
    }),
    Mutant::new(
        "abi.stablehlo_version_has_two_numbers",
        "jaxlib: a StableHLO version is a list of three integers",
        |device| {
            device.after::<slot::PJRT_Plugin_Attributes>(|args| {
                change_attribute(args, b"stablehlo_current_version", |value| value.value_size = 2);
            });
        },
    ),
    Mutant::new(
        "abi.stablehlo_minimum_is_newer",
        "jaxlib: the minimum StableHLO version is at most the current one",
        |device| {
            device.after::<slot::PJRT_Plugin_Attributes>(|args| {
                change_attribute(args, b"stablehlo_minimum_version", |value| {
                    value.__bindgen_anon_1.int64_array_value = leaked([99_i64, 0, 0]);
                });
            });
        },
    ),
    Mutant::new(
        "formats.announced_version_refused",
        "StableHLO: a consumer reads every version from its minimum on",
        |device| {
            device.replace::<slot::PJRT_Client_Compile>(|call| {
                let program: PJRT_Program = read_at(call.args.program, 0);
                let code = bytes(program.code, program.code_size.min(64));
                if code.windows(7).any(|part| part == b"_v1.1.0") {
                    return error(INVALID, "this version is too old");
                }
                call.pass()
            });
        },
    ),
    Mutant::new("program.cache_keyed_by_length", "PJRT_Client_Compile: compiles the given program", |device| {
        // This simulates a cache of compiled programs whose key is only the length of the program.
        let seen: Mutex<Vec<Vec<u8>>> = Mutex::default();
        device.before::<slot::PJRT_Client_Compile>(move |args| {
            let mut program: PJRT_Program = read_at(args.program, 0);
            let code = bytes(program.code, program.code_size);
            let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
            match seen.iter().find(|other| other.len() == code.len()) {
                Some(other) => {
                    program.code = leaked(other.clone()).cast();
                    args.program = leaked([program]);
                }
                None => seen.push(code),
            }
        });
    }),
];

fn size_of_table(device: &Device) -> usize {
    device.tables.main.len() * size_of::<usize>()
}

/// Changes the attribute with this name in a copy of the attributes.
fn change_attribute(args: &mut PJRT_Plugin_Attributes_Args, name: &[u8], change: impl Fn(&mut PJRT_NamedValue)) {
    let mut values = list(args.attributes, args.num_attributes);
    for value in values.iter_mut().filter(|value| bytes(value.name, value.name_size) == name) {
        change(value);
    }
    args.attributes = leaked(values);
}

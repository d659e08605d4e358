//! Faults of executables, their serialization, and topologies.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

use pjrt_sys::{PJRT_LogicalDeviceIds, PJRT_Program, slot};
use stablehlo::VerifyLevel;

use crate::device::{Answer, Device, ask, bytes, leaked, list, read_at};
use crate::mutant::Mutant;

/// Replaces the text `from` with `to` in compiled programs, which simulates a faulty compiler.
fn miscompile(device: &mut Device, from: &'static str, to: &'static str) {
    device.before::<slot::PJRT_Client_Compile>(move |args| {
        let mut program: PJRT_Program = read_at(args.program, 0);
        let code = bytes(program.code, program.code_size);
        let Ok(module) = stablehlo::parse(code, VerifyLevel::STRUCTURE) else { return };
        let text = module.to_string();
        if text.contains(from) {
            let text = text.replace(from, to).into_bytes();
            program.code_size = text.len();
            program.code = leaked(text).cast();
            args.program = leaked([program]);
        }
    });
}

/// The first serialized executable that was loaded.
static FIRST: OnceLock<Vec<u8>> = OnceLock::new();

pub(super) const MUTANTS: &[Mutant] = &[
    Mutant::new("executables.name_empty", "PJRT_Executable_Name: identifies the executable", |device| {
        device.after::<slot::PJRT_Executable_Name>(|args| args.executable_name_size = 0);
    }),
    Mutant::new("executables.two_replicas", "PJRT_Executable_NumReplicas: the number of replicas", |device| {
        device.after::<slot::PJRT_Executable_NumReplicas>(|args| args.num_replicas = 2);
    }),
    Mutant::new("executables.no_partitions", "PJRT_Executable_NumPartitions: the number of partitions", |device| {
        device.after::<slot::PJRT_Executable_NumPartitions>(|args| args.num_partitions = 0);
    }),
    Mutant::new("data.number_of_outputs", "PJRT_Executable_NumOutputs: the number of outputs", |device| {
        device.after::<slot::PJRT_Executable_NumOutputs>(|args| args.num_outputs = args.num_outputs.saturating_sub(1));
    }),
    Mutant::new("data.output_types_reversed", "PJRT_Executable_OutputElementTypes: the types in order", |device| {
        device.after::<slot::PJRT_Executable_OutputElementTypes>(|args| {
            let mut types = list(args.output_types.cast_const(), args.num_output_types);
            types.reverse();
            args.output_types = leaked(types);
        });
    }),
    Mutant::new(
        "data.output_dimensions_of_parameters",
        "PJRT_Executable_OutputDimensions: the outputs' dimensions",
        |device| {
            device.after::<slot::PJRT_Executable_OutputDimensions>(|args| {
                let sizes = list(args.dim_sizes, args.num_outputs);
                let mut dims = list(args.dims, sizes.iter().sum());
                dims.reverse();
                args.dims = leaked(dims);
            });
        },
    ),
    Mutant::new(
        "executables.no_devices",
        "PJRT_LoadedExecutable_AddressableDevices: the devices of the program",
        |device| {
            device.after::<slot::PJRT_LoadedExecutable_AddressableDevices>(|args| args.num_addressable_devices = 0);
        },
    ),
    Mutant::new(
        "executables.logical_ids",
        "PJRT_LoadedExecutable_AddressableDeviceLogicalIds: replica and partition",
        |device| {
            device.after::<slot::PJRT_LoadedExecutable_AddressableDeviceLogicalIds>(|args| {
                let count = args.num_addressable_device_logical_ids;
                args.addressable_device_logical_ids =
                    leaked(vec![PJRT_LogicalDeviceIds { replica: 1, partition: 1 }; count]);
            });
        },
    ),
    Mutant::new(
        "executables.assignment_empty",
        "PJRT_LoadedExecutable_GetDeviceAssignment: the device assignment",
        |device| {
            device.after::<slot::PJRT_LoadedExecutable_GetDeviceAssignment>(|args| args.serialized_bytes_size = 0);
        },
    ),
    Mutant::new("executables.fingerprint_constant", "PJRT_Executable_Fingerprint: programs have their own", |device| {
        device.after::<slot::PJRT_Executable_Fingerprint>(|args| {
            (args.executable_fingerprint, args.executable_fingerprint_size) = (leaked(*b"1234").cast(), 4);
        });
    }),
    Mutant::new(
        "executables.fingerprint_changes",
        "PJRT_Executable_Fingerprint: equal programs have an equal one",
        |device| {
            let count = AtomicUsize::new(0);
            device.after::<slot::PJRT_Executable_Fingerprint>(move |args| {
                let text = format!("{:08}", count.fetch_add(1, Ordering::Relaxed)).into_bytes();
                (args.executable_fingerprint_size, args.executable_fingerprint) = (text.len(), leaked(text).cast());
            });
        },
    ),
    Mutant::new(
        "executables.code_size_negative",
        "PJRT_Executable_SizeOfGeneratedCodeInBytes: a size, or -1",
        |device| {
            device.after::<slot::PJRT_Executable_SizeOfGeneratedCodeInBytes>(|args| args.size_in_bytes = -1000);
        },
    ),
    Mutant::new("executables.cost_without_name", "PJRT_Executable_GetCostAnalysis: named values", |device| {
        device.after::<slot::PJRT_Executable_GetCostAnalysis>(|args| {
            let mut properties = list(args.properties, args.num_properties);
            for property in &mut properties {
                property.name_size = 0;
            }
            args.properties = leaked(properties);
        });
    }),
    Mutant::new("executables.memory_stats_zero", "PJRT_Executable_GetCompiledMemoryStats: sizes in bytes", |device| {
        device.after::<slot::PJRT_Executable_GetCompiledMemoryStats>(|args| args.output_size_in_bytes = 0);
    }),
    Mutant::new("executables.optimized_program_empty", "PJRT_Executable_OptimizedProgram: the program", |device| {
        device.after::<slot::PJRT_Executable_OptimizedProgram>(|args| {
            if !args.program.is_null() {
                let mut program: PJRT_Program = read_at(args.program.cast_const(), 0);
                program.code_size = 0;
                crate::device::write_at(args.program, 0, program);
            }
        });
    }),
    Mutant::new("executables.compile_options_empty", "PJRT_Executable_GetCompileOptions: the options", |device| {
        device.after::<slot::PJRT_Executable_GetCompileOptions>(|args| args.serialized_bytes_size = 0);
    }),
    Mutant::new(
        "executables.parameter_kinds",
        "PJRT_Executable_ParameterMemoryKinds: a kind for each parameter",
        |device| {
            device.after::<slot::PJRT_Executable_ParameterMemoryKinds>(|args| args.num_parameters = 1);
        },
    ),
    Mutant::new("executables.serialized_is_cut", "PJRT_Executable_Serialize: the whole executable", |device| {
        device.after::<slot::PJRT_Executable_Serialize>(|args| args.serialized_bytes_size -= 8);
    }),
    Mutant::new(
        "executables.deserialized_is_other",
        "PJRT_Executable_DeserializeAndLoad: loads the given executable",
        |device| {
            device.before::<slot::PJRT_Executable_DeserializeAndLoad>(|args| {
                let first = FIRST.get_or_init(|| bytes(args.serialized_executable, args.serialized_executable_size));
                args.serialized_executable = first.as_ptr().cast();
                args.serialized_executable_size = first.len();
            });
        },
    ),
    Mutant::new(
        "executables.damaged_bytes_load",
        "PJRT_Executable_DeserializeAndLoad: damaged bytes are an error",
        |device| {
            let last: Mutex<Vec<u8>> = Mutex::default();
            let last: &'static Mutex<Vec<u8>> = Box::leak(Box::new(last));
            device.after::<slot::PJRT_Executable_Serialize>(|args| {
                *last.lock().unwrap_or_else(PoisonError::into_inner) =
                    bytes(args.serialized_bytes, args.serialized_bytes_size);
            });
            device.replace::<slot::PJRT_Executable_DeserializeAndLoad>(|call| {
                let answer = call.pass();
                if answer.is_success() {
                    return answer;
                }
                let last = last.lock().unwrap_or_else(PoisonError::into_inner);
                call.args.serialized_executable = last.as_ptr().cast();
                call.args.serialized_executable_size = last.len();
                call.pass()
            });
        },
    ),
    Mutant::new(
        "executables.damaged_bytes_crash",
        "PJRT_Executable_DeserializeAndLoad: damaged bytes are an error",
        |device| {
            device.replace::<slot::PJRT_Executable_DeserializeAndLoad>(|call| {
                let answer = call.pass();
                if answer.is_success() { answer } else { std::process::abort() }
            });
        },
    ),
    Mutant::new(
        "executables.of_another_plugin_load",
        "PJRT_Executable_DeserializeAndLoad: another plugin's executable is an error",
        |device| {
            device.replace::<slot::PJRT_Executable_DeserializeAndLoad>(|call| {
                let given = bytes(call.args.serialized_executable, call.args.serialized_executable_size);
                // The suite uses this platform name in the executable of another plugin.
                if !given.windows(16).any(|bytes| bytes == b"pjrt_conformance") {
                    return call.pass();
                }
                call.args.loaded_executable = super::errors::empty_program(call.args.client);
                Answer::SUCCESS
            });
        },
    ),
    Mutant::new("leaks.serialized", "serialized_executable_deleter: frees the bytes", |device| {
        device.after::<slot::PJRT_Executable_Serialize>(|args| {
            let kept = bytes(args.serialized_bytes, args.serialized_bytes_size).leak();
            args.serialized_bytes = kept.as_ptr().cast();
        });
    }),
    Mutant::new(
        "program.round_even_rounds_away",
        "StableHLO, round_nearest_even: ties round to the even number",
        |device| {
            miscompile(device, "stablehlo.round_nearest_even", "stablehlo.round_nearest_afz");
        },
    ),
    Mutant::new("program.arithmetic_shift_is_logical", "StableHLO, shift_right_arithmetic: keeps the sign", |device| {
        miscompile(device, "stablehlo.shift_right_arithmetic", "stablehlo.shift_right_logical");
    }),
    Mutant::new("numerics.minimum_is_maximum", "StableHLO, minimum: the smaller operand", |device| {
        miscompile(device, "stablehlo.minimum", "stablehlo.maximum");
    }),
    Mutant::new("program.and_is_or", "StableHLO, and: the conjunction", |device| {
        miscompile(device, "stablehlo.and ", "stablehlo.or ");
    }),
    Mutant::new("program.less_is_less_or_equal", "StableHLO, compare: LT is false for equal operands", |device| {
        miscompile(device, "stablehlo.compare LT", "stablehlo.compare LE");
    }),
    Mutant::new("program.fma_clamps", "StableHLO, fma: a product and a sum, rounded once", |device| {
        miscompile(device, "stablehlo.fma", "stablehlo.clamp");
    }),
    Mutant::new("program.exp2_is_exponential", "StableHLO, exp2: a power of 2", |device| {
        miscompile(device, "stablehlo.exp2", "stablehlo.exponential");
    }),
    Mutant::new("program.floor_is_ceil", "StableHLO, floor: rounds down", |device| {
        miscompile(device, "stablehlo.floor", "stablehlo.ceil");
    }),
    Mutant::new("topology.platform_name", "PJRT_TopologyDescription_PlatformName: the client's platform", |device| {
        device.after::<slot::PJRT_TopologyDescription_PlatformName>(|args| {
            (args.platform_name, args.platform_name_size) = (leaked(*b"tpu").cast(), 3);
        });
    }),
    Mutant::new("topology.platform_version_empty", "PJRT_TopologyDescription_PlatformVersion: the version", |device| {
        device.after::<slot::PJRT_TopologyDescription_PlatformVersion>(|args| args.platform_version_size = 0);
    }),
    Mutant::new("topology.device_missing", "PJRT_TopologyDescription_GetDeviceDescriptions: each device", |device| {
        device.after::<slot::PJRT_TopologyDescription_GetDeviceDescriptions>(|args| args.num_descriptions -= 1);
    }),
    Mutant::new(
        "topology.serialized_changes",
        "PJRT_TopologyDescription_Serialize: equal bytes for equal topologies",
        |device| {
            let count = AtomicUsize::new(0);
            device.after::<slot::PJRT_TopologyDescription_Serialize>(move |args| {
                args.serialized_bytes_size -= count.fetch_add(1, Ordering::Relaxed) % 2;
            });
        },
    ),
    Mutant::new(
        "topology.fingerprint_changes",
        "PJRT_TopologyDescription_Fingerprint: equal for equal topologies",
        |device| {
            let count = AtomicUsize::new(0);
            device.after::<slot::PJRT_TopologyDescription_Fingerprint>(move |args| {
                args.fingerprint = count.fetch_add(1, Ordering::Relaxed) as u64;
            });
        },
    ),
    Mutant::new(
        "topology.deserialized_without_devices",
        "PJRT_TopologyDescription_Deserialize: the serialized topology",
        |device| {
            let read: Mutex<Vec<usize>> = Mutex::default();
            let read: &'static Mutex<Vec<usize>> = Box::leak(Box::new(read));
            device.after::<slot::PJRT_TopologyDescription_Deserialize>(|args| {
                read.lock().unwrap_or_else(PoisonError::into_inner).push(args.topology.addr());
            });
            device.after::<slot::PJRT_TopologyDescription_GetDeviceDescriptions>(|args| {
                if read.lock().unwrap_or_else(PoisonError::into_inner).contains(&args.topology.addr()) {
                    args.num_descriptions = 0;
                }
            });
        },
    ),
    Mutant::new(
        "topology.memory_kind_listed_twice",
        "PJRT_TopologyDescription_GetMemorySpaceKindIds: the kinds",
        |device| {
            device.after::<slot::PJRT_TopologyDescription_GetMemorySpaceKindIds>(|args| {
                let mut ids = list(args.memory_space_kind_ids, args.num_memory_space_kind_ids);
                ids.extend(ids.first().copied());
                args.num_memory_space_kind_ids = ids.len();
                args.memory_space_kind_ids = leaked(ids);
            });
        },
    ),
    Mutant::new(
        "topology.canonical_shape",
        "MakeCanonicalShapeForMemorySpace: a shape with the given dimensions",
        |device| {
            device.before::<slot::PJRT_TopologyDescription_MakeCanonicalShapeForMemorySpace>(|args| {
                let mut dims = list(args.dims, args.num_dims);
                dims.reverse();
                args.dims = leaked(dims);
            });
        },
    ),
    Mutant::new("topology.compiled_is_other", "PJRT_Compile: compiles the given program", |device| {
        device.before::<slot::PJRT_Compile>(|args| {
            let code = "func.func public @main(%x: tensor<2xf32>) -> tensor<2xf32> { return %x : tensor<2xf32> }";
            let mut program: PJRT_Program = read_at(args.program, 0);
            (program.code, program.code_size) = (leaked(code.as_bytes()).cast(), code.len());
            args.program = leaked([program]);
        });
    }),
    Mutant::new("topology.loaded_does_not_run", "PJRT_Client_Load: loads an executable that runs", |device| {
        device.after::<slot::PJRT_Client_Load>(|args| {
            ask::<slot::PJRT_LoadedExecutable_Delete>(|new| new.executable = args.loaded_executable);
        });
    }),
];

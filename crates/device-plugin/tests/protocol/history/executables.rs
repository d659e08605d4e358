//! Cases for the functions of executables.

use std::ptr::{null, null_mut};

use device_plugin::DeviceAssignment;
use pjrt_sys::*;

use super::fixture::{CODE, destroy_executable, toy_program};
use crate::framework::{execute_options, program, read_values, slice, text, toy};

super::table! { CASES:
    PJRT_Compile(_, c) {
        let topology = super::fixture::topology("here");
        let program = toy_program();
        let called = c.call::<S>(|args| {
            (args.topology, args.program, args.client) = (topology, &raw const program, null_mut());
            (args.compile_options, args.compile_options_size) = (null(), 0);
        });
        if let Some(args) = called {
            destroy_executable(args.executable);
        }
        super::fixture::destroy_topology(topology);
    }
    PJRT_Executable_Destroy(w, c) {
        let held =
            toy().ask::<slot::PJRT_LoadedExecutable_GetExecutable>(|args| args.loaded_executable = w.loaded).unwrap();
        if c.call::<S>(|args| args.executable = held.executable).is_none() {
            destroy_executable(held.executable);
        }
    }
    PJRT_Executable_Name(w, c) {
        if let Some(args) = c.call::<S>(|args| args.executable = w.executable) {
            assert_eq!(unsafe { text(args.executable_name, args.executable_name_size) }, "add_one");
        }
    }
    PJRT_Executable_NumReplicas(w, c) {
        if let Some(args) = c.call::<S>(|args| args.executable = w.executable) {
            assert_eq!(args.num_replicas, 1);
        }
    }
    PJRT_Executable_NumPartitions(w, c) {
        if let Some(args) = c.call::<S>(|args| args.executable = w.executable) {
            assert_eq!(args.num_partitions, 1);
        }
    }
    PJRT_Executable_NumOutputs(w, c) {
        if let Some(args) = c.call::<S>(|args| args.executable = w.executable) {
            assert_eq!(args.num_outputs, 1);
        }
    }
    PJRT_Executable_SizeOfGeneratedCodeInBytes(w, c) {
        if let Some(args) = c.call::<S>(|args| args.executable = w.executable) {
            assert_eq!(args.size_in_bytes, 42);
        }
    }
    PJRT_Executable_GetCostAnalysis(w, c) {
        if let Some(args) = c.call::<S>(|args| args.executable = w.executable) {
            assert_eq!(unsafe { read_values(args.properties, args.num_properties) }[0].name, "flops");
        }
    }
    PJRT_Executable_OutputMemoryKinds(w, c) {
        if let Some(args) = c.call::<S>(|args| args.executable = w.executable) {
            assert_eq!(args.num_outputs, 1);
            assert_eq!(unsafe { text(*args.memory_kinds, *args.memory_kind_sizes) }, "device");
        }
    }
    PJRT_Executable_ParameterMemoryKinds(w, c) {
        if let Some(args) = c.call::<S>(|args| args.executable = w.executable) {
            assert_eq!(args.num_parameters, 1);
            assert_eq!(unsafe { text(*args.memory_kinds, *args.memory_kind_sizes) }, "device");
        }
    }
    PJRT_Executable_OptimizedProgram(w, c) {
        let mut program = program("", &[]);
        program.code = null_mut();
        let called = c.call::<S>(|args| (args.executable, args.program) = (w.executable, &raw mut program));
        assert_eq!(program.code_size, if called.is_some() { CODE.len() } else { 0 });
    }
    PJRT_Executable_Serialize(w, c) {
        if let Some(args) = c.call::<S>(|args| args.executable = w.executable) {
            assert!(args.serialized_bytes_size > CODE.len());
            unsafe { args.serialized_executable_deleter.unwrap()(args.serialized_executable) };
        }
    }
    PJRT_Executable_GetCompileOptions(w, c) {
        if let Some(args) = c.call::<S>(|args| args.executable = w.executable) {
            assert_eq!(args.serialized_bytes_size, 0);
            unsafe { args.serialized_compile_options_deleter.unwrap()(args.serialized_compile_options) };
        }
    }
    PJRT_Executable_OutputElementTypes(w, c) {
        if let Some(args) = c.call::<S>(|args| args.executable = w.executable) {
            let types = unsafe { slice(args.output_types, args.num_output_types) };
            assert_eq!(types[0].0, super::fixture::S32.0);
        }
    }
    PJRT_Executable_OutputDimensions(w, c) {
        if let Some(args) = c.call::<S>(|args| args.executable = w.executable) {
            assert_eq!(unsafe { slice(args.dim_sizes, args.num_outputs) }, [1]);
            assert_eq!(unsafe { slice(args.dims, 1) }, [2]);
        }
    }
    PJRT_Executable_Fingerprint(w, c) {
        if let Some(args) = c.call::<S>(|args| args.executable = w.executable) {
            assert_eq!(args.executable_fingerprint_size, 32);
        }
    }
    PJRT_Executable_GetCompiledMemoryStats(w, c) {
        if let Some(args) = c.call::<S>(|args| args.executable = w.executable) {
            let sizes = (args.generated_code_size_in_bytes, args.argument_size_in_bytes, args.output_size_in_bytes);
            assert_eq!(sizes, (42, 8, 8));
            if args.struct_size == PJRT_Executable_GetCompiledMemoryStats_Args::STRUCT_SIZE {
                assert_eq!(args.peak_unpadded_heap_bytes, 16);
            }
        }
    }
    PJRT_Executable_DeserializeAndLoad(w, c) {
        let blob = toy().ask::<slot::PJRT_Executable_Serialize>(|args| args.executable = w.executable).unwrap();
        let called = c.call::<S>(|args| {
            (args.client, args.serialized_executable) = (w.client, blob.serialized_bytes);
            args.serialized_executable_size = blob.serialized_bytes_size;
            args.overridden_serialized_compile_options = null();
            args.overridden_serialized_compile_options_size = 0;
        });
        unsafe { blob.serialized_executable_deleter.unwrap()(blob.serialized_executable) };
        if let Some(args) = called {
            toy().destroy_loaded(args.loaded_executable);
        }
    }
    PJRT_LoadedExecutable_Destroy(w, c) {
        let loaded = toy().compile(w.client, CODE).unwrap();
        if c.call::<S>(|args| args.executable = loaded).is_none() {
            toy().destroy_loaded(loaded);
        }
    }
    PJRT_LoadedExecutable_GetExecutable(w, c) {
        if let Some(args) = c.call::<S>(|args| args.loaded_executable = w.loaded) {
            destroy_executable(args.executable);
        }
    }
    PJRT_LoadedExecutable_AddressableDevices(w, c) {
        if let Some(args) = c.call::<S>(|args| args.executable = w.loaded) {
            let devices = unsafe { slice(args.addressable_devices, args.num_addressable_devices) };
            assert_eq!(devices, &w.devices[..1]);
        }
    }
    PJRT_LoadedExecutable_AddressableDeviceLogicalIds(w, c) {
        if let Some(args) = c.call::<S>(|args| args.executable = w.loaded) {
            assert_eq!(args.num_addressable_device_logical_ids, 1);
        }
    }
    PJRT_LoadedExecutable_GetDeviceAssignment(w, c) {
        if let Some(args) = c.call::<S>(|args| args.executable = w.loaded) {
            let bytes = unsafe { slice(args.serialized_bytes.cast::<u8>(), args.serialized_bytes_size) };
            assert_eq!(DeviceAssignment::decode(bytes).unwrap(), DeviceAssignment::new(1, 1, vec![10]).unwrap());
            unsafe { args.serialized_device_assignment_deleter.unwrap()(args.serialized_device_assignment) };
        }
    }
    PJRT_LoadedExecutable_Delete(w, c) {
        let loaded = toy().compile(w.client, CODE).unwrap();
        c.call::<S>(|args| args.executable = loaded);
        toy().destroy_loaded(loaded);
    }
    PJRT_LoadedExecutable_IsDeleted(w, c) {
        if let Some(args) = c.call::<S>(|args| args.executable = w.loaded) {
            assert!(!args.is_deleted.get());
        }
    }
    PJRT_LoadedExecutable_Fingerprint(w, c) {
        if let Some(args) = c.call::<S>(|args| args.executable = w.loaded) {
            assert_eq!(args.executable_fingerprint_size, 32);
        }
    }
    PJRT_LoadedExecutable_Execute(w, c) {
        let buffer = w.ints();
        let mut options = execute_options(&[]);
        let (mut output, mut event) = (null_mut(), null_mut());
        let (arguments, outputs) = ([(&raw const buffer)], [(&raw mut output)]);
        let called = c.call::<S>(|args| {
            (args.executable, args.options, args.argument_lists) = (w.loaded, &raw mut options, arguments.as_ptr());
            (args.num_devices, args.num_args, args.output_lists) = (1, 1, outputs.as_ptr());
            (args.device_complete_events, args.execute_device) = (&raw mut event, null_mut());
        });
        assert_eq!(toy().is_deleted(buffer), called.is_some());
        if called.is_some() {
            toy().wait(event).unwrap();
            assert_eq!(toy().read_ints(output).unwrap(), [2, 3]);
            toy().destroy(&[output]);
        }
        toy().destroy(&[buffer]);
    }
}

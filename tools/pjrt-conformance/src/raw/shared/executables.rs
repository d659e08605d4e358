//! Executables and loaded executables.

use pjrt::Function;
use pjrt::raw::AsRaw;
use pjrt_sys::{PJRT_Executable, PJRT_Program, extension_slot, slot};

use super::kind::{
    Answer, End, Kind, Operation, Owned, With, ask, ask_extension, checksum, drop_all, execute, list, named, nothing,
    operation, query, released, sized, texts,
};
use crate::case::Profiles;
use crate::raw::delete_executable;
use crate::raw::failure::text;

/// An executable that no function has been called with yet. `pjrt` has already queried its own.
pub(crate) const EXECUTABLE: Kind<Owned<PJRT_Executable>> = Kind {
    name: "shared.executable",
    why: "JAX queries the costs, layouts and shapes of one compiled function from several threads",
    profiles: Profiles::FRAMEWORKS,
    compiles: false,
    operations: &[
        query!(
            PJRT_Executable_Name,
            |on, args| args.executable = on.extra.as_raw(),
            text(args.executable_name, args.executable_name_size)
        ),
        query!(PJRT_Executable_NumReplicas, |on, args| args.executable = on.extra.as_raw(), args.num_replicas),
        query!(PJRT_Executable_NumPartitions, |on, args| args.executable = on.extra.as_raw(), args.num_partitions),
        query!(PJRT_Executable_NumOutputs, |on, args| args.executable = on.extra.as_raw(), args.num_outputs),
        query!(
            PJRT_Executable_SizeOfGeneratedCodeInBytes,
            |on, args| args.executable = on.extra.as_raw(),
            args.size_in_bytes
        ),
        query!(
            PJRT_Executable_Fingerprint,
            |on, args| args.executable = on.extra.as_raw(),
            text(args.executable_fingerprint, args.executable_fingerprint_size)
        ),
        operation!([PJRT_Executable_GetCostAnalysis], |on| {
            let args = ask::<slot::PJRT_Executable_GetCostAnalysis>(on.plugin(), |args| {
                args.executable = on.extra.as_raw();
            })?;
            let mut properties = named(args.properties, args.num_properties);
            properties.sort();
            Ok(format!("{properties:?}"))
        }),
        query!(
            PJRT_Executable_GetCompiledMemoryStats,
            |on, args| args.executable = on.extra.as_raw(),
            (args.argument_size_in_bytes, args.output_size_in_bytes, args.temp_size_in_bytes)
        ),
        query!(
            PJRT_Executable_OutputElementTypes,
            |on, args| args.executable = on.extra.as_raw(),
            list(args.output_types, args.num_output_types).iter().map(|ty| ty.0).collect::<Vec<_>>()
        ),
        query!(PJRT_Executable_OutputDimensions, |on, args| args.executable = on.extra.as_raw(), {
            let ranks = list(args.dim_sizes, args.num_outputs);
            list(args.dims, ranks.iter().sum())
        }),
        query!(
            PJRT_Executable_ParameterMemoryKinds,
            |on, args| args.executable = on.extra.as_raw(),
            texts(args.memory_kinds, args.memory_kind_sizes, args.num_parameters)
        ),
        query!(
            PJRT_Executable_OutputMemoryKinds,
            |on, args| args.executable = on.extra.as_raw(),
            texts(args.memory_kinds, args.memory_kind_sizes, args.num_outputs)
        ),
        query!(
            extension PJRT_Shardings_PJRT_Executable_ParameterShardings,
            |on, args| args.executable = on.extra.as_raw(),
            texts(args.shardings, args.sharding_sizes, args.num_parameters)
        ),
        query!(
            extension PJRT_Shardings_PJRT_Executable_OutputShardings,
            |on, args| args.executable = on.extra.as_raw(),
            texts(args.shardings, args.sharding_sizes, args.num_outputs)
        ),
        operation!([PJRT_Executable_OptimizedProgram], optimized),
        operation!([PJRT_Executable_Serialize], |on| {
            let args = ask::<slot::PJRT_Executable_Serialize>(on.plugin(), |args| args.executable = on.extra.as_raw())?;
            let bytes = released(
                args.serialized_bytes,
                args.serialized_bytes_size,
                args.serialized_executable,
                args.serialized_executable_deleter,
            );
            // The order of fields in the bytes may differ.
            Ok(format!("{} bytes", bytes.len()))
        }),
        operation!([PJRT_Executable_GetCompileOptions], |on| {
            let args = ask::<slot::PJRT_Executable_GetCompileOptions>(on.plugin(), |args| {
                args.executable = on.extra.as_raw();
            })?;
            let bytes = released(
                args.serialized_bytes,
                args.serialized_bytes_size,
                args.serialized_compile_options,
                args.serialized_compile_options_deleter,
            );
            Ok(format!("{} bytes", bytes.len()))
        }),
    ],
    make: |_, objects| {
        let plugin = &objects.plugin;
        let args = ask::<slot::PJRT_LoadedExecutable_GetExecutable>(plugin, |args| {
            args.loaded_executable = objects.loaded.as_raw();
        })?;
        Owned::new(plugin, args.executable, |plugin, executable| {
            ask::<slot::PJRT_Executable_Destroy>(plugin, |args| args.executable = executable).map(drop)
        })
    },
    end: End::Never,
    finish: drop_all,
};

fn optimized(on: &With<Owned<PJRT_Executable>>) -> Answer {
    let mut program = sized::<PJRT_Program>(on.plugin());
    let copy = |program: &mut PJRT_Program| {
        ask::<slot::PJRT_Executable_OptimizedProgram>(on.plugin(), |args| {
            (args.executable, args.program) = (on.extra.as_raw(), program);
        })
    };
    copy(&mut program)?;
    let mut code = vec![0u8; program.code_size];
    program.code = code.as_mut_ptr().cast();
    copy(&mut program)?;
    ensure!(code.iter().any(|byte| *byte != 0), "the optimized program is empty");
    // The order of fields in the bytes may differ.
    Ok(format!("{} bytes of {}", program.code_size, text(program.format, program.format_size)))
}

pub(crate) const LOADED_EXECUTABLE: Kind<()> = Kind {
    name: "shared.loaded_executable",
    why: "servers execute one program from many threads",
    profiles: Profiles::FRAMEWORKS,
    compiles: true,
    operations: OPERATIONS,
    make: nothing,
    end: End::Never,
    finish: drop_all,
};

pub(crate) const DELETED_EXECUTABLE: Kind<()> = Kind {
    name: "deleted.loaded_executable",
    why: "one thread of a framework clears a cache of programs while another thread executes",
    end: End::Deleted(Function::PJRT_LoadedExecutable_Delete, |on| delete_executable(&on.loaded)),
    ..LOADED_EXECUTABLE
};

const OPERATIONS: &[Operation<()>] = &[
    operation!([PJRT_LoadedExecutable_Execute], |on| execute(on, std::ptr::null_mut())),
    operation!([PJRT_LoadedExecutable_IsDeleted], |on| {
        let args = ask::<slot::PJRT_LoadedExecutable_IsDeleted>(on.plugin(), |args| {
            args.executable = on.loaded.as_raw();
        })?;
        if args.is_deleted.get() { fail!("the executable is deleted") } else { Ok("live".to_owned()) }
    }),
    operation!([PJRT_LoadedExecutable_GetExecutable, PJRT_Executable_Name, PJRT_Executable_Destroy], |on| {
        let plugin = on.plugin();
        let executable = ask::<slot::PJRT_LoadedExecutable_GetExecutable>(plugin, |args| {
            args.loaded_executable = on.loaded.as_raw();
        })?
        .executable;
        let answer = ask::<slot::PJRT_Executable_Name>(plugin, |args| args.executable = executable)
            .map(|args| text(args.executable_name, args.executable_name_size));
        ask::<slot::PJRT_Executable_Destroy>(plugin, |args| args.executable = executable)?;
        answer
    }),
    query!(
        PJRT_LoadedExecutable_AddressableDevices,
        |on, args| args.executable = on.loaded.as_raw(),
        list(args.addressable_devices, args.num_addressable_devices)
    ),
    query!(
        PJRT_LoadedExecutable_AddressableDeviceLogicalIds,
        |on, args| args.executable = on.loaded.as_raw(),
        list(args.addressable_device_logical_ids, args.num_addressable_device_logical_ids)
            .iter()
            .map(|id| (id.replica, id.partition))
            .collect::<Vec<_>>()
    ),
    query!(
        PJRT_LoadedExecutable_Fingerprint,
        |on, args| args.executable = on.loaded.as_raw(),
        text(args.executable_fingerprint, args.executable_fingerprint_size)
    ),
    operation!([PJRT_LoadedExecutable_GetDeviceAssignment], |on| {
        let args = ask::<slot::PJRT_LoadedExecutable_GetDeviceAssignment>(on.plugin(), |args| {
            args.executable = on.loaded.as_raw();
        })?;
        Ok(checksum(&released(
            args.serialized_bytes,
            args.serialized_bytes_size,
            args.serialized_device_assignment,
            args.serialized_device_assignment_deleter,
        )))
    }),
];

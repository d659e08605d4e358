//! Cases for executables: queries, formats and versions of programs, and topologies.

use pjrt::{
    CompileOptions, Device, DeviceAssignment, ElementType, ExecuteContext, ExecuteOptions, Function, Input, NamedValue,
    Program, Shape, TopologyDescription, Value,
};

use super::serialization::SERIALIZE;
use crate::case::Profiles;
use crate::context::floats;
use crate::program::{add_one, announced_version, module};
use crate::stop::Stop;
use crate::suite::Suite;

pub(crate) fn declare(suite: &mut Suite) {
    queries(suite);
    formats(suite);
    topology(suite);
}

fn queries(suite: &mut Suite) {
    suite
        .case(
            "executables.query.name",
            "pjrt_c_api.h, PJRT_Executable_Name: a string that identifies the executable",
            "profilers show the name",
        )
        .profiles(Profiles::FRAMEWORKS)
        .check(|cx| {
            let executable = cx.add_one(2)?;
            ensure!(!executable.executable().name()?.is_empty(), "the name is empty");
            Ok(())
        });
    suite
        .case(
            "executables.query.counts",
            "pjrt_c_api.h: PJRT_Executable_NumReplicas, _NumPartitions and _NumOutputs return these numbers for the \
             program",
            "frameworks allocate the lists of a run with these sizes",
        )
        .profiles(Profiles::MINIMAL)
        .check(|cx| {
            let executable = cx.add_one(2)?;
            let executable = executable.executable();
            ensure_eq!(
                (executable.num_replicas()?, executable.num_partitions()?, executable.num_outputs()?),
                (1, 1, 1),
                "counts"
            );
            Ok(())
        });
    suite
        .case(
            "executables.query.devices",
            "pjrt_c_api.h, PJRT_LoadedExecutable_AddressableDevices: the devices on which it runs",
            "frameworks place the arguments on these devices",
        )
        .profiles(Profiles::MINIMAL)
        .check(|cx| {
            ensure_eq!(cx.add_one(2)?.addressable_devices().len(), 1, "number of devices");
            Ok(())
        });
    suite
        .case(
            "executables.query.device_assignment",
            "pjrt_c_api.h, PJRT_LoadedExecutable_GetDeviceAssignment: returns a serialized DeviceAssignmentProto",
            "JAX reconstructs the mesh of a loaded program from it",
        )
        .profiles(Profiles::JAX)
        .functions(&[Function::PJRT_LoadedExecutable_GetDeviceAssignment])
        .check(|cx| {
            let executable = cx.add_one(2)?;
            let assignment = executable.device_assignment()?;
            let ids: Vec<i64> = executable
                .addressable_devices()
                .iter()
                .map(|device| device.id().map(i64::from))
                .collect::<Result<_, _>>()?;
            ensure_eq!(assignment.devices(), &ids[..], "devices");
            Ok(())
        });
    suite
        .case(
            "executables.query.logical_ids",
            "pjrt_c_api.h, PJRT_LoadedExecutable_AddressableDeviceLogicalIds: returns the replica and partition of \
             each device",
            "JAX places shards by these numbers",
        )
        .functions(&[Function::PJRT_LoadedExecutable_AddressableDeviceLogicalIds])
        .check(|cx| {
            ensure_eq!(cx.add_one(2)?.logical_device_ids()?, vec![(0, 0)], "replica and partition");
            Ok(())
        });
    suite
        .case(
            "executables.query.fingerprint",
            "pjrt_c_api.h, PJRT_Executable_Fingerprint: equal programs have equal fingerprints",
            "compilation caches identify programs by fingerprint",
        )
        .profiles(Profiles::JAX)
        .functions(&[Function::PJRT_Executable_Fingerprint])
        .check(|cx| {
            let (a, b, c) = (cx.add_one(2)?, cx.add_one(2)?, cx.add_one(3)?);
            let (a, b, c) =
                (a.executable().fingerprint()?, b.executable().fingerprint()?, c.executable().fingerprint()?);
            ensure!(!a.is_empty(), "the fingerprint is empty");
            ensure_eq!(a, b, "fingerprints of the same program");
            ensure!(a != c, "different programs have the same fingerprint");
            Ok(())
        });
    suite
        .case(
            "executables.query.code_size",
            "pjrt_c_api.h, PJRT_Executable_SizeOfGeneratedCodeInBytes: returns a size, or -1 if it is unknown",
            "frameworks estimate the memory of a program",
        )
        .profiles(Profiles::JAX)
        .functions(&[Function::PJRT_Executable_SizeOfGeneratedCodeInBytes])
        .check(|cx| {
            let size = cx.add_one(2)?.executable().size_of_generated_code()?;
            ensure!(size >= -1, "the size is {size}");
            Ok(())
        });
    suite
        .case(
            "executables.query.cost_analysis",
            "pjrt_c_api.h, PJRT_Executable_GetCostAnalysis: returns named values",
            "jax.stages.Compiled.cost_analysis",
        )
        .profiles(Profiles::JAX)
        .functions(&[Function::PJRT_Executable_GetCostAnalysis])
        .check(|cx| {
            let executable = cx.add_one(2)?;
            let costs = executable.executable().cost_analysis()?;
            ensure!(costs.iter().all(|cost| !cost.name.is_empty()), "a value has no name");
            Ok(())
        });
    suite
        .case(
            "executables.query.memory_stats",
            "pjrt_c_api.h, PJRT_Executable_GetCompiledMemoryStats: returns the sizes of code, arguments, outputs and \
             temporaries in bytes",
            "users estimate the memory of large models before they run them",
        )
        .profiles(Profiles::JAX)
        .functions(&[Function::PJRT_Executable_GetCompiledMemoryStats])
        .check(|cx| {
            let executable = cx.add_one(1024)?;
            let stats = executable.executable().compiled_memory_stats()?;
            ensure!(
                stats.argument_size >= 4096 && stats.output_size >= 4096,
                "the sizes are {} and {} for 4096 bytes each",
                stats.argument_size,
                stats.output_size
            );
            Ok(())
        });
    suite
        .case(
            "executables.query.optimized_program",
            "pjrt_c_api.h, PJRT_Executable_OptimizedProgram: returns the program after optimization, and its format",
            "users and profilers read the optimized program",
        )
        .profiles(Profiles::JAX)
        .functions(&[Function::PJRT_Executable_OptimizedProgram])
        .check(|cx| {
            let executable = cx.add_one(2)?;
            let program = executable.executable().optimized_program()?;
            ensure!(!program.code().is_empty() && !program.format().is_empty(), "the program or its format is empty");
            Ok(())
        });
    suite
        .case(
            "executables.query.compile_options",
            "pjrt_c_api.h, PJRT_Executable_GetCompileOptions: returns the options with which the program was compiled",
            "caches and loaders compare the options",
        )
        .functions(&[Function::PJRT_Executable_GetCompileOptions])
        .check(|cx| {
            let executable = cx.add_one(2)?;
            let options = executable.executable().compile_options()?;
            ensure_eq!((options.num_replicas, options.num_partitions), (1, 1), "counts");
            Ok(())
        });
    suite
        .case(
            "executables.query.compile_options_of_replicas",
            "pjrt_c_api.h, PJRT_Executable_GetCompileOptions: returns the options with which the program was compiled",
            "caches and loaders compare the options",
        )
        .devices(2)
        .functions(&[Function::PJRT_Executable_GetCompileOptions])
        .check(|cx| {
            let executable = cx.compile_with(&add_one(2), &CompileOptions::default().with_num_replicas(2))?;
            let options = executable.executable().compile_options()?;
            ensure_eq!((options.num_replicas, options.num_partitions), (2, 1), "counts");
            Ok(())
        });
    suite
        .case(
            "executables.context.run",
            "pjrt_c_api.h, PJRT_ExecuteOptions: context is passed to the custom calls of the run",
            "frameworks pass a context to every run, also of programs without custom calls",
        )
        .functions(&[Function::PJRT_ExecuteContext_Create, Function::PJRT_ExecuteContext_Destroy])
        .check(|cx| {
            let executable = cx.add_one(2)?;
            let input = cx.floats(&[1.0, 2.0])?;
            let context = ExecuteContext::new(cx.plugin())?;
            for _ in 0..2 {
                let options = ExecuteOptions::new().with_context(context.clone());
                let run = executable.execute_with([Input::from(&input)], &options)?;
                ensure_eq!(floats(&run.outputs[0])?, vec![2.0, 3.0], "result");
            }
            Ok(())
        });
    suite
        .case(
            "executables.query.compile_options_of_portable_program",
            "pjrt_c_api.h, PJRT_Executable_GetCompileOptions: returns the options with which the program was compiled",
            "caches and loaders compare the options",
        )
        .functions(&[Function::PJRT_Executable_GetCompileOptions])
        .check(|cx| {
            for portable in [false, true] {
                let options = CompileOptions::default().with_portable_executable(portable);
                let executable = cx.compile_with(&add_one(2), &options)?;
                let found = executable.executable().compile_options()?;
                ensure_eq!(found.compile_portable_executable, portable, "compile_portable_executable");
            }
            Ok(())
        });
    suite
        .case(
            "executables.query.device_assignment_of_partitions",
            "pjrt_c_api.h, PJRT_LoadedExecutable_GetDeviceAssignment: the device of each replica and partition",
            "JAX reconstructs the mesh of a loaded program from it",
        )
        .profiles(Profiles::JAX)
        .devices(2)
        .functions(&[Function::PJRT_LoadedExecutable_GetDeviceAssignment])
        .check(|cx| {
            let devices = cx.devices(2)?;
            // Reverse the order of the devices, so that the assignment differs from the default assignment.
            let ids = vec![i64::from(devices[1].id()?), i64::from(devices[0].id()?)];
            let assignment = DeviceAssignment::new(1, 2, ids)
                .ok_or_else(|| Stop::Fail("the suite's assignment is not valid".to_owned()))?;
            let mut options =
                CompileOptions::default().with_num_partitions(2).with_device_assignment(assignment.clone());
            options.use_spmd_partitioning = true;
            let found = cx.compile_with(&add_one(2), &options)?.device_assignment()?;
            ensure_eq!((found.num_replicas(), found.num_partitions()), (1, 2), "replicas and partitions");
            ensure_eq!(found.devices(), assignment.devices(), "devices");
            Ok(())
        });
    suite
        .case(
            "executables.query.parameter_memory_kinds",
            "pjrt_c_api.h, PJRT_Executable_ParameterMemoryKinds: returns a memory kind for each parameter",
            "frameworks offload weights and activations to the host",
        )
        .functions(&[Function::PJRT_Executable_ParameterMemoryKinds])
        .check(|cx| {
            let executable = cx.compile(&crate::program::binary("add", "tensor<2xf32>"))?;
            ensure_eq!(executable.executable().parameter_memory_kinds()?.len(), 2, "number of kinds");
            Ok(())
        });
}

fn formats(suite: &mut Suite) {
    suite
        .case(
            "formats.mlir.text",
            "pjrt_c_api.h, PJRT_Program: format mlir is StableHLO, as text or as a portable artifact",
            "people write programs as text, and EXLA sends text",
        )
        .profiles(Profiles::FULL)
        .check(|cx| {
            let compiled = cx.client()?.compile(&Program::mlir(add_one(2)), &CompileOptions::default());
            let executable =
                compiled.map_err(|error| Stop::Unsupported(format!("the plugin does not read text: {error}")))?;
            let input = cx.floats(&[1.0, 2.0])?;
            ensure_eq!(floats(&executable.execute(&[&input])?[0])?, vec![2.0, 3.0], "result");
            Ok(())
        });
    suite
        .case(
            "formats.hlo.module",
            "pjrt_c_api.h, PJRT_Program: format hlo is a serialized HloModuleProto",
            "PyTorch/XLA sends its programs in this format",
        )
        .profiles(Profiles::TORCH)
        .check(|cx| {
            let text = crate::program::main(
                "%x: tensor<f32>, %y: tensor<3xf32>, %z: tensor<2x3xf32>",
                "(tensor<2x3xf32>, tensor<f32>, tensor<3xf32>)",
                "  %s = stablehlo.add %y, %y : tensor<3xf32>
  return %z, %x, %s : tensor<2x3xf32>, tensor<f32>, tensor<3xf32>",
            );
            let code = stablehlo::write_hlo(&module(&text)?)
                .map_err(|error| Stop::Fail(format!("the suite cannot write its program as HLO: {error}")))?;
            let client = cx.client()?;
            let compiled = client.compile(&Program::hlo(code), &CompileOptions::default());
            let executable =
                compiled.map_err(|error| Stop::Unsupported(format!("the plugin does not read HLO: {error}")))?;
            let x = client.buffer_from_host(&[1.0f32], &[])?;
            let y = cx.floats(&[2.0, 3.0, 4.0])?;
            let z = client.buffer_from_host(&[5.0f32, 6.0, 7.0, 8.0, 9.0, 10.0], &[2, 3])?;
            let outputs = executable.execute(&[&x, &y, &z])?;
            ensure_eq!(outputs.len(), 3, "number of outputs");
            ensure_eq!(floats(&outputs[0])?, vec![5.0, 6.0, 7.0, 8.0, 9.0, 10.0], "output 0");
            ensure_eq!(floats(&outputs[1])?, vec![1.0], "output 1");
            ensure_eq!(floats(&outputs[2])?, vec![4.0, 6.0, 8.0], "output 2");
            Ok(())
        });
    for minor in [0u32, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13] {
        suite
            .case(
                format!("formats.artifact.version[stablehlo=1.{minor}]"),
                "StableHLO compatibility: a consumer reads every artifact from its minimum to its current version",
                "older and newer frameworks send artifacts of different versions",
            )
            .profiles(Profiles::JAX_TORCH)
            .check(move |cx| {
                let announced = |name: &str| announced_version(cx.plugin(), name);
                let version = vec![1, i64::from(minor), 0];
                let (least, most) = (announced("stablehlo_minimum_version")?, announced("stablehlo_current_version")?);
                if least.is_none_or(|least| version < least) || most.is_none_or(|most| version > most) {
                    return Err(Stop::Skip(format!("the plugin does not announce StableHLO 1.{minor}.0")));
                }
                let wanted = format!("1.{minor}.0")
                    .parse()
                    .map_err(|_| Stop::Skip("this suite does not know this version of StableHLO".to_owned()))?;
                let code = stablehlo::write(&module(&add_one(2))?, wanted);
                let code = code.map_err(|error| {
                    Stop::Skip(format!("this suite cannot write this version of StableHLO: {error}"))
                })?;
                let executable = cx.client()?.compile(&Program::mlir(code), &CompileOptions::default())?;
                let input = cx.floats(&[1.0, 2.0])?;
                ensure_eq!(floats(&executable.execute(&[&input])?[0])?, vec![2.0, 3.0], "result");
                Ok(())
            });
    }
    suite
        .case(
            "formats.program.copied",
            "pjrt_c_api.h, PJRT_Client_Compile: uses the program only during the call",
            "the framework frees the program directly after the call",
        )
        .profiles(Profiles::MINIMAL)
        .check(|cx| {
            let program = crate::program::for_plugin(&add_one(2), cx.plugin())?;
            let mut code = program.code().to_vec();
            let executable =
                cx.client()?.compile(&Program::new(program.format(), code.clone()), &CompileOptions::default())?;
            code.fill(0);
            drop(program);
            let input = cx.floats(&[1.0, 2.0])?;
            ensure_eq!(floats(&executable.execute(&[&input])?[0])?, vec![2.0, 3.0], "result");
            Ok(())
        });
}

fn topology(suite: &mut Suite) {
    let functions = [Function::PJRT_Client_TopologyDescription];
    suite
        .case(
            "topology.of_client.platform",
            "pjrt_c_api.h, PJRT_TopologyDescription_PlatformName and PJRT_TopologyDescription_PlatformVersion: the \
             same as the client's",
            "caches and ahead-of-time compilers identify the platform by them",
        )
        .profiles(Profiles::JAX)
        .functions(&functions)
        .check(|cx| {
            let client = cx.client()?;
            let topology = client.topology()?;
            ensure_eq!(topology.platform_name()?, client.platform_name()?, "platform");
            ensure!(!topology.platform_version()?.is_empty(), "the version is empty");
            Ok(())
        });
    suite
        .case(
            "topology.of_client.devices",
            "pjrt_c_api.h, PJRT_TopologyDescription_GetDeviceDescriptions: returns a description of each device",
            "JAX creates meshes for ahead-of-time compilation from them",
        )
        .profiles(Profiles::JAX)
        .functions(&functions)
        .check(|cx| {
            let client = cx.client()?;
            let ids = |list: Vec<i32>| list.into_iter().collect::<std::collections::BTreeSet<i32>>();
            let described: Vec<i32> = client
                .topology()?
                .device_descriptions()?
                .iter()
                .map(pjrt::DeviceDescription::id)
                .collect::<Result<_, _>>()?;
            let devices: Vec<i32> = client.devices()?.iter().map(Device::id).collect::<Result<_, _>>()?;
            ensure_eq!(ids(described), ids(devices), "ids");
            Ok(())
        });
    suite
        .case(
            "topology.of_client.serialize",
            "pjrt_c_api.h, PJRT_TopologyDescription_Serialize: returns equal bytes for equal topologies",
            "the key of a compilation cache contains it",
        )
        .profiles(Profiles::JAX)
        .functions(&functions)
        .functions(&[Function::PJRT_TopologyDescription_Serialize])
        .check(|cx| {
            let client = cx.client()?;
            let (first, second) = (client.topology()?.serialize()?, client.topology()?.serialize()?);
            ensure_eq!(first.payload(), second.payload(), "bytes of the second call");
            Ok(())
        });
    suite
        .case(
            "topology.of_client.deserialize",
            "pjrt_c_api.h, PJRT_TopologyDescription_Deserialize: reads what PJRT_TopologyDescription_Serialize \
             returned",
            "ahead-of-time compilers on other machines read the topology",
        )
        .functions(&functions)
        .functions(&[Function::PJRT_TopologyDescription_Serialize, Function::PJRT_TopologyDescription_Deserialize])
        .check(|cx| {
            let bytes = cx.client()?.topology()?.serialize()?;
            let topology = TopologyDescription::deserialize(cx.plugin(), &bytes)?;
            ensure_eq!(topology.platform_name()?, cx.client()?.platform_name()?, "platform");
            let ids = |topology: &TopologyDescription| -> Result<Vec<i32>, Stop> {
                let described = topology.device_descriptions()?;
                Ok(described.iter().map(pjrt::DeviceDescription::id).collect::<Result<_, _>>()?)
            };
            ensure_eq!(ids(&topology)?, ids(&cx.client()?.topology()?)?, "ids of the described devices");
            Ok(())
        });
    suite
        .case(
            "topology.of_client.fingerprint",
            "pjrt_c_api.h, PJRT_TopologyDescription_Fingerprint: equal topologies have equal fingerprints",
            "the key of a compilation cache contains it",
        )
        .functions(&functions)
        .functions(&[Function::PJRT_TopologyDescription_Fingerprint])
        .check(|cx| {
            let client = cx.client()?;
            ensure_eq!(
                client.topology()?.fingerprint()?,
                client.topology()?.fingerprint()?,
                "fingerprint of the second call"
            );
            Ok(())
        });
    suite
        .case(
            "topology.compile.load",
            "pjrt_c_api.h, PJRT_Compile and PJRT_Client_Load: compiles for a topology, and loads the result",
            "frameworks compile ahead of time, without a device",
        )
        .functions(&functions)
        .functions(&[Function::PJRT_Compile, Function::PJRT_Client_Load])
        .check(|cx| {
            let client = cx.client()?;
            let program = crate::program::for_plugin(&add_one(2), cx.plugin())?;
            let executable = client.topology()?.compile(&program, &CompileOptions::default())?;
            let loaded = client.load_executable(&executable, &CompileOptions::default())?;
            let input = cx.floats(&[1.0, 2.0])?;
            ensure_eq!(floats(&loaded.execute(&[&input])?[0])?, vec![2.0, 3.0], "result");
            Ok(())
        });
    suite
        .case(
            "topology.compile.serialized",
            "pjrt_c_api.h, PJRT_Compile: the result can be serialized and loaded",
            "frameworks compile ahead of time on another machine",
        )
        .profiles(Profiles::JAX)
        .functions(&functions)
        .functions(&[Function::PJRT_Compile])
        .functions(SERIALIZE)
        .check(|cx| {
            let client = cx.client()?;
            let program = crate::program::for_plugin(&add_one(2), cx.plugin())?;
            let bytes = client.topology()?.compile(&program, &CompileOptions::default())?.serialize()?;
            let loaded = client.deserialize_and_load(&bytes)?;
            let input = cx.floats(&[1.0, 2.0])?;
            ensure_eq!(floats(&loaded.execute(&[&input])?[0])?, vec![2.0, 3.0], "result");
            Ok(())
        });
    suite
        .case(
            "topology.create.unknown_name",
            "pjrt_c_api.h, PJRT_TopologyDescription_Create: returns an error for a name that it does not know",
            "users misspell names",
        )
        .functions(&[Function::PJRT_TopologyDescription_Create])
        .isolated()
        .check(|cx| {
            // A plugin may ignore or reject the name, but must not crash.
            if let Ok(topology) = TopologyDescription::create(cx.plugin(), "no such topology", &[]) {
                topology.platform_name()?;
            }
            Ok(())
        });
    suite
        .case(
            "topology.create.unnamed",
            "pjrt_c_api.h, PJRT_TopologyDescription_Create: without a name and options, describes the default topology",
            "frameworks compile ahead of time for the machine on which they run",
        )
        .functions(&[Function::PJRT_TopologyDescription_Create])
        .isolated()
        .check(|cx| {
            let topology = TopologyDescription::create(cx.plugin(), "", &[])
                .map_err(|error| Stop::Unsupported(format!("the plugin has no default topology: {error}")))?;
            ensure_eq!(topology.platform_name()?, cx.client()?.platform_name()?, "platform");
            ensure!(!topology.device_descriptions()?.is_empty(), "the topology has no devices");
            Ok(())
        });
    suite
        .case(
            "topology.create.gpus",
            "pjrt_c_api_gpu_test: the option topology is the number of slices, of hosts in each, and of devices in each",
            "frameworks compile ahead of time for a cluster",
        )
        .profiles(Profiles::JAX)
        .functions(&[Function::PJRT_TopologyDescription_Create])
        .isolated()
        .check(|cx| {
            super::clients::requires_gpu_platform(&cx.client()?.platform_name()?)?;
            let shape = [NamedValue::new("topology", Value::String("16 x 2 x 4".to_owned()))];
            let topology = TopologyDescription::create(cx.plugin(), "", &shape)?;
            ensure_eq!(topology.device_descriptions()?.len(), 128, "number of devices");
            Ok(())
        });
    suite
        .case(
            "topology.memory.kind_ids",
            "pjrt_c_api.h, PJRT_TopologyDescription_GetMemorySpaceKindIds: returns the ids of the memory kinds",
            "frameworks ask for the canonical shape in a memory of this kind",
        )
        .functions(&functions)
        .functions(&[Function::PJRT_TopologyDescription_GetMemorySpaceKindIds])
        .check(|cx| {
            let ids = cx.client()?.topology()?.memory_kind_ids()?;
            let unique: std::collections::BTreeSet<i32> = ids.iter().copied().collect();
            ensure_eq!(unique.len(), ids.len(), "number of different ids");
            Ok(())
        });
    suite
        .case(
            "topology.memory.canonical_shape",
            "pjrt_c_api.h, PJRT_TopologyDescription_MakeCanonicalShapeForMemorySpace: returns a shape with its layout",
            "frameworks choose the layouts of arrays on the device with it",
        )
        .functions(&functions)
        .functions(&[
            Function::PJRT_TopologyDescription_MakeCanonicalShapeForMemorySpace,
            Function::PJRT_Memory_Kind_Id,
        ])
        .check(|cx| {
            let shape = Shape::new(ElementType::F32, [2, 3]);
            let kind = cx.memory()?.kind_id()?;
            let (found, layout) = cx.client()?.topology()?.canonical_shape_for_memory(kind, &shape, None)?;
            ensure_eq!(found.dimensions, shape.dimensions, "dimensions");
            ensure_eq!(layout.minor_to_major.len(), 2, "dimensions of the layout");
            Ok(())
        });
}

//! Cases for extensions of the C API.

use std::sync::mpsc::channel;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use pjrt::extensions::{
    AbiVersions, Callbacks, ExecutableMetadata, Ffi, HostMemoryAllocator, Layouts, MemoryDescriptions, PhaseCompile,
    Profiler, RawBuffers, Shardings, Streams,
};
use pjrt::{ElementType, ErrorCode, Shape};

use crate::case::Profiles;
use crate::context::{extension, floats};
use crate::raw::{ABI_VERSION_PROBES, write_raw};
use crate::stop::Stop;
use crate::suite::Suite;

/// Parses the order of the dimensions from a layout such as `{1,0:T(8,128)}`.
fn minor_to_major(text: &str) -> Result<Vec<usize>, Stop> {
    let wrong = || Stop::Fail(format!("{text:?} is not a layout such as {{1,0}}"));
    let inner = text.strip_prefix('{').and_then(|text| text.strip_suffix('}')).ok_or_else(wrong)?;
    let order = inner.split(':').next().unwrap_or_default();
    let numbers = order.split(',').filter(|number| !number.is_empty());
    numbers.map(|number| number.parse().map_err(|_| wrong())).collect()
}

pub(crate) fn declare(suite: &mut Suite) {
    layouts(suite);
    abi_versions(suite);
    sizes(suite);
    others(suite);
}

fn layouts(suite: &mut Suite) {
    let clause = "pjrt_c_api_layouts_extension.h: layouts as text, such as {1,0}";
    let why = "JAX's layout API and every jit with automatic layouts use them";
    for (dimensions, name) in
        [(vec![], "scalar"), (vec![5], "vector"), (vec![2, 3], "matrix"), (vec![2, 3, 4, 5], "rank4")]
    {
        suite
            .case(format!("extensions.layouts.default[shape={name}]"), clause, why)
            .profiles(Profiles::JAX)
            .extension(4)
            .check(move |cx| {
                let layouts: Layouts = extension(cx)?;
                let text = layouts.default_layout(cx.client()?, &Shape::new(ElementType::F32, dimensions.clone()))?;
                let order = minor_to_major(&text)?;
                let mut sorted = order.clone();
                sorted.sort_unstable();
                ensure!(
                    sorted.into_iter().eq(0..dimensions.len()),
                    "the layout {text:?} does not list each dimension once"
                );
                let count = usize::try_from(dimensions.iter().product::<i64>()).unwrap_or(0);
                let buffer = cx.client()?.buffer_from_host(&vec![0.0f32; count], &dimensions)?;
                if let Some(layout) = buffer.memory_layout()? {
                    let found: Vec<i64> = order.iter().filter_map(|at| i64::try_from(*at).ok()).collect();
                    ensure_eq!(
                        found,
                        layout.minor_to_major,
                        "order of the dimensions, compared with PJRT_Buffer_GetMemoryLayout"
                    );
                }
                Ok(())
            });
    }
    suite.case("extensions.layouts.of_buffer", clause, why).profiles(Profiles::JAX).extension(4).check(|cx| {
        let layouts: Layouts = extension(cx)?;
        let buffer = cx.client()?.buffer_from_host(&[0.0f32; 6], &[2, 3])?;
        let default = layouts.default_layout(cx.client()?, &Shape::new(ElementType::F32, [2, 3]))?;
        ensure_eq!(layouts.buffer_layout(&buffer)?, default, "layout of a buffer with the default layout");
        Ok(())
    });
    suite
        .case("extensions.layouts.of_outputs", clause, why)
        .profiles(Profiles::JAX)
        .extension(4)
        .functions(&[pjrt::Function::PJRT_Layouts_PJRT_Executable_GetOutputLayouts])
        .check(|cx| {
            let layouts: Layouts = extension(cx)?;
            let executable = cx.add_one(2)?;
            ensure_eq!(layouts.output_layouts(executable.executable())?.len(), 1, "number of layouts");
            Ok(())
        });
    suite
        .case("extensions.layouts.of_parameters", clause, why)
        .profiles(Profiles::JAX)
        .extension(4)
        .functions(&[pjrt::Function::PJRT_Layouts_PJRT_Executable_GetParameterLayouts])
        .check(|cx| {
            let layouts: Layouts = extension(cx)?;
            let executable = cx.compile(&crate::program::binary("add", "tensor<2x3xf32>"))?;
            ensure_eq!(layouts.parameter_layouts(executable.executable())?.len(), 2, "number of layouts");
            Ok(())
        });
    suite
        .case("extensions.layouts.of_topology", clause, why)
        .extension(4)
        .functions(&[pjrt::Function::PJRT_Layouts_PJRT_Topology_GetDefaultLayout])
        .check(|cx| {
            let layouts: Layouts = extension(cx)?;
            let shape = Shape::new(ElementType::F32, [2, 3]);
            let client = cx.client()?;
            ensure_eq!(
                layouts.topology_default_layout(&client.topology()?, &shape)?,
                layouts.default_layout(client, &shape)?,
                "default layout of the topology"
            );
            Ok(())
        });
}

fn abi_versions(suite: &mut Suite) {
    let clause = "pjrt_c_api_abi_version_extension.h: versions of runtimes and executables, and whether they are \
                  compatible";
    let why = "caches of executables reject entries from incompatible builds";
    suite.case("extensions.abi_version.runtime", clause, why).extension(20).check(|cx| {
        let versions: AbiVersions = extension(cx)?;
        let runtime = versions.of_client(cx.client()?)?;
        ensure!(!runtime.serialize()?.is_empty(), "the serialized version is empty");
        runtime.check_runtime(&versions.parse_runtime(&runtime.serialize()?)?)?;
        Ok(())
    });
    suite.case("extensions.abi_version.executable", clause, why).extension(20).check(|cx| {
        let versions: AbiVersions = extension(cx)?;
        let (runtime, executable) = (versions.of_client(cx.client()?)?, cx.add_one(2)?);
        let version = versions.of_executable(executable.executable())?;
        runtime.check_executable(&version)?;
        runtime.check_executable(&versions.parse_executable(&version.serialize()?)?)?;
        ensure_eq!(version.platform_id()?, runtime.platform_id()?, "platform of the executable");
        Ok(())
    });
    suite.case("extensions.abi_version.garbage", clause, why).extension(20).isolated().check(|cx| {
        let versions: AbiVersions = extension(cx)?;
        ensure!(versions.parse_runtime(b"\xff\xff\xff").is_err(), "bytes that are not a version were accepted");
        ensure!(versions.parse_executable(b"\xff\xff\xff").is_err(), "bytes that are not a version were accepted");
        Ok(())
    });
}

fn sizes(suite: &mut Suite) {
    for &(name, probe) in ABI_VERSION_PROBES {
        suite
            .case(
                format!("extensions.abi_version.too_small[version={name}]"),
                "pjrt_c_api_abi_version_extension.h: every struct begins with struct_size, and a size that is too small is \
                 rejected with INVALID_ARGUMENT",
                "an older framework passes shorter structs; reading beyond their end is undefined behaviour",
            )
            .extension(20)
            .without_client()
            .isolated()
            .check(move |cx| match probe(cx.plugin(), 8) {
                None => Err(Stop::Unsupported(format!("the extension cannot read the version of an {name}"))),
                Some(Ok(())) => fail!("the extension accepted a struct of 8 bytes"),
                Some(Err(failure)) => {
                    let code = failure.code();
                    let refused = [ErrorCode::INVALID_ARGUMENT, ErrorCode::UNIMPLEMENTED];
                    ensure!(
                        refused.iter().any(|refusal| Some(refusal.as_raw()) == code),
                        "the code for a struct of 8 bytes is {code:?}: {}",
                        failure.message().0
                    );
                    Ok(())
                }
            });
    }
}

fn others(suite: &mut Suite) {
    suite
        .case(
            "extensions.callbacks.fatal_error",
            "pjrt_c_api_callback_extension.h: calls the registered callbacks of a type",
            "a framework stores its state before a plugin ends the process",
        )
        .extension(14)
        .isolated()
        .check(|cx| {
            let callbacks: Callbacks = extension(cx)?;
            let (send, receive) = channel();
            let send = Mutex::new(send);
            callbacks.on_fatal_error(cx.client()?, move |code, message| {
                // Ignore the error. The receiver is dropped when the case ends.
                let _ = send.lock().unwrap_or_else(PoisonError::into_inner).send((code, message.to_owned()));
            })?;
            callbacks.report_fatal_error(cx.client()?, ErrorCode::INTERNAL, "the reason")?;
            let Ok((code, message)) = receive.recv_timeout(Duration::from_secs(10)) else {
                fail!("the callback was not called");
            };
            ensure_eq!((code, message.as_str()), (ErrorCode::INTERNAL, "the reason"), "code and message");
            Ok(())
        });
    suite
        .case(
            "extensions.memory_descriptions.default",
            "pjrt_c_api_memory_descriptions_extension.h: lists the memories of a device description, and its default \
             memory",
            "JAX reads the memory kinds before a client exists",
        )
        .profiles(Profiles::JAX)
        .extension(6)
        .check(|cx| {
            let descriptions: MemoryDescriptions = extension(cx)?;
            let memories = descriptions.memories(&cx.device()?.description()?)?;
            ensure!(
                memories.iter().filter(|memory| memory.is_default).count() <= 1,
                "several memories are the default"
            );
            let kind = cx.memory()?.kind()?;
            ensure!(memories.iter().any(|memory| memory.kind == kind), "the default memory {kind} is not described");
            Ok(())
        });
    suite
        .case(
            "extensions.ffi.register_type",
            "pjrt_c_api_ffi_extension.h, PJRT_FFI_Type_Register: assigns an id to a type's name",
            "custom calls keep state in values of such types",
        )
        .profiles(Profiles::JAX)
        .extension(5)
        .check(|cx| {
            let ffi: Ffi = extension(cx)?;
            let first = ffi.register_type("pjrt_conformance_type_a", None)?;
            let second = ffi.register_type("pjrt_conformance_type_b", None)?;
            ensure!(first != second, "two types have the id {first}");
            Ok(())
        });
    suite
        .case(
            "extensions.streams.wait_for_buffer",
            "pjrt_c_api_stream_extension.h: lets a stream wait until a buffer is ready",
            "PyTorch/XLA and DLPack share streams",
        )
        .extension(3)
        .check(|cx| {
            let streams: Streams = extension(cx)?;
            let stream = streams.stream_for_external_ready_events(&cx.device()?)?;
            let buffer = cx.floats(&[1.0])?;
            streams.wait_until_buffer_ready_on_stream(&stream, &buffer)?;
            Ok(())
        });
    suite
        .case(
            "extensions.raw_buffer.read",
            "pjrt_c_api_raw_buffer_extension.h: copies bytes from and to a buffer's memory",
            "frameworks transfer data between hosts with it",
        )
        .extension(8)
        .check(|cx| {
            let raw: RawBuffers = extension(cx)?;
            let buffer = cx.floats(&[1.0, 2.0, 3.0])?;
            buffer.wait()?;
            let alias = raw.alias(&buffer)?;
            ensure!(alias.on_device_size()? >= 12, "the memory has {} bytes", alias.on_device_size()?);
            ensure_eq!(alias.read(4, 4)?, 2.0f32.to_ne_bytes().to_vec(), "bytes");
            ensure_eq!(alias.memory()?.id()?, buffer.memory()?.id()?, "memory");
            Ok(())
        });
    suite
        .case(
            "extensions.raw_buffer.write",
            "pjrt_c_api_raw_buffer_extension.h, PJRT_RawBuffer_CopyRawHostToDevice: copies to offset, in the buffer's own \
             memory",
            "frameworks receive data from other hosts with it",
        )
        .extension(8)
        .check(|cx| {
            let raw: RawBuffers = extension(cx)?;
            let buffer = cx.floats(&[1.0, 2.0, 3.0])?;
            buffer.wait()?;
            let alias = raw.alias(&buffer)?;
            write_raw(&alias, 4, 5.0f32.to_ne_bytes().to_vec())?;
            ensure_eq!(alias.read(0, 12)?, [1.0f32, 5.0, 3.0].map(f32::to_ne_bytes).concat(), "bytes of the memory");
            ensure_eq!(floats(&buffer)?, vec![1.0, 5.0, 3.0], "contents of the buffer");
            Ok(())
        });
    suite
        .case(
            "extensions.raw_buffer.outlives_buffer",
            "pjrt_c_api_raw_buffer_extension.h, CreateRawAliasOfBuffer: the alias keeps the memory alive",
            "frameworks transfer data between hosts with it",
        )
        .extension(8)
        .check(|cx| {
            let raw: RawBuffers = extension(cx)?;
            let buffer = cx.floats(&[1.0, 2.0, 3.0])?;
            buffer.wait()?;
            let alias = raw.alias(&buffer)?;
            drop(buffer);
            ensure_eq!(alias.read(0, 4)?, 1.0f32.to_ne_bytes().to_vec(), "bytes after the buffer was destroyed");
            Ok(())
        });
    suite
        .case(
            "extensions.shardings.single_device",
            "pjrt_c_api_shardings_extension.h: returns the shardings of parameters and outputs",
            "JAX reads the shardings that the compiler chose",
        )
        .extension(19)
        .check(|cx| {
            let shardings: Shardings = extension(cx)?;
            let executable = cx.add_one(2)?;
            for list in [
                shardings.output_shardings(executable.executable())?,
                shardings.parameter_shardings(executable.executable())?,
            ]
            .into_iter()
            .flatten()
            {
                ensure_eq!(list.len(), 1, "number of shardings");
            }
            Ok(())
        });
    suite
        .case(
            "extensions.metadata.of_executable",
            "executable metadata extension: returns a serialized description of the executable",
            "profilers",
        )
        .extension(13)
        .check(|cx| {
            let metadata: ExecutableMetadata = extension(cx)?;
            metadata.of(cx.add_one(2)?.executable())?;
            Ok(())
        });
    for size in [1usize, 64, 4096, 1 << 20] {
        suite
            .case(
                format!("extensions.host_memory.allocate[bytes={size}]"),
                "host memory allocator extension: allocates host memory of the requested size",
                "frameworks allocate pinned memory for fast uploads",
            )
            .extension(23)
            .check(move |cx| {
                let allocator: HostMemoryAllocator = extension(cx)?;
                let mut memory = allocator.allocate(cx.client()?, size, None)?;
                ensure_eq!(memory.len(), size, "size");
                memory.fill(7);
                ensure!(memory.iter().all(|byte| *byte == 7), "the memory does not keep its contents");
                Ok(())
            });
    }
    suite
        .case(
            "extensions.phase_compile.names",
            "pjrt_c_api_phase_compile_extension.h: returns the names of the compiler's phases",
            "build systems cache the result of each phase",
        )
        .extension(9)
        .check(|cx| {
            let phases: PhaseCompile = extension(cx)?;
            let compiler = phases.compiler()?;
            let names = compiler.phase_names()?;
            ensure!(names.iter().all(|name| !name.is_empty()), "a phase has no name");
            Ok(())
        });
    suite
        .case(
            "extensions.profiler.records",
            "pjrt_c_api_profiler_extension.h: starts and stops a profile, and returns it as an XSpace",
            "jax.profiler",
        )
        .profiles(Profiles::JAX)
        .extension(1)
        .isolated()
        .check(|cx| {
            let profiler: Profiler = extension(cx)?;
            let profile = profiler.start(b"")?;
            let input = cx.floats(&[1.0, 2.0])?;
            cx.add_one(2)?.execute(&[&input])?[0].wait()?;
            profile.stop()?;
            Ok(())
        });
}

//! Cases for threads, leaks, teardown, limits and the state of the process.

use std::collections::BTreeMap;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use pjrt::{AsyncHostToDeviceTransferManager, CompileOptions, ErrorCode};

use crate::case::{Exit, Profiles};
use crate::context::{Context, floats};
use crate::raw::{RawEvent, get_executable};
use crate::stop::Stop;
use crate::suite::Suite;

pub(crate) fn declare(suite: &mut Suite) {
    leaks(suite);
    teardown(suite);
    limits(suite);
    state(suite);
}

/// Returns the resident memory of this process in bytes.
fn resident() -> Result<u64, Stop> {
    let text = std::fs::read_to_string("/proc/self/statm")
        .map_err(|_| Stop::Skip("this system does not report a process's memory".to_owned()))?;
    let pages: u64 = text.split_whitespace().nth(1).and_then(|pages| pages.parse().ok()).unwrap_or(0);
    Ok(pages * page_size())
}

#[cfg(unix)]
fn page_size() -> u64 {
    rustix::param::page_size() as u64
}

/// Returns an arbitrary size. Systems other than Unix have no `/proc`, so [`resident`] fails before it needs the size.
#[cfg(not(unix))]
fn page_size() -> u64 {
    4096
}

/// Checks that resident memory grows by at most `allowed` bytes while a function runs `rounds` times. To warm up, the
/// function first runs `rounds / 4` times.
///
/// Takes the quarter of the rounds with the least growth for all four, because a leak grows in each of them, whereas
/// allocators and threads that start late take memory once.
fn flat(rounds: usize, allowed: u64, mut run: impl FnMut() -> Result<(), Stop>) -> Result<(), Stop> {
    let mut quarter = || -> Result<u64, Stop> {
        for _ in 0..rounds / 4 {
            run()?;
        }
        resident()
    };
    let mut before = quarter()?;
    let mut least = u64::MAX;
    for _ in 0..4 {
        let after = quarter()?;
        least = least.min(after.saturating_sub(before));
        before = after;
    }
    let growth = least.saturating_mul(4);
    ensure!(growth <= allowed, "the process grew by {growth} bytes in {rounds} rounds; {allowed} are allowed");
    Ok(())
}

fn leaks(suite: &mut Suite) {
    let clause = "pjrt_c_api.h: PJRT_Buffer_Destroy, PJRT_Event_Destroy, PJRT_Error_Destroy and others free the object";
    let limit = Duration::from_secs(120);
    suite
        .case("leaks.flat.execute", clause, "training runs for weeks; a leak of 100 bytes in each step ends it")
        .profiles(Profiles::FULL)
        .isolated()
        .time_limit(limit)
        .check(|cx| {
            let executable = cx.add_one(16)?;
            let input = cx.floats(&[1.0; 16])?;
            flat(100_000, 4 << 20, || {
                executable.execute(&[&input])?[0].wait()?;
                Ok(())
            })
        });
    suite
        .case("leaks.flat.upload_and_read", clause, "training runs for weeks, and even a small leak ends it")
        .profiles(Profiles::FULL)
        .isolated()
        .time_limit(limit)
        .check(|cx| {
            let data = [1.0f32; 256];
            flat(20_000, 4 << 20, || floats(&cx.floats(&data)?).map(drop))
        });
    suite
        .case("leaks.flat.errors", clause, "a server handles many requests that fail")
        .profiles(Profiles::FULL)
        .isolated()
        .time_limit(limit)
        .check(|cx| {
            let client = cx.client()?;
            flat(60_000, 4 << 20, || {
                ensure!(client.lookup_device(1 << 30).is_err(), "a device with the id 2^30 exists");
                Ok(())
            })
        });
    suite
        .case(
            "leaks.flat.queries",
            "pjrt_c_api.h: the strings and lists that a query returns live as long as the object",
            "frameworks query objects often, so a query must not leak memory",
        )
        .profiles(Profiles::FULL)
        .isolated()
        .time_limit(limit)
        .check(|cx| {
            let executable = cx.add_one(2)?;
            flat(5_000, 4 << 20, || {
                executable.executable().name()?;
                executable.executable().output_shapes()?;
                cx.client()?.platform_version()?;
                cx.device()?.description()?.attributes()?;
                Ok(())
            })
        });
    suite
        .case("leaks.flat.large_buffers", clause, "arrays that are not freed fill the device's memory")
        .profiles(Profiles::FULL)
        .isolated()
        .time_limit(limit)
        .check(|cx| {
            let data = vec![1.0f32; 1 << 20];
            flat(100, 64 << 20, || Ok(cx.floats(&data)?.wait()?))
        });
    suite
        .case(
            "leaks.flat.events",
            "pjrt_c_api.h, PJRT_Event_Destroy: frees the event",
            "each step of a training run creates events",
        )
        .functions(&[pjrt::Function::PJRT_Event_Create, pjrt::Function::PJRT_Event_Set])
        .isolated()
        .time_limit(limit)
        .check(|cx| {
            flat(100_000, 2 << 20, || {
                let event = RawEvent::create(cx.plugin())?;
                event.set(0, "")?;
                Ok(event.wait()??)
            })
        });
    suite
        .case(
            "leaks.flat.executable_handles",
            "pjrt_c_api.h, PJRT_LoadedExecutable_GetExecutable: the caller destroys the executable with \
             PJRT_Executable_Destroy",
            "frameworks ask for the executable before each query",
        )
        .isolated()
        .time_limit(limit)
        .check(|cx| {
            let executable = cx.add_one(2)?;
            flat(100_000, 1 << 20, || get_executable(&executable))
        });
    suite
        .case(
            "leaks.flat.references",
            "pjrt_c_api.h, PJRT_Buffer_DecreaseExternalReferenceCount: the memory can be freed when the count is 0",
            "each view of an array holds a reference",
        )
        .functions(&[
            pjrt::Function::PJRT_Buffer_IncreaseExternalReferenceCount,
            pjrt::Function::PJRT_Buffer_DecreaseExternalReferenceCount,
        ])
        .isolated()
        .time_limit(limit)
        .check(|cx| {
            let data = vec![1.0f32; 1 << 20];
            flat(100, 64 << 20, || {
                let buffer = cx.floats(&data)?;
                buffer.wait()?;
                drop(buffer.external_reference()?);
                Ok(())
            })
        });
    suite
        .case(
            "leaks.flat.serialize",
            "pjrt_c_api.h, PJRT_Executable_Serialize: serialized_executable_deleter frees the bytes",
            "a compilation cache serializes each program",
        )
        .functions(&[pjrt::Function::PJRT_Executable_Serialize])
        .isolated()
        .time_limit(limit)
        .check(|cx| {
            let executable = cx.add_one(2)?;
            let size = executable.executable().serialize()?.payload().len();
            // Serialize at least 8 MiB in total, unless the executable is tiny, so that a leak exceeds the limit of 4
            // MiB.
            let rounds = ((8 << 20) / size.max(1)).clamp(100, 20_000);
            flat(rounds, 4 << 20, || executable.executable().serialize().map(drop).map_err(Stop::from))
        });
    suite
        .case(
            "leaks.flat.transfer_managers",
            "pjrt_c_api.h, PJRT_AsyncHostToDeviceTransferManager_Destroy: frees the manager",
            "JAX creates a manager for each large array",
        )
        .functions(&[
            pjrt::Function::PJRT_Client_CreateBuffersForAsyncHostToDevice,
            pjrt::Function::PJRT_AsyncHostToDeviceTransferManager_TransferData,
        ])
        .isolated()
        .time_limit(limit)
        .check(|cx| {
            let shape = crate::context::shape(pjrt::ElementType::F32, &[64]);
            flat(20_000, 4 << 20, || {
                let manager = AsyncHostToDeviceTransferManager::new(&cx.memory()?, std::slice::from_ref(&shape))?;
                let buffer = manager.retrieve_buffer(0)?;
                manager.transfer_last_data(0, 0, vec![0; 256])?.wait()?;
                Ok(buffer.wait()?)
            })
        });
    suite
        .case(
            "leaks.flat.compile",
            "pjrt_c_api.h, PJRT_LoadedExecutable_Destroy: frees the executable",
            "servers compile for every new shape",
        )
        .profiles(Profiles::FULL)
        .isolated()
        .time_limit(limit)
        .check(|cx| {
            let program = crate::program::for_plugin(&crate::program::add_one(2), cx.plugin())?;
            let client = cx.client()?;
            let compile = || -> Result<(), Stop> {
                drop(client.compile(&program, &CompileOptions::default())?);
                Ok(())
            };
            // Choose the number of rounds so that the case takes about 10 s, because compilers differ in speed by a
            // factor of 1000.
            let start = Instant::now();
            for _ in 0..20 {
                compile()?;
            }
            let round = (start.elapsed() / 20).as_nanos().max(1);
            let rounds = usize::try_from(8_000_000_000 / round).unwrap_or(0).clamp(100, 8000);
            flat(rounds, 32 << 20, compile)
        });
    suite
        .case(
            "leaks.threads.client",
            "pjrt_c_api.h, PJRT_Client_Destroy: shuts the client down and frees it",
            "notebooks create many clients in one process",
        )
        .profiles(Profiles::FULL)
        .isolated()
        .check(|cx| {
            let threads = || {
                std::fs::read_dir("/proc/self/task")
                    .map(Iterator::count)
                    .map_err(|_| Stop::Skip("this system does not list threads".to_owned()))
            };
            let files = || {
                std::fs::read_dir("/proc/self/fd")
                    .map(Iterator::count)
                    .map_err(|_| Stop::Skip("this system does not list open files".to_owned()))
            };
            drop(cx.new_client()?);
            let before = (threads()?, files()?);
            for _ in 0..5 {
                let client = cx.new_client()?;
                client.buffer_from_host(&[1.0f32], &[1])?.wait()?;
            }
            let after = (threads()?, files()?);
            ensure!(
                after.0 < before.0 + 5 && after.1 < before.1 + 5,
                "threads and open files grew from {before:?} to {after:?} with five clients"
            );
            Ok(())
        });
}

/// Starts 20 runs, each on the output of the previous run. Returns their input and outputs while the runs may still be
/// pending. Leaks the executable, so that it still exists when the process ends.
fn busy(cx: &Context) -> Result<Vec<pjrt::Buffer>, Stop> {
    let executable = cx.add_one(100_000)?;
    let mut buffers = vec![cx.floats(&vec![1.0; 100_000])?];
    for _ in 0..20 {
        let next = executable.execute(&[&buffers[buffers.len() - 1]])?;
        buffers.extend(next);
    }
    std::mem::forget(executable);
    Ok(buffers)
}

fn teardown(suite: &mut Suite) {
    let clause = "PJRT: a process may end without destroying its objects; PyTorch/XLA never calls PJRT_Client_Destroy";
    suite
        .case(
            "teardown.exit.with_client",
            clause,
            "if the process crashes at exit, a scheduler counts the job as failed",
        )
        .profiles(Profiles::MINIMAL)
        .exits(Exit::Main)
        .check(|cx| {
            std::mem::forget(cx.client()?.clone());
            Ok(())
        });
    suite
        .case(
            "teardown.exit.with_buffers",
            clause,
            "if the process crashes at exit, a scheduler counts the job as failed",
        )
        .profiles(Profiles::FRAMEWORKS)
        .exits(Exit::Main)
        .check(|cx| {
            for buffer in busy(cx)? {
                buffer.wait()?;
                std::mem::forget(buffer);
            }
            Ok(())
        });
    suite
        .case("teardown.exit.with_pending_runs", clause, "users press Ctrl-C during training")
        .profiles(Profiles::FRAMEWORKS)
        .exits(Exit::Main)
        .check(|cx| {
            busy(cx)?.into_iter().for_each(std::mem::forget);
            Ok(())
        });
    suite
        .case("teardown.exit.in_thread", clause, "a framework may call exit on a worker thread")
        .profiles(Profiles::FULL)
        .exits(Exit::Worker)
        .check(|cx| {
            busy(cx)?.into_iter().for_each(std::mem::forget);
            Ok(())
        });
    let destroy = "pjrt_c_api.h, PJRT_Client_Destroy: destroys the client, after the client's other objects";
    suite
        .case(
            "teardown.client.after_pending_runs",
            destroy,
            "garbage collectors free arrays and clients at the end of the process",
        )
        .profiles(Profiles::FRAMEWORKS)
        .isolated()
        .check(|cx| {
            let client = cx.new_client()?;
            let program = crate::program::for_plugin(&crate::program::add_one(100_000), cx.plugin())?;
            let executable = client.compile(&program, &CompileOptions::default())?;
            let mut buffer = client.buffer_from_host(&vec![1.0f32; 100_000], &[100_000])?;
            for _ in 0..20 {
                buffer = executable
                    .execute(&[&buffer])?
                    .into_iter()
                    .next()
                    .ok_or_else(|| Stop::Fail("the run has no output".to_owned()))?;
            }
            drop((client, executable, buffer));
            Ok(())
        });
    suite
        .case("teardown.client.on_other_thread", destroy, "garbage collectors run on their own threads")
        .profiles(Profiles::FRAMEWORKS)
        .isolated()
        .check(|cx| {
            let client = cx.new_client()?;
            let buffer = client.buffer_from_host(&[1.0f32], &[1])?;
            std::thread::spawn(move || drop((buffer, client)))
                .join()
                .map_err(|_| Stop::Fail("the thread panicked".to_owned()))
        });
    suite
        .case("teardown.client.shutdown_deadline", destroy, "a framework must end within its scheduler's deadline")
        .profiles(Profiles::FULL)
        .isolated()
        .check(|cx| {
            let client = cx.new_client()?;
            client.buffer_from_host(&[1.0f32], &[1])?.wait()?;
            client.shutdown(Duration::from_secs(20))?;
            Ok(())
        });
}

fn limits(suite: &mut Suite) {
    let clause = "PJRT: if memory is exhausted, the plugin returns RESOURCE_EXHAUSTED and does not end the process";
    for (name, elements) in [("terabyte", 1i64 << 38), ("exabyte", 1 << 58)] {
        suite
            .case(
                format!("limits.memory.uninitialized[size={name}]"),
                clause,
                "a user's array that is too large must not end the session",
            )
            .profiles(Profiles::FULL)
            .isolated()
            .functions(&[pjrt::Function::PJRT_Client_CreateUninitializedBuffer])
            .check(move |cx| {
                let shape = crate::context::shape(pjrt::ElementType::F32, &[elements]);
                let created = cx.memory()?.buffer(&shape).uninitialized();
                match created.and_then(|buffer| buffer.wait()) {
                    // An operating system may overcommit memory, so an allocation of a terabyte may succeed.
                    Ok(()) if name == "terabyte" => Ok(()),
                    Ok(()) => Err(Stop::Fail("the plugin allocated an exabyte".to_owned())),
                    Err(error) if error.code() == ErrorCode::UNIMPLEMENTED => Err(error.into()),
                    Err(_) => {
                        ensure_eq!(floats(&cx.floats(&[1.0])?)?, vec![1.0], "a small array afterwards");
                        Ok(())
                    }
                }
            });
    }
    suite
        .case("limits.memory.program_output", clause, "a program whose result does not fit must not end the session")
        .profiles(Profiles::FULL)
        .isolated()
        .check(|cx| {
            let text = "func.func public @main(%x: tensor<f32>) -> tensor<1099511627776x1024xf32> {
  %y = stablehlo.broadcast_in_dim %x, dims = [] : (tensor<f32>) -> tensor<1099511627776x1024xf32>
  return %y : tensor<1099511627776x1024xf32>
}";
            let outcome = cx.compile(text).and_then(|executable| {
                let input = cx.client()?.buffer_from_host(&[1.0f32], &[])?;
                let outputs = executable.execute(&[&input])?;
                Ok(outputs[0].wait()?)
            });
            ensure!(outcome.is_err(), "the plugin computed an array of 4 PiB");
            ensure_eq!(floats(&cx.floats(&[1.0])?)?, vec![1.0], "a small array afterwards");
            Ok(())
        });
    suite
        .case(
            "limits.buffers.many",
            "PJRT: the number of buffers is limited by memory only",
            "large models have 100000 small arrays",
        )
        .profiles(Profiles::FRAMEWORKS)
        .check(|cx| {
            let buffers: Vec<_> = (0..20_000u16).map(|at| cx.floats(&[f32::from(at)])).collect::<Result<_, _>>()?;
            for at in [0usize, 1, 9_999, 19_999] {
                ensure_eq!(floats(&buffers[at])?, vec![f32::from(u16::try_from(at).unwrap_or(0))], "array {at}");
            }
            Ok(())
        });
    suite
        .case(
            "limits.arguments.many",
            "PJRT: the number of arguments is limited by memory only",
            "a training step has thousands of arguments",
        )
        .profiles(Profiles::FRAMEWORKS)
        .check(|cx| {
            let count = 500usize;
            let parameters: Vec<String> = (0..count).map(|at| format!("%x{at}: tensor<f32>")).collect();
            let mut body = String::from("  %s0 = stablehlo.add %x0, %x0 : tensor<f32>\n");
            for at in 1..count {
                body += &format!("  %s{at} = stablehlo.add %s{}, %x{at} : tensor<f32>\n", at - 1);
            }
            body += &format!("  return %s{} : tensor<f32>", count - 1);
            let executable = cx.compile(&crate::program::main(&parameters.join(", "), "tensor<f32>", &body))?;
            let inputs: Vec<_> = (0..count)
                .map(|_| cx.client()?.buffer_from_host(&[1.0f32], &[]).map_err(Stop::from))
                .collect::<Result<_, _>>()?;
            let outputs = executable.execute(&inputs.iter().collect::<Vec<_>>())?;
            ensure_eq!(floats(&outputs[0])?, vec![501.0], "sum");
            Ok(())
        });
    suite
        .case(
            "limits.program.deep",
            "PJRT: a long program does not make the compiler end the process",
            "unrolled loops are long programs",
        )
        .profiles(Profiles::FULL)
        .isolated()
        .time_limit(Duration::from_secs(120))
        .check(|cx| {
            let mut body = String::from("  %s0 = stablehlo.add %x, %x : tensor<f32>\n");
            for at in 1..3000 {
                body += &format!("  %s{at} = stablehlo.add %s{}, %x : tensor<f32>\n", at - 1);
            }
            body += "  return %s2999 : tensor<f32>";
            let executable = cx.compile(&crate::program::main("%x: tensor<f32>", "tensor<f32>", &body))?;
            let input = cx.client()?.buffer_from_host(&[1.0f32], &[])?;
            ensure_eq!(floats(&executable.execute(&[&input])?[0])?, vec![3001.0], "sum");
            Ok(())
        });
}

fn state(suite: &mut Suite) {
    let clause = "PJRT: a plugin leaves the state of the framework's process as it was";
    suite
        .case("process.state.environment", clause, "other libraries read the environment variables, too")
        .profiles(Profiles::FULL)
        .without_client()
        .isolated()
        .check(|cx| {
            let before: BTreeMap<_, _> = std::env::vars_os().collect();
            cx.client()?;
            let after: BTreeMap<_, _> = std::env::vars_os().collect();
            ensure_eq!(after, before, "variables after the client was created");
            Ok(())
        });
    suite
        .case("process.state.working_directory", clause, "the user's relative paths depend on the working directory")
        .profiles(Profiles::FULL)
        .isolated()
        .check(|cx| {
            let before = std::env::current_dir().ok();
            cx.add_one(2)?;
            ensure_eq!(std::env::current_dir().ok(), before, "the working directory");
            Ok(())
        });
    suite
        .case("process.state.signal_handlers", clause, "Python, the JVM and debuggers rely on their own handlers")
        .profiles(Profiles::FULL)
        .without_client()
        .isolated()
        .check(|cx| {
            let caught = || -> Result<u64, Stop> {
                let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
                let line = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
                let line = line.ok_or_else(|| Stop::Skip("this system does not list signal handlers".to_owned()))?;
                let signals = u64::from_str_radix(line.trim(), 16).map_err(|error| Stop::Skip(error.to_string()))?;
                // Ignore signals 32 and 33, for which glibc installs handlers when the process creates its first
                // thread.
                Ok(signals & !(0b11 << 31))
            };
            let before = caught()?;
            let input = cx.floats(&[1.0, 2.0])?;
            cx.add_one(2)?.execute(&[&input])?[0].wait()?;
            ensure_eq!(format!("{:#x}", caught()?), format!("{before:#x}"), "caught signals after a run");
            Ok(())
        });
    suite
        .case(
            "process.state.rounding",
            clause,
            "a changed rounding or flushing mode changes the results of other libraries",
        )
        .profiles(Profiles::FULL)
        .isolated()
        .check(|cx| {
            let probe = || {
                let (one, tiny, subnormal) =
                    (std::hint::black_box(1.0f64), std::hint::black_box(1e-16f64), std::hint::black_box(1e-310f64));
                // Compare the bits, because a subnormal number compares equal to 0 if the processor treats subnormal
                // operands as 0.
                [one + tiny, one + 2.5 * tiny, subnormal * one].map(f64::to_bits)
            };
            let before = probe();
            let input = cx.floats(&[1.0, 2.0])?;
            cx.add_one(2)?.execute(&[&input])?[0].wait()?;
            ensure_eq!(probe(), before, "sums and products on this thread after a run");
            Ok(())
        });
    suite
        .case(
            "process.fork.child_program",
            "a framework starts other programs while the device works",
            "data loaders and compilers run as child processes",
        )
        .profiles(Profiles::FRAMEWORKS)
        .isolated()
        .check(|cx| {
            let buffers = busy(cx)?;
            for _ in 0..5 {
                let child = Command::new("true").stdin(Stdio::null()).spawn();
                let mut child =
                    child.map_err(|error| Stop::Skip(format!("the program true cannot be started: {error}")))?;
                let status = child.wait();
                let status = status.map_err(|error| format!("the end of a child process was lost: {error}"))?;
                ensure!(status.success(), "a child process ended with {status}");
            }
            for buffer in &buffers {
                buffer.wait()?;
            }
            Ok(())
        });
    suite
        .case(
            "process.load.attributes_before_client",
            "pjrt_c_api.h, PJRT_Plugin_Attributes: may be called before a client exists",
            "JAX reads the versions when it registers the plugin",
        )
        .profiles(Profiles::JAX)
        .isolated()
        .without_client()
        .check(|cx| {
            cx.plugin().attributes()?;
            Ok(())
        });
}

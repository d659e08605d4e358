//! A process that was forked after the client was created.
#![cfg(unix)]
#![allow(clippy::unwrap_used, dead_code, reason = "the helpers of all tests")]

use std::sync::{Arc, Mutex, PoisonError};

use device_runtime::QueueKind::Compute;
use pjrt::extensions::{HostMemoryAllocator, Streams};
use pjrt::{Buffer, CompileOptions, Error, ErrorCode, LoadedExecutable, Program, TopologyDescription};

use crate::dummy::control::Settings;
use crate::dummy::features::TOPOLOGY;
use crate::fixture::{Fixture, bytes, expect_waits, limited, next, run};

#[path = "runtime/dummy/mod.rs"]
mod dummy;
#[path = "runtime/fixture.rs"]
mod fixture;

/// Held by a test, because a fork copies the locks that another test holds.
static ALONE: Mutex<()> = Mutex::new(());

/// Runs `check` with this value in a forked process. Fails if `check` returns a number other than 0. Returns the value
/// in this process.
fn in_child<T>(value: T, check: impl FnOnce(T) -> u8) -> T {
    // SAFETY: the child process uses only functions that are safe after a fork of several threads, apart from the
    // allocator, which the C library prepares for a fork.
    match unsafe { libc::fork() } {
        0 => {
            // SAFETY: the signal ends this process if a call waits forever.
            unsafe { libc::alarm(20) };
            // Does not write to the file that captures the output, whose lock may be locked.
            let status = i32::from(check(value));
            // SAFETY: ends the process without running the hooks of the parent process.
            unsafe { libc::_exit(status) }
        }
        child => {
            let mut status = 0;
            // SAFETY: `status` is valid for writes.
            assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
            assert_eq!((status & 0xff, status >> 8), (0, 0), "the signal and the number of the failed check");
            value
        }
    }
}

/// Returns the number of the first call that does not fail in the expected way, counted from 1, or 0.
fn use_client((fixture, program, x): (Fixture, LoadedExecutable, Buffer)) -> u8 {
    let code = |result: Result<(), Error>| result.err().map(|error| error.code());
    let device = fixture.device(0);
    let codes = [
        code(device.memory_stats().map(drop)),
        code(device.clear_memory_stats()),
        code(fixture.put_on(0, &[1; 1500]).map(drop)),
        code(fixture.try_compile("name=p size=4 inputs=0 out=1").map(drop)),
        code(run(&program, &[]).map(drop)),
        code(bytes(&x).map(drop)),
        code(x.copy_to(&device).map(drop)),
    ];
    (1..).zip(codes).find(|(_, code)| *code != Some(ErrorCode::FAILED_PRECONDITION)).map_or(0, |(number, _)| number)
}

/// A thread of the parent process waits for memory, so its locks stay locked in the child process.
#[test]
fn calls_fail() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    limited(|| {
        let fixture = Fixture::exhausted();
        let (program, x) = (fixture.compile("name=p size=4 inputs=0 out=1"), fixture.put_ready_on(1, &[1; 4]));
        let upload = fixture.spawn_upload(9, 2000);
        expect_waits(&upload);
        let (fixture, program, x) = in_child((fixture, program, x), use_client);
        fixture.control.release(0, Compute);
        assert_eq!(bytes(&upload.join().unwrap().unwrap()).unwrap(), [9; 2000]);
        drop((program, x));
        fixture.end();
    });
}

/// Returns the number of the first call that does not fail in the expected way, counted from 1, or 0.
fn use_features((fixture, program, x): (Fixture, LoadedExecutable, Buffer)) -> u8 {
    let (client, plugin, device) = (&fixture.client, fixture.client.plugin(), fixture.device(0));
    let code = |result: Result<(), Error>| result.err().map(|error| error.code());
    // Functions without a client work.
    let (stored, options) = (program.executable().serialize().unwrap(), CompileOptions::default());
    let topology = TopologyDescription::create(&plugin, TOPOLOGY, &[]).unwrap();
    let compiled = topology.compile(&Program::mlir(next(4)), &options).unwrap();
    let streams = plugin.extension::<Streams>().unwrap();
    let codes = [
        code(client.deserialize_and_load(&stored).map(drop)),
        code(client.load_executable(&compiled, &options).map(drop)),
        code(plugin.extension::<HostMemoryAllocator>().unwrap().allocate(client, 4, None).map(drop)),
        code(device.poison_execution(7, ErrorCode::ABORTED, "poison").map(drop)),
        code(streams.stream_for_external_ready_events(&device).map(drop)),
    ];
    let failed = (1..).zip(codes).find(|(_, code)| *code != Some(ErrorCode::FAILED_PRECONDITION));
    match failed {
        Some((number, _)) => number,
        // The driver computes the address.
        None if x.unsafe_pointer().is_ok() => 6,
        None => 0,
    }
}

/// The runtime does not call the driver for its features.
#[test]
fn features_fail() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    limited(|| {
        let fixture = Fixture::featured(Settings::default());
        let (program, x) = (fixture.next(4), fixture.put_ready(&[1; 4]));
        let (fixture, program, x) = in_child((fixture, program, x), use_features);
        drop((program, x));
        fixture.end();
    });
}

/// The end of the client does not run the destructors of the driver in the child process.
#[test]
fn memory_is_leaked() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    limited(|| {
        let fixture = Fixture::new(Settings::default());
        let (x, spare) = (fixture.put_ready(&[1; 4]), fixture.put_ready(&[2; 500]));
        drop(spare);
        let (fixture, x) = in_child((fixture, x), |(fixture, x)| {
            let control = Arc::clone(&fixture.control);
            drop((fixture, x));
            let state = control.state();
            match (state.allocated, state.closed) {
                (768, false) => 0,
                (_, false) => 1,
                (_, true) => 2,
            }
        });
        assert_eq!(bytes(&x).unwrap(), [1; 4]);
        drop(x);
        fixture.end();
    });
}

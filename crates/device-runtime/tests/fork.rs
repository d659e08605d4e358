//! A process that was forked after the client was created.
#![cfg(unix)]
#![allow(clippy::unwrap_used, dead_code, reason = "the helpers of all tests")]

use pjrt::ErrorCode;

use crate::dummy::control::Settings;
use crate::fixture::{Fixture, bytes, limited, run};

#[path = "runtime/dummy/mod.rs"]
mod dummy;
#[path = "runtime/fixture.rs"]
mod fixture;

/// Returns the name of the first call that does not fail in the expected way.
fn use_client(fixture: Fixture) -> Option<&'static str> {
    let code = |result: Result<(), pjrt::Error>| result.err().map(|error| error.code());
    let device = fixture.device(0);
    let results = [
        ("statistics", code(device.memory_stats().map(drop))),
        ("reset", code(device.clear_memory_stats())),
        ("upload", code(fixture.put_on(0, &[1; 1500]).map(drop))),
    ];
    results.into_iter().find(|(_, code)| *code != Some(ErrorCode::FAILED_PRECONDITION)).map(|(name, _)| name)
}

/// A thread of the parent process waits for memory, so its locks stay locked in the child process.
#[test]
fn calls_fail() {
    limited(|| {
        let fixture = Fixture::new(Settings { limit: 2048, ..Settings::default() });
        let next = fixture.compile("name=next size=1000 inputs=1 out=x0+1");
        let x = fixture.put(&[1; 1000]);
        x.wait().unwrap();
        fixture.control.hold(0, true, true);
        let y = run(&next, &[&x]).unwrap();
        drop((x, y));
        let client = fixture.client.clone();
        let upload = std::thread::spawn(move || client.buffer_from_host(&[9u8; 2000], &[2000]));
        std::thread::sleep(std::time::Duration::from_millis(20));
        // SAFETY: the child process uses only functions that are safe after a fork of several threads, apart from the
        // allocator, which the C library prepares for a fork.
        match unsafe { libc::fork() } {
            0 => {
                // SAFETY: the signal ends this process if a call waits forever.
                unsafe { libc::alarm(20) };
                let failed = use_client(fixture);
                // Does not write to the file that captures the output, whose lock may be locked.
                let status = failed.map_or(0, |name| i32::try_from(name.len()).unwrap_or(1));
                // SAFETY: ends the process without running the hooks of the parent process.
                unsafe { libc::_exit(status) }
            }
            child => {
                let mut status = 0;
                // SAFETY: `status` is valid for writes.
                assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
                assert_eq!(status, 0, "the status contains the length of the name of the call");
            }
        }
        fixture.control.hold(0, true, false);
        assert_eq!(bytes(&upload.join().unwrap().unwrap()).unwrap(), [9; 2000]);
        drop(next);
        fixture.end();
    });
}

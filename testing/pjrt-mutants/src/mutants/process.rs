//! Faults of the whole process: its state, its exit, its threads and its files.

use std::fs::File;
use std::time::Duration;

use pjrt_sys::slot;

use crate::device::{at_exit, catch_signal, flush_subnormals, ignore_children, set_variable};
use crate::mutant::Mutant;

pub(super) const MUTANTS: &[Mutant] = &[
    Mutant::new("process.environment_changed", "PJRT: a plugin does not change the environment", |device| {
        device.after::<slot::PJRT_Client_Create>(|_| set_variable("PJRT_MUTANT", "1"));
    }),
    Mutant::new(
        "process.working_directory_changed",
        "PJRT: a plugin does not change the working directory",
        |device| {
            device.before::<slot::PJRT_Client_Compile>(|_| {
                // If the change of the folder fails, the mutant has no fault, and the score reports it as a survivor.
                let _ = std::env::set_current_dir("/");
            });
        },
    ),
    Mutant::new("process.signal_caught", "PJRT: a plugin does not handle the process's signals", |device| {
        device.after::<slot::PJRT_Client_Create>(|_| catch_signal());
    }),
    Mutant::new(
        "process.subnormals_flushed",
        "PJRT: a plugin does not change the rounding mode of the caller",
        |device| {
            device.after::<slot::PJRT_LoadedExecutable_Execute>(|_| flush_subnormals());
        },
    ),
    Mutant::new(
        "process.children_reaped",
        "PJRT: a plugin does not wait for the framework's child processes",
        |device| {
            device.after::<slot::PJRT_Client_Create>(|_| ignore_children());
        },
    ),
    Mutant::new("teardown.exit_aborts", "PJRT: a process may end without destroying its objects", |device| {
        device.after::<slot::PJRT_Client_Create>(|_| at_exit(|| std::process::abort()));
    }),
    Mutant::new("teardown.exit_hangs", "PJRT: a process may end without destroying its objects", |device| {
        device.after::<slot::PJRT_Client_Create>(|_| at_exit(|| std::thread::sleep(Duration::from_secs(1000))));
    }),
    Mutant::new("teardown.destroy_hangs", "PJRT_Client_Destroy: shuts the client down", |device| {
        device.before::<slot::PJRT_Client_Destroy>(|_| std::thread::sleep(Duration::from_secs(1000)));
    }),
    Mutant::new("teardown.destroy_aborts", "PJRT_Client_Destroy: shuts the client down", |device| {
        device.before::<slot::PJRT_Client_Destroy>(|_| std::process::abort());
    }),
    Mutant::new("leaks.thread_of_client", "PJRT_Client_Destroy: ends the client's threads", |device| {
        device.after::<slot::PJRT_Client_Create>(|_| {
            std::thread::spawn(|| std::thread::sleep(Duration::from_secs(1000)));
        });
    }),
    Mutant::new("leaks.file_of_client", "PJRT_Client_Destroy: closes the client's files", |device| {
        device.after::<slot::PJRT_Client_Create>(|_| std::mem::forget(File::open("/dev/null")));
    }),
    Mutant::new("leaks.clients", "PJRT_Client_Destroy: frees the client", |device| {
        device.skip::<slot::PJRT_Client_Destroy>();
    }),
];

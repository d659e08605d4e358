//! Small stacks and many threads.

use std::sync::atomic::{AtomicUsize, Ordering};

use device_plugin::ErrorCode;

use crate::framework::{Answer, Buffer, Client, Loaded, toy};

/// A whole life: client, program, buffers, execution, donation, results.
fn life() {
    let client = toy().client(&[]).unwrap();
    let executable = toy().compile(client, "op=add_one\nin=s32[4];s32[4]\ndonate=1").unwrap();
    for round in 0..20 {
        let (kept, donated) = (toy().ints(client, &[round; 4]), toy().ints(client, &[2 * round; 4]));
        let (outputs, event) = toy().execute(executable, &[kept, donated], 2).unwrap();
        toy().destroy(&[kept, donated]);
        toy().wait(event).unwrap();
        assert_eq!(toy().read_ints(outputs[0]).unwrap(), [round + 1; 4]);
        assert_eq!(toy().read_ints(outputs[1]).unwrap(), [2 * round + 1; 4]);
        toy().destroy(&outputs);
    }
    toy().destroy_loaded(executable);
    toy().destroy_client(client);
}

#[test]
fn a_small_stack_is_enough() {
    std::thread::Builder::new().stack_size(256 << 10).spawn(life).unwrap().join().unwrap();
}

#[test]
fn lives_run_side_by_side() {
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(life);
        }
    });
}

/// Handles that threads share, as frameworks do.
#[derive(Clone, Copy)]
struct Shared {
    executable: Loaded,
    buffer: Buffer,
    client: Client,
}
unsafe impl Send for Shared {}
unsafe impl Sync for Shared {}

impl Shared {
    fn get(&self) -> (Loaded, Buffer) {
        (self.executable, self.buffer)
    }
}

#[test]
fn a_buffer_is_used_and_deleted_at_once() {
    for _ in 0..50 {
        let client = toy().client(&[]).unwrap();
        let executable = toy().compile(client, "op=echo\nin=s32[2]").unwrap();
        let shared = Shared { executable, buffer: toy().ints(client, &[1, 2]), client };
        let uses = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    let (executable, buffer) = shared.get();
                    let one = || -> Answer {
                        let (outputs, event) = toy().execute(executable, &[buffer], 1)?;
                        toy().wait(event).unwrap();
                        assert_eq!(toy().read_ints(outputs[0]).unwrap(), [1, 2]);
                        toy().destroy(&outputs);
                        uses.fetch_add(1, Ordering::Relaxed);
                        toy().read_ints(buffer).map(|values| assert_eq!(values, [1, 2]))
                    };
                    loop {
                        if let Err(fault) = one() {
                            assert_eq!(fault.code, ErrorCode::INVALID_ARGUMENT);
                            assert!(fault.message.contains("deleted"), "{fault:?}");
                            break;
                        }
                    }
                });
            }
            while uses.load(Ordering::Relaxed) < 5 {
                std::thread::yield_now();
            }
            toy().delete(shared.buffer);
        });
        toy().destroy(&[shared.buffer]);
        toy().destroy_loaded(executable);
        toy().destroy_client(shared.client);
    }
}

#[test]
fn a_buffer_is_donated_once_however_many_ask() {
    for _ in 0..50 {
        let client = toy().client(&[]).unwrap();
        let executable = toy().compile(client, "op=add_one\nin=s32[2]\ndonate=0").unwrap();
        let shared = Shared { executable, buffer: toy().ints(client, &[1, 2]), client };
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    let (executable, buffer) = shared.get();
                    // Whoever is too late for the donation is told so; nobody reads what another wrote.
                    if let Ok((outputs, event)) = toy().execute(executable, &[buffer], 1) {
                        toy().wait(event).unwrap();
                        assert_eq!(toy().read_ints(outputs[0]).unwrap(), [2, 3]);
                        toy().destroy(&outputs);
                    }
                });
            }
        });
        assert!(toy().is_deleted(shared.buffer));
        toy().destroy(&[shared.buffer]);
        toy().destroy_loaded(executable);
        toy().destroy_client(client);
    }
}

//! Tests calls on small stacks and calls from many threads.

use std::sync::atomic::{AtomicUsize, Ordering};

use device_plugin::{ElementType, ErrorCode, NamedValue, Shape};

use crate::framework::{Answer, Buffer, Client, Loaded, toy};
use crate::toy::{notes, open_gate, pass_gate};

/// Runs a complete life cycle: client, program, buffers, execution, donation and results.
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
fn small_stack_suffices() {
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

/// Handles that several threads use, as in frameworks.
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
fn concurrent_use_and_delete() {
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
fn concurrent_donations_succeed_once() {
    for _ in 0..50 {
        let client = toy().client(&[]).unwrap();
        let executable = toy().compile(client, "op=add_one\nin=s32[2]\ndonate=0").unwrap();
        let shared = Shared { executable, buffer: toy().ints(client, &[1, 2]), client };
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    let (executable, buffer) = shared.get();
                    // An execution that starts after the donation fails. No execution may read a value that another
                    // execution has modified.
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

#[test]
fn deleted_argument_lives_until_execution_ends() {
    let client = toy().client(&[]).unwrap();
    let hold = toy().compile(client, "op=hold\nin=s32[2]\ngate=deleted-meanwhile").unwrap();
    let data = [7i32, 8];
    let shape = Shape::new(ElementType::S32, [2]);
    // The framework lends host memory, because the plugin then reports when it frees the value.
    let (buffer, done) = toy().put_as(client, &shape, data.as_ptr().cast(), None, 2, 2).unwrap();
    let shared = Shared { executable: hold, buffer, client };
    let output = std::thread::scope(|scope| {
        let run = scope.spawn(move || {
            let (executable, buffer) = shared.get();
            let (outputs, event) = toy().execute(executable, &[buffer], 1).unwrap();
            toy().wait(event).unwrap();
            outputs[0].expose_provenance()
        });
        pass_gate("deleted-meanwhile-begun");
        toy().delete(buffer);
        assert!(toy().is_deleted(buffer) && !toy().is_ready(done));
        assert_eq!(toy().execute(hold, &[buffer], 1).unwrap_err().code, ErrorCode::INVALID_ARGUMENT);
        open_gate("deleted-meanwhile");
        std::ptr::with_exposed_provenance_mut(run.join().unwrap())
    });
    // After the execution, the value is freed, although the handle of the buffer still exists.
    toy().wait(done).unwrap();
    assert_eq!(toy().read_ints(output).unwrap(), data);
    toy().destroy(&[buffer, output]);
    toy().destroy_loaded(hold);
    toy().destroy_client(client);
}

#[test]
fn donated_argument_stays_intact_in_use() {
    let client = toy().client(&[]).unwrap();
    let hold = toy().compile(client, "op=hold\nin=s32[2]\ngate=donated-meanwhile").unwrap();
    let add = toy().compile(client, "op=add_one\nin=s32[2]\ndonate=0").unwrap();
    let buffer = toy().ints(client, &[7, 8]);
    let shared = Shared { executable: hold, buffer, client };
    let output = std::thread::scope(|scope| {
        let run = scope.spawn(move || {
            let (executable, buffer) = shared.get();
            let (outputs, event) = toy().execute(executable, &[buffer], 1).unwrap();
            toy().wait(event).unwrap();
            outputs[0].expose_provenance()
        });
        pass_gate("donated-meanwhile-begun");
        let (outputs, event) = toy().execute(add, &[buffer], 1).unwrap();
        toy().wait(event).unwrap();
        assert!(toy().is_deleted(buffer));
        assert_eq!(toy().read_ints(outputs[0]).unwrap(), [8, 9]);
        toy().destroy(&outputs);
        open_gate("donated-meanwhile");
        std::ptr::with_exposed_provenance_mut(run.join().unwrap())
    });
    assert_eq!(toy().read_ints(output).unwrap(), [7, 8]);
    toy().destroy(&[buffer, output]);
    toy().destroy_loaded(hold);
    toy().destroy_loaded(add);
    toy().destroy_client(client);
}

#[test]
fn last_output_frees_client() {
    for round in 0..30 {
        let name = format!("client {round} of outputs");
        let client = toy().client(&[NamedValue::new("name", name.as_str())]).unwrap();
        let executable = toy().compile(client, "op=echo\nin=s32[1];s32[1];s32[1];s32[1]").unwrap();
        let buffer = toy().ints(client, &[round]);
        let (outputs, event) = toy().execute(executable, &[buffer; 4], 4).unwrap();
        toy().wait(event).unwrap();
        toy().destroy(&[buffer]);
        toy().destroy_loaded(executable);
        let addresses: Vec<usize> = outputs.iter().map(|output| output.expose_provenance()).collect();
        let closes = client.expose_provenance();
        // Separate threads destroy the client and all outputs except one at the same time.
        std::thread::scope(|scope| {
            for address in addresses[1..].iter().copied() {
                scope.spawn(move || toy().destroy(&[std::ptr::with_exposed_provenance_mut(address)]));
            }
            scope.spawn(move || toy().destroy_client(std::ptr::with_exposed_provenance_mut(closes)));
        });
        assert!(notes(&name).is_empty());
        assert_eq!(toy().read_ints(outputs[0]).unwrap(), [round]);
        let last = addresses[0];
        std::thread::spawn(move || toy().destroy(&[std::ptr::with_exposed_provenance_mut(last)])).join().unwrap();
        assert_eq!(notes(&name), [format!("{name} is closed")]);
    }
}

#[test]
fn executions_deletions_and_donations_race() {
    let client = toy().client(&[]).unwrap();
    let echo = toy().compile(client, "op=echo\nin=s32[4]").unwrap();
    let add = toy().compile(client, "op=add_one\nin=s32[4]\ndonate=0").unwrap();
    for round in 0..100 {
        let buffer = toy().ints(client, &[round; 4]);
        let (reads, donates) =
            (Shared { executable: echo, buffer, client }, Shared { executable: add, buffer, client });
        std::thread::scope(|scope| {
            for (shared, adds) in [(reads, 0), (reads, 0), (donates, 1), (donates, 1)] {
                scope.spawn(move || {
                    let (executable, buffer) = shared.get();
                    for _ in 0..4 {
                        match toy().execute(executable, &[buffer], 1) {
                            Ok((outputs, event)) => {
                                toy().wait(event).unwrap();
                                assert_eq!(toy().read_ints(outputs[0]).unwrap(), [round + adds; 4]);
                                toy().destroy(&outputs);
                            }
                            Err(fault) => assert_eq!(fault.code, ErrorCode::INVALID_ARGUMENT, "{fault:?}"),
                        }
                    }
                });
            }
            scope.spawn(move || {
                let (_, buffer) = reads.get();
                std::thread::yield_now();
                toy().delete(buffer);
            });
        });
        assert!(toy().is_deleted(buffer));
        toy().destroy(&[buffer]);
    }
    toy().destroy_loaded(echo);
    toy().destroy_loaded(add);
    toy().destroy_client(client);
}

#[test]
fn client_ends_with_last_output() {
    for round in 0..1000 {
        let client = toy().client(&[NamedValue::new("name", format!("one of many, {round}"))]).unwrap();
        let executable = toy().compile(client, "op=echo\nin=s32[4]").unwrap();
        let buffer = toy().ints(client, &[1; 4]);
        for _ in 0..10 {
            let (outputs, event) = toy().execute(executable, &[buffer], 1).unwrap();
            toy().destroy_event(event);
            toy().destroy(&outputs);
        }
        let (outputs, event) = toy().execute(executable, &[buffer], 1).unwrap();
        toy().destroy_event(event);
        toy().destroy(&[buffer]);
        toy().destroy_loaded(executable);
        toy().destroy_client(client);
        assert_eq!(notes("one of many").len(), round);
        toy().destroy(&outputs);
        // A thread of another test may free the client, if it detects that the client is unused. This may happen a
        // moment later.
        let start = std::time::Instant::now();
        while notes("one of many").len() != round + 1 {
            assert!(start.elapsed().as_secs() < 10, "client {round} lives on");
            std::thread::yield_now();
        }
    }
}

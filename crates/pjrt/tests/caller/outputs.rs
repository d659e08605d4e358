//! Tests [`Outputs`], in particular the time at which the list releases the client. Also tests when buffers that were
//! taken out of the list release it.

#![allow(clippy::disallowed_methods, reason = "a test of panics")]

use std::panic::AssertUnwindSafe;
use std::sync::atomic::Ordering::SeqCst;

use crate::fake::Fake;
use pjrt::{Buffer, CompileOptions, ErrorKind, ExecuteOptions, Input, Outputs, OutputsIntoIter, Program};

/// The numbers of outputs to test. A list of one output stores it inline, and a longer list stores its outputs on the
/// heap.
const COUNTS: [usize; 3] = [1, 2, 40];

/// Runs a program with `count` outputs. Drops all handles except the outputs.
fn run(fake: &'static Fake, count: usize) -> Outputs {
    fake.more_outputs.store(count - 1, SeqCst);
    let client = fake.client();
    let program = client.compile(&Program::mlir(""), &CompileOptions::default()).unwrap();
    let x = client.buffer_from_host(&[7u8], &[1]).unwrap();
    let outputs = program.execute(&[&x]).unwrap();
    assert_eq!(outputs.len(), count);
    outputs
}

fn read(buffers: &[Buffer]) -> Vec<u8> {
    buffers.iter().map(|buffer| buffer.to_host::<u8>().unwrap()[0]).collect()
}

/// Returns whether the client exists, and the number of existing buffers.
fn live(fake: &Fake) -> (bool, isize) {
    let client = !fake.destroyed.lock().unwrap().contains(&"client");
    (client, fake.live.load(SeqCst) - isize::from(client))
}

#[test]
fn list_holds_the_client() {
    for count in COUNTS {
        let fake = Fake::new();
        let outputs = run(fake, count);
        assert_eq!(live(fake), (true, count as isize));
        assert_eq!(read(&outputs), vec![7; count]);
        // A query of the shape allocates memory in each buffer, which must be freed with the list.
        assert!(outputs.iter().all(|output| output.shape().is_ok()));
        std::thread::spawn(move || drop(outputs)).join().unwrap();
        assert!(fake.all_gone(), "{count} buffers are destroyed before the client");
    }
}

#[test]
fn taken_buffers_hold_the_client() {
    for count in COUNTS {
        let fake = Fake::new();
        let mut outputs = run(fake, count);
        let first = outputs.remove(0);
        drop(outputs);
        assert_eq!(live(fake), (true, 1));
        assert_eq!(first.client().platform_name().unwrap(), "fake");
        drop(first);
        assert!(fake.all_gone());

        let fake = Fake::new();
        let mut outputs = run(fake, count);
        let last = outputs.pop().unwrap();
        assert_eq!(outputs.len(), count - 1);
        drop(last);
        assert_eq!(live(fake), (true, count as isize - 1), "an empty list also holds the client");
        while outputs.pop().is_some() {}
        assert_eq!(live(fake), (true, 0));
        drop(outputs);
        assert!(fake.all_gone());
    }
}

#[test]
fn iterators_destroy_what_they_have_not_returned() {
    for count in COUNTS {
        let fake = Fake::new();
        let mut iterator: OutputsIntoIter = run(fake, count).into_iter();
        assert_eq!(iterator.len(), count);
        let (first, last) = (iterator.next().unwrap(), iterator.next_back());
        assert_eq!((last.is_some(), iterator.len()), (count > 1, count.saturating_sub(2)));
        drop((iterator, last));
        assert_eq!(live(fake), (true, 1));
        assert_eq!(read(&[first]), [7]);
        assert!(fake.all_gone());
    }
}

#[test]
fn lists_become_vectors_and_arrays() {
    for count in COUNTS {
        let fake = Fake::new();
        let all: Vec<Buffer> = run(fake, count).into();
        assert_eq!(read(&all), vec![7; count]);
        drop(all);
        assert!(fake.all_gone());

        let fake = Fake::new();
        let pair = run(fake, count).into_array();
        match pair {
            Ok([a, b]) => assert_eq!((count, read(&[a, b])), (2, vec![7, 7])),
            Err(error) => assert!(count != 2 && error.kind() == ErrorKind::InvalidArgument, "{error}"),
        }
        assert!(fake.all_gone());
    }
}

#[test]
fn index_of_no_output_leaves_the_list() {
    for count in COUNTS {
        let fake = Fake::new();
        let mut outputs = run(fake, count);
        assert!(std::panic::catch_unwind(AssertUnwindSafe(|| outputs.remove(count))).is_err());
        assert_eq!(read(&outputs), vec![7; count]);
        drop(outputs);
        assert!(fake.all_gone());
    }
}

#[test]
fn outputs_are_the_inputs_of_the_next_run() {
    let fake = Fake::new();
    fake.donate.store(true, SeqCst);
    fake.more_outputs.store(3, SeqCst);
    let client = fake.client();
    let program = client.compile(&Program::mlir(""), &CompileOptions::default()).unwrap();
    let x = client.buffer_from_host(&[7u8], &[1]).unwrap();
    let mut outputs = program.execute(&[&x]).unwrap();
    for _ in 0..5 {
        let borrowed: Vec<&Buffer> = outputs.iter().collect();
        let seen = program.execute(&borrowed).unwrap();
        let inputs = outputs.into_iter().map(Input::Donate).chain(seen.iter().map(Input::Borrow));
        outputs = program.execute_with(inputs, &ExecuteOptions::new()).unwrap().outputs;
    }
    assert_eq!(read(&outputs), [7; 4]);
    drop((client, program, x, outputs));
    assert!(fake.all_gone());
}

#[test]
fn null_among_several_outputs_is_error() {
    let fake = Fake::new();
    fake.more_outputs.store(3, SeqCst);
    fake.null_outputs.store(true, SeqCst);
    let client = fake.client();
    let program = client.compile(&Program::mlir(""), &CompileOptions::default()).unwrap();
    let x = client.buffer_from_host(&[7u8], &[1]).unwrap();
    assert_eq!(program.execute(&[&x]).map(drop).unwrap_err().kind(), ErrorKind::Malformed);
    drop((client, program, x));
    assert!(fake.all_gone(), "the other outputs are destroyed");
}

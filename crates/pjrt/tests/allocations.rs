//! Counts the allocations of a run: one for a list of several outputs, apart from those of the plugin.

#![allow(clippy::unwrap_used, reason = "a test program")]

#[path = "../benches/support/null.rs"]
mod null;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use pjrt::{Buffer, ClientOptions, CompileOptions, ExecuteOptions, Input};

thread_local! {
    static ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
}

/// The system's allocator, with a count for each thread.
struct Counting;

// SAFETY: every function is the system allocator's.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: this function's contract is that of the system allocator.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: this function's contract is that of the system allocator.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn allocations(run: impl FnOnce()) -> usize {
    let before = ALLOCATIONS.get();
    run();
    ALLOCATIONS.get() - before
}

#[test]
fn run_allocates_only_the_list_of_outputs() {
    let client = null::plugin().client(&ClientOptions::new()).unwrap();
    let options = ExecuteOptions::default();
    for count in [1, 8, 32] {
        // One output is in the list itself.
        let list = usize::from(count > 1);
        let program = client.compile(&null::program(count), &CompileOptions::default()).unwrap();
        let buffers: Vec<Buffer> = (0..count).map(|_| client.buffer_from_host(&[1f32; 4], &[4]).unwrap()).collect();
        let inputs: Vec<&Buffer> = buffers.iter().collect();
        let execute = || drop(program.execute(&inputs).unwrap());
        execute();
        // The plugin allocates each output.
        assert_eq!(allocations(execute), count + list, "execute with {count} arguments");
        let execute_with = || {
            let inputs = buffers.iter().map(Input::Borrow);
            drop(program.execute_with(inputs, &options).unwrap());
        };
        execute_with();
        // The plugin allocates each output and the event.
        assert_eq!(allocations(execute_with), count + 1 + list, "execute_with and {count} arguments");
        // In a chain of runs, each consumes the outputs of the last.
        let first = program.execute(&inputs).unwrap();
        let chained = || {
            let mut outputs = first;
            for _ in 0..10 {
                outputs = program.execute_with(outputs.into_iter().map(Input::Donate), &options).unwrap().outputs;
            }
        };
        assert_eq!(allocations(chained), 10 * (count + 1 + list), "{count} donated arguments");
    }
}

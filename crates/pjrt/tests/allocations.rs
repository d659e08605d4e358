//! Counts the heap allocations of a run. Apart from the plugin's own allocations, a run allocates only the list of its
//! outputs, and only if there are several outputs.

#![allow(clippy::unwrap_used, reason = "a test program")]

#[path = "../benches/support/null.rs"]
mod null;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use pjrt::{Buffer, ClientOptions, CompileOptions, ExecuteOptions, Input};

thread_local! {
    static ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
}

/// The system's allocator, which also counts the allocations of each thread.
struct Counting;

// SAFETY: every function forwards to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: this function has the same contract as that of the system's allocator.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: this function has the same contract as that of the system's allocator.
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
        // A list stores one output inline, without an allocation.
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
        // In a chain of runs, each run consumes the outputs of the previous run.
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

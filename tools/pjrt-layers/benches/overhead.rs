//! Measures the time that a layer adds to a call: `cargo bench -p pjrt-layers --bench overhead`.
//!
//! Calls a function that does nothing, directly and through layers, in one process with 1 to 16 threads. Each round
//! measures four function tables one after another: the plugin's own table, the table with `trace` switched off, the
//! table with an empty layer, and the table with `trace` switched on. Prints the median and the minimum time of a call
//! over all rounds and threads, in nanoseconds of processor time of the calling thread. Processor time excludes the
//! time in which other programs use the core. It includes the time in which the core waits for memory or runs its other
//! hardware thread. The targets for the added time are 35 ns for `trace`, and less than 1 ns for `trace` while it is
//! switched off.
#![allow(missing_docs, reason = "a benchmark")]

mod timing;

use std::ptr::null_mut;
use std::sync::{Barrier, Mutex, PoisonError};

use pjrt_layers::trace::{Outputs, Trace};
use pjrt_layers::{Call, Function, Instance, Layer, Stack, Step, instance};
use pjrt_sys::{AbiStruct, PJRT_Api, PJRT_Buffer_IsDeleted_Args, PJRT_Error, StaticApi};
use timing::{median, nanoseconds};

const CALLS: u32 = 10_000;
const ROUNDS: usize = 100;
const TARGET: f64 = 35.0;

unsafe extern "C" fn nothing(_: *mut PJRT_Buffer_IsDeleted_Args) -> *mut PJRT_Error {
    null_mut()
}

/// A layer that observes every call and does nothing.
#[derive(Debug)]
struct Empty;

impl Layer for Empty {
    fn name(&self) -> &'static str {
        "empty"
    }

    fn wants(&self, _: &Function) -> bool {
        true
    }

    fn before(&self, _: &mut Call) -> Step {
        Step::Continue(0)
    }
}

instance!(Traced);
instance!(Off);
instance!(Emptied);

fn main() {
    let mut table = PJRT_Api::new();
    table.pjrt_api_version.minor_version = 117;
    table.PJRT_Buffer_IsDeleted = Some(nothing);
    // SAFETY: C1 to C9: the table lives as long as the process, and its function does nothing.
    let plugin = unsafe { StaticApi::new(Box::leak(Box::new(table))) };
    let trace = || Box::new(Trace::new(Outputs { calls_per_thread: 1 << 14, ..Outputs::default() }));
    let traced = Stack::start::<Traced>(plugin, vec![trace()]);
    let off = Stack::start::<Off>(plugin, vec![trace()]);
    if let Some(stack) = Off::cell().get() {
        stack.set_active("trace", false);
    }
    let emptied = Stack::start::<Emptied>(plugin, vec![Box::new(Empty)]);
    println!("                 direct  off          empty layer  trace");
    for threads in [1, 2, 4, 8, 16] {
        let measured = measure([plugin, off, emptied, traced], threads);
        for (name, at) in [("median", 0), ("shortest", 1)] {
            let [direct, off, empty, trace] = measured.map(|times| times[at]);
            println!(
                "{threads:>2} {name:<12}  {direct:>6.1}  {off:>6.1} {:>+5.1}  {empty:>6.1} {:>+5.1}  {trace:>6.1} {:>+5.1}",
                off - direct,
                empty - direct,
                trace - direct
            );
        }
    }
    println!("the target of trace is {TARGET} ns");
}

/// Returns the median and the minimum time of a call through each table, in nanoseconds. Uses `threads` threads, which
/// call at the same time.
fn measure<const N: usize>(tables: [StaticApi; N], threads: usize) -> [[f64; 2]; N] {
    let barrier = Barrier::new(threads);
    let times: [Mutex<Vec<f64>>; N] = std::array::from_fn(|_| Mutex::default());
    let run = || {
        for _ in 0..ROUNDS {
            for (api, times) in tables.iter().zip(&times) {
                // SAFETY: the table lives as long as the process.
                let table = unsafe { &*api.as_raw() };
                let Some(function) = table.PJRT_Buffer_IsDeleted else { continue };
                let mut args = PJRT_Buffer_IsDeleted_Args::new();
                barrier.wait();
                let time = nanoseconds(CALLS, || {
                    let args = std::hint::black_box(&raw mut args);
                    // SAFETY: C2: `new` has set the struct's size.
                    std::hint::black_box(unsafe { function(args) });
                });
                times.lock().unwrap_or_else(PoisonError::into_inner).push(time);
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(run);
        }
    });
    times.map(|times| {
        let times = times.into_inner().unwrap_or_else(PoisonError::into_inner);
        let shortest = times.iter().copied().fold(f64::INFINITY, f64::min);
        [median(times), shortest]
    })
}

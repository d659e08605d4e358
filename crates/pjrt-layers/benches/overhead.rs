//! Measures what a layer adds to a call: `cargo bench -p pjrt-layers --bench overhead`.
//!
//! Calls a function that does nothing, directly and through layers, in one process with 1 to 16 threads. Prints the time of
//! a call in nanoseconds, as the shortest of several rounds, and the difference to the direct call. The targets are 35 ns
//! for `trace`, and less than 1 ns while it is off.
#![allow(missing_docs, reason = "a benchmark")]

use std::ptr::null_mut;
use std::sync::Barrier;
use std::time::Instant;

use pjrt_layers::trace::{Outputs, Trace};
use pjrt_layers::{Call, Function, Instance, Layer, State, Step, instance};
use pjrt_sys::{AbiStruct, PJRT_Api, PJRT_Buffer_IsDeleted_Args, PJRT_Error, StaticApi};

/// Short rounds, so that some of them run without interruption even with more threads than cores.
const CALLS: u32 = 10_000;
const ROUNDS: usize = 200;
const TARGET: f64 = 35.0;

unsafe extern "C" fn nothing(_: *mut PJRT_Buffer_IsDeleted_Args) -> *mut PJRT_Error {
    null_mut()
}

/// Sees calls and does nothing.
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
    let traced = State::start::<Traced>(plugin, vec![trace()]);
    let off = State::start::<Off>(plugin, vec![trace()]);
    if let Some(state) = Off::cell().get() {
        state.set_active("trace", false);
    }
    let emptied = State::start::<Emptied>(plugin, vec![Box::new(Empty)]);
    println!("threads  direct  off          empty layer  trace");
    let mut worst = 0.0_f64;
    for threads in [1, 2, 4, 8, 16] {
        let [direct, off, empty, trace] = [plugin, off, emptied, traced].map(|api| measure(api, threads));
        println!(
            "{threads:>7}  {direct:>6.1}  {off:>6.1} {:>+5.1}  {empty:>6.1} {:>+5.1}  {trace:>6.1} {:>+5.1}",
            off - direct,
            empty - direct,
            trace - direct
        );
        if threads == 1 {
            worst = worst.max(trace - direct);
        }
    }
    println!("trace adds {worst:.1} ns to a call of one thread; the target is {TARGET} ns");
}

/// Nanoseconds of a call, the shortest of all rounds and threads.
fn measure(api: StaticApi, threads: usize) -> f64 {
    let barrier = Barrier::new(threads);
    let run = || {
        // SAFETY: the table lives as long as the process.
        let table = unsafe { &*api.as_raw() };
        let Some(function) = table.PJRT_Buffer_IsDeleted else { return f64::INFINITY };
        let mut args = PJRT_Buffer_IsDeleted_Args::new();
        let mut best = f64::INFINITY;
        for _ in 0..ROUNDS {
            barrier.wait();
            let start = Instant::now();
            for _ in 0..CALLS {
                let args = std::hint::black_box(&raw mut args);
                // SAFETY: C2: the struct has its size.
                std::hint::black_box(unsafe { function(args) });
            }
            best = best.min(start.elapsed().as_secs_f64() * 1e9 / f64::from(CALLS));
        }
        best
    };
    std::thread::scope(|scope| {
        let all: Vec<_> = (0..threads).map(|_| scope.spawn(run)).collect();
        all.into_iter().map(|one| one.join().unwrap_or(f64::INFINITY)).fold(f64::INFINITY, f64::min)
    })
}

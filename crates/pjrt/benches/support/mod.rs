//! Helpers for the benchmarks of `pjrt`: access to a plugin's function pointers, and alternating time measurements.

use std::time::Instant;

use pjrt::Plugin;
use pjrt_sys::{PJRT_Api, Slot};

/// Returns the function pointer in the slot `S` of the plugin's table, as a value of type `F`.
///
/// # Safety
///
/// `F` is a data pointer type, or the function pointer type of the slot.
pub(crate) unsafe fn function<S: Slot<Table = PJRT_Api>, F: Copy>(plugin: &Plugin) -> F {
    assert!(plugin.api().supports::<S>(), "{}", S::NAME);
    let table = plugin.api().as_raw().cast::<u8>();
    // SAFETY: C1: the slot is within the table, as `supports` checked.
    let place = unsafe { table.add(S::OFFSET) };
    // SAFETY: C1: a slot contains a function pointer. By this function's contract, a function pointer can be read as an
    // `F`.
    unsafe { place.cast::<F>().read() }
}

fn median(mut samples: Vec<f64>) -> f64 {
    samples.sort_by(f64::total_cmp);
    samples[samples.len() / 2]
}

/// Calls all candidates in turn, `batches` times. Each call of a candidate must repeat its operation `batch` times.
/// Returns the median time of one operation of each candidate, in nanoseconds.
pub(crate) fn in_turns(batches: usize, batch: u32, candidates: &[&dyn Fn()]) -> Vec<f64> {
    let mut samples = vec![Vec::new(); candidates.len()];
    for number in 0..batches {
        for turn in 0..candidates.len() {
            // Each round begins with the next candidate, so that no candidate is always measured first.
            let which = (turn + number) % candidates.len();
            let start = Instant::now();
            candidates[which]();
            samples[which].push(start.elapsed().as_secs_f64() * 1e9 / f64::from(batch));
        }
    }
    samples.into_iter().map(median).collect()
}

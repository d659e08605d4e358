//! Functions of a plugin's table and timings, for the benchmarks of this crate.

use std::time::Instant;

use pjrt::Plugin;
use pjrt_sys::{PJRT_Api, Slot};

/// The function in the slot `S` of the plugin's own table, as a value of the pointer type `F`.
///
/// # Safety
///
/// `F` is a pointer, or the type of the slot's function.
pub(crate) unsafe fn function<S: Slot<Table = PJRT_Api>, F: Copy>(plugin: &Plugin) -> F {
    assert!(plugin.api().supports::<S>(), "{}", S::NAME);
    let table = plugin.api().as_raw().cast::<u8>();
    // SAFETY: C1: the slot is within the table, as `supports` checked.
    let place = unsafe { table.add(S::OFFSET) };
    // SAFETY: C1: a slot holds a function pointer, which has the type `F` by this function's contract.
    unsafe { place.cast::<F>().read() }
}

fn median(mut samples: Vec<f64>) -> f64 {
    samples.sort_by(f64::total_cmp);
    samples[samples.len() / 2]
}

/// Runs the candidates alternately, `batches` times, each with `batch` repetitions. Returns the nanoseconds for one
/// repetition of each.
pub(crate) fn in_turns(batches: usize, batch: u32, candidates: &[&dyn Fn()]) -> Vec<f64> {
    let mut samples = vec![Vec::new(); candidates.len()];
    for number in 0..batches {
        for turn in 0..candidates.len() {
            // Each turn begins with another candidate, so that none always follows the same one.
            let which = (turn + number) % candidates.len();
            let start = Instant::now();
            candidates[which]();
            samples[which].push(start.elapsed().as_secs_f64() * 1e9 / f64::from(batch));
        }
    }
    samples.into_iter().map(median).collect()
}

//! What the benchmarks of this crate share.

use std::time::Instant;

use pjrt::Plugin;
use pjrt_sys::{PJRT_Api, Slot};

/// The pointer in a slot of the plugin's own table.
pub(crate) fn function<S: Slot<Table = PJRT_Api>>(plugin: &Plugin) -> *const u8 {
    assert!(plugin.api().supports::<S>(), "{}", S::NAME);
    let table = plugin.api().as_raw().cast::<u8>();
    // SAFETY: C1: the slot is within the table, as `supports` checked.
    let place = unsafe { table.add(S::OFFSET) };
    // SAFETY: C1: a slot holds a function pointer.
    unsafe { place.cast::<*const u8>().read() }
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

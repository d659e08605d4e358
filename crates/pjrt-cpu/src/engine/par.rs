//! Spreads large loops over the cores.

use std::cell::Cell;
use std::sync::{Mutex, PoisonError};

use rayon::prelude::*;

use super::error::RunError;

/// Work below this many bytes stays on the calling thread: handing it over costs more than it saves.
pub(crate) const WORTH: usize = 256 << 10;

/// Number of threads a loop over `bytes` bytes should use.
pub(crate) fn threads(bytes: usize) -> usize {
    if bytes < WORTH || ALONE.get() { 1 } else { rayon::current_num_threads().min(bytes / (WORTH / 4)).max(1) }
}

/// Calls `f(index of the first element, chunk)` for consecutive chunks of `out`, whose ends are multiples of `unit`.
pub(crate) fn chunks<T: Send>(out: &mut [T], unit: usize, bytes: usize, f: impl Fn(usize, &mut [T]) + Sync) {
    let threads = threads(bytes);
    let unit = unit.max(1);
    if threads == 1 || out.len() <= unit {
        if !out.is_empty() {
            f(0, out);
        }
        return;
    }
    // A few chunks per thread, so that an unlucky thread does not hold up the rest.
    let units = out.len().div_ceil(unit);
    let chunk = units.div_ceil(threads * 4) * unit;
    out.par_chunks_mut(chunk).enumerate().for_each(|(i, part)| f(i * chunk, part));
}

/// Runs independent tasks, on several threads where `bytes` of work make it worth it.
pub(crate) fn each<T: Send>(tasks: Vec<T>, bytes: usize, f: impl Fn(T) + Sync + Send) {
    if threads(bytes) == 1 || tasks.len() < 2 {
        tasks.into_iter().for_each(f);
    } else {
        tasks.into_par_iter().for_each(f);
    }
}

/// The first thing that went wrong in loops on several threads.
#[derive(Default)]
pub(crate) struct Failure(Mutex<Option<RunError>>);

impl Failure {
    /// Keeps an error, unless there is one.
    pub(crate) fn note(&self, result: Result<(), RunError>) {
        if let Err(error) = result {
            self.0.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
        }
    }

    /// How it went.
    pub(crate) fn result(self) -> Result<(), RunError> {
        self.0.into_inner().unwrap_or_else(PoisonError::into_inner).map_or(Ok(()), Err)
    }
}

thread_local! {
    static ALONE: Cell<bool> = const { Cell::new(false) };
}

/// Runs `work` with all its loops on this thread.
pub fn alone<T>(work: impl FnOnce() -> T) -> T {
    /// Puts back what was, also when the work panics.
    struct Before(bool);
    impl Drop for Before {
        fn drop(&mut self) {
            ALONE.set(self.0);
        }
    }
    let _before = Before(ALONE.replace(true));
    work()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_loop_stays_on_one_thread_when_told_to() {
        assert_eq!(alone(|| threads(1 << 30)), 1);
        assert_eq!(threads(1 << 30), rayon::current_num_threads());
        let here = std::thread::current().id();
        alone(|| chunks(&mut vec![0u8; 1 << 20], 1, 1 << 30, |_, _| assert_eq!(std::thread::current().id(), here)));
    }
}

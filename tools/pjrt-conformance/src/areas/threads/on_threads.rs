//! Runs a function on several threads.

use crate::stop::Stop;

/// Calls `run` once with each index below `count`, each time on a separate thread. If several calls fail, returns the
/// failure of the call with the lowest index.
pub(super) fn on_threads(count: usize, run: impl Fn(usize) -> Result<(), Stop> + Sync) -> Result<(), Stop> {
    std::thread::scope(|scope| {
        let run = &run;
        let threads: Vec<_> = (0..count).map(|at| scope.spawn(move || run(at))).collect();
        let results: Vec<_> = threads.into_iter().map(std::thread::ScopedJoinHandle::join).collect();
        for result in results {
            result.map_err(|_| Stop::Fail("a thread panicked".to_owned()))??;
        }
        Ok(())
    })
}

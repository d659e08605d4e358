//! Predicts whether the next run of a program is short, from its latest runs.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use super::custom_calls::calls_on_this_thread;

/// Maximum duration of a short run. Handing such a run to another thread would add a considerable part of this time, in
/// particular if the cores are busy.
const MAX_SHORT: Duration = Duration::from_micros(200);
/// Number of scalar operations of a program's loops that the caller's thread runs before another thread continues the
/// program. They take about as long as a thread takes to start.
const FIRST_PART: u64 = 65_536;
/// This number if the latest runs were short. The operations take a few milliseconds at most, so that the caller does
/// not wait longer if a run takes much longer than the latest ones.
const FIRST_PART_IF_SHORT: u64 = 16 * FIRST_PART;
/// Number of consecutive short runs after which the next run is expected to be short.
const MIN_SHORT_RUNS: u32 = 4;

/// The number of consecutive short runs of a program.
///
/// The duration of a program with loops is not known in advance. However, most programs take about the same time in
/// each run. The count stops at [`MIN_SHORT_RUNS`].
#[derive(Debug, Default)]
pub(crate) struct RecentRuns(AtomicU32);

impl RecentRuns {
    /// Returns whether each of the last [`MIN_SHORT_RUNS`] runs was short.
    #[inline]
    pub(crate) fn are_short(&self) -> bool {
        self.0.load(Ordering::Relaxed) >= MIN_SHORT_RUNS
    }

    /// Returns how many operations of the program's loops the caller's thread runs before another thread continues.
    pub(crate) fn first_part(&self) -> u64 {
        if self.are_short() { FIRST_PART_IF_SHORT } else { FIRST_PART }
    }

    /// Runs the program, and records whether the run was short. A run that calls a handler of a custom call does not
    /// count as short, because handlers may take any time. A failed run is not recorded.
    pub(crate) fn measure<T, E>(&self, run: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
        let (start, calls) = (Instant::now(), calls_on_this_thread());
        let result = run()?;
        if calls_on_this_thread() == calls {
            self.record(start.elapsed());
        } else {
            self.0.store(0, Ordering::Relaxed);
        }
        Ok(result)
    }

    /// Records the duration of a run that called no handler.
    pub(crate) fn record(&self, duration: Duration) {
        if duration > MAX_SHORT {
            self.0.store(0, Ordering::Relaxed);
        } else if !self.are_short() {
            // This update is not atomic. If two runs end at the same time, it may count only one of them, and the
            // program needs another short run.
            self.0.store(self.0.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(runs: &RecentRuns, duration: Duration) {
        let work = || {
            std::thread::sleep(duration);
            Ok::<(), ()>(())
        };
        runs.measure(work).unwrap();
    }

    #[test]
    fn one_long_run_ends_a_sequence_of_short_runs() {
        let runs = RecentRuns::default();
        assert!(!runs.are_short());
        // The operating system may interrupt a short run.
        while !runs.are_short() {
            assert_eq!(runs.first_part(), FIRST_PART);
            run(&runs, Duration::ZERO);
        }
        assert_eq!(runs.first_part(), FIRST_PART_IF_SHORT);
        run(&runs, 2 * MAX_SHORT);
        assert!(!runs.are_short());
        assert_eq!(runs.first_part(), FIRST_PART);
    }

    #[test]
    fn failed_runs_do_not_count() {
        let runs = RecentRuns::default();
        (0..2 * MIN_SHORT_RUNS).for_each(|_| runs.measure(|| Err::<(), _>(())).unwrap_err());
        assert!(!runs.are_short());
    }
}

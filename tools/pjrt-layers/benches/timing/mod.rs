//! Measures the time of repeated calls.

use rustix::time::{ClockId, clock_gettime};

/// Runs the closure `call` as often as `calls` specifies. Returns the mean processor time per run on this thread, in
/// nanoseconds.
pub(crate) fn nanoseconds(calls: u32, mut call: impl FnMut()) -> f64 {
    let now = || clock_gettime(ClockId::ThreadCPUTime);
    let start = now();
    for _ in 0..calls {
        call();
    }
    let end = now();
    #[allow(clippy::cast_precision_loss, reason = "the differences are far below 2^52")]
    let nanoseconds = (end.tv_sec - start.tv_sec) as f64 * 1e9 + (end.tv_nsec - start.tv_nsec) as f64;
    nanoseconds / f64::from(calls)
}

/// Returns the median of `times`, or 0 if `times` is empty. For an even number of times, returns the larger one of the
/// two middle times.
pub(crate) fn median(mut times: Vec<f64>) -> f64 {
    times.sort_unstable_by(f64::total_cmp);
    times.get(times.len() / 2).copied().unwrap_or(0.0)
}

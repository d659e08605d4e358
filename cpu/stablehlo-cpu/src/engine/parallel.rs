//! Distributes large loops over the cores.

use std::cell::Cell;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};

use rayon::prelude::*;

use super::stop::Stop;
use crate::error::RunError;

/// Minimum work of a distributed loop in bytes. Smaller loops run on the calling thread, because handing them to other
/// threads costs more than it saves.
pub(crate) const WORTH: usize = 256 << 10;

/// Maximum work between two checks for a stop request, in bytes. The limit lets a long loop end soon after a request.
const BETWEEN_LOOKS: usize = 64 << 20;

/// ID of the process in which the thread pool started, or 0 before the thread pool starts.
static POOL: AtomicU32 = AtomicU32::new(0);

/// Returns whether the pool has threads in this process. A forked process does not inherit the threads of its parent,
/// so it would wait for them forever.
fn has_threads() -> bool {
    let here = std::process::id();
    POOL.compare_exchange(0, here, Ordering::Relaxed, Ordering::Relaxed).map_or_else(|owner| owner == here, |_| true)
}

/// Returns the number of threads for a loop over `bytes` bytes.
pub(crate) fn threads(bytes: usize) -> usize {
    if bytes < WORTH || ALONE.get() || !has_threads() {
        1
    } else {
        rayon::current_num_threads().min(bytes / (WORTH / 4)).max(1)
    }
}

/// Calls `f(index of the first element, chunk)` for consecutive chunks of `out`. Chunks end at multiples of `unit`, or
/// at the end of `out`. `bytes` is the work of the whole loop.
pub(crate) fn chunks<T: Send>(out: &mut [T], unit: usize, bytes: usize, f: impl Fn(usize, &mut [T]) + Sync) {
    each_chunk(None, out, unit, bytes, &f);
}

/// Like [`chunks`], but skips the remaining chunks after a stop request.
pub(crate) fn chunks_until<T: Send>(
    stop: Option<&Stop>,
    out: &mut [T],
    unit: usize,
    bytes: usize,
    f: impl Fn(usize, &mut [T]) + Sync,
) {
    each_chunk(stop, out, unit, bytes, &f);
}

/// Implements [`chunks`] and [`chunks_until`]. Takes `f` as a trait object, so that this function is compiled only once
/// for each element type.
fn each_chunk<T: Send>(
    stop: Option<&Stop>,
    out: &mut [T],
    unit: usize,
    bytes: usize,
    f: &(dyn Fn(usize, &mut [T]) + Sync),
) {
    let threads = threads(bytes);
    let unit = unit.max(1);
    let looks = if stop.is_some() { bytes / BETWEEN_LOOKS } else { 0 };
    if (threads == 1 && looks == 0) || out.len() <= unit {
        if !out.is_empty() {
            f(0, out);
        }
        return;
    }
    // Use a few chunks per thread, so that one slow thread does not delay the others.
    let count = if threads == 1 { looks + 1 } else { looks.max(threads * 4) };
    let units = out.len().div_ceil(unit);
    let chunk = units.div_ceil(count) * unit;
    let run = |(i, part): (usize, &mut [T])| {
        if Stop::check(stop).is_ok() {
            f(i * chunk, part);
        }
    };
    if threads == 1 {
        out.chunks_mut(chunk).enumerate().for_each(run);
    } else {
        take_each(out.chunks_mut(chunk).enumerate(), &run);
    }
}

/// Calls `f` for each task. `bytes` is the work of all tasks together. If it is at least [`WORTH`], the tasks may run
/// on several threads.
pub(crate) fn each<T: Send>(tasks: Vec<T>, bytes: usize, f: impl Fn(T) + Sync) {
    each_task(None, tasks, bytes, &f);
}

/// Like [`each`], but skips the remaining tasks after a stop request.
pub(crate) fn each_until<T: Send>(stop: Option<&Stop>, tasks: Vec<T>, bytes: usize, f: impl Fn(T) + Sync) {
    each_task(stop, tasks, bytes, &f);
}

fn each_task<T: Send>(stop: Option<&Stop>, tasks: Vec<T>, bytes: usize, f: &(dyn Fn(T) + Sync)) {
    let run = |task| {
        if Stop::check(stop).is_ok() {
            f(task);
        }
    };
    if threads(bytes) == 1 || tasks.len() < 2 {
        tasks.into_iter().for_each(run);
    } else {
        take_each(tasks.into_iter(), &run);
    }
}

/// Calls `f` for each item on the threads of the pool.
fn take_each<T: Send>(items: impl Iterator<Item = T>, f: &(dyn Fn(T) + Sync)) {
    let items: Vec<_> = items.map(|item| Mutex::new(Some(item))).collect();
    on_pool(items.len(), &|i| {
        let item = items[i].lock().unwrap_or_else(PoisonError::into_inner).take();
        item.into_iter().for_each(f);
    });
}

/// Calls `f` for each index below `count`, on the threads of the pool. The threads take one index at a time, so that
/// one slow thread does not delay the others. This is the only use of rayon, whose generic code is large. A copy for
/// each kernel would take 25 % of the crate's build time.
fn on_pool(count: usize, f: &(dyn Fn(usize) + Sync)) {
    (0..count).into_par_iter().with_max_len(1).for_each(f);
}

/// The first error of a loop that runs on several threads.
#[derive(Default)]
pub(crate) struct Failure(Mutex<Option<RunError>>);

impl Failure {
    /// Records an error, unless an earlier error is already recorded.
    pub(crate) fn note(&self, result: Result<(), RunError>) {
        if let Err(error) = result {
            self.0.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
        }
    }

    /// Returns the recorded error, if any.
    pub(crate) fn result(self) -> Result<(), RunError> {
        self.0.into_inner().unwrap_or_else(PoisonError::into_inner).map_or(Ok(()), Err)
    }
}

thread_local! {
    static ALONE: Cell<bool> = const { Cell::new(false) };
}

/// Runs `work` so that all its loops run on the calling thread.
pub fn alone<T>(work: impl FnOnce() -> T) -> T {
    /// Restores the previous setting, even if the work panics.
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
    use std::sync::atomic::AtomicUsize;

    use super::*;

    #[test]
    fn single_thread_setting() {
        assert_eq!(alone(|| threads(1 << 30)), 1);
        assert_eq!(threads(1 << 30), rayon::current_num_threads());
        let here = std::thread::current().id();
        alone(|| chunks(&mut vec![0u8; 1 << 20], 1, 1 << 30, |_, _| assert_eq!(std::thread::current().id(), here)));
    }

    #[test]
    fn cancelled_loop_ends() {
        let ended_at = |loop_until: &dyn Fn(&Stop, &(dyn Fn() + Sync))| {
            let (stop, ran) = (Stop::new(), AtomicUsize::new(0));
            loop_until(&stop, &|| {
                ran.fetch_add(1, Ordering::Relaxed);
                stop.request();
            });
            ran.into_inner()
        };
        let in_chunks = |stop: &Stop, f: &(dyn Fn() + Sync)| {
            chunks_until(Some(stop), &mut vec![0u8; 1 << 20], 1, 1 << 40, |_, _| f());
        };
        let in_tasks = |stop: &Stop, f: &(dyn Fn() + Sync)| {
            each_until(Some(stop), vec![(); 1 << 10], 1 << 40, |()| f());
        };
        assert_eq!(alone(|| ended_at(&in_chunks)), 1);
        assert_eq!(alone(|| ended_at(&in_tasks)), 1);
        // Each thread may have started one task before it notices the stop request.
        let threads = rayon::current_num_threads();
        assert!((1..=threads).contains(&ended_at(&in_chunks)) && (1..=threads).contains(&ended_at(&in_tasks)));
    }
}

//! State of the running profile. At most one profile runs in a process.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use tracing::Dispatch;

use super::activity::{Activity, Place};
use super::recorded_program::RecordedProgram;
use crate::{Error, ExecutableInfo, NamedValue, Program, Result};

static RECORDING: AtomicBool = AtomicBool::new(false);
/// The state of the running profile.
static RUNNING: Mutex<Option<Running>> = Mutex::new(None);
/// The logs of all threads that have recorded activities.
static LOGS: Mutex<Vec<Arc<Log>>> = Mutex::new(Vec::new());
/// Sequence number of the latest profile of this process, counted from 1.
static PROFILE: AtomicU64 = AtomicU64::new(0);
/// Number of activities in the profile, including those beyond [`LIMIT`].
static COUNT: AtomicUsize = AtomicUsize::new(0);
/// Maximum number of activities in a profile. This number of activities occupies about 200 MB.
const LIMIT: usize = 1_000_000;

struct Running {
    start: Instant,
    start_ns: u64,
    dispatch: Dispatch,
    programs: Vec<RecordedProgram>,
}

/// The records of one thread. Only this thread adds records, so the lock is contended only at the end of the profile.
struct Log {
    thread: Thread,
    activities: Mutex<Vec<Activity>>,
}

/// A thread of the process.
#[derive(Clone, Debug)]
pub(crate) struct Thread {
    pub(crate) id: u64,
    pub(crate) name: String,
}

/// A finished profile.
#[derive(Debug)]
pub(crate) struct Recording {
    pub(crate) start: Instant,
    /// Start time in nanoseconds since 1970.
    pub(crate) start_ns: u64,
    pub(crate) end: Instant,
    pub(crate) threads: Vec<(Thread, Vec<Activity>)>,
    /// The programs that ran, in the order of their first execution.
    pub(crate) programs: Vec<RecordedProgram>,
    /// Number of activities that were dropped because of [`LIMIT`].
    pub(crate) dropped: usize,
}

thread_local! {
    static LOG: OnceCell<Arc<Log>> = const { OnceCell::new() };
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[inline]
pub(super) fn is_recording() -> bool {
    RECORDING.load(Ordering::Relaxed)
}

/// Returns the current time, or `None` if no profile is running.
#[inline]
pub(crate) fn begun() -> Option<Instant> {
    is_recording().then(Instant::now)
}

/// Records an activity on a device from the time `begun`, which [`begun`] returned, until now.
pub(crate) fn device_activity(
    begun: Option<Instant>,
    plugin: &'static str,
    (device, line): (usize, &'static str),
    name: impl Into<Cow<'static, str>>,
    stats: Vec<NamedValue>,
) {
    if let Some(start) = begun
        && is_recording()
    {
        let (name, place) = (name.into(), Place::device(device, line));
        record(Activity { name, place, start, end: Instant::now(), stats, plugin: Some(plugin) });
    }
}

impl Log {
    fn new() -> Arc<Self> {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = std::thread::current().name().map_or_else(|| format!("thread {id}"), str::to_owned);
        let log = Arc::new(Self { thread: Thread { id, name }, activities: Mutex::default() });
        lock(&LOGS).push(Arc::clone(&log));
        log
    }

    fn push(&self, activity: Activity) {
        let mut activities = lock(&self.activities);
        // The profile may have ended since the caller checked. In this case, the activity must not become part of the
        // next profile.
        if !is_recording() {
            return;
        }
        if COUNT.fetch_add(1, Ordering::Relaxed) < LIMIT {
            activities.push(activity);
        }
    }
}

#[cold]
pub(super) fn record(activity: Activity) {
    // Ignore the error, which occurs if the log of an ending thread has been destroyed.
    let _ = LOG.try_with(|log| log.get_or_init(Log::new).push(activity));
}

/// Sequence number of the last profile that recorded a program, or 0 if no profile has recorded it.
#[derive(Debug, Default)]
pub(crate) struct LastProfile(AtomicU64);

impl LastProfile {
    /// Adds the program to the running profile, unless the profile already contains it.
    pub(crate) fn record(&self, plugin: &'static str, info: &ExecutableInfo, received: &Program) {
        let number = PROFILE.load(Ordering::Relaxed);
        if self.0.swap(number, Ordering::Relaxed) == number {
            return;
        }
        let mut running = lock(&RUNNING);
        // The profile may have ended since `number` was loaded.
        if let Some(running) = &mut *running
            && number == PROFILE.load(Ordering::Relaxed)
        {
            running.programs.push(RecordedProgram::new(plugin, info, received));
        }
    }
}

/// Returns the subscriber of the running profile, or `None` if no profile is running.
pub(super) fn dispatch() -> Option<Dispatch> {
    lock(&RUNNING).as_ref().map(|running| running.dispatch.clone())
}

/// Begins a profile with this subscriber.
///
/// # Errors
///
/// Returns `FAILED_PRECONDITION` if a profile is running.
pub(super) fn begin(dispatch: Dispatch) -> Result<()> {
    let mut running = lock(&RUNNING);
    if running.is_some() {
        return Err(Error::failed_precondition("another profile is running in this process; stop it first"));
    }
    COUNT.store(0, Ordering::Relaxed);
    let start_ns = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos());
    let start_ns = u64::try_from(start_ns).unwrap_or(u64::MAX);
    *running = Some(Running { start: Instant::now(), start_ns, dispatch, programs: Vec::new() });
    PROFILE.fetch_add(1, Ordering::Relaxed);
    RECORDING.store(true, Ordering::SeqCst);
    Ok(())
}

impl Recording {
    /// Ends the running profile. Returns `None` if no profile is running.
    pub(crate) fn end() -> Option<Self> {
        // Hold the lock until the logs no longer contain this profile's records, so that the next profile begins empty.
        let mut running = lock(&RUNNING);
        let Running { start, start_ns, dispatch, programs } = running.take()?;
        RECORDING.store(false, Ordering::SeqCst);
        let end = Instant::now();
        let mut threads = Vec::new();
        lock(&LOGS).retain(|log| {
            let activities = std::mem::take(&mut *lock(&log.activities));
            if !activities.is_empty() {
                threads.push((log.thread.clone(), activities));
            }
            // Drop the logs of threads that have ended, because they record nothing more.
            Arc::strong_count(log) > 1
        });
        let dropped = COUNT.load(Ordering::Relaxed).saturating_sub(LIMIT);
        drop(running);
        // Drop `dispatch` after the lock is released, because this may drop other subscribers, whose destructors may
        // run arbitrary code.
        drop(dispatch);
        // Let `tracing` disable the spans of the plugin again, so that they cost almost nothing.
        tracing::callsite::rebuild_interest_cache();
        Some(Self { start, start_ns, end, threads, programs, dropped })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Records an activity with this name.
    fn note(name: &'static str) {
        let now = Instant::now();
        record(Activity::new(name, Place::Thread, now, now));
    }

    fn names(recording: &Recording) -> Vec<&str> {
        let all = recording.threads.iter().flat_map(|(_, activities)| activities);
        all.map(|activity| &*activity.name).collect()
    }

    #[test]
    fn overlapping_profiles_keep_own_activities() {
        begin(Dispatch::none()).unwrap();
        note("first");
        let (first, second) = std::thread::scope(|scope| {
            // Simulates the moment after the recording of the first profile has ended and before its records are
            // collected.
            let logs = lock(&LOGS);
            let first = scope.spawn(|| Recording::end().expect("the first profile"));
            while is_recording() {
                std::thread::yield_now();
            }
            assert!(RUNNING.try_lock().is_err(), "another profile could begin, and lose what it recorded to the first");
            let second = scope.spawn(|| {
                begin(Dispatch::none()).unwrap();
                note("second");
                Recording::end().expect("the second profile")
            });
            drop(logs);
            (first.join().unwrap(), second.join().unwrap())
        });
        assert_eq!((names(&first), names(&second)), (vec!["first"], vec!["second"]));
        assert!(!is_recording() && Recording::end().is_none());
    }
}

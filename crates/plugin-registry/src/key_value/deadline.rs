//! Limits of operations on a server: deadlines, pauses between attempts to reach it, and sizes of values and messages.

use std::io;
use std::time::{Duration, Instant};

/// The shortest timeout for a server's answer, so that a fast server can still answer a request that is sent shortly
/// before the operation's deadline.
const LEAST: Duration = Duration::from_millis(250);

/// The first and the longest pause between two attempts.
const PAUSES: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(1));

/// Maximum size in bytes of a value that is read. Processes exchange addresses and descriptions of devices, which are
/// far smaller. By default, etcd limits requests to 1.5 MiB.
pub(super) const LARGEST_VALUE: usize = 16 << 20;

/// Maximum number of characters of a server's text that an error repeats.
const LARGEST_TEXT: usize = 500;

/// Returns the beginning of a server's text.
pub(super) fn shortened(text: &str) -> String {
    text.chars().take(LARGEST_TEXT).collect()
}

/// The deadline of an operation. `None` means no deadline, because the clock cannot represent the time.
#[derive(Clone, Copy)]
pub(super) struct Deadline(Option<Instant>);

impl Deadline {
    pub(super) fn after(timeout: Duration) -> Self {
        Self(Instant::now().checked_add(timeout))
    }

    pub(super) fn is_over(self) -> bool {
        self.0.is_some_and(|deadline| Instant::now() >= deadline)
    }

    /// Returns the time until the deadline, at most `limit`. Returns at least a millisecond, because sockets reject a
    /// timeout of zero.
    pub(super) fn left(self, limit: Duration) -> Duration {
        let left = self.0.map_or(limit, |deadline| deadline.saturating_duration_since(Instant::now()));
        left.min(limit).max(Duration::from_millis(1))
    }

    /// Returns the time until the deadline, at most `limit`, or an error after the deadline.
    pub(super) fn left_or_late(self, limit: Duration) -> io::Result<Duration> {
        if self.is_over() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(self.left(limit)) }
    }

    /// Returns the timeout for a server's answer: the time until the deadline, at most `limit`, but at least [`LEAST`].
    pub(super) fn left_to_answer(self, limit: Duration) -> Duration {
        self.left(limit).max(LEAST)
    }
}

/// Pauses between attempts. Each pause is twice as long as the previous one, up to one second.
pub(super) struct Pauses(Duration);

impl Pauses {
    pub(super) fn new() -> Self {
        Self(PAUSES.0)
    }

    /// Sleeps for the next pause, at most until the deadline.
    pub(super) fn sleep(&mut self, deadline: Deadline) {
        std::thread::sleep(deadline.left(self.0));
        self.0 = (self.0 * 2).min(PAUSES.1);
    }
}

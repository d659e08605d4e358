//! A request to end a run early.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::error::RunError;

/// A request to end a run early. All clones share one request.
///
/// A run checks for the request before each step and each iteration of a loop, including regions that run for each
/// element. A step that may take long also checks while it runs. A member of a launch may also wait for other members.
/// To end such a wait, use [`Communicator::stop`](super::Communicator::stop).
#[derive(Clone, Debug, Default)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    /// Creates a request that has not been made yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes the request. It cannot be withdrawn.
    pub fn request(&self) {
        // Relaxed ordering suffices, because no other data is passed with the flag.
        self.0.store(true, Ordering::Relaxed);
    }

    /// Returns whether the request was made.
    #[inline]
    pub fn is_requested(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Returns the flag that is set when the request is made.
    pub(crate) fn flag(&self) -> &AtomicBool {
        &self.0
    }

    /// Returns an error if the request was made.
    #[inline]
    pub(crate) fn check(stop: Option<&Self>) -> Result<(), RunError> {
        if stop.is_some_and(Self::is_requested) { Err(RunError::Stopped) } else { Ok(()) }
    }
}

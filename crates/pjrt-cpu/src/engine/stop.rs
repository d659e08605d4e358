//! A request to end a run before its time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::error::RunError;

/// Asks a run to end early. Clones are one request.
///
/// A run checks for the request before each step and each iteration of a loop, also in regions that run for each element.
/// Steps that may take long check between their parts. A member of a launch may be waiting for others meanwhile, which
/// [`World::stop`](super::World::stop) ends.
#[derive(Clone, Debug, Default)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    /// A request that has not been made.
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes the request, for good.
    pub fn request(&self) {
        // Nothing else is handed over with it.
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether it was made.
    #[inline]
    pub fn is_requested(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// An error once the request was made.
    #[inline]
    pub(crate) fn check(stop: Option<&Self>) -> Result<(), RunError> {
        if stop.is_some_and(Self::is_requested) { Err(RunError::Stopped) } else { Ok(()) }
    }
}

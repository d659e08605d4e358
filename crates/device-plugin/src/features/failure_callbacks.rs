//! Functions of the framework that a backend calls when its hardware or the process fails.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use crate::ErrorCode;

/// A failure that a backend reports to frameworks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Failure<'a> {
    /// A group of connected devices failed. The field is a value of the C enum `PJRT_Callback_Tpu_SliceFailureType`.
    Slice(i32),
    /// The backend is about to end the process because of an error.
    Fatal {
        /// The error's code.
        code: ErrorCode,
        /// The error's message.
        message: &'a str,
    },
}

type Callback = Arc<dyn Fn(&Failure<'_>) + Send + Sync>;

/// The functions that frameworks have registered for failures. A backend keeps a `FailureCallbacks`, and reports
/// failures through it.
#[derive(Clone, Default)]
pub struct FailureCallbacks(Arc<Mutex<Vec<Callback>>>);

impl FailureCallbacks {
    /// Calls the functions that are registered for this kind of failure, on this thread.
    pub fn report(&self, failure: &Failure<'_>) {
        // Release the lock before calling the functions, because a function may register another function.
        let callbacks = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        callbacks.iter().for_each(|callback| callback(failure));
    }

    pub(crate) fn add(&self, callback: Callback) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(callback);
    }
}

impl fmt::Debug for FailureCallbacks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FailureCallbacks").finish_non_exhaustive()
    }
}

//! Functions of the framework that the device calls when its hardware or its process fails.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use crate::{Backend, ErrorCode};

/// A failure that frameworks want to know about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Failure<'a> {
    /// A group of connected devices failed. The number is one of `PJRT_Callback_Tpu_SliceFailureType`.
    Slice(i32),
    /// The backend is about to end the process because of an error.
    Fatal {
        /// The error's code.
        code: ErrorCode,
        /// The error's text.
        message: &'a str,
    },
}

type Callback = Arc<dyn Fn(&Failure<'_>) + Send + Sync>;

/// The functions that the framework has registered. A backend keeps such a list, and reports failures to it.
#[derive(Clone, Default)]
pub struct FailureCallbacks(Arc<Mutex<Vec<Callback>>>);

impl FailureCallbacks {
    /// Calls the functions that are registered for this kind of failure, on this thread.
    pub fn report(&self, failure: &Failure<'_>) {
        // The functions run without the lock, because they may register others.
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

/// A device that reports failures of its hardware, and errors that end the process, before they do.
#[doc(alias = "PJRT_Callback_Extension")]
pub trait FailureReports: Backend {
    /// The list to which the SDK adds the framework's functions.
    #[doc(alias = "PJRT_Register_Callback")]
    fn failure_callbacks(&self) -> &FailureCallbacks;
}

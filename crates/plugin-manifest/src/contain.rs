//! Turns panics of vendor code into errors.

use std::any::Any;
use std::panic::AssertUnwindSafe;

use crate::{Error, Result};

/// Runs vendor code that is not called through a function of the `PJRT_Api` table, and converts a panic to an error.
pub fn contain<T>(work: impl FnOnce() -> Result<T>) -> Result<T> {
    #[expect(clippy::disallowed_methods, reason = "vendor code that runs on a completing thread or in a deleter")]
    std::panic::catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| Err(panicked(panic)))
}

/// Runs vendor code for `function`, a function of the `PJRT_Api` table that must clean up after a panic before it
/// returns. Converts a panic to an error that contains the name `function`.
pub fn contain_in<T>(function: &str, work: impl FnOnce() -> Result<T>) -> Result<T> {
    #[expect(clippy::disallowed_methods, reason = "vendor code after which the framework's memory is looked after")]
    std::panic::catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| Err(panicked(panic).context(function)))
}

/// Drops a value whose destructor may be vendor code. Use it where no error can be returned. If the destructor panics,
/// the panic is discarded, because the panic hook has already reported it.
pub fn drop_contained<T>(value: T) {
    let _ = contain(|| {
        drop(value);
        Ok(())
    });
}

/// Converts the payload of a panic to an error.
#[cold]
pub fn panicked(panic: Box<dyn Any + Send>) -> Error {
    let text = |panic: &Box<dyn Any + Send>| -> Option<String> {
        let text = panic.downcast_ref::<&str>().map(ToString::to_string);
        text.or_else(|| panic.downcast_ref::<String>().cloned())
    };
    let message = text(&panic);
    let error = Error::internal(format!("the plugin panicked: {}", message.as_deref().unwrap_or("(no message)")));
    // The vendor created the payload, and the payload's destructor may panic, too. If the payload of this second panic
    // is not a string, leak it, because its destructor might panic again.
    #[expect(clippy::disallowed_methods, reason = "the vendor's value, outside what contained the panic")]
    if let Err(again) = std::panic::catch_unwind(AssertUnwindSafe(|| drop(panic)))
        && text(&again).is_none()
    {
        std::mem::forget(again);
    }
    error
}

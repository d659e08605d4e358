//! Turns panics of vendor code into errors.

use std::any::Any;
use std::panic::AssertUnwindSafe;

use crate::{Error, Result};

/// Runs vendor code outside the functions of the table. A panic becomes an error.
pub fn contain<T>(work: impl FnOnce() -> Result<T>) -> Result<T> {
    #[expect(clippy::disallowed_methods, reason = "vendor code that runs on a completing thread or in a deleter")]
    std::panic::catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| Err(panicked(panic)))
}

/// Runs vendor code within a function of the table that must clean up after a panic. The error names the function.
pub fn contain_in<T>(function: &str, work: impl FnOnce() -> Result<T>) -> Result<T> {
    #[expect(clippy::disallowed_methods, reason = "vendor code after which the framework's memory is looked after")]
    std::panic::catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| Err(panicked(panic).context(function)))
}

/// Runs a destructor that may be the vendor's where no error can be returned. The panic is not passed on. The panic
/// hook has already reported it.
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
    // The payload belongs to the vendor, and its destructor may panic, too. The payload of such a second panic is leaked.
    #[expect(clippy::disallowed_methods, reason = "the vendor's value, outside what contained the panic")]
    if let Err(again) = std::panic::catch_unwind(AssertUnwindSafe(|| drop(panic)))
        && text(&again).is_none()
    {
        std::mem::forget(again);
    }
    error
}

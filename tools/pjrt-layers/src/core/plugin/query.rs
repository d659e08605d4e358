//! Calls that the core itself makes to the plugin.

use pjrt_sys::PJRT_Error;
use pjrt_types::ErrorCode;

use super::errors;
use super::raw_call::{destroy_error, send};
use crate::core::tables::Copies;
use crate::function::ForwardedFunction;
use crate::layer_error::LayerError;

/// Calls a function of the plugin, and returns the args struct with the results. The braces contain the input fields.
macro_rules! ask {
    ($plugin:expr, $slot:ident { $($field:ident: $value:expr),* $(,)? }) => {{
        let mut args = <pjrt_sys::slot::$slot as pjrt_sys::Slot>::Args::new();
        $(args.$field = $value;)*
        // SAFETY: L10 (queries): the handles are live.
        unsafe { $crate::core::plugin::query::<pjrt_sys::slot::$slot>($plugin, args) }
    }};
}

pub(in crate::core) use ask;

/// Calls a function of the plugin. Converts its error to a [`LayerError`], and destroys the original. Returns an error
/// with the code `UNIMPLEMENTED` if the plugin lacks the function.
///
/// # Safety
///
/// Contract L10: the handles in the arguments must be live, and the pointers must be valid.
pub(in crate::core) unsafe fn query<S>(plugin: &Copies, mut args: S::Args) -> Result<S::Args, LayerError>
where
    S: ForwardedFunction<Return = *mut PJRT_Error>,
{
    // SAFETY: this function's contract.
    let error = unsafe { send::<S>(plugin, &mut args) }
        .ok_or_else(|| LayerError::new(ErrorCode::UNIMPLEMENTED, format!("the plugin does not have {}", S::NAME)))?;
    if error.is_null() {
        return Ok(args);
    }
    // SAFETY: L4 (errors): the plugin has just returned the error.
    let described = unsafe { errors::describe(plugin, error) };
    // SAFETY: L4 (errors): the plugin has just returned the error, and this is the last use of the error.
    unsafe { destroy_error(plugin, error) };
    Err(described)
}

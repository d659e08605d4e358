//! Calls of the plugin's functions that the core makes itself.

use pjrt_sys::PJRT_Error;
use pjrt_types::ErrorCode;

use super::errors;
use super::send::{destroy_error, send};
use super::table::Copies;
use crate::function::ForwardedFunction;
use crate::layer_error::LayerError;

/// Calls a function of the plugin, and returns its arguments with the results. The macro's last part names the inputs.
macro_rules! ask {
    ($plugin:expr, $slot:ident { $($field:ident: $value:expr),* $(,)? }) => {{
        let mut args = <pjrt_sys::slot::$slot as pjrt_sys::Slot>::Args::new();
        $(args.$field = $value;)*
        // SAFETY: L10 (queries): the handles are live.
        unsafe { $crate::core::ask::query::<pjrt_sys::slot::$slot>($plugin, args) }
    }};
}

pub(super) use ask;

/// Calls a function of the plugin, and destroys its error.
///
/// # Safety
///
/// L10: the handles in the arguments are live, and their pointers are valid.
pub(super) unsafe fn query<S>(plugin: &Copies, mut args: S::Args) -> Result<S::Args, LayerError>
where
    S: ForwardedFunction<Return = *mut PJRT_Error>,
{
    // SAFETY: this function's contract.
    let error = unsafe { send::<S>(plugin, &mut args) }
        .ok_or_else(|| LayerError::new(ErrorCode::UNIMPLEMENTED, format!("the plugin does not have {}", S::NAME)))?;
    if error.is_null() {
        return Ok(args);
    }
    // SAFETY: L4 (errors): the plugin has just returned it.
    let described = unsafe { errors::describe(plugin, error) };
    // SAFETY: L4 (errors): as above, and this is its last use.
    unsafe { destroy_error(plugin, error) };
    Err(described)
}

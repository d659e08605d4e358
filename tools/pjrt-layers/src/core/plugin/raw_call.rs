//! Calls the plugin with args structs that have the sizes in the plugin's version of the API.

use pjrt_sys::{AbiStruct, PJRT_Error, PJRT_Error_Destroy_Args, slot};

use super::inside_plugin::InsidePlugin;
use crate::core::tables::Copies;
use crate::function::ForwardedFunction;

/// Calls a function of the plugin. Sets `struct_size` in the arguments to the size of the struct in the plugin's
/// version of the API. Returns `None` if the plugin lacks the function.
///
/// # Safety
///
/// Contract L10: the handles in the arguments must be live, and the pointers must be valid.
pub(in crate::core) unsafe fn send<S: ForwardedFunction>(plugin: &Copies, args: &mut S::Args) -> Option<S::Return> {
    let function = plugin.function::<S>()?;
    let size = S::Args::size_at(plugin.version().1);
    let args = std::ptr::from_mut(args);
    // SAFETY: L2 (arguments): each args struct begins with its size.
    unsafe { args.cast::<usize>().write(size) };
    let _inside = InsidePlugin::new();
    // SAFETY: L1 (plugin) and this function's contract: the plugin's function receives valid arguments.
    Some(unsafe { function(args) })
}

/// Destroys an error of the plugin. Does nothing if `error` is null.
///
/// # Safety
///
/// Contract L4: `error` must be null, or a live error of the plugin that the framework has not received.
pub(in crate::core) unsafe fn destroy_error(plugin: &Copies, error: *mut PJRT_Error) {
    if !error.is_null() {
        let mut args = PJRT_Error_Destroy_Args { error, ..PJRT_Error_Destroy_Args::new() };
        // SAFETY: this function's contract.
        unsafe { send::<slot::PJRT_Error_Destroy>(plugin, &mut args) };
    }
}

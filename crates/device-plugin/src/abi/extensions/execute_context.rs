//! `PJRT_ExecuteContext`: data that frameworks pass with an execution for its custom calls.

use plugin_macros::entry;

use crate::abi::table::handles::handles;
use crate::ffi::ExecuteContext;
use crate::{DevicePlugin, Result};

handles! {
    PJRT_ExecuteContext => ExecuteContext;
}

#[entry]
unsafe fn PJRT_ExecuteContext_Create<P: DevicePlugin>(
    args: &mut pjrt_sys::PJRT_ExecuteContext_Create_Args,
) -> Result<()> {
    args.context = Box::into_raw(Box::new(ExecuteContext::default())).cast();
    Ok(())
}

#[entry(destroys)]
unsafe fn PJRT_ExecuteContext_Destroy<P: DevicePlugin>(
    args: &mut pjrt_sys::PJRT_ExecuteContext_Destroy_Args,
) -> Result<()> {
    if !args.context.is_null() {
        // SAFETY: V2 (handles): `PJRT_ExecuteContext_Create` boxed the context, and the framework no longer uses
        // it. Each execution holds its own clone.
        drop(unsafe { Box::from_raw(args.context.cast::<ExecuteContext>()) });
    }
    Ok(())
}

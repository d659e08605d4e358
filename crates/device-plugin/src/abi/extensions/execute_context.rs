//! `PJRT_ExecuteContext`: data that frameworks pass with an execution for its custom calls.

use crate::abi::table::entry::entries;
use crate::abi::table::ffi_read::handles;
use crate::ffi::ExecuteContext;

handles! {
    PJRT_ExecuteContext => ExecuteContext;
}

entries! {
    PJRT_ExecuteContext_Create(args) {
        args.context = Box::into_raw(Box::new(ExecuteContext::default())).cast();
        Ok(())
    }

    #[destroys]
    PJRT_ExecuteContext_Destroy(args) {
        if !args.context.is_null() {
            // SAFETY: V2 (handles): `PJRT_ExecuteContext_Create` boxed the context, and the framework no longer uses
            // it. Each execution holds its own clone.
            drop(unsafe { Box::from_raw(args.context.cast::<ExecuteContext>()) });
        }
        Ok(())
    }
}

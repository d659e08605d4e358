//! `PJRT_ExecuteContext`: what frameworks pass with an execution for extensions to find.

use crate::abi::entry::entries;

/// What a `PJRT_ExecuteContext*` points to. It is empty: none of the extensions here puts anything in.
pub(crate) struct ExecuteContext {
    /// Gives each context an address of its own.
    _place: u8,
}

entries! {
    PJRT_ExecuteContext_Create(args) {
        args.context = Box::into_raw(Box::new(ExecuteContext { _place: 0 })).cast();
        Ok(())
    }

    PJRT_ExecuteContext_Destroy(args) {
        if !args.context.is_null() {
            // SAFETY: V2, this came from the box above and is given up.
            drop(unsafe { Box::from_raw(args.context.cast::<ExecuteContext>()) });
        }
        Ok(())
    }
}

//! The functions of `PJRT_Error`.

use pjrt_sys::PJRT_Error_Code;

use crate::Error;
use crate::abi::table::entry::entries;
use crate::abi::table::error_handle::{destroy, for_each_payload};

entries! {
    #[destroys]
    PJRT_Error_Destroy(args) {
        // SAFETY: V2 (handles).
        unsafe { destroy(args.error) };
        Ok(())
    }

    PJRT_Error_Message(args, error) {
        args.message = error.error.message().as_ptr().cast();
        args.message_size = error.error.message().len();
        Ok(())
    }

    PJRT_Error_GetCode(args, error) {
        args.code = PJRT_Error_Code(error.error.code().as_raw());
        Ok(())
    }

    PJRT_Error_ForEachPayload(args, error) {
        if args.visitor.is_none() {
            return Err(Error::argument("visitor is null"));
        }
        // SAFETY: V2 (handles) for the error, V4 (callbacks) for the visitor.
        unsafe { for_each_payload((&raw const *error).cast(), args.visitor, args.user_arg) };
        Ok(())
    }
}

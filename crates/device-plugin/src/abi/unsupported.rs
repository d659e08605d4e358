//! Functions this SDK does not offer: frameworks learn so from the code, people from the message.

use crate::abi::entry::{Entry, Shim};
use crate::{DevicePlugin, Error, Result};

macro_rules! unsupported {
    ($($slot:ident)*) => {
        $(impl<P: DevicePlugin> Entry<pjrt_sys::slot::$slot> for Shim<P> {
            unsafe fn call(_: &mut <pjrt_sys::slot::$slot as pjrt_sys::Slot>::Args) -> Result<()> {
                Err(Error::unimplemented("the plugin does not implement this function").unnamed())
            }
        })*
        /// Names of the functions of the table that answer `UNIMPLEMENTED`.
        pub const UNSUPPORTED: &[&str] = &[$(stringify!($slot)),*];
    };
}

unsupported! {
    PJRT_CopyToDeviceStream_Destroy
    PJRT_CopyToDeviceStream_AddChunk
    PJRT_CopyToDeviceStream_TotalBytes
    PJRT_CopyToDeviceStream_GranuleSize
    PJRT_CopyToDeviceStream_CurrentBytes
    PJRT_Compile
    PJRT_TopologyDescription_GetMemorySpaceKindIds
    PJRT_TopologyDescription_MakeCanonicalShapeForMemorySpace
}

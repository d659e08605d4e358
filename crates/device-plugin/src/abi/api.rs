//! Builds the C function table of a plugin.

use std::marker::PhantomData;

use pjrt_sys::{AbiStruct, PJRT_API_MAJOR, PJRT_API_MINOR, PJRT_Api, PJRT_Api_Version, StaticApi, for_each_slot, slot};

use crate::DevicePlugin;
use crate::abi::extensions::extension_chain::Chain;
use crate::abi::extensions::link::Link;
use crate::abi::table::entry::{Shim, entry};
use crate::abi::table::shared_api::SharedApi;
use crate::per_type::PerType;

/// The minor version of the PJRT API that the table reports. The table implements all functions of this version's
/// header.
pub const API_MINOR: i32 = 117;

// After an update to a newer header, this assertion fails until `API_MINOR` is raised. The compiler also reports a
// missing `Entry` for each new slot.
const _: () = assert!(API_MINOR as u32 == PJRT_API_MINOR);

struct Table<P>(PhantomData<P>);

/// Defines the table. The struct literal lists every slot, so no slot is null.
macro_rules! table {
    ($($slot:ident),* $(,)?) => {
        impl<P: DevicePlugin> Table<P> {
            const API: &'static PJRT_Api = &PJRT_Api {
                struct_size: PJRT_Api::STRUCT_SIZE,
                extension_start: <Chain<P> as Link>::POINTER,
                pjrt_api_version: PJRT_Api_Version {
                    struct_size: PJRT_Api_Version::STRUCT_SIZE,
                    extension_start: std::ptr::null_mut(),
                    major_version: PJRT_API_MAJOR.cast_signed(),
                    minor_version: API_MINOR,
                },
                $($slot: Some(entry::<Shim<P>, slot::$slot>),)*
            };
        }
    };
}
for_each_slot!(table);

/// Returns the function table of the plugin `P`, for a program that embeds the plugin. A shared library exports the
/// table with [`macro@crate::device_plugin`].
pub const fn api<P: DevicePlugin>() -> &'static PJRT_Api {
    Table::<P>::API
}

/// The address of each plugin's table. Frameworks recognize a plugin by this address, but the compiler may place
/// several copies of a constant at different addresses. Storing the first address makes it unique.
static TABLES: PerType<StaticApi> = PerType::new();

impl<P: DevicePlugin> SharedApi for P {
    fn shared_api() -> StaticApi {
        // SAFETY: the table is a constant. V5 (opaque types) to V7 (counting) ensure that its functions keep the
        // contract of the C API.
        *TABLES.get_or_make::<P>(|| unsafe { StaticApi::new(api::<P>()) })
    }
}

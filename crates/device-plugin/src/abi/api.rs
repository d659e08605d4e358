//! The function table of a plugin.

use std::marker::PhantomData;

use pjrt_sys::{AbiStruct, PJRT_API_MAJOR, PJRT_API_MINOR, PJRT_Api, PJRT_Api_Version, StaticApi, for_each_slot, slot};

use crate::DevicePlugin;
use crate::abi::extensions::extension_chain::Chain;
use crate::abi::extensions::link::Link;
use crate::abi::table::entry::{Shim, entry};
use crate::per_type::PerType;

/// The minor version that the table reports. It is the version of the headers for which the table was written.
pub const API_MINOR: i32 = 117;

// A newer header requires a decision about each new slot. The compiler then reports a missing `Entry`.
const _: () = assert!(API_MINOR as u32 == PJRT_API_MINOR);

struct Table<P>(PhantomData<P>);

/// The literal lists every slot, so no slot can be null.
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

/// Returns the table of the plugin `P`, for a program that embeds it. A shared library exports it with
/// [`macro@crate::device_plugin`].
pub const fn api<P: DevicePlugin>() -> &'static PJRT_Api {
    Table::<P>::API
}

/// The tables of the plugins, each at one address. Frameworks recognize a plugin by the address of its table, and a
/// constant may have several addresses.
static TABLES: PerType<StaticApi> = PerType::new();

/// Returns the table of the plugin `P`, and asserts that it keeps the interface's contract. Always returns the same
/// table.
pub(crate) fn shared_api<P: DevicePlugin>() -> StaticApi {
    // SAFETY: the table is a constant, and V5 (opaque types) to V7 (counting) say that its functions keep the contract.
    *TABLES.get_or_make::<P>(|| unsafe { StaticApi::new(api::<P>()) })
}

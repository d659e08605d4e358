//! Version of this library.

use pjrt_c_macros::c_function;
use plugin_manifest::c_view::capabilities::dp_string;

/// Version of the binary interface of this header. A library with a larger version also supports the interfaces with
/// smaller versions.
pub const DP_ABI_VERSION: u32 = 1;

/// Returns `DP_ABI_VERSION` of the library in use. Compare it with `DP_ABI_VERSION` of the header.
#[c_function]
pub fn dp_abi_version() -> u32 {
    DP_ABI_VERSION
}

/// Returns the version of the library in use, such as `0.1.0`. The string is valid until the process ends.
#[c_function]
pub fn dp_version() -> dp_string {
    const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "\0");
    dp_string { data: VERSION.as_ptr().cast(), size: VERSION.len() - 1 }
}

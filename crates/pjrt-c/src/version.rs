//! The library's version.

use plugin_manifest::describe::capabilities::dp_string;

/// Version of this header's binary interface. A library with a larger number also supports the interfaces with smaller
/// numbers.
pub const DP_ABI_VERSION: u32 = 1;

/// Returns `DP_ABI_VERSION` of the library in use. Compare it with that of the header.
#[unsafe(no_mangle)]
pub extern "C" fn dp_abi_version() -> u32 {
    DP_ABI_VERSION
}

/// Returns the version of the library in use, such as `0.1.0`. Valid until the process ends.
#[unsafe(no_mangle)]
pub extern "C" fn dp_version() -> dp_string {
    const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "\0");
    dp_string { data: VERSION.as_ptr().cast(), size: VERSION.len() - 1 }
}

//! The description of a plugin for C, which `DevicePlugin_GetDescriptor` returns.
//!
//! Text is a `dp_string` in UTF-8. The non-empty strings of a `dp_descriptor` that this crate creates also end with a
//! NUL.
//!
//! Each struct begins with its size, and new versions only append fields, so that plugins and frameworks of different
//! versions can read each other's structs. A reader accesses only the bytes within the size that the struct states, and
//! treats all other fields as zero. The contracts between plugins and readers are D1 to D5 of `docs/safety.md`.

mod exported;
mod plan;
mod read;
mod strings;
mod structs;
#[cfg(test)]
mod tests;
mod topology;

pub use exported::{CDescriptor, ExportedPlugin};
pub use structs::{
    DP_DEPTH_ATTRIBUTES, DP_DEPTH_COMPILE, DP_DEPTH_NAMES, DP_DEPTH_TYPES, DP_DESCRIPTOR_VERSION, DP_DEVICE_SHARE_ALL,
    DP_DEVICE_SHARE_DEFAULT, DP_DEVICE_SHARE_ONE, DP_GET_DESCRIPTOR, DP_LIBRARY_BESIDE, DP_LIBRARY_COMPUTED,
    DP_LIBRARY_PATH, DP_LIBRARY_THIS, depth_from_raw, dp_configure, dp_descriptor, dp_get_pjrt_api, dp_library_path,
    dp_shutdown, dp_sink, dp_supports, dp_topology, dp_variable,
};
pub use topology::CTopology;

//! The structs, constants and function types of the C interface.
#![allow(non_camel_case_types, reason = "the names of the C interface")]

use std::ffi::{c_char, c_void};

use pjrt_sys::PJRT_Api;

use crate::c_view::capabilities::{dp_capabilities, dp_string};
use crate::names::Code;
use crate::{Depth, Error, Result};

/// Name of the function by which a shared library describes its plugin: `const dp_descriptor* (void)`. The function
/// never returns null.
pub const DP_GET_DESCRIPTOR: &str = "DevicePlugin_GetDescriptor";

/// Version of the interface. Readers reject descriptors of other versions. Appending fields does not change the
/// version.
pub const DP_DESCRIPTOR_VERSION: u32 = 1;

/// The function `get_pjrt_api` returns the PJRT table.
pub const DP_LIBRARY_THIS: u32 = 1;
/// The PJRT library is the file `library` in the folder of the library that exports the descriptor.
pub const DP_LIBRARY_BESIDE: u32 = 2;
/// The PJRT library is the file `library`: a path, or a bare name for which the dynamic loader searches.
pub const DP_LIBRARY_PATH: u32 = 3;
/// The function `library_path` returns the path of the PJRT library.
pub const DP_LIBRARY_COMPUTED: u32 = 4;

/// Default: one device if the process shares its host, otherwise all devices.
pub const DP_DEVICE_SHARE_DEFAULT: u32 = 0;
/// The process uses one device: the one whose index on the host is the local rank.
pub const DP_DEVICE_SHARE_ONE: u32 = 1;
/// The process uses all devices of its host.
pub const DP_DEVICE_SHARE_ALL: u32 = 2;

/// Check the names of the program's operations.
pub const DP_DEPTH_NAMES: u32 = 1;
/// Check the names and attributes of the operations.
pub const DP_DEPTH_ATTRIBUTES: u32 = 2;
/// Check the names, attributes and types of the operations.
pub const DP_DEPTH_TYPES: u32 = 3;
/// Check everything that the compiler checks.
pub const DP_DEPTH_COMPILE: u32 = 4;

/// An environment variable. This struct never grows, because it is an element of arrays.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct dp_variable {
    /// Name of the variable.
    pub name: dp_string,
    /// Value of the variable, which may be empty.
    pub value: dp_string,
}

/// Position of a process among the processes that run one program together.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct dp_topology {
    /// Size of this struct in bytes, according to the header of the code that fills it in.
    pub struct_size: usize,
    /// Rank among all processes.
    pub global_rank: u32,
    /// Number of processes. 0 means a single process. Readers then ignore all ranks, indices and counts.
    pub world_size: u32,
    /// Rank among the processes on this host.
    pub local_rank: u32,
    /// Number of processes on this host.
    pub local_world_size: u32,
    /// Index of this host among the hosts of all slices.
    pub host_index: u32,
    /// Number of hosts of all slices.
    pub host_count: u32,
    /// Index of the slice that contains this host. A slice is a group of hosts whose devices share a network.
    pub slice_index: u32,
    /// Number of slices. 0 and 1 both mean a single slice.
    pub slice_count: u32,
    /// Devices of the host that the process uses: one of `DP_DEVICE_SHARE_*`.
    pub device_share: u32,
    /// Reserved. Set it to 0.
    pub reserved: u32,
    /// Address on which the coordinator listens, as `host:port`. Empty if unknown.
    pub coordinator: dp_string,
    /// Names of the hosts of this process's slice, in the order of their indices. Null if unknown.
    pub hosts: *const dp_string,
    /// Number of elements of `hosts`.
    pub num_hosts: usize,
    /// Other known properties of the process, each under the name of its environment variable.
    pub attributes: *const dp_variable,
    /// Number of elements of `attributes`.
    pub num_attributes: usize,
}

/// Receives the result of a function as UTF-8 text, which is valid only during the call. `user` is the pointer that the
/// caller passed with the sink. The function calls the sink once, before it returns and on the same thread.
pub type dp_sink = Option<unsafe extern "C" fn(user: *mut c_void, data: *const c_char, len: usize)>;

/// Returns the PJRT table, or null on failure. Every call returns the same pointer.
pub type dp_get_pjrt_api = Option<unsafe extern "C" fn() -> *const PJRT_Api>;

/// Passes the path of the PJRT library to `sink` and returns 0, or passes an error message and returns a
/// `PJRT_Error_Code`.
pub type dp_library_path = Option<unsafe extern "C" fn(sink: dp_sink, user: *mut c_void) -> u32>;

/// Computes the set-up of one process. Passes the plan to `sink` as JSON and returns 0, or passes an error message and
/// returns a `PJRT_Error_Code`. `environment` holds the variables of that process. The plan is an object with these
/// fields:
///
/// - `steps`, a list of `{"variable": …, "value": …, "set": "default" or "override", "before": "load" or "client",
///   "reason": …}`;
/// - `options`, a list of `{"name": …, "type": …, "value": …, "reason": …}` for `PJRT_Client_Create`, where the type is
///   `string`, `int64`, `int64_list`, `float` or `bool`; and
/// - `coordinator`, the `host:port` of the key-value store that clients need, or null.
///
/// All three fields may be omitted. A step requires only `variable` and `value`, and an option requires all but
/// `reason`.
pub type dp_configure = Option<
    unsafe extern "C" fn(
        topology: *const dp_topology,
        environment: *const dp_variable,
        num_environment: usize,
        sink: dp_sink,
        user: *mut c_void,
    ) -> u32,
>;

/// Checks whether the devices can run the program `code`, which has a format such as `mlir`. Passes the answer to
/// `sink` as JSON and returns 0, or passes an error message and returns a `PJRT_Error_Code`. Returns
/// `PJRT_Error_Code_UNIMPLEMENTED` if only the manifest describes the supported programs. `depth` is one of
/// `DP_DEPTH_*`. The answer is an object with these fields:
///
/// - `answer`: `yes`, `no` or `maybe`; and
/// - `reasons`, for `no` and `maybe`, a list of `{"operation": …, "attribute": …, "type": …, "location": …, "count": …,
///   "message": …}`, where only the message is required.
pub type dp_supports = Option<
    unsafe extern "C" fn(format: dp_string, code: dp_string, depth: u32, sink: dp_sink, user: *mut c_void) -> u32,
>;

/// Shuts down the plugin. Called once, after the last client is destroyed.
pub type dp_shutdown = Option<unsafe extern "C" fn()>;

/// A plugin's description. It remains valid and unchanged until the process ends.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct dp_descriptor {
    /// Size of this struct in bytes, according to the header of the plugin.
    pub struct_size: usize,
    /// `DP_DESCRIPTOR_VERSION`.
    pub version: u32,
    /// How to find the PJRT library: one of `DP_LIBRARY_*`.
    pub library_kind: u32,
    /// Reason why the plugin cannot be described. If this string is not empty, ignore all fields after `name`.
    pub error: dp_string,
    /// Name by which frameworks register the plugin.
    pub name: dp_string,
    /// The complete description, as the JSON of `pjrt_plugin.json`. Empty if the plugin provides only a name and
    /// `capabilities`.
    pub manifest: dp_string,
    /// File of the PJRT library, for `DP_LIBRARY_BESIDE` and `DP_LIBRARY_PATH`.
    pub library: dp_string,
    /// Capabilities of the plugin's devices. May be null. If the manifest contains capabilities, they take precedence.
    pub capabilities: *const dp_capabilities,
    /// Returns the PJRT table, for `DP_LIBRARY_THIS`.
    pub get_pjrt_api: dp_get_pjrt_api,
    /// Returns the path of the PJRT library, for `DP_LIBRARY_COMPUTED`.
    pub library_path: dp_library_path,
    /// Computes the set-up of one process. Null if the manifest's plan is complete.
    pub configure: dp_configure,
    /// Shuts down the plugin. May be null.
    pub shutdown: dp_shutdown,
    /// Checks whether the devices can run a program. Null if only the manifest describes the supported programs.
    pub supports: dp_supports,
}

/// Converts one of `DP_DEPTH_*` to the depth.
///
/// # Errors
///
/// Returns `INVALID_ARGUMENT` if `raw` is not one of `DP_DEPTH_*`.
pub fn depth_from_raw(raw: u32) -> Result<Depth> {
    Depth::from_code(raw).ok_or_else(|| {
        Error::invalid_argument(format!("depth is {raw}; it must be DP_DEPTH_NAMES, _ATTRIBUTES, _TYPES or _COMPILE"))
    })
}

impl dp_descriptor {
    /// A descriptor without data.
    pub(crate) const EMPTY: Self = Self {
        struct_size: size_of::<Self>(),
        version: DP_DESCRIPTOR_VERSION,
        library_kind: 0,
        error: dp_string::EMPTY,
        name: dp_string::EMPTY,
        manifest: dp_string::EMPTY,
        library: dp_string::EMPTY,
        capabilities: std::ptr::null(),
        get_pjrt_api: None,
        library_path: None,
        configure: None,
        shutdown: None,
        supports: None,
    };
}

//! `dp_backend`: the functions of a vendor's driver.

use std::ffi::{c_char, c_void};

use crate::border::error::{dp_code, dp_error};
use crate::border::sized::struct_sizes;
use crate::buffer::dp_shape;
use crate::program::{dp_compile_options, dp_program};
use crate::registry::dp_options;
use crate::stablehlo::dp_module;
use crate::vendor::completer::dp_completer;

/// The functions of a vendor's driver, from which `dp_backend_api` makes a plugin. The table of PJRT, events, errors,
/// reference counts, donation, strides, layouts and checks of arguments come from this library.
///
/// Functions may be called on any thread, and several at the same time. A function that fails returns a code other than
/// `DP_OK` and stores an error from `dp_error_new` in `error`. No exception may leave a function.
///
/// Set the struct to zero, then `struct_size`, the name and all functions that are not optional. It must stay valid
/// until the process ends.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct dp_backend {
    /// `sizeof(dp_backend)`, set by the vendor.
    pub struct_size: usize,
    /// The plugin's name, which is also the platform name: a lower-case letter, then lower-case letters, digits and
    /// underscores.
    pub name: *const c_char,
    /// The version of the driver, such as `1.2.0`. It must not be empty, because caches of programs contain it.
    pub version: *const c_char,
    /// What the plugin declares, as the JSON text of a `pjrt_plugin.json` with the same name. NULL if it is only the
    /// name.
    pub manifest_json: *const c_char,
    /// Opens the devices, and stores the vendor's object for them. `options` belong to the caller.
    pub create: Option<
        unsafe extern "C" fn(options: *const dp_options, out: *mut *mut c_void, error: *mut *mut dp_error) -> dp_code,
    >,
    /// Closes the devices. No other function is called with `client` afterwards, and all work must have ended when it
    /// returns.
    pub destroy: Option<unsafe extern "C" fn(client: *mut c_void)>,
    /// Returns the number of devices, which is at least 1 and never changes.
    pub device_count: Option<unsafe extern "C" fn(client: *mut c_void) -> usize>,
    /// Describes the device at `index`: sets fields of `out`, which has default values.
    pub describe_device: Option<
        unsafe extern "C" fn(
            client: *mut c_void,
            index: usize,
            out: *mut dp_device_info,
            error: *mut *mut dp_error,
        ) -> dp_code,
    >,
    /// Copies an array to a device, and stores the vendor's object for the buffer.
    pub buffer_from_host: Option<
        unsafe extern "C" fn(
            client: *mut c_void,
            array: *mut dp_host_array,
            out: *mut *mut c_void,
            error: *mut *mut dp_error,
        ) -> dp_code,
    >,
    /// Frees a buffer. It is called once for each buffer, when neither a framework nor a run uses it.
    pub destroy_buffer: Option<unsafe extern "C" fn(client: *mut c_void, buffer: *mut c_void)>,
    /// Copies the contents of a buffer to `data`, row-major without gaps. Elements with fewer than 8 bits have one byte
    /// each.
    pub read: Option<
        unsafe extern "C" fn(
            client: *mut c_void,
            buffer: *mut c_void,
            data: *mut c_void,
            size: usize,
            error: *mut *mut dp_error,
        ) -> dp_code,
    >,
    /// Compiles a program, and stores the vendor's object for it. `module` is the program as it was read and checked.
    /// An op that the device does not support is the error `DP_UNIMPLEMENTED`. All objects belong to the caller.
    pub compile: Option<
        unsafe extern "C" fn(
            client: *mut c_void,
            module: *const dp_module,
            program: *const dp_program,
            options: *const dp_compile_options,
            out: *mut *mut c_void,
            error: *mut *mut dp_error,
        ) -> dp_code,
    >,
    /// Frees a compiled program.
    pub destroy_executable: Option<unsafe extern "C" fn(client: *mut c_void, executable: *mut c_void)>,
    /// Runs a program on one device: reads the inputs of `launch`, and stores its outputs.
    pub execute: Option<
        unsafe extern "C" fn(
            client: *mut c_void,
            executable: *mut c_void,
            launch: *mut dp_launch,
            error: *mut *mut dp_error,
        ) -> dp_code,
    >,
    /// Fills the use of a device's memory: `bytes_in_use`, and `bytes_limit` or -1. Optional.
    pub memory_stats: Option<
        unsafe extern "C" fn(
            client: *mut c_void,
            device: usize,
            bytes_in_use: *mut i64,
            bytes_limit: *mut i64,
            error: *mut *mut dp_error,
        ) -> dp_code,
    >,
}

struct_sizes!(dp_backend);

/// The properties of a device.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct dp_device_info {
    /// `sizeof(dp_device_info)` of this library.
    pub struct_size: usize,
    /// The id, unique among all processes. The default is the index.
    pub id: i32,
    /// The process that can use the device. The default is 0.
    pub process_index: i32,
    /// The number by which the driver knows the device. The default is the index.
    pub local_hardware_id: i32,
    /// Whether this process can use the device. The default is true.
    pub is_addressable: bool,
    /// The kind of hardware, such as `Example v2`. The text is copied. The default is the plugin's name.
    pub kind: *const c_char,
}

/// An array on the host, and the place on a device that gets it.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct dp_host_array {
    /// `sizeof(dp_host_array)` of this library.
    pub struct_size: usize,
    /// The elements, row-major without gaps, which are valid during the call. Elements with fewer than 8 bits have one
    /// byte each.
    pub data: *const c_void,
    /// Size of the elements in bytes.
    pub size: usize,
    /// The element type and the extents, which are valid during the call.
    pub shape: dp_shape,
    /// The index of the device.
    pub device: usize,
    /// NULL. If the transfer has not ended when the function returns, the vendor stores a reference to a completer
    /// here, which it completes later. It must copy the elements before the function returns.
    pub done: *mut dp_completer,
}

/// A run of a program on one device. The struct and its arrays are valid during the call; the buffers of the inputs are
/// valid until the run has ended. After an error, the outputs that were stored are freed.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct dp_launch {
    /// `sizeof(dp_launch)` of this library.
    pub struct_size: usize,
    /// The index of the device.
    pub device: usize,
    /// The number that runs of one launch on several devices have in common.
    pub launch_id: i32,
    /// Always 0.
    pub reserved: i32,
    /// The buffers of the arguments. An argument may have more or fewer dimensions of extent 1 than the parameter, such
    /// as `f32[1]` for `f32[]`.
    pub inputs: *const *mut c_void,
    /// Whether each input is donated: the vendor may store it as an output, which then has its memory.
    pub donated: *const bool,
    /// The number of inputs.
    pub inputs_size: usize,
    /// The places for the outputs. The vendor stores a buffer in each, which belongs to the caller then. An output is
    /// never an input, unless the input is donated.
    pub outputs: *mut *mut c_void,
    /// The number of outputs.
    pub outputs_size: usize,
    /// NULL. If the run has not ended when the function returns, the vendor stores a reference to a completer here,
    /// which it completes later.
    pub done: *mut dp_completer,
}

//! `dp_compile_options`: options for compiling a program.

use pjrt::{CompileOptions, DeviceAssignment, OptionOverride};
use pjrt_c_macros::c_function;

use crate::border::bytes::dp_bytes;
use crate::border::error::{dp_code, dp_error};
use crate::border::failure::{Failure, Outcome};
use crate::border::handle;
use crate::border::handle::Owned;
use crate::border::memory::Name;

/// Options for compiling a program. New options are those for one device.
#[derive(Default)]
pub struct dp_compile_options {
    pub(crate) inner: CompileOptions,
}

/// Creates the options for a program on one device.
#[c_function]
pub fn dp_compile_options_new() -> *mut dp_compile_options {
    handle::give(dp_compile_options::default())
}

/// Reads options from a serialized `CompileOptionsProto`. Fields that this library does not know are kept.
#[c_function]
pub fn dp_compile_options_decode(proto: &[u8]) -> Outcome<Owned<dp_compile_options>> {
    let inner = CompileOptions::decode(proto);
    let inner = inner.map_err(|error| Failure::argument(format!("`proto` is not a CompileOptionsProto: {error}")))?;
    Ok(Owned(dp_compile_options { inner }))
}

/// Serializes the options as `CompileOptionsProto`, for calls of functions that this interface lacks.
#[c_function]
pub fn dp_compile_options_encode(options: &dp_compile_options) -> Outcome<Owned<dp_bytes>> {
    Ok(Owned(dp_bytes::new(options.inner.encode())))
}

/// Sets on how many groups of devices the program runs with different data. At least 1.
#[c_function]
pub fn dp_compile_options_set_num_replicas(options: &mut dp_compile_options, replicas: i64) -> Outcome<()> {
    options.inner.num_replicas = positive(replicas, "replicas")?;
    Ok(())
}

/// Sets into how many parts the compiler divides the program. At least 1.
#[c_function]
pub fn dp_compile_options_set_num_partitions(options: &mut dp_compile_options, partitions: i64) -> Outcome<()> {
    options.inner.num_partitions = positive(partitions, "partitions")?;
    Ok(())
}

fn positive(value: i64, parameter: &str) -> Outcome<i64> {
    if value >= 1 {
        Ok(value)
    } else {
        Err(Failure::argument(format!("`{parameter}` is {value}; it must be at least 1")))
    }
}

/// Sets the device for a program on one device, by its position among the client's devices. -1 means the first
/// addressable device.
#[c_function]
pub fn dp_compile_options_set_device_ordinal(options: &mut dp_compile_options, ordinal: i64) -> Outcome<()> {
    options.inner.device_ordinal = ordinal;
    Ok(())
}

/// Sets the ids of the devices: first those of the partitions of replica 0, then those of replica 1, and so on.
/// `devices_size` must be `replicas * partitions`. Also sets the numbers of replicas and partitions.
#[c_function]
pub fn dp_compile_options_set_device_assignment(
    options: &mut dp_compile_options,
    replicas: usize,
    partitions: usize,
    devices: &[i64],
) -> Outcome<()> {
    let given = devices.len();
    let wrong = || {
        let message =
            format!("`devices_size` is {given}, but {replicas} replicas with {partitions} partitions are given");
        Failure::argument(message)
    };
    let assignment = DeviceAssignment::new(replicas, partitions, devices.to_vec()).ok_or_else(wrong)?;
    options.inner.num_replicas = positive(i64::try_from(replicas).map_err(|_| wrong())?, "replicas")?;
    options.inner.num_partitions = positive(i64::try_from(partitions).map_err(|_| wrong())?, "partitions")?;
    options.inner.device_assignment = Some(assignment);
    Ok(())
}

/// Sets whether the compiler partitions the program by its sharding annotations.
#[c_function]
pub fn dp_compile_options_set_spmd_partitioning(options: &mut dp_compile_options, enabled: bool) -> Outcome<()> {
    options.inner.use_spmd_partitioning = enabled;
    Ok(())
}

/// Sets whether the sharding annotations are those of Shardy.
#[c_function]
pub fn dp_compile_options_set_shardy_partitioner(options: &mut dp_compile_options, enabled: bool) -> Outcome<()> {
    options.inner.use_shardy_partitioner = enabled;
    Ok(())
}

/// Sets whether the program can run on any device of its kind, which `dp_execute_options_set_device` chooses.
#[c_function]
pub fn dp_compile_options_set_portable_executable(options: &mut dp_compile_options, enabled: bool) -> Outcome<()> {
    options.inner.compile_portable_executable = enabled;
    Ok(())
}

/// Sets an option of the compiler, such as `xla_cpu_enable_fast_math`, to text. Compilers also convert text to other
/// types.
#[c_function]
pub fn dp_compile_options_override_string(
    options: &mut dp_compile_options,
    name: Name<'_>,
    value: &str,
) -> Outcome<()> {
    set(options, name, OptionOverride::String(value.to_owned()))
}

/// Sets an option of the compiler to a boolean.
#[c_function]
pub fn dp_compile_options_override_bool(options: &mut dp_compile_options, name: Name<'_>, value: bool) -> Outcome<()> {
    set(options, name, OptionOverride::Bool(value))
}

/// Sets an option of the compiler to an integer.
#[c_function]
pub fn dp_compile_options_override_int64(options: &mut dp_compile_options, name: Name<'_>, value: i64) -> Outcome<()> {
    set(options, name, OptionOverride::Int64(value))
}

/// Sets an option of the compiler to a number.
#[c_function]
pub fn dp_compile_options_override_double(options: &mut dp_compile_options, name: Name<'_>, value: f64) -> Outcome<()> {
    set(options, name, OptionOverride::Double(value))
}

fn set(options: &mut dp_compile_options, name: &str, value: OptionOverride) -> Outcome<()> {
    options.inner.env_option_overrides.insert(name.to_owned(), value);
    Ok(())
}

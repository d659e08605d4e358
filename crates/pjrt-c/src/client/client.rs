//! `dp_client`: a connection to the devices of a plugin.

use std::time::Duration;

use pjrt::raw::AsRaw;
use pjrt::{Client, ClientOptions, CompileOptions, LoadOptions, SerializedExecutable};
use pjrt_c_macros::c_function;
use pjrt_sys::{PJRT_Api, PJRT_Client};
use plugin_manifest::StaticApi;
use plugin_manifest::c_view::capabilities::dp_string;

use crate::border::error::{dp_code, dp_error};
use crate::border::failure::{Failure, Outcome};
use crate::border::handle::Owned;
use crate::border::memory;
use crate::border::memory::Fill;
use crate::border::text::Lazy;
use crate::buffer::dp_settable_event;
use crate::client::key_value::dp_key_value_store;
use crate::client::objects::device_at;
use crate::client::objects::dp_device;
use crate::client::objects::dp_memory;
use crate::client::topology::dp_topology_description;
use crate::program::{dp_compile_options, dp_executable, dp_loaded_executable, dp_program};
use crate::registry::{dp_options, dp_plugin};

/// A connection to the devices of a plugin. Buffers, executables, devices and other objects of a client keep it alive,
/// so they can be released in any order.
pub struct dp_client {
    pub(crate) inner: Client,
    platform_name: Lazy,
    platform_version: Lazy,
}

impl dp_client {
    pub(crate) fn new(inner: Client) -> Self {
        Self { inner, platform_name: Lazy::default(), platform_version: Lazy::default() }
    }
}

/// Creates a client of the plugin, and loads the plugin before if it is not loaded. `options` are checked against the
/// plugin's schema, as by `dp_plugin_client_options`, and may be NULL. `store` connects the processes of one
/// computation, and may be NULL for a process that computes alone. The client holds a lease of the plugin. Mirrors
/// `PJRT_Client_Create`.
///
/// Returns `DP_RESOURCE_EXHAUSTED` if the devices support one client at a time and another client exists.
#[c_function]
pub fn dp_plugin_create_client(
    plugin: &dp_plugin,
    options: Option<&dp_options>,
    store: Option<&dp_key_value_store>,
) -> Outcome<Owned<dp_client>> {
    let mut all = ClientOptions::new();
    for named in options.map(dp_options::to_values).unwrap_or_default() {
        all = all.with(named.name, named.value);
    }
    if let Some(store) = store {
        all = all.with_key_value_store(store.inner.clone());
    }
    Ok(Owned(dp_client::new(plugin.entry.load()?.client(&all)?)))
}

/// Takes over a client that the program created itself with `PJRT_Client_Create` of `api`. It is destroyed with the
/// last object that uses it, so the program must not destroy it. After an error, the client still belongs to the
/// program.
///
/// The program must have initialized the plugin with `PJRT_Plugin_Initialize`, and `client` must be a client of `api`.
#[c_function]
pub fn dp_client_adopt(api: StaticApi, client: *mut PJRT_Client) -> Outcome<Owned<dp_client>> {
    if client.is_null() || !client.is_aligned() {
        return Err(Failure::argument("`client` is not a PJRT_Client; pass the result of PJRT_Client_Create"));
    }
    // SAFETY: K5 (tables keep C1 to C11).
    let plugin = unsafe { pjrt::raw::adopt_plugin(api.as_raw()) }.map_err(pjrt::Error::from)?;
    // SAFETY: K5 (a client to adopt belongs to its table and to nobody else).
    Ok(Owned(dp_client::new(unsafe { pjrt::raw::adopt_client(&plugin, client) }?)))
}

/// Returns the client's object of PJRT, which is valid as long as the client, for calls of functions that this
/// interface lacks. Do not destroy it. Returns NULL if `client` is not a client.
#[c_function]
pub fn dp_client_raw(client: &dp_client) -> *mut PJRT_Client {
    client.inner.as_raw()
}

/// Returns the function table of the client's plugin, which is valid until the process ends. Returns NULL if `client`
/// is not a client.
#[c_function]
pub fn dp_client_api(client: &dp_client) -> *const PJRT_Api {
    client.inner.plugin().api().as_raw()
}

/// Returns the name of the platform, such as `cpu`, `cuda` or `tpu`. The text belongs to the client.
#[c_function]
pub fn dp_client_platform_name(client: &dp_client) -> Outcome<dp_string> {
    client.platform_name.get(|| client.inner.platform_name())
}

/// Returns the version of the platform, for display. The text belongs to the client.
#[c_function]
pub fn dp_client_platform_version(client: &dp_client) -> Outcome<dp_string> {
    client.platform_version.get(|| client.inner.platform_version())
}

/// Returns the index of this process among the processes of the computation, or 0 for a single process.
#[c_function]
pub fn dp_client_process_index(client: &dp_client) -> Outcome<i32> {
    Ok(client.inner.process_index()?)
}

/// Returns the number of devices, including those of other processes.
#[c_function]
pub fn dp_client_device_count(client: &dp_client) -> Outcome<usize> {
    Ok(client.inner.devices()?.len())
}

/// Returns the device at `index`, counted from 0, among all devices.
#[c_function]
pub fn dp_client_device_at(client: &dp_client, index: usize) -> Outcome<Owned<dp_device>> {
    device_at(client.inner.devices()?, index)
}

/// Returns the number of devices that this process can use.
#[c_function]
pub fn dp_client_addressable_device_count(client: &dp_client) -> Outcome<usize> {
    Ok(client.inner.addressable_devices()?.len())
}

/// Returns the device at `index`, counted from 0, among those that this process can use. Index 0 is the device that
/// receives uploads without another destination.
#[c_function]
pub fn dp_client_addressable_device_at(client: &dp_client, index: usize) -> Outcome<Owned<dp_device>> {
    device_at(client.inner.addressable_devices()?, index)
}

/// Returns the device with the id `id`, which is unique among all processes.
#[c_function]
pub fn dp_client_lookup_device(client: &dp_client, id: i32) -> Outcome<Owned<dp_device>> {
    Ok(Owned(dp_device::new(client.inner.lookup_device(id)?)))
}

/// Returns the device of this process with the hardware id `local_hardware_id`.
#[c_function]
pub fn dp_client_lookup_addressable_device(client: &dp_client, local_hardware_id: i32) -> Outcome<Owned<dp_device>> {
    Ok(Owned(dp_device::new(client.inner.lookup_addressable_device(local_hardware_id)?)))
}

/// Returns the number of memories that this process can use.
#[c_function]
pub fn dp_client_memory_count(client: &dp_client) -> Outcome<usize> {
    Ok(client.inner.memories()?.len())
}

/// Returns the memory at `index`, counted from 0, among those that this process can use.
#[c_function]
pub fn dp_client_memory_at(client: &dp_client, index: usize) -> Outcome<Owned<dp_memory>> {
    Ok(Owned(dp_memory::new(memory::at(&client.inner.memories()?, index)?.clone())))
}

/// Fills `devices` with the ids of the devices that a program with this many replicas and partitions uses by default:
/// first the partitions of replica 0, then those of replica 1, and so on. `devices_size` must be `replicas *
/// partitions`.
#[c_function]
pub fn dp_client_default_device_assignment(
    client: &dp_client,
    replicas: usize,
    partitions: usize,
    devices: Fill<i64>,
) -> Outcome<()> {
    devices.all(client.inner.default_device_assignment(replicas, partitions)?.devices())
}

/// Returns the description of the client's devices and their connections.
#[c_function]
pub fn dp_client_topology(client: &dp_client) -> Outcome<Owned<dp_topology_description>> {
    Ok(Owned(dp_topology_description::new(client.inner.topology()?)))
}

/// Compiles a program for the client's devices, and loads it. `options` may be NULL: one replica, one partition.
#[c_function]
pub fn dp_client_compile(
    client: &dp_client,
    program: &dp_program,
    options: Option<&dp_compile_options>,
) -> Outcome<Owned<dp_loaded_executable>> {
    let nothing = CompileOptions::default();
    let options = options.map_or(&nothing, |options| &options.inner);
    Ok(Owned(dp_loaded_executable::new(client.inner.compile(&program.inner, options)?)))
}

/// Loads a compiled program. `options` may be NULL; they override the options with which the program was compiled.
#[c_function]
pub fn dp_client_load(
    client: &dp_client,
    executable: &dp_executable,
    options: Option<&dp_compile_options>,
) -> Outcome<Owned<dp_loaded_executable>> {
    let nothing = CompileOptions::default();
    let options = options.map_or(&nothing, |options| &options.inner);
    Ok(Owned(dp_loaded_executable::new(client.inner.load_executable(executable.get(), options)?)))
}

/// Loads a program from the result of `dp_executable_serialize`. Its checksum, and the plugin, platform and version
/// that wrote it are compared with the client's before the plugin sees the bytes. `options` may be NULL; they override
/// the options with which the program was compiled.
#[c_function]
pub fn dp_client_deserialize_and_load(
    client: &dp_client,
    serialized: &[u8],
    options: Option<&dp_compile_options>,
) -> Outcome<Owned<dp_loaded_executable>> {
    let serialized = SerializedExecutable::from_bytes(serialized)?;
    let mut load = LoadOptions::new();
    if let Some(options) = options {
        load = load.with_overridden_compile_options(options.inner.clone());
    }
    Ok(Owned(dp_loaded_executable::new(client.inner.deserialize_and_load_with(&serialized, &load)?)))
}

/// Creates an event that the program sets itself with `dp_settable_event_set`. Needs API 0.90 or later.
#[c_function]
pub fn dp_client_create_event(client: &dp_client) -> Outcome<Owned<dp_settable_event>> {
    Ok(Owned(dp_settable_event::new(pjrt::SettableEvent::new(&client.inner)?)?))
}

/// Waits until the client has finished all transfers of lent memory, and all runs if the client tracks them, or until
/// `timeout_ms` milliseconds are over. Then returns `DP_DEADLINE_EXCEEDED`.
#[c_function]
pub fn dp_client_synchronize(client: &dp_client, timeout_ms: u64) -> Outcome<()> {
    Ok(client.inner.synchronize(Duration::from_millis(timeout_ms))?)
}

/// Sets how long the end of the process waits for programs that still run, in milliseconds. The default is 5,000. A
/// plugin whose work is cut off may crash the process.
#[c_function]
pub fn dp_set_exit_wait(milliseconds: u64) {
    pjrt::set_exit_wait(Duration::from_millis(milliseconds));
}

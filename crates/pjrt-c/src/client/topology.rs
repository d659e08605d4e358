//! `dp_topology_description`: devices and their connections, for compiling without them.

use pjrt::{CompileOptions, SerializedTopology, TopologyDescription};
use pjrt_c_macros::c_function;
use plugin_manifest::c_view::capabilities::dp_string;

use crate::border::bytes::dp_bytes;
use crate::border::error::{dp_code, dp_error};
use crate::border::failure::Outcome;
use crate::border::handle::Owned;
use crate::border::memory;
use crate::border::text::Lazy;
use crate::client::objects::dp_device_description;
use crate::program::{dp_compile_options, dp_executable, dp_program};
use crate::registry::{dp_options, dp_plugin};

/// A description of devices and their connections. Programs can be compiled for it without the devices.
pub struct dp_topology_description {
    inner: TopologyDescription,
    platform_name: Lazy,
    platform_version: Lazy,
}

impl dp_topology_description {
    pub(crate) fn new(inner: TopologyDescription) -> Self {
        Self { inner, platform_name: Lazy::default(), platform_version: Lazy::default() }
    }
}

/// Creates the description of a topology that the plugin knows by `name`, such as `v5e:2x2`, and loads the plugin
/// before if it is not loaded. `options` are specific to the plugin, and may be NULL.
#[c_function]
pub fn dp_plugin_create_topology(
    plugin: &dp_plugin,
    name: &str,
    options: Option<&dp_options>,
) -> Outcome<Owned<dp_topology_description>> {
    let options = options.map(dp_options::to_values).unwrap_or_default();
    let made = TopologyDescription::create(plugin.entry.load()?.plugin(), name, &options)?;
    Ok(Owned(dp_topology_description::new(made)))
}

/// Reads the result of `dp_topology_description_serialize`, and loads the plugin before if it is not loaded.
#[c_function]
pub fn dp_plugin_deserialize_topology(
    plugin: &dp_plugin,
    serialized: &[u8],
) -> Outcome<Owned<dp_topology_description>> {
    let serialized = SerializedTopology::from_bytes(serialized)?;
    let read = TopologyDescription::deserialize(plugin.entry.load()?.plugin(), &serialized)?;
    Ok(Owned(dp_topology_description::new(read)))
}

/// Returns the name of the platform. The text belongs to the description.
#[c_function]
pub fn dp_topology_description_platform_name(topology: &dp_topology_description) -> Outcome<dp_string> {
    topology.platform_name.get(|| topology.inner.platform_name())
}

/// Returns the version of the platform. The text belongs to the description.
#[c_function]
pub fn dp_topology_description_platform_version(topology: &dp_topology_description) -> Outcome<dp_string> {
    topology.platform_version.get(|| topology.inner.platform_version())
}

/// Returns the attributes that the plugin reports.
#[c_function]
pub fn dp_topology_description_attributes(topology: &dp_topology_description) -> Outcome<Owned<dp_options>> {
    Ok(Owned(dp_options::from_values(topology.inner.attributes()?)))
}

/// Returns the number of devices.
#[c_function]
pub fn dp_topology_description_device_count(topology: &dp_topology_description) -> Outcome<usize> {
    Ok(topology.inner.device_descriptions()?.len())
}

/// Returns the device at `index`, counted from 0.
#[c_function]
pub fn dp_topology_description_device_at(
    topology: &dp_topology_description,
    index: usize,
) -> Outcome<Owned<dp_device_description>> {
    Ok(Owned(dp_device_description::new(memory::at(&topology.inner.device_descriptions()?, index)?.clone())))
}

/// Returns a number that is equal for equal topologies.
#[c_function]
pub fn dp_topology_description_fingerprint(topology: &dp_topology_description) -> Outcome<u64> {
    Ok(topology.inner.fingerprint()?)
}

/// Serializes the description, with a checksum and the plugin's identity.
#[c_function]
pub fn dp_topology_description_serialize(topology: &dp_topology_description) -> Outcome<Owned<dp_bytes>> {
    Ok(Owned(dp_bytes::new(topology.inner.serialize()?.into_bytes())))
}

/// Compiles a program for the topology, without its devices. `options` may be NULL: one replica, one partition.
#[c_function]
pub fn dp_topology_description_compile(
    topology: &dp_topology_description,
    program: &dp_program,
    options: Option<&dp_compile_options>,
) -> Outcome<Owned<dp_executable>> {
    let nothing = CompileOptions::default();
    let options = options.map_or(&nothing, |options| &options.inner);
    Ok(Owned(dp_executable::new(topology.inner.compile(&program.inner, options)?)))
}

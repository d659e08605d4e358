//! Metadata of compiled programs, and the versions of a plugin's binary interface.

use pjrt::extensions::{AbiVersions, ExecutableMetadata};
use pjrt_c_macros::c_function;

use crate::border::bytes::dp_bytes;
use crate::border::error::{dp_code, dp_error};
use crate::border::failure::Outcome;
use crate::border::guard::Out;
use crate::border::handle::Owned;
use crate::client::dp_client;
use crate::extensions::info::extension;
use crate::program::dp_executable;

/// Returns the metadata of a program, in the plugin's own format. XLA's plugins return a serialized
/// `xla.PjRtExecutableMetadata`. `client` is a client of the plugin that compiled the program.
#[c_function]
pub fn dp_client_executable_metadata(client: &dp_client, executable: &dp_executable) -> Outcome<Owned<dp_bytes>> {
    let metadata = extension::<ExecutableMetadata>(&client.inner.plugin(), "ExecutableMetadata")?;
    Ok(Owned(dp_bytes::new(metadata.of(executable.get())?)))
}

fn versions(client: &dp_client) -> Outcome<AbiVersions> {
    extension(&client.inner.plugin(), "AbiVersion")
}

/// Returns the version of the client's runtime, serialized. XLA's plugins return an `xla.PjRtRuntimeAbiVersionProto`.
/// Fills `platform_id`, which may be NULL, with a number for the platform that the plugin defines.
#[c_function]
pub fn dp_client_runtime_abi_version(client: &dp_client, platform_id: Out<u64>) -> Outcome<Owned<dp_bytes>> {
    let version = versions(client)?.of_client(&client.inner)?;
    let bytes = version.serialize()?;
    if platform_id.is_wanted() {
        platform_id.put(version.platform_id()?);
    }
    Ok(Owned(dp_bytes::new(bytes)))
}

/// Returns the version of the runtime that a program needs, serialized, so that it can be stored with the serialized
/// program. XLA's plugins return an `xla.PjRtExecutableAbiVersionProto`. `client` is a client of the plugin that
/// compiled the program. Fills `platform_id`, which may be NULL, with a number for the platform that the plugin
/// defines.
#[c_function]
pub fn dp_client_executable_abi_version(
    client: &dp_client,
    executable: &dp_executable,
    platform_id: Out<u64>,
) -> Outcome<Owned<dp_bytes>> {
    let version = versions(client)?.of_executable(executable.get())?;
    let bytes = version.serialize()?;
    if platform_id.is_wanted() {
        platform_id.put(version.platform_id()?);
    }
    Ok(Owned(dp_bytes::new(bytes)))
}

/// Checks that the client's runtime can run programs that were compiled for a runtime with this version, which
/// `dp_client_runtime_abi_version` returned. If it cannot, the error is that of the plugin.
#[c_function]
pub fn dp_client_check_runtime_abi_version(client: &dp_client, version: &[u8]) -> Outcome<()> {
    let versions = versions(client)?;
    let other = versions.parse_runtime(version)?;
    Ok(versions.of_client(&client.inner)?.check_runtime(&other)?)
}

/// Checks that the client's runtime can run a program with this version, which `dp_client_executable_abi_version`
/// returned, without loading the program. If it cannot, the error is that of the plugin.
#[c_function]
pub fn dp_client_check_executable_abi_version(client: &dp_client, version: &[u8]) -> Outcome<()> {
    let versions = versions(client)?;
    let executable = versions.parse_executable(version)?;
    Ok(versions.of_client(&client.inner)?.check_executable(&executable)?)
}

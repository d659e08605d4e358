//! The description of the plugin.

use std::sync::OnceLock;

use device_plugin::{
    Capabilities, DevicePlugin, Error, Manifest, NamedValue, OptionSchema, OptionSpec, OptionType, Result,
    StablehloVersions, Value, device_plugin,
};

use crate::plugin::backend::RemoteBackend;
use crate::plugin::connection::describe;
use crate::plugin::settings::{ADDRESS, OPTIONS, Settings, TOKEN_FILE};
use crate::wire::convert;

/// The plugin `remote`, whose devices are those of a server.
///
/// The variable `PJRT_REMOTE` or the option `address` of a client names the server. For a TCP port,
/// `PJRT_REMOTE_TOKEN_FILE` or the option `token_file` names the file with the server's token.
#[derive(Clone, Copy, Debug)]
pub struct Remote;

/// Returns the attributes of the plugin that the server in the environment serves, or an empty list if the environment
/// names no server. Connects once.
fn served_attributes() -> Result<&'static [NamedValue]> {
    static ATTRIBUTES: OnceLock<Vec<NamedValue>> = OnceLock::new();
    if let Some(attributes) = ATTRIBUTES.get() {
        return Ok(attributes);
    }
    let Some(settings) = Settings::of_environment()? else { return Ok(&[]) };
    let attributes = convert::named_values(describe(&settings)?.plugin_attributes);
    Ok(ATTRIBUTES.get_or_init(|| attributes))
}

fn version(name: &str) -> Option<[u32; 3]> {
    let attribute = served_attributes().ok()?.iter().find(|attribute| attribute.name == name)?;
    let Value::Int64List(numbers) = &attribute.value else { return None };
    let numbers: Vec<u32> = numbers.iter().map(|number| u32::try_from(*number).ok()).collect::<Option<_>>()?;
    numbers.try_into().ok()
}

#[device_plugin]
impl DevicePlugin for Remote {
    const NAME: &'static str = "remote";
    type Backend = RemoteBackend;

    fn capabilities() -> Capabilities {
        Capabilities { donation: true, ..Capabilities::default() }
    }

    fn options() -> OptionSchema {
        let [address, token_file] = OPTIONS;
        OptionSchema::only([
            OptionSpec::new(
                address,
                OptionType::String,
                format!(
                    "address of the server, unix:PATH, HOST:PORT or tls://HOST:PORT?fingerprint=HEX; by default {ADDRESS}"
                ),
            ),
            OptionSpec::new(
                token_file,
                OptionType::String,
                format!("path of the file with the token of a server at a TCP port; by default {TOKEN_FILE}"),
            ),
        ])
    }

    fn manifest(mut manifest: Manifest) -> Manifest {
        manifest.display_name = "Remote".to_owned();
        manifest.version = env!("CARGO_PKG_VERSION").to_owned();
        manifest.description = "devices of a plugin in another process".to_owned();
        // A machine may have the plugin without a server, so rank below plugins with devices.
        manifest.priority = 0;
        manifest
    }

    /// Checks that the server in the environment answers, so that a framework reports the reason when it loads the
    /// plugin.
    fn initialize() -> Result<()> {
        served_attributes().map(drop).map_err(|error: Error| error.context("the plugin remote"))
    }

    fn stablehlo_versions() -> Option<StablehloVersions> {
        let (minimum, current) = (version("stablehlo_minimum_version")?, version("stablehlo_current_version")?);
        Some(StablehloVersions { minimum, current })
    }

    fn attributes() -> Vec<NamedValue> {
        served_attributes().unwrap_or_default().to_vec()
    }
}

//! A plugin that reports what a framework sends. It rejects each program with an error that states the program's
//! format, its StableHLO version, and its numbers of replicas and partitions. Its profiles show the transfers.
//!
//! The environment variable `WITNESS_STABLEHLO` sets the version that the plugin claims to read, such as `1.9.0`. By
//! default it reports no version.
#![allow(missing_debug_implementations, reason = "a test plugin")]
#![forbid(unsafe_code)]

use std::sync::Arc;

use device_plugin::features::{Features, Profiler};
use device_plugin::{
    Backend, CompileOptions, Compiled, DevicePlugin, Error, HostArray, Placement, Program, Result, StablehloVersions,
    device_plugin,
};

/// The plugin type, which `#[device_plugin]` exports.
pub struct Witness;

#[device_plugin(export)]
impl DevicePlugin for Witness {
    const NAME: &'static str = "witness";
    type Backend = WitnessDevice;

    fn stablehlo_versions() -> Option<StablehloVersions> {
        let text = std::env::var("WITNESS_STABLEHLO").ok()?;
        let parts = text.split('.').map(str::parse).collect::<std::result::Result<Vec<u32>, _>>().ok()?;
        Some(StablehloVersions { minimum: [0, 9, 0], current: parts.try_into().ok()? })
    }
}

/// A device in host memory that rejects all programs.
pub struct WitnessDevice;

impl Backend for WitnessDevice {
    device_plugin_testing::unit_device!("witness");
    device_plugin_testing::no_executions!();

    type Buffer = Arc<[u8]>;

    const FEATURES: Features<Self> = Features::none().profiler();

    fn buffer_from_host(&self, host: HostArray<'_>, _: Placement) -> Result<Self::Buffer> {
        let _span = tracing::info_span!("copying", bytes = host.bytes().len()).entered();
        Ok(host.into_bytes().into())
    }

    fn read(&self, buffer: &Self::Buffer, to: &mut [u8]) -> Result<()> {
        to.copy_from_slice(buffer);
        Ok(())
    }

    fn compile(&self, program: &Program, options: &CompileOptions) -> Result<Compiled<()>> {
        let version = program.stablehlo_version().map(|version| version.map(|part| part.to_string()).join("."));
        Err(Error::unimplemented(format!(
            "witness: format {}, StableHLO {}, {} replicas of {} partitions",
            program.format(),
            version.unwrap_or_else(|| "unknown".to_owned()),
            options.num_replicas,
            options.num_partitions
        )))
    }
}

impl Profiler for WitnessDevice {}

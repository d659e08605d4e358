//! The plugin: its name and what it says of itself.

use device_plugin::capabilities::{
    DlpackDevice, HostCallbacks, MemoryKinds, MemoryStatsReport, ProgramFormat, ProgramFormats, StablehloRange,
};
use device_plugin::{
    Capabilities, DevicePlugin, Effort, Manifest, OptionSchema, Program, StablehloVersions, Support, device_plugin,
};

use super::backend::CpuBackend;
use super::config;
use super::memory::KINDS;
use super::support;

/// The plugin `pjrt_cpu`: devices that compute on this machine's cores.
#[derive(Clone, Copy, Debug)]
pub struct Cpu;

/// StableHLO versions the reader knows; a framework serializes programs for the newest of them at most.
const STABLEHLO: StablehloVersions = device_plugin::stablehlo::VERSIONS;

/// LAPACK's routines that programs may call, as `lapack_dsyevd_ffi` and so on, without their type's letter.
const LAPACK: &str = "geev gees gehrd geqp3 gesdd getrf syevd sytrd";

#[device_plugin]
impl DevicePlugin for Cpu {
    const NAME: &'static str = "pjrt_cpu";
    const ALIASES: &'static [&'static str] = &["cpu"];
    type Backend = CpuBackend;

    fn capabilities() -> Capabilities {
        let builder = Capabilities::builder()
            .program_formats(
                ProgramFormats::preferring(ProgramFormat::Mlir).or(ProgramFormat::Hlo).or(ProgramFormat::HloWithConfig),
            )
            .donation(true)
            .persistent_cache(true)
            .host_callbacks(Some(HostCallbacks::default()))
            // What JAX and others can call by name.
            .feature("custom_calls.ffi", true)
            .feature("custom_calls.lapack", LAPACK)
            .memory_kinds(MemoryKinds::new(KINDS).host_offload())
            .memory_stats(MemoryStatsReport::WithLimit)
            .dlpack_device(DlpackDevice::Cpu)
            .dlpack_host_device(DlpackDevice::Cpu)
            .zero_copy_import([DlpackDevice::Cpu])
            .zero_copy_export([DlpackDevice::Cpu]);
        // A range out of two constants; the tests see that it is one.
        match StablehloRange::try_from(STABLEHLO) {
            Ok(range) => builder.stablehlo(range).build(),
            Err(_) => builder.build(),
        }
    }

    fn options() -> OptionSchema {
        config::schema()
    }

    fn manifest(mut manifest: Manifest) -> Manifest {
        manifest.display_name = "CPU".to_owned();
        manifest.version = env!("CARGO_PKG_VERSION").to_owned();
        manifest.description = "computes on this machine's cores".to_owned();
        // As JAX ranks its own: whatever else there is comes first.
        manifest.priority = 0;
        manifest
    }

    fn supports(program: &Program, _: Effort) -> Option<Support> {
        Some(support::supports(program))
    }

    fn stablehlo_versions() -> Option<StablehloVersions> {
        Some(STABLEHLO)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_plugin_says_is_valid_and_agrees_with_itself() {
        let capabilities = Cpu::capabilities();
        assert_eq!(capabilities.validate(), Ok(()));
        let range = capabilities.stablehlo.unwrap();
        let numbers = |version: [i64; 3]| version.map(|number| number.to_string()).join(".");
        assert_eq!(range.current.to_string(), numbers(STABLEHLO.current));
        assert_eq!(range.minimum.to_string(), numbers(STABLEHLO.minimum));
        assert_eq!(capabilities.memory_kinds.default_kind.as_deref(), Some(KINDS[0]));
        assert!(capabilities.program_formats.accepts(ProgramFormat::Mlir));
        assert!(capabilities.program_formats.accepts(ProgramFormat::Hlo));
        assert!(capabilities.program_formats.accepts(ProgramFormat::HloWithConfig));
    }
}

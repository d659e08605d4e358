//! The plugin's name, capabilities and manifest.

use std::collections::BTreeSet;

use device_plugin::capabilities::{
    DlpackDevice, DynamicShapes, HostCallbacks, MemoryKinds, MemoryStatsReport, ProgramFormat, ProgramFormats,
};
use device_plugin::{
    Capabilities, Depth, DevicePlugin, Manifest, OptionSchema, Program, StablehloVersions, Support, device_plugin,
};

use super::backend::CpuBackend;
use super::config;
use super::memory::KINDS;
use super::support;

/// The plugin `pjrt_cpu`, whose devices compute on the cores of the CPU.
#[derive(Clone, Copy, Debug)]
pub struct Cpu;

/// The StableHLO versions that the parser supports. Frameworks serialize programs for the newest of these versions or
/// an older one.
const STABLEHLO: StablehloVersions = device_plugin::stablehlo::VERSIONS;

/// LAPACK routines that programs may call, without the letter of the element type. `syevd` stands for
/// `lapack_dsyevd_ffi` and its variants.
const LAPACK: &str = "geev gees gehrd geqp3 gesdd gesvd getrf gtsv syevd sytrd";

#[device_plugin]
impl DevicePlugin for Cpu {
    const NAME: &'static str = config::NAME;
    const ALIASES: &'static [&'static str] = &["cpu"];
    type Backend = CpuBackend;

    fn capabilities() -> Capabilities {
        Capabilities {
            program_formats: ProgramFormats::preferring(ProgramFormat::Mlir)
                .or(ProgramFormat::Hlo)
                .or(ProgramFormat::HloWithConfig),
            donation: true,
            dynamic_shapes: DynamicShapes::Bounded,
            persistent_cache: true,
            host_callbacks: Some(HostCallbacks::default()),
            memory_kinds: MemoryKinds { host_offload: true, ..MemoryKinds::new(KINDS) },
            memory_stats: MemoryStatsReport::WithLimit,
            dlpack_device: Some(DlpackDevice::Cpu),
            dlpack_host_device: Some(DlpackDevice::Cpu),
            zero_copy_import: BTreeSet::from([DlpackDevice::Cpu]),
            zero_copy_export: BTreeSet::from([DlpackDevice::Cpu]),
            stablehlo: Some(STABLEHLO),
            // Programs can call functions that a framework registers by name.
            features: std::iter::once(("custom_calls.ffi".to_owned(), true.into()))
                .chain(cfg!(feature = "math").then(|| ("custom_calls.lapack".to_owned(), LAPACK.into())))
                .collect(),
            ..Capabilities::default()
        }
    }

    fn options() -> OptionSchema {
        config::schema()
    }

    fn manifest(mut manifest: Manifest) -> Manifest {
        manifest.display_name = "CPU".to_owned();
        manifest.version = env!("CARGO_PKG_VERSION").to_owned();
        manifest.description = "computes on this machine's cores".to_owned();
        // Like JAX's own CPU platform, rank below all other plugins.
        manifest.priority = 0;
        manifest
    }

    fn supports(program: &Program, _: Depth) -> Option<Support> {
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
    fn description_is_valid_and_consistent() {
        let capabilities = Cpu::capabilities();
        assert_eq!(capabilities.validate(), Ok(()));
        assert_eq!(capabilities.memory_kinds.default_kind.as_deref(), Some(KINDS[0]));
        let formats = [ProgramFormat::Mlir, ProgramFormat::Hlo, ProgramFormat::HloWithConfig];
        assert_eq!(capabilities.program_formats.as_slice(), formats);
    }
}

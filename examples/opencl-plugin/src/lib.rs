//! The PJRT plugin `opencl`: runs programs of JAX and PyTorch/XLA on OpenCL devices.
//!
//! Read the files in this order: this one (the plugin and its options), `driver.rs` (queues, memory and copies),
//! `compile.rs` (from a program to a plan), `kernels.rs`, `dot.rs` and `scalar.rs` (the kernels in OpenCL C), and
//! `launch.rs` (the execution of a plan).

mod compile;
mod dot;
mod driver;
mod kernels;
mod launch;
mod scalar;

use device_plugin::capabilities::{ProgramFormat, ProgramFormats};
use device_plugin::{
    Capabilities, DevicePlugin, Manifest, OptionSchema, OptionSpec, OptionType, StablehloVersions, device_plugin,
    stablehlo,
};
use device_runtime::Runtime;
pub use driver::OpenCl;

/// The plugin.
pub struct Plugin;

#[device_plugin(export)]
impl DevicePlugin for Plugin {
    const NAME: &'static str = "opencl";
    type Backend = Runtime<OpenCl>;

    fn capabilities() -> Capabilities {
        Capabilities { program_formats: ProgramFormats::preferring(ProgramFormat::Mlir), ..Capabilities::default() }
    }

    fn stablehlo_versions() -> Option<StablehloVersions> {
        Some(stablehlo::VERSIONS)
    }

    fn options() -> OptionSchema {
        OptionSchema::only([
            OptionSpec::new("devices", OptionType::Int64, "Number of devices. By default each OpenCL device is one."),
            OptionSpec::new("memory_limit", OptionType::Int64, "Bytes of memory of each device."),
            OptionSpec::new(
                "build_options",
                OptionType::String,
                "Options for the OpenCL compiler, such as -cl-mad-enable.",
            ),
        ])
    }

    fn manifest(mut manifest: Manifest) -> Manifest {
        manifest.description = env!("CARGO_PKG_DESCRIPTION").to_owned();
        manifest
    }
}

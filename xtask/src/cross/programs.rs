//! Programs that run in the emulator: the command `pjrt` with the embedded CPU device, and with the same device as a
//! plugin library.

/// A call of a program.
pub(super) struct Program {
    pub(super) name: &'static str,
    pub(super) arguments: &'static [&'static str],
    /// A part of the output.
    pub(super) prints: &'static str,
}

/// The library of the CPU plugin, in the folder of the programs.
pub(super) const PLUGIN: &str = "pjrt_plugin_cpu.dll";

const AXPY: &str = "examples/programs/axpy.mlir";

/// The third result of this program needs all inputs.
const RESULT: &str = "10.0, 12.0, 14.0, 16.0";

pub(super) const WINDOWS: &[Program] = &[
    Program { name: "pjrt.exe", arguments: &["list"], prints: "cpu" },
    Program { name: "pjrt.exe", arguments: &["run", AXPY, "f32=2", "f32[4]=0,1,2,3", "f32[4]=10"], prints: RESULT },
    Program {
        name: "pjrt.exe",
        arguments: &["run", "--plugin", PLUGIN, AXPY, "f32=2", "f32[4]=0,1,2,3", "f32[4]=10"],
        prints: RESULT,
    },
    Program { name: "pjrt.exe", arguments: &["doctor", "--plugin", PLUGIN, "--timeout", "2m"], prints: "ok" },
];

//! Programs that run in the emulator. They are calls of the command `pjrt`, with the embedded CPU device or with the
//! plugin library of this device.

/// A call of the command `pjrt` with arguments.
pub(super) struct Program {
    pub(super) arguments: &'static [&'static str],
    /// Text that the output must contain.
    pub(super) prints: &'static str,
}

/// Placeholder for the path of the CPU plugin in the arguments.
pub(super) const PLUGIN: &str = "<the CPU plugin>";

const AXPY: &str = "examples/programs/axpy.mlir";

/// Third result of the program [`AXPY`], which depends on all inputs.
const RESULT: &str = "10.0, 12.0, 14.0, 16.0";

const LIST: Program = Program { arguments: &["list"], prints: "cpu" };

const RUN: Program = Program { arguments: &["run", AXPY, "f32=2", "f32[4]=0,1,2,3", "f32[4]=10"], prints: RESULT };

const RUN_ON_PLUGIN: Program =
    Program { arguments: &["run", "--plugin", PLUGIN, AXPY, "f32=2", "f32[4]=0,1,2,3", "f32[4]=10"], prints: RESULT };

/// A call of `pjrt doctor`, which starts child processes and ends those that exceed the time limit.
const DOCTOR: Program = Program { arguments: &["doctor", "--plugin", PLUGIN, "--timeout", "2m"], prints: "ok" };

/// Programs for 64-bit ARM. They exclude `doctor`, because an emulated process cannot start another one.
pub(super) const AARCH64: &[Program] = &[LIST, RUN, RUN_ON_PLUGIN];

pub(super) const WINDOWS: &[Program] = &[LIST, RUN, RUN_ON_PLUGIN, DOCTOR];

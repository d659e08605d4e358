//! `dp_executable`: a compiled program that is not loaded.

use std::sync::OnceLock;

use pjrt::{Executable, LoadedExecutable, Shape};
use pjrt_c_macros::c_function;
use plugin_manifest::c_view::capabilities::dp_string;

use crate::border::bytes::dp_bytes;
use crate::border::error::{dp_code, dp_error};
use crate::border::failure::Outcome;
use crate::border::handle::Owned;
use crate::border::memory;
use crate::border::memory::Struct;
use crate::border::sized::struct_sizes;
use crate::border::text::{Lazy, Text};
use crate::buffer::dp_shape;
use crate::program::compile_options::dp_compile_options;
use crate::program::program::dp_program;
use crate::registry::dp_options;

use std::sync::Arc;

/// A compiled program, loaded or not: its properties, which can be serialized.
pub struct dp_executable {
    inner: Source,
    name: Lazy,
    outputs: OnceLock<Vec<Shape>>,
    output_memory_kinds: OnceLock<Vec<Text>>,
    parameter_memory_kinds: OnceLock<Vec<Text>>,
}

enum Source {
    Compiled(Executable),
    Loaded(Arc<LoadedExecutable>),
}

impl dp_executable {
    pub(crate) fn new(executable: Executable) -> Self {
        Self::of(Source::Compiled(executable))
    }

    pub(crate) fn of_loaded(executable: Arc<LoadedExecutable>) -> Self {
        Self::of(Source::Loaded(executable))
    }

    fn of(inner: Source) -> Self {
        Self {
            inner,
            name: Lazy::default(),
            outputs: OnceLock::new(),
            output_memory_kinds: OnceLock::new(),
            parameter_memory_kinds: OnceLock::new(),
        }
    }

    pub(crate) fn get(&self) -> &Executable {
        match &self.inner {
            Source::Compiled(executable) => executable,
            Source::Loaded(loaded) => loaded.executable(),
        }
    }
}

/// Returns the name of the program. The text belongs to the executable.
#[c_function]
pub fn dp_executable_name(executable: &dp_executable) -> Outcome<dp_string> {
    executable.name.get(|| executable.get().name())
}

/// Returns the number of replicas.
#[c_function]
pub fn dp_executable_num_replicas(executable: &dp_executable) -> Outcome<usize> {
    Ok(executable.get().num_replicas()?)
}

/// Returns the number of partitions.
#[c_function]
pub fn dp_executable_num_partitions(executable: &dp_executable) -> Outcome<usize> {
    Ok(executable.get().num_partitions()?)
}

/// Returns the number of outputs on each device.
#[c_function]
pub fn dp_executable_num_outputs(executable: &dp_executable) -> Outcome<usize> {
    Ok(executable.get().num_outputs()?)
}

/// Returns the shape of the output at `index`, counted from 0. The extents belong to the executable.
#[c_function]
pub fn dp_executable_output_shape(executable: &dp_executable, index: usize) -> Outcome<dp_shape> {
    if executable.outputs.get().is_none() {
        let _ = executable.outputs.set(executable.get().output_shapes()?);
    }
    let shapes = executable.outputs.get().map_or(&[][..], Vec::as_slice);
    Ok(dp_shape::lend(memory::at(shapes, index)?))
}

/// Returns the kind of memory of the output at `index`, such as `device`. The text belongs to the executable.
#[c_function]
pub fn dp_executable_output_memory_kind(executable: &dp_executable, index: usize) -> Outcome<dp_string> {
    kind(&executable.output_memory_kinds, || executable.get().output_memory_kinds(), index)
}

/// Returns the kind of memory of the parameter at `index`. The text belongs to the executable. Needs API 0.79 or later.
#[c_function]
pub fn dp_executable_parameter_memory_kind(executable: &dp_executable, index: usize) -> Outcome<dp_string> {
    kind(&executable.parameter_memory_kinds, || executable.get().parameter_memory_kinds(), index)
}

fn kind(
    cached: &OnceLock<Vec<Text>>,
    query: impl FnOnce() -> Result<Vec<String>, pjrt::Error>,
    index: usize,
) -> Outcome<dp_string> {
    if cached.get().is_none() {
        let _ = cached.set(query()?.iter().map(Text::new).collect());
    }
    let kinds = cached.get().map_or(&[][..], Vec::as_slice);
    Ok(memory::at(kinds, index)?.lend())
}

/// Returns the size of the machine code in bytes, or -1 if the plugin does not know it.
#[c_function]
pub fn dp_executable_size_of_generated_code(executable: &dp_executable) -> Outcome<i64> {
    Ok(executable.get().size_of_generated_code()?)
}

/// Returns bytes that are equal for equal programs, compiled for equal devices with equal options.
#[c_function]
pub fn dp_executable_fingerprint(executable: &dp_executable) -> Outcome<Owned<dp_bytes>> {
    Ok(Owned(dp_bytes::new(executable.get().fingerprint()?)))
}

/// Returns what the compiler estimates about a run, such as `flops`.
#[c_function]
pub fn dp_executable_cost_analysis(executable: &dp_executable) -> Outcome<Owned<dp_options>> {
    Ok(Owned(dp_options::from_values(executable.get().cost_analysis()?)))
}

/// Memory that a run needs, in bytes.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct dp_compiled_memory_stats {
    /// `sizeof(dp_compiled_memory_stats)`, set by the caller.
    pub struct_size: usize,
    /// Machine code on the device.
    pub generated_code_size: i64,
    /// Arguments.
    pub argument_size: i64,
    /// Outputs.
    pub output_size: i64,
    /// Arguments whose memory is reused for outputs.
    pub alias_size: i64,
    /// Intermediate results.
    pub temp_size: i64,
    /// Machine code on the host.
    pub host_generated_code_size: i64,
    /// Arguments on the host.
    pub host_argument_size: i64,
    /// Outputs on the host.
    pub host_output_size: i64,
    /// Arguments on the host whose memory is reused for outputs.
    pub host_alias_size: i64,
    /// Intermediate results on the host.
    pub host_temp_size: i64,
    /// The most memory that is in use at one time. 0 if the plugin does not report it.
    pub peak_memory: i64,
    /// All allocations. 0 if the plugin does not report it.
    pub total_size: i64,
}

struct_sizes!(dp_compiled_memory_stats);

/// Fills `out` with the memory that a run needs.
#[c_function]
pub fn dp_executable_compiled_memory_stats(executable: &dp_executable) -> Outcome<Struct<dp_compiled_memory_stats>> {
    let stats = executable.get().compiled_memory_stats()?;
    Ok(Struct(dp_compiled_memory_stats {
        struct_size: size_of::<dp_compiled_memory_stats>(),
        generated_code_size: stats.generated_code_size,
        argument_size: stats.argument_size,
        output_size: stats.output_size,
        alias_size: stats.alias_size,
        temp_size: stats.temp_size,
        host_generated_code_size: stats.host_generated_code_size,
        host_argument_size: stats.host_argument_size,
        host_output_size: stats.host_output_size,
        host_alias_size: stats.host_alias_size,
        host_temp_size: stats.host_temp_size,
        peak_memory: stats.peak_memory,
        total_size: stats.total_size,
    }))
}

/// Returns the program after the compiler's optimizations, in a format that the plugin chooses.
#[c_function]
pub fn dp_executable_optimized_program(executable: &dp_executable) -> Outcome<Owned<dp_program>> {
    Ok(Owned(dp_program::new(executable.get().optimized_program()?)))
}

/// Returns the options with which the program was compiled. Needs API 0.78 or later.
#[c_function]
pub fn dp_executable_compile_options(executable: &dp_executable) -> Outcome<Owned<dp_compile_options>> {
    Ok(Owned(dp_compile_options { inner: executable.get().compile_options()? }))
}

/// Serializes the program for `dp_client_deserialize_and_load`, with a checksum and the plugin's identity.
#[c_function]
pub fn dp_executable_serialize(executable: &dp_executable) -> Outcome<Owned<dp_bytes>> {
    Ok(Owned(dp_bytes::new(executable.get().serialize()?.into_bytes())))
}

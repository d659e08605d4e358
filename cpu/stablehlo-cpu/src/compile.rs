//! Compiles a module: runs the passes, then lowers the rewritten module to the engine's steps.

use std::borrow::Cow;

use bytes::Bytes;
use stablehlo::ir::Module;

use crate::engine::{BoundedArrays, CompileSettings, Pool, Program, lower_program};
use crate::error::CompileError;
use crate::passes;
use crate::spmd::{self, OpSharding};

type Result<T> = std::result::Result<T, CompileError>;

/// The state of a compilation. Each pass reads and updates it.
struct Compilation<'m> {
    module: Cow<'m, Module>,
    settings: &'m CompileSettings,
    /// Shardings of the parameters and of the outputs. `None` unless the program was split into more than one
    /// partition.
    shardings: Option<(Vec<OpSharding>, Vec<OpSharding>)>,
    /// Serialized program that clients can query. `None` if clients receive the program that they compiled.
    readable: Option<Bytes>,
    /// Parameters and outputs with bounded dynamic dimensions.
    bounded: BoundedArrays,
}

/// A pass over the whole module. A pass rewrites the module or records facts about it. If it does not apply to the
/// module, it changes nothing.
type Pass = fn(&mut Compilation<'_>) -> Result<()>;

/// The passes, in the order in which they run.
const PASSES: &[Pass] = &[
    inline_async_ops,
    pad_bounded_arrays,
    partition,
    combine_all_reduces,
    export_readable,
    decompose_quantized,
    expand_batch_norm,
    expand_scans,
    assign_layouts,
];

impl<'m> Compilation<'m> {
    /// Runs the passes.
    fn run(module: &'m Module, settings: &'m CompileSettings) -> Result<Self> {
        let mut program = Self {
            module: Cow::Borrowed(module),
            settings,
            shardings: None,
            readable: None,
            bounded: BoundedArrays::default(),
        };
        for pass in PASSES {
            pass(&mut program)?;
        }
        Ok(program)
    }

    /// Runs a pass of `stablehlo-passes`.
    fn shared_pass(
        &mut self,
        name: &str,
        pass: impl FnOnce(&Module) -> stablehlo::Result<Option<Module>>,
    ) -> Result<()> {
        let module = pass(&self.module).map_err(|error| CompileError::of_pass(name, &error))?;
        self.replace(module);
        Ok(())
    }

    /// Replaces the module if a pass returned a new one.
    fn replace(&mut self, module: Option<Module>) {
        if let Some(module) = module {
            self.module = Cow::Owned(module);
        }
    }
}

/// Replaces each pair of `async_start` and `async_done` with the body of `async_start`, so that the body runs
/// synchronously.
fn inline_async_ops(program: &mut Compilation<'_>) -> Result<()> {
    program.shared_pass("inline_async_ops", stablehlo_passes::inline_async_ops)
}

/// Replaces arrays of bounded size with arrays of their maximum size. Rejects a program with bounded parameters or
/// outputs if it must be split into several partitions.
fn pad_bounded_arrays(program: &mut Compilation<'_>) -> Result<()> {
    let Some((module, bounded)) = passes::pad_bounded_arrays(&program.module)? else { return Ok(()) };
    let settings = program.settings;
    if !bounded.is_empty() && settings.use_spmd && settings.partitions > 1 {
        return Err(CompileError::unsupported(format!(
            "an argument or a result of bounded size in a program that is split into {} partitions; pass an array of \
             one size, and the number of elements that count",
            settings.partitions
        )));
    }
    (program.module, program.bounded) = (Cow::Owned(module), bounded);
    Ok(())
}

/// Partitions a module that describes the work of all partitions together (SPMD).
fn partition(program: &mut Compilation<'_>) -> Result<()> {
    let settings = program.settings;
    if !settings.use_spmd || (settings.partitions <= 1 && !spmd::has_manual_parts(&program.module)) {
        return Ok(());
    }
    if settings.partitions <= 1 {
        // With one partition, clients receive the program that they sent. If it needs to be exported, export it before
        // the partitioner rewrites the module.
        export_readable(program)?;
    }
    let split = spmd::partition(&program.module, settings.replicas, settings.partitions)?;
    program.module = Cow::Owned(split.module);
    if settings.partitions > 1 {
        program.shardings = Some((split.parameter_shardings, split.output_shardings));
    }
    Ok(())
}

/// Merges `all_reduce` ops, so that devices synchronize once for several reductions.
fn combine_all_reduces(program: &mut Compilation<'_>) -> Result<()> {
    if program.settings.replicas.saturating_mul(program.settings.partitions) > 1 {
        let module = stablehlo_passes::combine_all_reduces(&program.module);
        program.replace(module);
    }
    Ok(())
}

/// Serializes the module for clients if it was split into several partitions, or if the settings specify storage
/// orders. Writes a portable artifact of the source program's version if possible, and MLIR text otherwise.
fn export_readable(program: &mut Compilation<'_>) -> Result<()> {
    let settings = program.settings;
    if program.readable.is_some() || (program.shardings.is_none() && !settings.has_orders()) {
        return Ok(());
    }
    let module = if settings.has_orders() {
        let mut module = program.module.clone().into_owned();
        let layouts = passes::export_attributes(&module, settings);
        // The source module may already contain layout attributes of another device's compiler. They do not apply to
        // this program.
        module.attributes.retain(|(name, _)| layouts.iter().all(|(known, _)| known != name));
        module.attributes.extend(layouts);
        Cow::Owned(module)
    } else {
        Cow::Borrowed(&*program.module)
    };
    let artifact = module.version.and_then(|version| stablehlo::write(&module, version).ok());
    program.readable = Some(artifact.unwrap_or_else(|| module.to_string().into_bytes()).into());
    Ok(())
}

/// Rewrites ops on quantized types as plain arithmetic.
fn decompose_quantized(program: &mut Compilation<'_>) -> Result<()> {
    program.shared_pass("decompose_quantized", stablehlo_passes::decompose_quantized)
}

/// Rewrites batch normalization as arithmetic.
fn expand_batch_norm(program: &mut Compilation<'_>) -> Result<()> {
    program.shared_pass("expand_batch_norm", stablehlo_passes::expand_batch_norm)
}

/// Rewrites CHLO's `scan` as loops.
fn expand_scans(program: &mut Compilation<'_>) -> Result<()> {
    program.shared_pass("expand_scans", stablehlo_passes::expand_scans)
}

/// Changes the entry function so that its parameters and results use the storage orders of the settings.
fn assign_layouts(program: &mut Compilation<'_>) -> Result<()> {
    let settings = program.settings;
    let module = passes::assign_layouts(&program.module, &settings.parameter_orders, &settings.output_orders)?;
    program.replace(module);
    Ok(())
}

/// Compiles a program whose buffers come from [`Pool::global`].
///
/// # Errors
///
/// Returns an error if the module is invalid, or if it contains ops that the engine does not support.
/// [`CompileError::all`] returns one error for each unsupported op. Each of them names the op, its types and its
/// location.
pub fn compile(module: &Module) -> Result<Program> {
    compile_in(module, Pool::global())
}

/// Compiles a program whose buffers come from `pool`.
///
/// # Errors
///
/// Returns an error in the cases of [`compile`].
pub fn compile_in(module: &Module, pool: &Pool) -> Result<Program> {
    compile_with(module, &CompileSettings::default(), pool)
}

/// Compiles a program for the members of a [`Communicator`](crate::Communicator). Constants come from `pool`. If
/// [`CompileSettings::use_spmd`] is set, and the program has several partitions or contains manual computations, it is
/// first partitioned by its sharding annotations.
///
/// # Errors
///
/// Returns an error in the cases of [`compile`], or if the program cannot be partitioned. In the second case, the error
/// names the op or the annotation.
pub fn compile_with(module: &Module, settings: &CompileSettings, pool: &Pool) -> Result<Program> {
    let program = Compilation::run(module, settings)?;
    let mut compiled = lower_program(&program.module, settings, pool)?;
    compiled.set_readable(program.readable);
    compiled.set_bounded(program.bounded);
    if let Some((parameters, outputs)) = program.shardings {
        compiled.set_shardings(parameters, outputs);
    }
    Ok(compiled)
}

/// Returns the module that the passes create from a module.
pub(crate) fn rewritten<'m>(module: &'m Module, settings: &'m CompileSettings) -> Result<Cow<'m, Module>> {
    Compilation::run(module, settings).map(|program| program.module)
}

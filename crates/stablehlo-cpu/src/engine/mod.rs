//! Compiles StableHLO programs and runs them on this machine's cores.
//!
//! [`compile`] resolves every shape, inlines calls, fuses elementwise ops into tile programs, and lowers the rest to a
//! flat list of steps. A compiled program runs without further checks of its ops. [`Program::run`] runs the steps in
//! order. Memory comes from a [`Pool`] and is reference-counted. A step may overwrite a buffer that has no other owner.
//!
//! A program passes through these files: `lower` (StableHLO to `graph`), `fuse` and `emit` (graph to steps), and
//! `program` (which runs the steps). `elementwise` and `kernels` contain the loops.

mod asynchronous;
mod bounded;
mod chains;
mod comm;
pub mod custom_calls;
mod dtype;
mod elementwise;
mod emit;
mod error;
mod footprint;
mod fuse;
mod graph;
mod kernels;
mod lines;
mod lower;
mod par;
mod pool;
mod program;
mod quantized;
mod rows;
mod scans;
mod settings;
mod simplify;
mod stop;
mod stored;
mod tensor;
mod tile;
mod view;

#[cfg(test)]
mod tests;

use bytes::Bytes;
use stablehlo::ir::{Attribute, Module, Type};

pub use comm::{Member, World};
pub use dtype::{DType, TensorType};
pub use error::{CompileError, CompileErrorKind, RunError};
pub use footprint::Footprint;
pub use par::alone;
pub use pool::{Pool, PoolUsage};
pub use program::{Parameter, Program};
pub use settings::{CompileSettings, Order};
pub use stop::Stop;
pub use tensor::Tensor;

use crate::spmd;
pub(crate) use lower::place;
use lower::{Lower, Lowered, entry_type, fits};
pub use stored::{inverse_permutation, preferred_output_order};

/// Compiles a program whose buffers come from [`Pool::global`].
pub fn compile(module: &Module) -> Result<Program, CompileError> {
    compile_in(module, Pool::global())
}

/// Compiles a program whose buffers come from `pool`.
pub fn compile_in(module: &Module, pool: &Pool) -> Result<Program, CompileError> {
    compile_with(module, &CompileSettings::default(), pool)
}

/// Compiles a program for the members of a [`World`]. Constants come from `pool`. With several partitions and
/// [`CompileSettings::use_spmd`], the program is first split by its sharding annotations.
pub fn compile_with(module: &Module, settings: &CompileSettings, pool: &Pool) -> Result<Program, CompileError> {
    let synchronous = asynchronous::written_out(module)?;
    let module = synchronous.as_ref().unwrap_or(module);
    let whole = bounded::written_out(module)?;
    let module = whole.as_ref().unwrap_or(module);
    if !settings.use_spmd || (settings.partitions <= 1 && !spmd::has_manual_parts(module)) {
        let mut program = compile_one(module, settings, pool)?;
        program.readable = settings.has_orders().then(|| readable(module.clone(), settings));
        return Ok(program);
    }
    let split = spmd::partition(module, settings.replicas, settings.partitions)?;
    let mut program = compile_one(&split.module, settings, pool)?;
    if settings.partitions > 1 {
        program.readable = Some(readable(split.module, settings));
        program.shardings =
            Some(program::Shardings { parameters: split.parameter_shardings, outputs: split.output_shardings });
    } else if settings.has_orders() {
        program.readable = Some(readable(module.clone(), settings));
    }
    Ok(program)
}

/// The readable form of a program that was changed, in the format in which the client sent it.
fn readable(mut module: Module, settings: &CompileSettings) -> Bytes {
    if settings.has_orders() {
        let spoken = stored::spoken(&module, settings);
        // These attributes may come from another device's compiler, and do not apply here.
        module.attributes.retain(|(name, _)| spoken.iter().all(|(known, _)| known != name));
        module.attributes.extend(spoken);
    }
    let written = module.version.and_then(|version| stablehlo::write(&module, version).ok());
    written.unwrap_or_else(|| module.to_string().into_bytes()).into()
}

/// Compiles the program of one member.
fn compile_one(module: &Module, settings: &CompileSettings, pool: &Pool) -> Result<Program, CompileError> {
    let plain = quantized::written_out(module)?;
    let module = plain.as_ref().unwrap_or(module);
    let looped = scans::written_out(module)?;
    let module = looped.as_ref().unwrap_or(module);
    let stored = stored::as_stored(module, &settings.parameter_orders, &settings.output_orders)?;
    let module = stored.as_ref().unwrap_or(module);
    let func = module.entry().ok_or_else(|| {
        CompileError::invalid("the module has no entry: name one function `main`, or make exactly one public")
    })?;
    let mut lower = Lower::new(module, settings, pool);
    let Lowered { block, args, results } = lower.entry(func)?;
    for (declared, ty) in func.results.iter().zip(&results) {
        let is_token = matches!(declared, Type::Token) && *ty == entry_type(declared)?;
        if !is_token && !fits(declared, ty)? {
            return Err(CompileError::invalid(format!(
                "the entry function declares a result {declared} and returns a {ty}"
            )));
        }
    }
    let parameters = args.iter().enumerate().map(|(i, arg)| {
        let attributes = func.arg_attributes.get(i).map_or(&[][..], |a| a);
        Parameter { ty: arg.ty.clone(), alias_output: alias_output(attributes), donor: donor(attributes) }
    });
    let parameters: Vec<Parameter> = parameters.collect();
    if let Some(p) = parameters.iter().find(|p| p.alias_output.is_some_and(|o| o >= results.len())) {
        return Err(CompileError::invalid(format!(
            "a parameter of type {} aliases an output that does not exist",
            p.ty
        )));
    }
    let args: Vec<graph::V> = args.iter().map(|a| a.v).collect();
    let emitted = emit::emit(block, &args, &lower.values, pool)?;
    Ok(Program {
        name: module.name.clone().unwrap_or_else(|| func.name.clone()),
        parameters,
        outputs: results,
        consts: emitted.consts,
        slots: emitted.slots,
        block: emitted.block,
        pool: pool.clone(),
        settings: settings.clone(),
        collectives: lower.collectives,
        shardings: None,
        readable: None,
    })
}

fn alias_output(attributes: &[(String, Attribute)]) -> Option<usize> {
    attributes.iter().find_map(|(name, value)| match value {
        Attribute::Integer(output, _) if name == "tf.aliasing_output" => usize::try_from(*output).ok(),
        _ => None,
    })
}

fn donor(attributes: &[(String, Attribute)]) -> bool {
    attributes.iter().any(|(name, value)| name == "jax.buffer_donor" && *value != Attribute::Bool(false))
}

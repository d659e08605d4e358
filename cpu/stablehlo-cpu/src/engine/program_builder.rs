//! Builds a program from a module: lowers the module to the graph, and emits the steps.

use stablehlo::ir::{Attribute, Func, Module, Type};

use super::emit::emit;
use super::graph::ValueIndex;
use super::lower::{GraphBuilder, Lowered, entry_type, fits};
use super::pool::Pool;
use super::program::{Parameter, Program};
use super::settings::CompileSettings;
use super::short_rows;
use crate::error::CompileError;

/// Compiles a module after its passes. Returns an error if the engine cannot lower an op, or if the entry function is
/// invalid.
pub(crate) fn lower_program(module: &Module, settings: &CompileSettings, pool: &Pool) -> Result<Program, CompileError> {
    let func = entry(module)?;
    let mut lower = GraphBuilder::new(module, settings, pool);
    let Lowered { mut block, args, results } = lower.entry(func)?;
    short_rows::unroll(&mut block, &mut lower);
    for (declared, ty) in func.results.iter().zip(&results) {
        let is_token = matches!(declared, Type::Token) && *ty == entry_type(declared)?;
        if !is_token && !fits(declared, ty)? {
            return Err(CompileError::invalid(format!(
                "the entry function declares a result {declared} and returns a {ty}"
            )));
        }
    }
    let parameters = args.iter().enumerate().map(|(i, arg)| {
        let alias_output = func.aliased_result(i).map_err(|error| CompileError::invalid(error.to_string()))?;
        let donor = func.arg_attribute(i, "jax.buffer_donor").is_some_and(|value| *value != Attribute::Bool(false));
        Ok(Parameter { ty: arg.ty.clone(), alias_output, donor })
    });
    let parameters = parameters.collect::<Result<Vec<Parameter>, CompileError>>()?;
    let mut aliased = vec![false; results.len()];
    for output in parameters.iter().filter_map(|parameter| parameter.alias_output) {
        if std::mem::replace(&mut aliased[output], true) {
            return Err(CompileError::invalid(format!(
                "two arguments have tf.aliasing_output = {output}, but a result can share the memory of one only"
            )));
        }
    }
    let args: Vec<ValueIndex> = args.iter().map(|a| a.value).collect();
    let emitted = emit(block, &args, &lower.values, pool, settings)?;
    let mut program = Program {
        name: module.name.clone().unwrap_or_else(|| func.name.clone()),
        parameters,
        outputs: results,
        consts: emitted.consts,
        slots: emitted.slots,
        peak: None,
        block: emitted.block,
        pool: pool.clone(),
        settings: settings.clone(),
        collectives: lower.collectives,
        shardings: None,
        readable: None,
        bounded: None,
    };
    program.peak = program.find_peak(|value| lower.place_of(value)).map(Box::new);
    Ok(program)
}

/// Lowers a module after its passes, without creating a program. Returns the errors of [`lower_program`] for the ops of
/// the module.
pub(crate) fn check_lowering(module: &Module, settings: &CompileSettings, pool: &Pool) -> Result<(), CompileError> {
    GraphBuilder::new(module, settings, pool).entry(entry(module)?).map(|_| ())
}

fn entry(module: &Module) -> Result<&Func, CompileError> {
    module.entry().ok_or_else(|| {
        CompileError::invalid("the module has no entry: name one function `main`, or make exactly one public")
    })
}

//! Partitions a module: plans the shardings, rewrites the entry function, and verifies the result.

use stablehlo::ir::{Attribute, Attributes, Module, OpKind};

use super::{placement, plan, round_trip, split};
use crate::error::CompileError;
use crate::sharding::OpSharding;

/// The program of one partition.
#[derive(Debug)]
#[non_exhaustive]
pub struct Partitioned {
    /// The module. Its entry function takes and returns shards. Its other functions are those that custom calls refer
    /// to.
    pub module: Module,
    /// The sharding of each parameter.
    pub parameter_shardings: Vec<OpSharding>,
    /// The sharding of each output.
    pub output_shardings: Vec<OpSharding>,
}

/// Partitions a program over `partitions` devices in each of `replicas` replicas.
///
/// Arguments without an annotation are replicated on every device. Results without an annotation have the sharding that
/// propagation chose. The engine does not need to run the result: a device with its own collectives can compile it.
///
/// # Errors
///
/// Returns an error that names the op or the annotation that cannot be partitioned.
pub fn partition(module: &Module, replicas: usize, partitions: usize) -> Result<Partitioned, CompileError> {
    let shardy = round_trip::as_attributes(module)?;
    let module = shardy.as_ref().unwrap_or(module);
    let inlined = stablehlo::inline(module, &[]).map_err(|error| CompileError::unsupported(error.to_string()))?;
    let func = inlined.entry().ok_or_else(|| CompileError::invalid("the module has no entry function to split"))?;
    let plan = plan::Plan::new(module, func, partitions.max(1))?;
    let split = split::split(module, &plan, replicas)?;
    let of = placement::op_sharding;
    let args = func.args().iter();
    let parameter_shardings: Vec<OpSharding> =
        args.map(|arg| of(&plan.grid, plan.state(*arg), plan.placements.get(arg))).collect();
    let outputs = plan.outputs.iter().zip(&plan.output_placements);
    let output_shardings: Vec<OpSharding> =
        outputs.map(|(state, placement)| of(&plan.grid, state, placement.as_ref())).collect();
    let mut attributes = module.attributes.clone();
    attributes.extend(export_attributes(&parameter_shardings, &output_shardings));
    let module = Module { attributes, symbols: Vec::new(), ..stablehlo_passes::extract(module, split) };
    // Verify the program, so that a mistake in the rules becomes an error and not a wrong result.
    stablehlo::verify(&module, stablehlo::VerifyLevel::FULL)
        .map_err(|error| CompileError::unsupported(format!("the program could not be split over devices: {error}")))?;
    Ok(Partitioned { module, parameter_shardings, output_shardings })
}

/// Returns the module attributes that describe the shardings of a partitioned program, for clients that do not support
/// the Shardings extension.
fn export_attributes(parameters: &[OpSharding], outputs: &[OpSharding]) -> Attributes {
    let string = |text: String| Attribute::String(text.into_bytes().into());
    let list = parameters.iter().map(|sharding| string(sharding.to_string())).collect();
    let mut attributes = vec![("mhlo.spmd_parameters_shardings".to_owned(), Attribute::Array(list))];
    let texts: Vec<String> = outputs.iter().map(ToString::to_string).collect();
    let output = match &texts[..] {
        // XLA also assigns a sharding to the empty tuple, which is the result of a program without outputs.
        [] => OpSharding::Replicated.to_string(),
        [one] => one.clone(),
        all => format!("{{{}}}", all.join(", ")),
    };
    attributes.push(("mhlo.spmd_output_sharding".to_owned(), string(output)));
    attributes
}

/// Returns whether the program contains manual computations of Shardy. Only [`partition`] can lower them.
pub(crate) fn has_manual_parts(module: &Module) -> bool {
    module.funcs.iter().flat_map(|func| func.body.all_ops()).any(|op| match &op.kind {
        OpKind::Other { name, .. } => name == "sdy.manual_computation",
        OpKind::Call { callee } => callee.starts_with(round_trip::MANUAL_BODY),
        _ => false,
    })
}

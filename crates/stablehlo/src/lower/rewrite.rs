//! Rewrites every op of a program.

use super::rules::DeviceRules;
use super::{dense, elements};
use crate::error::Result;
use crate::ir::*;
use crate::rewrite::{Patch, rewrite};
use crate::verify::{VerifyLevel, verify};

/// Returns the program with the changes that the device requires.
///
/// ```
/// use stablehlo::VerifyLevel;
/// use stablehlo::ir::ElementType;
/// use stablehlo::lower::{DeviceRules, lower};
///
/// let module = stablehlo::parse("func.func @main(%x: tensor<2xf64>) -> tensor<2xf64> {
///   %0 = stablehlo.tanh %x : tensor<2xf64>
///   return %0 : tensor<2xf64>
/// }", VerifyLevel::FULL)?;
/// let rules = DeviceRules::new().replaced(ElementType::F64, ElementType::F32);
/// let lowered = lower(&module, &rules)?;
/// assert!(lowered.to_string().contains("stablehlo.tanh %arg0 : tensor<2xf32>"));
/// # Ok::<(), stablehlo::Error>(())
/// ```
///
/// # Errors
///
/// Returns an error if the program contains an element type that the device lacks, or if a replacement makes the
/// program invalid. An example is a `bitcast_convert` of a type that became narrower. The error names the op and its
/// location.
pub fn lower(module: &Module, rules: &DeviceRules) -> Result<Module> {
    if *rules == DeviceRules::default() {
        return Ok(module.clone());
    }
    let mut lowered = module.clone();
    let Module { funcs, locations, .. } = &mut lowered;
    for func in funcs {
        for ty in func.values.iter_mut() {
            *ty = elements::replaced(ty, rules);
        }
        for ty in &mut func.results {
            *ty = elements::replaced(ty, rules);
        }
        if rules.no_donation {
            for attributes in &mut func.arg_attributes {
                attributes.retain(|(name, _)| !matches!(name.as_str(), "tf.aliasing_output" | "jax.buffer_donor"));
            }
        }
        for &arg in &func.body.args {
            elements::check(&func.values[arg], rules).map_err(|e| e.with_func(&func.name))?;
        }
        rewrite(func, locations, |op, patch| replace(op, rules, patch))?;
    }
    verify(&lowered, VerifyLevel::FULL)?;
    Ok(lowered)
}

fn replace(mut op: Op, rules: &DeviceRules, patch: &mut Patch<'_>) -> Result<()> {
    for &result in &op.results {
        elements::check(&patch.types()[result], rules)?;
    }
    match &mut op.kind {
        OpKind::Constant(literal) => {
            *literal = elements::converted(literal, rules.replacement(literal.ty.element))?;
        }
        OpKind::RngBitGenerator { algorithm: algorithm @ RngAlgorithm::Default } => {
            *algorithm = rules.rng.unwrap_or(*algorithm);
        }
        OpKind::DotGeneral { .. } | OpKind::Convolution { .. } => cast_operands(&mut op, rules, patch),
        OpKind::Gather { .. } if rules.dense_gather.is_some() => {
            if let Some(dense) = dense::gather(rules, &op, patch) {
                op = dense;
            }
        }
        OpKind::Scatter { .. } if rules.dense_scatter.is_some() => {
            if let Some(dense) = dense::scatter(rules, &op, patch) {
                op = dense;
            }
        }
        _ => {}
    }
    patch.push(op);
    Ok(())
}

/// Converts the operands of a matrix multiplication or a convolution to the autocast type, if all of them have wider
/// floating-point types.
fn cast_operands(op: &mut Op, rules: &DeviceRules, patch: &mut Patch<'_>) {
    let Some(short) = rules.autocast else { return };
    let wide = |ty: Option<&TensorType>| {
        ty.is_some_and(|ty| ty.element.is_float() && ty.element.bit_width() > short.bit_width())
    };
    if !op.operands.iter().all(|&operand| wide(patch.types()[operand].as_tensor())) {
        return;
    }
    for operand in &mut op.operands {
        if let Some(ty) = patch.types()[*operand].as_tensor() {
            let ty = TensorType { element: short, shape: ty.shape.clone() };
            *operand = patch.add(OpKind::Convert, &[*operand], ty);
        }
    }
}

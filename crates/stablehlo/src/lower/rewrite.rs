//! Rewrites every op of a program.

use super::function::Rewrite;
use super::rules::DeviceRules;
use super::{dense, elements};
use crate::error::{Error, Result};
use crate::ir::*;
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
    for func in &mut lowered.funcs {
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
        let body = std::mem::take(&mut func.body);
        let mut rewrite = Rewrite { rules, values: &mut func.values, module };
        for &arg in &body.args {
            elements::check(&rewrite.values[arg], rules).map_err(|e| e.with_func(&func.name))?;
        }
        func.body = rewrite.region(body).map_err(|e| e.with_func(&func.name))?;
    }
    verify(&lowered, VerifyLevel::FULL)?;
    Ok(lowered)
}

impl Rewrite<'_> {
    fn region(&mut self, region: Region) -> Result<Region> {
        let mut ops = Vec::with_capacity(region.ops.len());
        for op in region.ops {
            let (name, location) = (op.kind.name(), op.location);
            let place = |e: Error| if e.op().is_some() { e } else { e.with_op(&name) };
            self.op(op, &mut ops).map_err(|e| place(e).with_location(self.module.location(location)))?;
        }
        Ok(Region { args: region.args, ops })
    }

    fn op(&mut self, mut op: Op, ops: &mut Vec<Op>) -> Result<()> {
        op.regions = op.regions.into_iter().map(|region| self.region(region)).collect::<Result<_>>()?;
        for &result in &op.results {
            elements::check(&self.values[result], self.rules)?;
        }
        match &mut op.kind {
            OpKind::Constant(literal) => {
                *literal = elements::converted(literal, self.rules.replacement(literal.ty.element))?;
            }
            OpKind::RngBitGenerator { algorithm: algorithm @ RngAlgorithm::Default } => {
                *algorithm = self.rules.rng.unwrap_or(*algorithm);
            }
            OpKind::DotGeneral { .. } | OpKind::Convolution { .. } => self.cast_operands(&mut op, ops),
            OpKind::Gather { .. } if self.rules.dense_gather.is_some() => {
                if let Some(dense) = dense::gather(self, &op, ops) {
                    op = dense;
                }
            }
            OpKind::Scatter { .. } if self.rules.dense_scatter.is_some() => {
                if let Some(dense) = dense::scatter(self, &op, ops) {
                    op = dense;
                }
            }
            _ => {}
        }
        ops.push(op);
        Ok(())
    }

    /// Converts the operands of a matrix multiplication or a convolution to the autocast type, if all of them have
    /// wider floating-point types.
    fn cast_operands(&mut self, op: &mut Op, ops: &mut Vec<Op>) {
        let Some(short) = self.rules.autocast else { return };
        let location = op.location;
        let wide = |ty: Option<&TensorType>| {
            ty.is_some_and(|ty| ty.element.is_float() && ty.element.bit_width() > short.bit_width())
        };
        if !op.operands.iter().all(|&operand| wide(self.values[operand].as_tensor())) {
            return;
        }
        for operand in &mut op.operands {
            if let Some(ty) = self.values[*operand].as_tensor() {
                let ty = TensorType { element: short, shape: ty.shape.clone() };
                *operand = self.add(OpKind::Convert, &[*operand], ty, location, ops);
            }
        }
    }
}

//! The pass `expand_complex`.

mod arithmetic;
mod functions;
mod pairs;

use stablehlo::ir::{Binary, Func, Module, Op, OpKind, Region, Unary, ValueId, ValueTypes};
use stablehlo::{Patch, Result, rewrite};

use self::pairs::{Pair, Pairs, is_complex};
use crate::apply::apply_all;

/// Replaces complex numbers with pairs of real ones, for devices without complex arithmetic. Returns `None` if the
/// program has no op on complex numbers that the pass replaces.
///
/// ```text
/// func.func @main(%x: tensor<4xcomplex<f32>>)           func.func @main(%x: tensor<4xcomplex<f32>>)
///     -> tensor<4xcomplex<f32>> {                           -> tensor<4xcomplex<f32>> {
///   %0 = stablehlo.add %x, %x                       =>    %re = stablehlo.real %x
///   return %0                                             %im = stablehlo.imag %x
/// }                                                       %1 = stablehlo.add %re, %re
///                                                         %2 = stablehlo.add %im, %im
///                                                         %0 = stablehlo.complex %1, %2
///                                                         return %0
///                                                       }
/// ```
///
/// Arguments and results of functions keep their types. `real` and `imag` split arguments, and `complex` joins results.
/// Values that `while`, `if`, `case`, `reduce`, `reduce_window`, `scatter` and `sort` carry become two values each.
///
/// Replaces elementary arithmetic, `abs`, `exponential`, `log`, `sqrt`, `sine`, `cosine`, comparisons, conversions,
/// ops that move elements, `dot_general` and `convolution`. Every other op, such as `fft` or a call, stays as it is
/// between `complex` and `real` and `imag`. To inline calls, call [`stablehlo::inline`] first.
///
/// Sums and differences are exact. The parts of products, quotients and functions are rounded several times, so the
/// error relative to the magnitude of the result is a few units in the last place. Functions of zeros, infinities and
/// NaN follow C99, Annex G. So do quotients, except for the signs of zeros. A product of an infinity has the parts that
/// the formula gives, which may be NaN.
///
/// # Errors
///
/// Returns an error if a function or a comparison needs a constant of dynamic shape. The module must be verified.
pub fn expand_complex(module: &Module) -> Result<Option<Module>> {
    let applies = |func: &Func| func.body.all_ops().any(|op| is_concerned(op, &func.values));
    apply_all(module, applies, |func, locations| {
        let mut pairs = Pairs::default();
        rewrite(func, locations, |op, patch| pairs.op(op, patch))?;
        pairs.border(&mut func.body, &mut func.values);
        Ok(())
    })
}

/// Returns whether the pass replaces the op.
fn is_concerned(op: &Op, types: &ValueTypes) -> bool {
    let mut values = op.operands.iter().chain(&op.results).chain(op.regions.iter().flat_map(|region| &region.args));
    let is_border = matches!(op.kind, OpKind::Unary(Unary::Real | Unary::Imag) | OpKind::Binary(Binary::Complex));
    !is_border && (is_carrier(&op.kind) || arithmetic::is_supported(&op.kind)) && values.any(|&v| is_complex(types, v))
}

/// Returns whether each complex operand and result of the op can become two operands and results.
fn is_carrier(kind: &OpKind) -> bool {
    matches!(
        kind,
        OpKind::While
            | OpKind::If
            | OpKind::Case
            | OpKind::OptimizationBarrier
            | OpKind::Reduce { .. }
            | OpKind::ReduceWindow { .. }
            | OpKind::Scatter { .. }
            | OpKind::Sort { .. }
    )
}

impl Pairs {
    fn op(&mut self, op: Op, patch: &mut Patch<'_>) -> Result<()> {
        let has_complex =
            |op: &Op, types: &ValueTypes| op.operands.iter().chain(&op.results).any(|&value| is_complex(types, value));
        let regions_have = op.regions.iter().any(|region| {
            let returned = region.ops.last().map_or(&[][..], |end| &end.operands);
            region.args.iter().chain(returned).any(|&value| is_complex(patch.types(), value))
        });
        if matches!(op.kind, OpKind::Return) || !(has_complex(&op, patch.types()) || regions_have) {
            patch.push(op);
            Ok(())
        } else if is_carrier(&op.kind) {
            self.carrier(op, patch)
        } else if let Some(values) = arithmetic::expand(&op, self, patch)? {
            let result = op.results[0];
            match values {
                arithmetic::Value::Real(value) => patch.replace_uses(result, value),
                arithmetic::Value::Complex(pair) => _ = self.of.insert(result, pair),
            }
            Ok(())
        } else {
            self.other(op, patch)
        }
    }

    /// Splits the values that an op carries.
    fn carrier(&mut self, mut op: Op, patch: &mut Patch<'_>) -> Result<()> {
        op.operands = self.flat(patch, &op.operands)?;
        op.results = self.flat(patch, &op.results)?;
        for region in &mut op.regions {
            region.args = if matches!(op.kind, OpKind::Sort { .. }) {
                // The comparator takes two elements of each operand in turn.
                let mut args = Vec::new();
                for pair in region.args.chunks(2) {
                    let flat = self.flat(patch, pair)?;
                    match flat[..] {
                        [a_re, a_im, b_re, b_im] => args.extend([a_re, b_re, a_im, b_im]),
                        _ => args.extend(flat),
                    }
                }
                args
            } else {
                self.flat(patch, &region.args)?.to_vec()
            };
            if let Some(end) = region.ops.last_mut() {
                end.operands = self.flat(patch, &end.operands)?;
            }
        }
        patch.push(op);
        Ok(())
    }

    /// Keeps an op. Joins its operands, and splits its results.
    fn other(&mut self, mut op: Op, patch: &mut Patch<'_>) -> Result<()> {
        for operand in &mut op.operands {
            if is_complex(patch.types(), *operand) {
                let (re, im) = self.get(patch, *operand)?;
                let ty = patch.tensor(*operand)?.clone();
                *operand = patch.add(OpKind::Binary(Binary::Complex), &[re, im], ty);
            }
        }
        for region in &mut op.regions {
            let args: Vec<Pair> = region.args.iter().filter_map(|arg| self.of.get(arg).copied()).collect();
            let sources: Vec<ValueId> = region.args.iter().filter(|arg| self.of.contains_key(arg)).copied().collect();
            let Region { args: outer, ops } = std::mem::take(region);
            *region = patch.region(outer, |patch| {
                for (&source, (re, im)) in sources.iter().zip(args) {
                    patch.define(OpKind::Unary(Unary::Real), &[source], &[re]);
                    patch.define(OpKind::Unary(Unary::Imag), &[source], &[im]);
                }
                for mut op in ops {
                    if matches!(op.kind, OpKind::Return) {
                        for operand in &mut op.operands {
                            if is_complex(patch.types(), *operand) {
                                let (re, im) = self.get(patch, *operand)?;
                                let ty = patch.tensor(*operand)?.clone();
                                *operand = patch.add(OpKind::Binary(Binary::Complex), &[re, im], ty);
                            }
                        }
                    }
                    patch.push(op);
                }
                Ok(())
            })?;
        }
        let results: Vec<ValueId> =
            op.results.iter().copied().filter(|&result| is_complex(patch.types(), result)).collect();
        patch.push(op);
        for result in results {
            let (re, im) = self.get(patch, result)?;
            patch.define(OpKind::Unary(Unary::Real), &[result], &[re]);
            patch.define(OpKind::Unary(Unary::Imag), &[result], &[im]);
        }
        Ok(())
    }

    /// Splits the arguments of a function, and joins its results.
    fn border(&self, body: &mut Region, values: &mut ValueTypes) {
        let mut ops = Vec::new();
        for arg in &body.args {
            if let Some(&(re, im)) = self.of.get(arg) {
                ops.push(Op::new(OpKind::Unary(Unary::Real), vec![*arg], vec![re]));
                ops.push(Op::new(OpKind::Unary(Unary::Imag), vec![*arg], vec![im]));
            }
        }
        let own: Vec<ValueId> = body.args.clone();
        for mut op in std::mem::take(&mut body.ops) {
            if matches!(op.kind, OpKind::Return) {
                for operand in &mut op.operands {
                    // An argument still has its complex value.
                    if let (Some(&(re, im)), false) = (self.of.get(operand), own.contains(operand)) {
                        let ty = values[*operand].clone();
                        let joined = values.push(ty);
                        let kind = OpKind::Binary(Binary::Complex);
                        ops.push(Op { location: op.location, ..Op::new(kind, vec![re, im], vec![joined]) });
                        *operand = joined;
                    }
                }
            }
            ops.push(op);
        }
        body.ops = ops;
    }
}

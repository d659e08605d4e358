//! Checks whether the engine supports an op.

use stablehlo::ir::{Func, Module, Op, OpKind};
use stablehlo_passes::{extract, outline};

use crate::compile::rewritten;
use crate::engine::{CompileSettings, Pool, check_lowering};
use crate::error::CompileError;

/// Checks whether the engine supports an op of a function of the module. Lowers the op as [`compile`](crate::compile)
/// does, but does not create a program. The operands are known if they are constants of the function, and unknown
/// otherwise.
///
/// ```
/// let module = stablehlo::parse(
///     "func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
///        %0 = stablehlo.custom_call @mine(%x) : (tensor<2xf32>) -> tensor<2xf32>
///        %1 = stablehlo.sine %0 : tensor<2xf32>
///        return %1 : tensor<2xf32>
///      }",
///     stablehlo::VerifyLevel::FULL,
/// )?;
/// let main = &module.funcs[0];
/// let [call, sine, _] = &main.body.ops[..] else { panic!("three ops") };
/// assert!(stablehlo_cpu::supports(&module, main, call).is_err());
/// assert!(stablehlo_cpu::supports(&module, main, sine).is_ok());
/// # Ok::<(), stablehlo::Error>(())
/// ```
///
/// # Errors
///
/// Returns the error with which [`compile`](crate::compile) rejects the op. The error names the op, its types and its
/// location.
pub fn supports(module: &Module, func: &Func, op: &Op) -> Result<(), CompileError> {
    if matches!(op.kind, OpKind::Return) {
        return Ok(());
    }
    let error = match check(module, func, &[op]) {
        Err(error) if !op.operands.is_empty() => error,
        result => return result,
    };
    // Some ops need constant operands, such as the shape of `dynamic_reshape`. Few ops get here, so find the constants
    // only now.
    let is_operand = |other: &&Op| other.results.iter().any(|result| op.operands.contains(result));
    let constants = func.body.all_ops().filter(|other| matches!(other.kind, OpKind::Constant(_)));
    let mut ops: Vec<&Op> = constants.filter(is_operand).collect();
    if ops.is_empty() {
        return Err(error);
    }
    ops.push(op);
    check(module, func, &ops)
}

/// Lowers a program of these ops.
fn check(module: &Module, func: &Func, ops: &[&Op]) -> Result<(), CompileError> {
    // Without results, because a program cannot return a tuple.
    let part = outline(&func.name, ops.iter().copied(), &[], &func.values)?;
    let part = extract(module, part.func);
    let settings = CompileSettings::default();
    let part = rewritten(&part, &settings)?;
    check_lowering(&part, &settings, Pool::global())
}

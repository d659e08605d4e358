//! The pass `canonicalize_dots`.

use stablehlo::ir::{Dims, DotDimensions, Module, Op, OpKind, TensorType, ValueId};
use stablehlo::{Patch, Result, rewrite};

use crate::apply::apply_all;
use crate::build::Build;

/// Rewrites each `dot_general` to a product of matrices with one batch dimension: `[b, m, k]` or `[b, k, m]` times
/// `[b, k, n]`. Adds reshapes, and transposes of operands whose dimensions are in another order. Returns `None` if the
/// program has no `dot_general`. The module must be verified, and its shapes must be static.
///
/// # Errors
///
/// Returns no error for a verified module.
pub fn canonicalize_dots(module: &Module) -> Result<Option<Module>> {
    let applies = |op: &Op| matches!(op.kind, OpKind::DotGeneral { .. });
    apply_all(
        module,
        |func| func.body.all_ops().any(applies),
        |func, locations| {
            rewrite(func, locations, |op, patch| {
                match op.kind.clone() {
                    OpKind::DotGeneral { dimensions, precision } => {
                        let (operands, shape, dimensions) = operands(&op, &dimensions, patch)?;
                        let ty = TensorType::new(shape, patch.tensor(op.results[0])?.element);
                        let product = patch.add(OpKind::DotGeneral { dimensions, precision }, &operands, ty);
                        patch.define(OpKind::Reshape, &[product], &op.results);
                    }
                    _ => patch.push(op),
                }
                Ok(())
            })
        },
    )
}

/// Adds the new operands. Returns them, the shape of the product, and its dimensions.
fn operands(
    op: &Op,
    dimensions: &DotDimensions,
    patch: &mut Patch<'_>,
) -> Result<([ValueId; 2], [i64; 3], DotDimensions)> {
    let (left, right) = (op.operands[0], op.operands[1]);
    let DotDimensions { lhs_batching, rhs_batching, lhs_contracting, rhs_contracting } = dimensions;
    let (from, to) = (patch.tensor(left)?.clone(), patch.tensor(right)?.clone());
    let rows = others(from.rank(), [lhs_batching, lhs_contracting]);
    let columns = others(to.rank(), [rhs_batching, rhs_contracting]);
    let size = |ty: &TensorType, dims: &Dims| dims.iter().map(|&dimension| ty.shape[dimension]).product::<i64>();
    let (b, k) = (size(&from, lhs_batching), size(&from, lhs_contracting));
    let (m, n) = (size(&from, &rows), size(&to, &columns));
    let order = |groups: [&Dims; 3]| groups.into_iter().flatten().copied().collect::<Dims>();
    let transposed = order([lhs_batching, lhs_contracting, &rows]);
    // For one row, both forms are the same.
    let is_transposed = is_sorted(&transposed) && m > 1;
    let left = match is_transposed {
        true => arranged(left, &transposed, [b, k, m], patch)?,
        false => arranged(left, &order([lhs_batching, &rows, lhs_contracting]), [b, m, k], patch)?,
    };
    let right = arranged(right, &order([rhs_batching, rhs_contracting, &columns]), [b, k, n], patch)?;
    let dims = |dimension: usize| Dims::from_slice(&[dimension]);
    let dimensions = DotDimensions {
        lhs_batching: dims(0),
        rhs_batching: dims(0),
        lhs_contracting: dims(if is_transposed { 1 } else { 2 }),
        rhs_contracting: dims(1),
    };
    Ok(([left, right], [b, m, n], dimensions))
}

fn others(rank: usize, lists: [&Dims; 2]) -> Dims {
    (0..rank).filter(|dimension| lists.iter().all(|list| !list.contains(dimension))).collect()
}

fn is_sorted(order: &Dims) -> bool {
    order.iter().copied().eq(0..order.len())
}

/// Adds a value with the dimensions in another order, and in another shape.
fn arranged(value: ValueId, order: &Dims, shape: [i64; 3], patch: &mut Patch<'_>) -> Result<ValueId> {
    let value = patch.transpose(value, order)?;
    patch.reshape(value, &shape)
}

#[cfg(test)]
mod tests {
    use stablehlo::VerifyLevel;
    use stablehlo_cpu::{DType, Tensor, compile};

    use super::*;

    /// Checks the program of a product, and that its result stays the same. Returns the number of transposes.
    fn transposes(left: (&[usize], &str), right: (&[usize], &str), result: &str) -> usize {
        let ty = |shape: &[usize]| {
            let extents: Vec<String> = shape.iter().map(|extent| format!("{extent}x")).collect();
            format!("tensor<{}i32>", extents.concat())
        };
        let (x, y) = (ty(left.0), ty(right.0));
        let text = format!(
            "func.func @main(%x: {x}, %y: {y}) -> {result} {{
               %0 = \"stablehlo.dot_general\"(%x, %y) <{{dot_dimension_numbers = #stablehlo.dot<{}, {}>}}>
                 : ({x}, {y}) -> {result}
               return %0 : {result}
             }}",
            left.1, right.1
        );
        let module = stablehlo::parse(text, VerifyLevel::FULL).unwrap();
        let changed = canonicalize_dots(&module).unwrap().unwrap();
        stablehlo::verify(&changed, VerifyLevel::FULL).unwrap();
        let tensor = |shape: &[usize]| {
            let elements: Vec<i32> = (0..i32::try_from(shape.iter().product::<usize>()).unwrap()).collect();
            Tensor::from_slice(DType::I32, shape, &elements).unwrap()
        };
        let run = |module: &Module| compile(module).unwrap().run(vec![tensor(left.0), tensor(right.0)]).unwrap();
        assert_eq!(run(&module)[0].bytes(), run(&changed)[0].bytes());
        let ops = &changed.funcs[0].body.ops;
        let Some(dot) = ops.iter().find(|op| matches!(op.kind, OpKind::DotGeneral { .. })) else { panic!("{changed}") };
        for &value in dot.operands.iter().chain(&dot.results) {
            assert_eq!(changed.funcs[0].ty(value).to_string().matches('x').count(), 3, "{changed}");
        }
        ops.iter().filter(|op| matches!(op.kind, OpKind::Transpose { .. })).count()
    }

    #[test]
    fn products_of_matrices() {
        let plain = (&[2, 3][..], "lhs_contracting_dimensions = [1]");
        assert_eq!(transposes(plain, (&[3, 4], "rhs_contracting_dimensions = [0]"), "tensor<2x4xi32>"), 0);
        assert_eq!(transposes(plain, (&[4, 3], "rhs_contracting_dimensions = [1]"), "tensor<2x4xi32>"), 1);
        let transposed = (&[3, 2][..], "lhs_contracting_dimensions = [0]");
        assert_eq!(transposes(transposed, (&[3, 4], "rhs_contracting_dimensions = [0]"), "tensor<2x4xi32>"), 0);
        assert_eq!(transposes(plain, (&[3], "rhs_contracting_dimensions = [0]"), "tensor<2xi32>"), 0);
    }

    #[test]
    fn products_with_batches() {
        let left = (&[2, 3, 5, 4][..], "lhs_batching_dimensions = [1], lhs_contracting_dimensions = [3, 0]");
        let right = (&[4, 2, 6, 3][..], "rhs_batching_dimensions = [3], rhs_contracting_dimensions = [0, 1]");
        assert_eq!(transposes(left, right, "tensor<3x5x6xi32>"), 2);
    }

    #[test]
    fn other_programs_stay() {
        let text = "func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> { return %x : tensor<2xf32> }";
        let module = stablehlo::parse(text.to_owned(), VerifyLevel::FULL).unwrap();
        assert!(canonicalize_dots(&module).unwrap().is_none());
    }
}

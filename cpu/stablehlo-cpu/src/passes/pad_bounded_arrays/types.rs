//! The types of arrays of bounded size.

use stablehlo::ir::{ElementType, TensorType, Type};

use crate::engine::BoundedArray;
use crate::error::CompileError;

pub(super) type Result<T> = std::result::Result<T, CompileError>;

/// Returns the maximum shape of a type such as `tensor<?x2xf32, #stablehlo.bounds<6, ?>>`, and its bounded dimensions.
/// Returns `None` for other types.
pub(super) fn bounded(ty: &Type) -> Option<(TensorType, Vec<usize>)> {
    let Type::Other(text) = ty else { return None };
    let (shape, bounds) = text.strip_prefix("tensor<")?.split_once(", #stablehlo.bounds<")?;
    let bounds = bounds.strip_suffix(">>")?.split(',').map(|bound| bound.trim().parse::<i64>().ok());
    let mut element = shape;
    let (mut extents, mut dimensions) = (Vec::new(), Vec::new());
    for (dimension, bound) in bounds.enumerate() {
        let (extent, rest) = element.split_once('x')?;
        if extent == "?" {
            extents.push(bound.filter(|&bound| bound >= 0)?);
            dimensions.push(dimension);
        } else {
            extents.push(extent.parse().ok()?);
        }
        element = rest;
    }
    Some((TensorType::new(extents, ElementType::from_name(element)?), dimensions))
}

/// Returns the arrays of bounded size among values of these types.
pub(super) fn arrays<'a>(types: impl Iterator<Item = &'a Type>) -> Vec<BoundedArray> {
    let array = |(index, ty)| bounded(ty).map(|(_, dimensions)| BoundedArray { index, dimensions });
    types.enumerate().filter_map(array).collect()
}

/// Returns the number of sizes that accompany these arrays.
pub(super) fn size_count(arrays: &[BoundedArray]) -> usize {
    arrays.iter().map(|array| array.dimensions.len()).sum()
}

/// Returns the type of a size.
pub(super) fn size_type() -> TensorType {
    TensorType::new([], ElementType::I32)
}

/// The arrays of bounded size in the signature of a function.
pub(super) struct Signature {
    pub(super) arguments: Vec<BoundedArray>,
    pub(super) results: Vec<BoundedArray>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_types() {
        let of = |text: &str| bounded(&Type::Other(text.to_owned()));
        let ty = of("tensor<?x2xi64, #stablehlo.bounds<6, ?>>").unwrap();
        assert_eq!(ty, (TensorType::new([6, 2], ElementType::I64), vec![0]));
        let ty = of("tensor<3x?xcomplex<f32>, #stablehlo.bounds<?, 5>>").unwrap();
        assert_eq!(ty, (TensorType::new([3, 5], ElementType::ComplexF32), vec![1]));
        for other in ["tensor<?x2xi64, #stablehlo.bounds<?, ?>>", "tensor<?xi64>", "tensor<2x!quant.any>", "x"] {
            assert_eq!(of(other), None, "{other}");
        }
    }
}

//! Ops that compute each element of their results from the elements at the same index.

use stablehlo::ir::OpKind;

use super::builder::Sizes;

/// The names of elementwise ops of other dialects. Custom calls use the same names as their targets.
const NAMED: &[&str] = &[
    "chlo.acos",
    "chlo.acosh",
    "chlo.asin",
    "chlo.asinh",
    "chlo.atan",
    "chlo.atanh",
    "chlo.bessel_i1e",
    "chlo.cosh",
    "chlo.digamma",
    "chlo.erf",
    "chlo.erf_inv",
    "chlo.erfc",
    "chlo.is_inf",
    "chlo.lgamma",
    "chlo.next_after",
    "chlo.polygamma",
    "chlo.sinh",
    "chlo.square",
    "chlo.tan",
    "chlo.zeta",
    "mhlo.acos",
    "mhlo.acosh",
    "mhlo.asin",
    "mhlo.asinh",
    "mhlo.atanh",
    "mhlo.cosh",
    "mhlo.erf",
    "mhlo.sinh",
];

/// Returns whether each element of the results depends only on the elements at the same index.
pub(super) fn is_elementwise(kind: &OpKind) -> bool {
    match kind {
        OpKind::Unary(_)
        | OpKind::Binary(_)
        | OpKind::Compare { .. }
        | OpKind::Select
        | OpKind::Clamp
        | OpKind::Fma
        | OpKind::Convert
        | OpKind::BitcastConvert
        | OpKind::Map { .. }
        | OpKind::ReducePrecision { .. } => true,
        OpKind::Other { name, .. } | OpKind::CustomCall { call_target_name: name, .. } => {
            NAMED.contains(&name.as_str())
        }
        _ => false,
    }
}

/// Returns the sizes of the results of an elementwise op. If several operands have a size in a dimension, the program
/// promises that these sizes are equal.
pub(super) fn merged(sizes: &[Sizes]) -> Sizes {
    let mut all = Sizes::new();
    for &(dimension, size) in sizes.iter().flatten() {
        if all.iter().all(|(known, _)| *known != dimension) {
            all.push((dimension, size));
        }
    }
    all
}

//! Detects programs that are known to crash XLA's plugins, or to make the plugins read outside a buffer.

use std::collections::HashMap;
use std::fmt;

use crate::ir::*;

/// A construct that crashes XLA's plugins, or makes them read outside a buffer.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Hazard {
    /// `set_dimension_size` with a constant size outside the range of the dimension. XLA reads outside the buffer, or
    /// aborts the process.
    DimensionSize {
        /// Name of the function that contains the op.
        func: String,
        /// Constant size that the op sets.
        size: i64,
        /// Extent of the dimension.
        bound: i64,
    },
    /// `custom_call @TopK` with `api_version = 1` and without a comparator. XLA aborts the process.
    TopK {
        /// Name of the function that contains the op.
        func: String,
    },
}

impl fmt::Display for Hazard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::DimensionSize { func, size, bound } => write!(
                f,
                "function {func}: stablehlo.set_dimension_size has the size {size}; it must be from 0 to {bound}, the \
                 extent of the dimension"
            ),
            Self::TopK { func } => write!(
                f,
                "function {func}: stablehlo.custom_call @TopK has api_version 1 and no comparator in \
                 called_computations; use chlo.top_k, or a sort and a slice"
            ),
        }
    }
}

/// Returns whether a program in any format may contain a hazard. Text, portable artifacts and HLO all contain the names
/// of the hazardous ops. A program without these names does not need to be parsed.
#[must_use]
pub fn may_have_hazards(program: &[u8]) -> bool {
    [&b"set_dimension_size"[..], b"set-dimension-size", b"TopK"].iter().any(|name| contains(program, name))
}

fn contains(haystack: &[u8], needle: &[u8]) -> bool {
    let Some(first) = needle.first() else { return true };
    let mut rest = haystack;
    while let Some(at) = rest.iter().position(|byte| byte == first) {
        if rest[at..].starts_with(needle) {
            return true;
        }
        rest = &rest[at + 1..];
    }
    false
}

/// Returns the hazards that can be detected without running the program.
#[must_use]
pub fn hazards(module: &Module) -> Vec<Hazard> {
    module.funcs.iter().flat_map(of_func).collect()
}

fn of_func(func: &Func) -> Vec<Hazard> {
    let mut found = Vec::new();
    let mut sizes = HashMap::new();
    // Visit the ops in program order, so that the constant size of an operand is known before an op uses it.
    walk(&func.body, &mut |op| match &op.kind {
        OpKind::Constant(literal) if literal.ty.shape.is_empty() => {
            if let (Some(values), Some(result)) = (literal.integers(), op.results.first()) {
                sizes.extend(values.first().map(|size| (*result, *size)));
            }
        }
        OpKind::Convert | OpKind::Reshape => {
            if let (Some(operand), Some(result)) = (op.operands.first(), op.results.first())
                && let Some(size) = sizes.get(operand).copied()
            {
                sizes.insert(*result, size);
            }
        }
        OpKind::SetDimensionSize { dimension } => found.extend(dimension_size(func, op, *dimension, &sizes)),
        OpKind::CustomCall { call_target_name, api_version: 1, .. } if call_target_name == "TopK" => {
            let comparator = op.attributes.iter().any(|(name, value)| {
                name == "called_computations" && !matches!(value, Attribute::Array(list) if list.is_empty())
            });
            if !comparator {
                found.push(Hazard::TopK { func: func.name.clone() });
            }
        }
        _ => {}
    });
    found
}

fn walk<'a>(region: &'a Region, visit: &mut impl FnMut(&'a Op)) {
    for op in &region.ops {
        visit(op);
        // The readers limit the nesting of regions, which also limits the depth of this recursion.
        op.regions.iter().for_each(|region| walk(region, visit));
    }
}

fn dimension_size(func: &Func, op: &Op, dimension: usize, sizes: &HashMap<ValueId, i64>) -> Option<Hazard> {
    let Type::Tensor(tensor) = func.ty(*op.operands.first()?) else { return None };
    let bound = *tensor.shape.get(dimension)?;
    let size = *sizes.get(op.operands.get(1)?)?;
    if bound == DYNAMIC || (0..=bound).contains(&size) {
        return None;
    }
    Some(Hazard::DimensionSize { func: func.name.clone(), size, bound })
}

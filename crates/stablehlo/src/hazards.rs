//! Detects programs that are known to crash XLA's plugins, or to make the plugins read outside a buffer.

use std::collections::HashMap;
use std::fmt;

use bytes::Bytes;

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
    [&b"set_dimension_size"[..], b"set-dimension-size", b"TopK"].iter().any(|name| position(program, name).is_some())
}

/// Returns the position of the first occurrence of `needle`, which must not be empty.
fn position(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    let first = needle.first()?;
    let mut start = 0;
    loop {
        start += haystack[start..].iter().position(|byte| byte == first)?;
        if haystack[start..].starts_with(needle) {
            return Some(start);
        }
        start += 1;
    }
}

/// Returns the first array type of an MLIR program (text or a portable artifact) whose bytes are more than `i64::MAX`,
/// if extents of 0 do not count. XLA aborts the process if a program contains such a type, even if the array is empty.
/// In HLO, XLA checks the types itself.
///
/// Does not parse the program, because [`parse`](crate::parse) rejects some of these types.
#[must_use]
pub fn oversized_type(program: &Bytes) -> Option<String> {
    if !crate::is_artifact(program) {
        return oversized_in_text(program);
    }
    crate::bytecode::type_texts(program).iter().find_map(|text| oversized_in_text(text.as_bytes()))
}

fn oversized_in_text(text: &[u8]) -> Option<String> {
    const TENSOR: &[u8] = b"tensor";
    let mut rest = text;
    loop {
        rest = rest[position(rest, TENSOR)? + TENSOR.len()..].trim_ascii_start();
        let Some(array) = rest.strip_prefix(b"<") else { continue };
        // The text up to the end of the element type, to the encoding, or to the end of a comment.
        let end = array.iter().position(|byte| b">,\n".contains(byte))?;
        let name: String = array[..end].iter().copied().map(char::from).filter(|c| !c.is_ascii_whitespace()).collect();
        if is_oversized(&name) {
            return Some(format!("tensor<{name}{}>", if name.contains('<') { ">" } else { "" }));
        }
        rest = &array[end..];
    }
}

/// Returns whether an array type such as `4x?xf32` has more than `i64::MAX` bytes, if extents of 0 do not count.
fn is_oversized(mut array: &str) -> bool {
    let mut bytes = Some(1i64);
    while let Some((extent, rest)) = array.split_once('x')
        && (extent == "?" || extent.bytes().all(|byte| byte.is_ascii_digit()))
    {
        // No plugin can parse an extent that exceeds an `i64`.
        let extent = extent.parse::<i64>().unwrap_or(1).max(1);
        bytes = bytes.and_then(|bytes| bytes.checked_mul(extent));
        array = rest;
    }
    let element = ElementType::all().find(|element| element.name().trim_end_matches('>') == array);
    let size = element.and_then(|element| i64::try_from(element.byte_size()).ok()).unwrap_or(1);
    bytes.and_then(|bytes| bytes.checked_mul(size)).is_none()
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
    for op in func.body.all_ops() {
        match &op.kind {
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
        }
    }
    found
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

//! The elementwise functions that compiled code can compute.

use stablehlo::ir::Unary;
use stablehlo_jit::{Element, has_binary, has_compare, has_unary};

use super::functions;
use crate::engine::dtype::DType;
use crate::engine::elementwise::{Map, Meaning};
use crate::engine::graph::{Node, Op};

/// Returns the element type that represents `dtype` in compiled code. Returns `None` if compiled code does not support
/// `dtype`.
pub(super) fn element_of(dtype: DType) -> Option<Element> {
    Some(match dtype {
        DType::Bool => Element::Bool,
        DType::I8 => Element::I8,
        DType::I16 => Element::I16,
        DType::I32 => Element::I32,
        DType::I64 => Element::I64,
        DType::U8 => Element::U8,
        DType::U16 => Element::U16,
        DType::U32 => Element::U32,
        DType::U64 => Element::U64,
        DType::F32 => Element::F32,
        DType::F64 => Element::F64,
        _ => return None,
    })
}

/// The types of the operands and of the result of a function that compiled code can compute. `None` stands for a type
/// that the function does not determine, such as the type of the values that `select` returns.
pub(super) struct Signature {
    pub(super) operands: Vec<Option<Element>>,
    pub(super) result: Option<Element>,
}

/// Returns the signature of a function, or `None` if compiled code cannot compute the function.
pub(super) fn signature(meaning: Meaning) -> Option<Signature> {
    let same = |element: Element, count: usize, result: Element| {
        Some(Signature { operands: vec![Some(element); count], result: Some(result) })
    };
    match meaning {
        Meaning::Unary(op, dtype) => {
            let element = element_of(dtype)?;
            let known = has_unary(op, element) || functions::unary(op, dtype).is_some();
            let result = if op == Unary::IsFinite { Element::Bool } else { element };
            if known { same(element, 1, result) } else { None }
        }
        Meaning::Binary(op, dtype) => {
            let element = element_of(dtype)?;
            let known = has_binary(op, element) || functions::binary(op, dtype).is_some();
            if known { same(element, 2, element) } else { None }
        }
        Meaning::Compare(_, kind, dtype) => {
            let element = element_of(dtype)?;
            if has_compare(kind, element) { same(element, 2, Element::Bool) } else { None }
        }
        Meaning::Select => Some(Signature { operands: vec![Some(Element::Bool), None, None], result: None }),
        Meaning::Clamp(dtype) | Meaning::Fma(dtype) => {
            let element = element_of(dtype)?;
            same(element, 3, element)
        }
        Meaning::Convert(from, to) => same(element_of(from)?, 1, element_of(to)?),
    }
}

/// Returns whether compiled code can compute an elementwise node.
pub(super) fn is_known(node: &Node) -> bool {
    match &node.op {
        Op::Map(Map { meaning, .. }) => meaning.is_some_and(|meaning| signature(meaning).is_some()),
        Op::Iota(iota) => element_of(iota.dtype()).is_some(),
        _ => true,
    }
}

//! Infers the result types of ops from their operands, attributes and regions, with the verifier's rules.
//!
//! A rule passes the expected type of a result to a [`Slot`](super::slot::Slot). For verification, the slot compares
//! the expected type with the actual type. For inference, the slot records the expected type. Verification and
//! inference therefore share the rules.

use std::sync::Arc;

use super::level::VerifyLevel;
use super::site::{Site, ensure, returned};
use super::slot::{Partial, Wanted};
use super::{collectives, contractions, dynamic, normalization, shapes, transfers};
use crate::attributes::Named;
use crate::error::{Error, ErrorKind, Result};
use crate::ir::*;
use crate::op_builder::{UntypedOp, kind};
use crate::ops::Opcode;

/// Infers the types of an op's results from its operands, attributes and regions. Does not read the op's `results`.
/// Uses the same rules as the verifier.
///
/// An inferred extent is dynamic only if the operands do not determine it. For `dot_general` and `convolution`, the
/// inferred element type is the element type of the first operand, although the ops may have other result types.
///
/// # Errors
///
/// Returns an error if operands, attributes or regions violate the specification, or if the result types do not follow
/// from them, as for `broadcast_in_dim`, `reshape`, `convert`, `iota` and `custom_call`. The error names the op and its
/// location.
///
/// ```
/// use stablehlo::VerifyLevel;
///
/// let module = stablehlo::parse("func.func @main(%x: tensor<2x3xf32>) -> tensor<3x2xf32> {
///   %0 = stablehlo.transpose %x, dims = [1, 0] : (tensor<2x3xf32>) -> tensor<3x2xf32>
///   return %0 : tensor<3x2xf32>
/// }", VerifyLevel::FULL)?;
/// let main = module.entry().expect("a function named main");
/// let types = stablehlo::infer(&module, main, &main.body.ops[0])?;
/// assert_eq!(types[0].to_string(), "tensor<3x2xf32>");
/// # Ok::<(), stablehlo::Error>(())
/// ```
pub fn infer(module: &Module, func: &Func, op: &Op) -> Result<Vec<Type>> {
    let known = |value: &ValueId| func.values.get(value.0 as usize).is_some();
    let types = if op.operands.iter().all(known) {
        from_module(module, func, op)
    } else {
        Err(Error::new(ErrorKind::Reference, "an operand has no type"))
    };
    types.map_err(|e| e.of_op(op, func, module))
}

/// Infers the result types of an op without regions that is not part of a module. `name` is the op's full name, such as
/// `stablehlo.slice`. `attributes` have the specification's names, and `operands` are the types of the operands.
///
/// ```
/// use stablehlo::ir::{Attribute, ElementType, TensorType, Type};
///
/// let ints = |list: &[i64]| Attribute::Array(list.iter().map(|&i| Attribute::Integer(i, ElementType::I64)).collect());
/// let attributes = vec![
///     ("start_indices".to_owned(), ints(&[1, 0])),
///     ("limit_indices".to_owned(), ints(&[3, 4])),
///     ("strides".to_owned(), ints(&[1, 2])),
/// ];
/// let operand = Type::Tensor(TensorType::new([4, 4], ElementType::F32));
/// let types = stablehlo::infer_op("stablehlo.slice", &attributes, &[operand])?;
/// assert_eq!(types[0].to_string(), "tensor<2x2xf32>");
/// # Ok::<(), stablehlo::Error>(())
/// ```
///
/// # Errors
///
/// Returns an error in the same cases as [`infer`], and if an attribute is missing or invalid, if the op has regions,
/// or if the op is unknown.
pub fn infer_op(name: &str, attributes: &Attributes, operands: &[Type]) -> Result<Vec<Type>> {
    let values: ValueTypes = operands.iter().cloned().map(Arc::new).collect();
    let ids = 0..u32::try_from(values.len())
        .map_err(|_| Error::new(ErrorKind::Limit, "an op has more than 2^32 operands"))?;
    let ids: ValueIds = ids.map(ValueId).collect();
    let named: Vec<(&str, &Attribute)> = attributes.iter().map(|(name, value)| (name.as_str(), value)).collect();
    let code = name.strip_prefix("stablehlo.").map_or(Opcode::Other, Opcode::from_name);
    let raw = UntypedOp { code, name, attributes: Named(&named), operands: &ids, values: &values };
    let types = kind(&raw).and_then(|(kind, extra)| {
        let op = Op {
            kind,
            operands: ids.clone(),
            results: ValueIds::new(),
            regions: Vec::new(),
            attributes: extra,
            location: LocationId(0),
        };
        let func = Func {
            name: String::new(),
            public: false,
            arg_attributes: Vec::new(),
            results: Vec::new(),
            result_attributes: Vec::new(),
            attributes: Attributes::new(),
            body: Region::default(),
            values: values.clone(),
            location: LocationId(0),
        };
        from_module(&Module::default(), &func, &op)
    });
    types.map_err(|e| e.with_op(name))
}

/// Infers the result types of an op in a function under construction. Does not support calls.
#[cfg(feature = "builder")]
pub(crate) fn infer_in(func: &Func, op: &Op) -> Result<Vec<Type>> {
    from_module(&Module::default(), func, op)
}

fn from_module(module: &Module, func: &Func, op: &Op) -> Result<Vec<Type>> {
    let operands = || op.operands.iter().map(|&v| func.ty(v).clone());
    super::control::verify_operands(op)?;
    let region = |index: usize| match op.regions.get(index) {
        Some(region) if returned(region)?.iter().all(|v| func.values.get(v.0 as usize).is_some()) => {
            Ok(returned(region)?.iter().map(|&v| func.ty(v).clone()).collect::<Vec<_>>())
        }
        _ => Err(Error::new(
            ErrorKind::Structure,
            format_args!("region {index} is missing or returns values without a type"),
        )),
    };
    let scalar = |element| Ok(vec![Type::Tensor(TensorType::new([], element))]);
    match &op.kind {
        OpKind::Constant(literal) => Ok(vec![Type::Tensor(literal.ty.clone())]),
        OpKind::PartitionId | OpKind::ReplicaId => scalar(ElementType::Ui32),
        OpKind::GetDimensionSize { .. } => {
            asked(func, op)?;
            scalar(ElementType::I32)
        }
        OpKind::CreateToken | OpKind::AfterAll => Ok(vec![Type::Token]),
        OpKind::While | OpKind::OptimizationBarrier => Ok(operands().collect()),
        OpKind::If | OpKind::Case => region(0),
        OpKind::Call { callee } | OpKind::Composite { decomposition: callee, .. } => match module.func(callee) {
            Some(callee) => Ok(callee.results.clone()),
            None => Err(Error::new(
                ErrorKind::Reference,
                format_args!("calls @{callee}, which does not exist or has no body"),
            )),
        },
        OpKind::Tuple => Ok(vec![Type::Tuple(operands().collect())]),
        OpKind::GetTupleElement { index } => match operands().next() {
            Some(Type::Tuple(mut types)) if *index < types.len() => Ok(vec![types.swap_remove(*index)]),
            _ => Err(Error::new(ErrorKind::Type, format_args!("the operand has no element {index}"))),
        },
        OpKind::Return => Ok(Vec::new()),
        // The results have the element types that the reducer returns.
        OpKind::Reduce { .. } | OpKind::ReduceWindow { .. } | OpKind::Scatter { .. } => {
            let elements = region(0)?;
            let shapes = asked(func, op)?;
            ensure!(
                Structure,
                elements.len() == shapes.len(),
                "the reducer returns {} values, not {}",
                elements.len(),
                shapes.len()
            );
            shapes.into_iter().zip(elements).map(|((shape, _), element)| tensor(shape, element_of(&element))).collect()
        }
        OpKind::SelectAndScatter { .. } => {
            let element = region(1)?.first().and_then(element_of);
            let shape = operands().next().and_then(|ty| Some(ty.as_tensor()?.shape.clone()));
            asked(func, op)?;
            Ok(vec![tensor(shape, element)?])
        }
        // If the IR keeps the operand's type as text, for example because it is quantized, the result has the same
        // type.
        OpKind::Unary(unary) if !matches!(unary, Unary::IsFinite | Unary::Real | Unary::Imag) => {
            opaque(operands().next()).map_or_else(|| inferred(func, op), |ty| Ok(vec![ty]))
        }
        OpKind::Binary(binary) if *binary != Binary::Complex => {
            opaque(operands().next()).map_or_else(|| inferred(func, op), |ty| Ok(vec![ty]))
        }
        OpKind::Outfeed { .. } | OpKind::Send { .. } => {
            asked(func, op)?;
            Ok(vec![Type::Token])
        }
        // The results have the element type that the reducer returns.
        OpKind::AllReduce { .. }
        | OpKind::ReduceScatter { .. }
        | OpKind::CollectiveReduce { .. }
        | OpKind::Map { .. } => {
            let element = region(0)?.first().and_then(element_of);
            asked(func, op)?.into_iter().map(|(shape, usual)| tensor(shape, element.or(usual))).collect()
        }
        OpKind::SetDimensionSize { dimension } => {
            asked(func, op)?;
            bounded(operands().next(), *dimension)
        }
        OpKind::UniformDequantize => match operands().next().as_ref().and_then(super::quantized::expressed) {
            Some(tensor) => Ok(vec![Type::Tensor(tensor)]),
            None => Err(Error::new(ErrorKind::Type, "the operand must be quantized")),
        },
        OpKind::AsyncDone => super::asynchronous::results(operands().next().as_ref()),
        // Only the caller knows these result types.
        OpKind::Infeed { .. } | OpKind::Recv { .. } | OpKind::AsyncStart => Err(unknown()),
        _ => inferred(func, op),
    }
}

/// Returns the type if the IR keeps it as text, and `None` otherwise.
fn opaque(ty: Option<Type>) -> Option<Type> {
    ty.filter(|ty| matches!(ty, Type::Other(_)))
}

fn inferred(func: &Func, op: &Op) -> Result<Vec<Type>> {
    let results = asked(func, op)?;
    if results.is_empty() {
        return Err(unknown());
    }
    results.into_iter().map(|(shape, element)| tensor(shape, element)).collect()
}

/// Returns the type of a tensor after a dimension gets its extent at run time. The previous extent becomes the bound.
fn bounded(operand: Option<Type>, dimension: usize) -> Result<Vec<Type>> {
    let Some(Type::Tensor(mut tensor)) = operand else {
        return Err(Error::new(
            ErrorKind::Type,
            "the result type cannot be inferred from an operand with bounds; give the type",
        ));
    };
    let Some(extent) = tensor.shape.get_mut(dimension) else {
        return Err(Error::new(ErrorKind::Shape, format_args!("the operand has no dimension {dimension}")));
    };
    let bound = std::mem::replace(extent, DYNAMIC);
    if bound == DYNAMIC {
        return Ok(vec![Type::Tensor(tensor)]);
    }
    let bounds = |d: usize| if d == dimension { bound.to_string() } else { "?".to_owned() };
    let bounds: Vec<String> = (0..tensor.rank()).map(bounds).collect();
    let text = tensor.to_string();
    let text = format!("{}, #stablehlo.bounds<{}>>", text.trim_end_matches('>'), bounds.join(", "));
    // A complex element type ends in `>`, which was trimmed together with the bracket of the tensor type.
    let text = if tensor.element.is_complex() { text.replacen(", #", ">, #", 1) } else { text };
    Ok(vec![Type::Other(text)])
}

/// Creates the error for an op whose result types the caller must pass.
#[cold]
fn unknown() -> Error {
    Error::new(ErrorKind::Type, "the result types cannot be inferred from the operands; give the types")
}

fn element_of(ty: &Type) -> Option<ElementType> {
    ty.as_tensor().map(|tensor| tensor.element)
}

fn tensor(shape: Option<Vec<i64>>, element: Option<ElementType>) -> Result<Type> {
    match (shape, element) {
        (Some(shape), Some(element)) => {
            let ty = Type::Tensor(TensorType { shape, element });
            shapes::verify_type(&ty, VerifyLevel::FULL)?;
            Ok(ty)
        }
        _ => Err(unknown()),
    }
}

/// Applies the rules, and returns the result types that they record.
fn asked(func: &Func, op: &Op) -> Result<Vec<Partial>> {
    let wanted = Wanted::default();
    let site = Site { func, op, module: None, constants: None, quantized: true, wanted: Some(&wanted) };
    shapes::verify(&site)?;
    contractions::verify(&site)?;
    super::quantized::verify(&site)?;
    collectives::verify(&site)?;
    transfers::verify(&site)?;
    normalization::verify(&site)?;
    dynamic::verify(&site)?;
    Ok(wanted.into_results())
}

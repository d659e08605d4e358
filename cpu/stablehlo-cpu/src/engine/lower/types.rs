//! Typed values of the graph, and conversions of the IR's types.

use stablehlo::ir::{DYNAMIC, Func, Type, ValueId};

use crate::engine::dtype::{DType, TensorType};
use crate::engine::graph::ValueIndex;
use crate::engine::view::MAX_RANK;
use crate::error::CompileError;

pub(super) type Result<T> = std::result::Result<T, CompileError>;

/// A value and its type.
#[derive(Clone, Debug)]
pub(crate) struct TypedValue {
    pub(crate) value: ValueIndex,
    pub(crate) ty: TensorType,
}

/// The representation of an IR value in the graph. A token has no graph value, and a tuple may have several.
#[derive(Clone, Debug)]
pub(super) enum Binding {
    Tensor(TypedValue),
    Token,
    Tuple(Vec<Binding>),
}

pub(super) fn element_size(dtype: DType) -> u8 {
    u8::try_from(dtype.size()).unwrap_or(16)
}

pub(super) fn type_of(func: &Func, id: ValueId) -> Result<&Type> {
    func.values.get(id.0 as usize).ok_or_else(|| CompileError::invalid(format!("value {} has no type", id.0)))
}

/// Returns the engine's element type for a tensor type of the IR.
pub(super) fn dtype_of(ty: &Type) -> Result<DType> {
    match ty {
        Type::Tensor(t) => {
            DType::from_ir(t.element).ok_or_else(|| CompileError::unsupported(format!("element type {:?}", t.element)))
        }
        _ => Err(CompileError::unsupported(format!("a value of type {ty} in place of a tensor"))),
    }
}

/// Returns whether a value of type `ty` matches the type `declared`, whose extents may be dynamic.
pub(crate) fn fits(declared: &Type, ty: &TensorType) -> Result<bool> {
    let dtype = dtype_of(declared)?;
    let Type::Tensor(t) = declared else { return Ok(false) };
    let agree = |(&d, &dim): (&i64, &usize)| d == DYNAMIC || usize::try_from(d) == Ok(dim);
    Ok(dtype == ty.dtype && t.shape.len() == ty.rank() && t.shape.iter().zip(ty.dims.iter()).all(agree))
}

/// Returns the type of an argument or result of the whole program. Frameworks pass tokens as arrays without elements.
pub(crate) fn entry_type(ty: &Type) -> Result<TensorType> {
    if matches!(ty, Type::Token) { TensorType::new(DType::Bool, &[0]) } else { tensor_type(ty) }
}

/// Converts a tensor type of the IR with static extents to the engine's type.
pub(crate) fn tensor_type(ty: &Type) -> Result<TensorType> {
    let dtype = dtype_of(ty)?;
    let Type::Tensor(t) = ty else {
        return Err(CompileError::unsupported(format!("a value of type {ty} in place of a tensor")));
    };
    if t.shape.contains(&DYNAMIC) {
        return Err(CompileError::unsupported("a dimension of unknown extent; refine the program's shapes first"));
    }
    let dims: Option<Vec<usize>> = t.shape.iter().map(|&d| usize::try_from(d).ok()).collect();
    let dims = dims.ok_or_else(|| CompileError::invalid(format!("a negative extent in {:?}", t.shape)))?;
    if dims.len() > MAX_RANK {
        return Err(CompileError::unsupported(format!(
            "a tensor of {} dimensions; {MAX_RANK} are supported",
            dims.len()
        )));
    }
    TensorType::new(dtype, &dims)
}

/// A contraction without summation.
#[derive(Clone)]
pub(super) struct OuterProduct {
    pub(super) ty: TensorType,
    pub(super) factors: [ValueIndex; 2],
    /// The strides of each factor along the dimensions of the result.
    pub(super) strides: [Vec<isize>; 2],
}

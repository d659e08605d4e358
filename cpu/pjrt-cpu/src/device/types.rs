//! Converts element types and shapes between PJRT and the engine.

use device_plugin::{ElementType, Error, Result, Shape};

use stablehlo_cpu::{DType, TensorType};

/// Returns the shape of a tensor.
pub(crate) fn shape(ty: &TensorType) -> Result<Shape> {
    let extent = |d: &usize| i64::try_from(*d).map_err(|_| Error::invalid_argument(format!("{ty} is too large")));
    let dimensions = ty.dims.iter().map(extent).collect::<Result<Vec<_>>>()?;
    Ok(Shape::new(element_type(ty.dtype)?, dimensions))
}

/// Pairs of the engine's and PJRT's element types.
const TYPES: &[(DType, ElementType)] = &[
    (DType::Bool, ElementType::Pred),
    (DType::I2, ElementType::S2),
    (DType::I4, ElementType::S4),
    (DType::I8, ElementType::S8),
    (DType::I16, ElementType::S16),
    (DType::I32, ElementType::S32),
    (DType::I64, ElementType::S64),
    (DType::U2, ElementType::U2),
    (DType::U4, ElementType::U4),
    (DType::U8, ElementType::U8),
    (DType::U16, ElementType::U16),
    (DType::U32, ElementType::U32),
    (DType::U64, ElementType::U64),
    (DType::F4E2M1FN, ElementType::F4E2M1FN),
    (DType::F6E2M3FN, ElementType::F6E2M3FN),
    (DType::F6E3M2FN, ElementType::F6E3M2FN),
    (DType::F8E3M4, ElementType::F8E3M4),
    (DType::F8E4M3, ElementType::F8E4M3),
    (DType::F8E4M3FN, ElementType::F8E4M3FN),
    (DType::F8E4M3FNUZ, ElementType::F8E4M3FNUZ),
    (DType::F8E4M3B11FNUZ, ElementType::F8E4M3B11FNUZ),
    (DType::F8E5M2, ElementType::F8E5M2),
    (DType::F8E5M2FNUZ, ElementType::F8E5M2FNUZ),
    (DType::F8E8M0FNU, ElementType::F8E8M0FNU),
    (DType::Bf16, ElementType::Bf16),
    (DType::F16, ElementType::F16),
    (DType::F32, ElementType::F32),
    (DType::F64, ElementType::F64),
    (DType::C64, ElementType::C64),
    (DType::C128, ElementType::C128),
];

/// Returns the engine's element type for an element type of PJRT.
pub(crate) fn dtype(element_type: ElementType) -> Result<DType> {
    let pair = TYPES.iter().find(|(_, pjrt)| *pjrt == element_type);
    pair.map(|(dtype, _)| *dtype).ok_or_else(|| Error::unimplemented(format!("arrays of {element_type}")))
}

/// Returns PJRT's element type for an element type of the engine.
pub(crate) fn element_type(dtype: DType) -> Result<ElementType> {
    let pair = TYPES.iter().find(|(engine, _)| *engine == dtype);
    pair.map(|(_, pjrt)| *pjrt).ok_or_else(|| Error::unimplemented(format!("arrays of {}", dtype.name())))
}

/// Returns the extents of a shape.
pub(crate) fn dims(shape: &Shape) -> Result<Vec<usize>> {
    let extent = |d: &i64| usize::try_from(*d).map_err(|_| Error::invalid_argument(format!("{shape}: extent {d}")));
    shape.dimensions.iter().map(extent).collect()
}

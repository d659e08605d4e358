//! Conversions between the types of PJRT buffers and of StableHLO programs. Frameworks and plugins use these
//! conversions.

use ::stablehlo::ir::{self, TensorType, Type};

use crate::element::ElementType;
use crate::shape::Shape;

/// The error for a PJRT type that StableHLO does not have, or for a StableHLO type that PJRT does not have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Unconvertible(String);

/// Fails for `tf32` and `index`, which buffers do not support.
impl TryFrom<ir::ElementType> for ElementType {
    type Error = Unconvertible;

    fn try_from(ty: ir::ElementType) -> Result<Self, Unconvertible> {
        // Both crates use StableHLO's names. A test checks that the names agree.
        let name = ty.name();
        name.parse().map_err(|_| Unconvertible(format!("elements of type {name} cannot be stored in a buffer")))
    }
}

/// Fails for types that StableHLO does not have: tokens, and one-bit integers.
impl TryFrom<ElementType> for ir::ElementType {
    type Error = Unconvertible;

    fn try_from(ty: ElementType) -> Result<Self, Unconvertible> {
        // Without this filter, `from_name` could read PJRT's one-bit integers `si1` and `ui1` as the boolean `i1`.
        let name = Some(ty.stablehlo_name()).filter(|_| !matches!(ty, ElementType::S1 | ElementType::U1));
        let lacking = || Unconvertible(format!("StableHLO does not have tensors of {ty}"));
        name.and_then(Self::from_name).ok_or_else(lacking)
    }
}

/// Returns the shape of a buffer for a value of this type. Fails for tuples, dynamic extents and element types that
/// buffers do not support.
impl TryFrom<&Type> for Shape {
    type Error = Unconvertible;

    fn try_from(ty: &Type) -> Result<Self, Unconvertible> {
        match ty {
            Type::Tensor(tensor) if tensor.is_static() => {
                Ok(Self::new(tensor.element.try_into()?, tensor.shape.as_slice()))
            }
            Type::Token => Ok(Self::new(ElementType::Token, [])),
            _ => Err(Unconvertible(format!("a value of type {ty} cannot be stored in a buffer"))),
        }
    }
}

/// Returns the tensor type that corresponds to a buffer of this shape. Fails for element types that StableHLO does not
/// have.
impl TryFrom<&Shape> for TensorType {
    type Error = Unconvertible;

    fn try_from(shape: &Shape) -> Result<Self, Unconvertible> {
        Ok(Self::new(shape.dimensions.as_slice(), shape.element_type.try_into()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_convert_in_both_directions() {
        let mut pairs = 0;
        for ty in ir::ElementType::all() {
            let Ok(pjrt) = ElementType::try_from(ty) else {
                assert!(matches!(ty, ir::ElementType::Tf32 | ir::ElementType::Index), "{ty:?}");
                continue;
            };
            assert_eq!(ir::ElementType::try_from(pjrt), Ok(ty));
            assert_eq!(pjrt.host_size(), ty.byte_size(), "{ty:?}");
            pairs += 1;
        }
        assert_eq!(pairs, 30);
        assert!(ir::ElementType::try_from(ElementType::S1).is_err());
        let ty = TensorType::new([2, 3], ir::ElementType::Bool);
        let shape = Shape::try_from(&Type::Tensor(ty.clone())).unwrap();
        assert_eq!(shape, Shape::new(ElementType::Pred, [2, 3]));
        assert_eq!(TensorType::try_from(&shape), Ok(ty));
        assert!(Shape::try_from(&Type::Tensor(TensorType::new([ir::DYNAMIC], ir::ElementType::F32))).is_err());
    }
}

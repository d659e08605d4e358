//! The operations that this backend does not support.

use burn_backend::DType;
use burn_ir::{FloatOperationIr, ModuleOperationIr, OperationIr};

use super::Result;
use crate::dtype::Types;
use crate::error::Error;

/// Returns an error if this backend does not support the operation, or if one of its tensors is quantized. Also returns
/// an error if the device does not support the element type of one of the tensors.
pub(crate) fn check(op: &OperationIr, types: &Types) -> Result<()> {
    if let Some(reason) = missing(op) {
        return Err(Error::unsupported(&name(op), reason));
    }
    let quantized = |dtype: DType| matches!(dtype, DType::QFloat(_));
    for tensor in op.inputs().chain(op.outputs()) {
        if quantized(tensor.dtype) {
            return Err(Error::unsupported(&name(op), "its tensors are quantized"));
        }
        types.stored(tensor.dtype)?;
    }
    Ok(())
}

fn missing(op: &OperationIr) -> Option<&'static str> {
    match op {
        OperationIr::Custom(_) => Some("operations of an extension are not lowered to StableHLO"),
        OperationIr::Float(_, FloatOperationIr::Quantize(_) | FloatOperationIr::Dequantize(_)) => {
            Some("quantized tensors are not lowered to StableHLO")
        }
        OperationIr::Float(_, FloatOperationIr::GridSample2d(_)) => Some("it is not lowered to StableHLO"),
        OperationIr::Module(op) => match op {
            ModuleOperationIr::DeformableConv2d(_) | ModuleOperationIr::DeformableConv2dBackward(_) => {
                Some("it is not lowered to StableHLO")
            }
            ModuleOperationIr::CtcLoss(_) | ModuleOperationIr::CtcLossBackward(_) => {
                Some("use Burn's own composition of the loss")
            }
            _ => None,
        },
        _ => None,
    }
}

/// Returns the name of an operation in `burn-ir`, such as `Module::Conv2d`.
pub(super) fn name(op: &OperationIr) -> String {
    let text = format!("{op:?}");
    let head = text.split(" {").next().unwrap_or_default();
    let parts: Vec<&str> = head.split('(').map(|part| part.rsplit(", ").next().unwrap_or(part)).collect();
    // The last name is that of the struct that contains the parameters.
    match parts.split_last() {
        Some((_, names)) if !names.is_empty() => names.join("::"),
        _ => head.to_owned(),
    }
}

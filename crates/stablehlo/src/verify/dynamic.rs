//! Ops with an operand that determines the shape of the result. If the operand is a constant, that shape is also
//! checked.

use super::contractions;
use super::shapes::{agree, distinct, extents_agree, tensors, within};
use super::site::ensure;
use super::untyped_ops::Rules;
use crate::attributes::Named;
use crate::compatible::unbounded;
use crate::error::{Error, Result};
use crate::ir::*;
use crate::ops::Opcode;

impl Rules<'_, '_> {
    /// Operand and result hold the same number of elements.
    pub(super) fn dynamic_reshape(&self) -> Result<()> {
        self.dynamic_shape(1, 2)?;
        let (operand, result) = tensors!(self.site.operand_tensor(0), self.site.result_tensor(0));
        let Some(count) = operand.num_elements() else { return Ok(()) };
        let fits = result.num_elements().is_none_or(|n| n == count);
        ensure!(fits, "{operand} and {result} hold different numbers of elements");
        if let Some(known) = self.site.known(1) {
            let asked = known.iter().try_fold(1i64, |n, &d| n.checked_mul(d)).and_then(|n| usize::try_from(n).ok());
            ensure!(asked == Some(count), "{operand} cannot have the shape {known:?}");
        }
        Ok(())
    }

    /// Low, high and interior padding are operands.
    pub(super) fn dynamic_pad(&self) -> Result<()> {
        self.per_dimension_operands(5, 2)?;
        let (operand, result) = tensors!(self.site.operand_tensor(0), self.site.result_tensor(0));
        let Some(interior) = self.site.known(4) else { return Ok(()) };
        ensure!(interior.iter().all(|&p| p >= 0), "the interior padding {interior:?} must not be negative");
        let (Some(low), Some(high)) = (self.site.known(2), self.site.known(3)) else { return Ok(()) };
        for (d, (&from, &to)) in operand.shape.iter().zip(&result.shape).enumerate() {
            let (Some(&low), Some(&high), Some(&interior)) = (low.get(d), high.get(d), interior.get(d)) else { break };
            if from == DYNAMIC || to == DYNAMIC {
                continue;
            }
            // Computes in 128 bits, because the paddings may be any 64-bit integers.
            let padded = i128::from(from)
                + i128::from((from - 1).max(0)) * i128::from(interior)
                + i128::from(low)
                + i128::from(high);
            ensure!(padded == i128::from(to), "dimension {d} of {result} must be {padded}");
        }
        Ok(())
    }

    /// The extent of one dimension is an operand.
    pub(super) fn set_dimension_size(&self) -> Result<()> {
        self.counts(2, 1)?;
        let dimension = self.index("dimension")?;
        let rank = match self.site.operand(0)? {
            Type::Tensor(tensor) => Some(tensor.rank()),
            Type::Other(text) => unbounded(text).map(|(shape, _)| shape.len()),
            _ => None,
        };
        rank.map_or(Ok(()), |rank| within(dimension, rank, "dimension"))?;
        let size = tensors!(self.site.operand_tensor(1));
        let fits = size.rank() == 0 && size.element.is_integer();
        ensure!(fits, "the size must be an integer scalar, not {size}");
        Ok(())
    }

    /// A list of extents, one per dimension of the result.
    pub(super) fn shape_operand(&self, at: usize, shape: &TensorType, result: &TensorType) -> Result<()> {
        ensure!(shape.rank() == 1 && shape.element.is_integer(), "the shape must be a list of integers, not {shape}");
        let rank = i64::try_from(result.rank()).unwrap_or(i64::MAX);
        ensure!(shape.shape[0] == rank, "the shape {shape} does not have the rank of {result}");
        if let Some(known) = self.site.known(at) {
            let fits =
                known.iter().zip(&result.shape).all(|(&known, &extent)| known >= 0 && extents_agree(known, extent));
            ensure!(fits, "the shape is {known:?}, but the result is {result}");
        }
        Ok(())
    }

    /// Operand `at`, the last of `operands` operands, is the result's shape.
    pub(super) fn dynamic_shape(&self, at: usize, operands: usize) -> Result<()> {
        self.counts(operands, 1)?;
        let (shape, result) = tensors!(self.site.operand_tensor(at), self.site.result_tensor(0));
        if at > 0 {
            let operand = tensors!(self.site.operand_tensor(0));
            ensure!(operand.element == result.element, "element types of {operand} and {result} differ");
        }
        self.shape_operand(at, shape, result)
    }

    pub(super) fn dynamic_broadcast(&self) -> Result<()> {
        self.dynamic_shape(1, 2)?;
        let (operand, result) = tensors!(self.site.operand_tensor(0), self.site.result_tensor(0));
        let Some(list) = self.find("broadcast_dimensions").and_then(Attribute::as_integers) else {
            return Err(Error::new("attribute `broadcast_dimensions` is missing"));
        };
        ensure!(list.len() == operand.rank(), "`broadcast_dimensions` has {} entries for {operand}", list.len());
        let dimensions: Vec<usize> = list.iter().map(|&d| usize::try_from(d).unwrap_or(usize::MAX)).collect();
        distinct(&dimensions, result.rank(), "broadcast_dimensions")?;
        for (&from, &dimension) in operand.shape.iter().zip(&dimensions) {
            let to = result.shape[dimension];
            ensure!(from == 1 || extents_agree(from, to), "{operand} cannot be broadcast to {result}");
            let known = self.site.known(1).and_then(|shape| shape.get(dimension).copied());
            ensure!(
                from == 1 || known.is_none_or(|to| extents_agree(from, to)),
                "{operand} cannot be broadcast to the shape {:?}",
                self.site.known(1)
            );
        }
        let mut hinted = Vec::new();
        for name in ["known_expanding_dimensions", "known_nonexpanding_dimensions"] {
            let hints = self.find(name).and_then(Attribute::as_integers).unwrap_or_default();
            hinted.extend(hints.iter().map(|&d| usize::try_from(d).unwrap_or(usize::MAX)));
        }
        distinct(&hinted, operand.rank(), "known_expanding_dimensions and known_nonexpanding_dimensions")
    }

    /// Converts the op to one with another name and the same attributes, except for those that are operands here.
    fn as_kind(&self, code: Opcode) -> Result<OpKind> {
        let named: Vec<(&str, &Attribute)> = self.attributes.iter().map(|(n, value)| (n.as_str(), value)).collect();
        let (op, values) = (self.site.op, &self.site.func.values);
        let raw =
            crate::op_builder::UntypedOp { code, name: "", attributes: Named(&named), operands: &op.operands, values };
        Ok(crate::op_builder::kind(&raw)?.0)
    }

    /// `convolution` whose padding is an operand: a pair of integers per spatial dimension.
    pub(super) fn dynamic_conv(&self) -> Result<()> {
        self.counts(3, 1)?;
        let OpKind::Convolution { dimensions, mut window, feature_group_count, batch_group_count, .. } =
            self.as_kind(Opcode::Convolution)?
        else {
            return Ok(());
        };
        // Some producers wrote the strides of a convolution with more dimensions.
        window.strides.truncate(dimensions.input_spatial.len());
        let padding = tensors!(self.site.operand_tensor(2));
        let spatial = i64::try_from(dimensions.input_spatial.len()).unwrap_or(i64::MAX);
        let fits = padding.element.is_integer() && agree(&padding.shape, &[spatial, 2]);
        ensure!(fits, "the padding is {padding} but must hold a pair of integers per spatial dimension");
        contractions::convolution(self.site, &dimensions, &window, (feature_group_count, batch_group_count), false)
    }

    /// `gather` whose slice sizes are an operand.
    pub(super) fn dynamic_gather(&self) -> Result<()> {
        self.counts(3, 1)?;
        let (operand, sizes) = tensors!(self.site.operand_tensor(0), self.site.operand_tensor(2));
        let mut attributes = self.attributes.clone();
        attributes.push(("slice_sizes".to_owned(), Attribute::Array(Vec::new())));
        let dimensions = match (Rules { site: self.site, attributes: &attributes }).as_kind(Opcode::Gather)? {
            OpKind::Gather { dimensions, .. } => dimensions,
            _ => return Ok(()),
        };
        let rank = i64::try_from(operand.rank()).unwrap_or(i64::MAX);
        let fits = sizes.element.is_integer() && agree(&sizes.shape, &[rank]);
        ensure!(fits, "the slice sizes are {sizes} but must be an integer per dimension of {operand}");
        let known = self.site.known(2).filter(|sizes| sizes.len() == operand.rank());
        for &size in known.unwrap_or_default() {
            ensure!(size >= 0, "slice size {size} must not be negative");
        }
        let sizes = known.map_or_else(|| vec![DYNAMIC; operand.rank()], <[i64]>::to_vec);
        contractions::gather(self.site, &dimensions, &sizes)
    }

    /// Operands from `first` on are lists of integers, one per dimension of operand 0.
    pub(super) fn per_dimension_operands(&self, operands: usize, first: usize) -> Result<()> {
        self.counts(operands, 1)?;
        let operand = tensors!(self.site.operand_tensor(0));
        let rank = i64::try_from(operand.rank()).unwrap_or(i64::MAX);
        for i in first..operands {
            let list = tensors!(self.site.operand_tensor(i));
            let fits = list.rank() == 1 && list.element.is_integer() && extents_agree(list.shape[0], rank);
            ensure!(fits, "operand {i} is {list} but must have an integer per dimension of {operand}");
        }
        Ok(())
    }
}

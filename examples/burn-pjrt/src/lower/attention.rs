//! Scaled dot-product attention.

use burn_ir::AttentionOpIr;
use stablehlo::builder::{DotGeneral, Value};
use stablehlo::ir::{ComparisonDirection as Direction, ElementType};

use super::numeric::Combine;
use super::{Lower, Result};
use crate::dtype::extents;

impl Lower<'_> {
    /// Multiplies the values by the softmax of the attention scores. A score is the scaled dot product of a query and a
    /// key. If the operation has a soft cap, masks or a bias, they are applied to this product. If all keys of a query
    /// are masked, the query's result is 0.
    pub(super) fn attention(&mut self, op: &AttentionOpIr) -> Result<()> {
        let f = self.f;
        let (queries, keys) = (extents(&op.query), extents(&op.key));
        let scale = op.options.scale.map_or(1.0 / (queries[3] as f64).sqrt(), |scale| scale.elem());
        let dimensions = DotGeneral::new().batching([0, 1], [0, 1]).contracting([3], [3]);
        let products = self.dot(self.value(&op.query)?, self.value(&op.key)?, dimensions)?;
        let wide = self.wide(products)?;
        let mut scores = f.multiply(wide, self.number_like(scale, wide)?)?;
        if let Some(cap) = op.options.softcap {
            let cap = self.number_like(cap.elem(), scores)?;
            scores = f.multiply(f.tanh(f.divide(scores, cap)?)?, cap)?;
        }
        let shape = self.shape(scores)?;
        let least = f.broadcast_to(self.number_like(f64::NEG_INFINITY, scores)?, &shape)?;
        if let Some(mask) = &op.mask {
            scores = f.select(f.broadcast_to(self.value(mask)?, &shape)?, least, scores)?;
        }
        if op.options.is_causal {
            let query = self.positions(&shape, 2, ElementType::I32)?;
            let offset = i32::try_from(keys[2] - queries[2]).unwrap_or(0);
            let last = f.add(query, f.constant(offset)?)?;
            let hidden = f.compare(self.positions(&shape, 3, ElementType::I32)?, Direction::Gt, last)?;
            scores = f.select(hidden, least, scores)?;
        }
        if let Some(bias) = &op.attn_bias {
            let bias = self.converted(self.value(bias)?, self.element(scores)?)?;
            scores = f.add(scores, bias)?;
        }
        let weights = self.converted(self.softmax(scores)?, self.element(products)?)?;
        let dimensions = DotGeneral::new().batching([0, 1], [0, 1]).contracting([3], [2]);
        let result = self.dot(weights, self.value(&op.value)?, dimensions)?;
        self.set(&op.out, result)
    }

    /// Computes the softmax along the last dimension. If all elements of a row are negative infinity, the result of the
    /// row is 0.
    fn softmax(&self, scores: Value) -> Result<Value> {
        let f = self.f;
        let mut row = self.shape(scores)?;
        let last = row.len() - 1;
        row[last] = 1;
        let zero = self.number_like(0.0, scores)?;
        let highest = f.reshape(self.reduce(scores, Combine::Max, &[last])?, &row)?;
        let masked = f.compare(highest, Direction::Eq, self.number_like(f64::NEG_INFINITY, scores)?)?;
        let powers = f.exponential(f.subtract(scores, f.select(masked, zero, highest)?)?)?;
        let sums = f.reshape(self.sum(powers, &[last])?, &row)?;
        Ok(f.divide(powers, f.select(masked, self.number_like(1.0, scores)?, sums)?)?)
    }
}

//! `einsum`, `unary_einsum` and `torch_index_select`. The specification no longer contains these ops, but older
//! artifacts may contain them.

use stablehlo::ir::{Binary, DotDimensions, GatherDimensions};

use super::{LoweringContext, Result, TypedValue};
use crate::engine::view::{View, strides_of};

/// The label of a dimension: a letter, or the position within an ellipsis, counted from the last dimension of the
/// ellipsis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Label {
    Letter(char),
    Ellipsis(usize),
}

impl LoweringContext<'_, '_> {
    /// Lowers `"ab,bc->ac"` and similar expressions, with one or two operands.
    pub(super) fn einsum(&mut self, config: &str) -> Result<()> {
        let (inputs, output) = config
            .split_once("->")
            .ok_or_else(|| self.invalid(format!("attribute einsum_config must contain `->`, but is {config:?}")))?;
        let operands = self.operands()?;
        let terms: Vec<&str> = inputs.split(',').collect();
        self.ensure(terms.len() == operands.len(), || format!("{config:?} for {} operands", operands.len()))?;
        let mut labelled = Vec::with_capacity(operands.len());
        let mut ellipsis = 0;
        for (x, term) in operands.into_iter().zip(terms) {
            let labels = labels(term, x.ty.rank());
            let labels = labels.ok_or_else(|| self.invalid(format!("{term:?} for {}", x.ty)))?;
            ellipsis = ellipsis.max(labels.iter().filter(|l| matches!(l, Label::Ellipsis(_))).count());
            labelled.push(self.diagonal(x, labels)?);
        }
        let letters = output.chars().filter(|c| c.is_alphabetic()).count();
        let dots = if output.contains("...") { ellipsis } else { 0 };
        let wanted = labels(output, letters + dots);
        let wanted = wanted.ok_or_else(|| self.invalid(format!("{output:?} is not a valid list of dimensions")))?;
        let mut labelled = labelled.into_iter();
        let (Some((a, of_a)), second) = (labelled.next(), labelled.next()) else {
            return Err(self.invalid("must have an operand"));
        };
        let (y, made) = match second {
            None => self.summed(a, of_a, &wanted)?,
            Some((b, of_b)) => {
                let kept = |others: &[Label]| [others, &wanted[..]].concat();
                let (a, of_a) = self.summed(a, of_a, &kept(&of_b))?;
                let (b, of_b) = self.summed(b, of_b, &kept(&of_a))?;
                self.contracted(a, &of_a, b, &of_b, &wanted)?
            }
        };
        let places: Option<Vec<usize>> = wanted.iter().map(|w| made.iter().position(|m| m == w)).collect();
        let places = places.filter(|p| p.len() == made.len());
        let places =
            places.ok_or_else(|| self.invalid(format!("{output:?} contains a dimension that no operand has")))?;
        let y = self.permuted(&y, &places)?;
        self.finish(vec![y])
    }

    /// Returns `x` with one dimension per distinct label, and the distinct labels. A repeated label selects the
    /// diagonal.
    fn diagonal(&mut self, x: TypedValue, labels: Vec<Label>) -> Result<(TypedValue, Vec<Label>)> {
        let own = strides_of(&x.ty.dims);
        let (mut once, mut dims, mut strides): (Vec<Label>, Vec<usize>, Vec<isize>) = Default::default();
        for ((&label, &dim), &stride) in labels.iter().zip(x.ty.dims.iter()).zip(&own) {
            match once.iter().position(|&l| l == label) {
                Some(at) => {
                    self.ensure(dims[at] == dim, || format!("{label:?} is {} and {dim} long", dims[at]))?;
                    strides[at] += stride;
                }
                None => {
                    once.push(label);
                    dims.push(dim);
                    strides.push(stride);
                }
            }
        }
        if once.len() == labels.len() {
            return Ok((x, labels));
        }
        let ty = self.typed(x.ty.dtype, &dims)?;
        let v = self.load(x.value, View::new(&dims, &strides, 0));
        Ok((TypedValue { value: v, ty }, once))
    }

    /// Sums `x` over the dimensions whose labels are not in `kept`. Returns the sum and its labels.
    fn summed(&mut self, x: TypedValue, labels: Vec<Label>, kept: &[Label]) -> Result<(TypedValue, Vec<Label>)> {
        let gone: Vec<usize> = (0..labels.len()).filter(|&d| !kept.contains(&labels[d])).collect();
        if gone.is_empty() {
            return Ok((x, labels));
        }
        let zero = self.filled(0.0, x.ty.dtype, &[])?;
        let y = self.reduced(Binary::Add, &x, &zero, &gone)?.ok_or_else(|| self.unsupported())?;
        Ok((y, labels.into_iter().filter(|l| kept.contains(l)).collect()))
    }

    fn contracted(
        &mut self,
        a: TypedValue,
        of_a: &[Label],
        b: TypedValue,
        of_b: &[Label],
        wanted: &[Label],
    ) -> Result<(TypedValue, Vec<Label>)> {
        let mut d = DotDimensions::default();
        let (mut batch, mut free) = (Vec::new(), Vec::new());
        for (i, label) in of_a.iter().enumerate() {
            let Some(j) = of_b.iter().position(|l| l == label) else {
                free.push(*label);
                continue;
            };
            self.ensure(a.ty.dims[i] == b.ty.dims[j], || format!("{label:?} of {} and {}", a.ty, b.ty))?;
            if wanted.contains(label) {
                d.lhs_batching.push(i);
                d.rhs_batching.push(j);
                batch.push(*label);
            } else {
                d.lhs_contracting.push(i);
                d.rhs_contracting.push(j);
            }
        }
        free.extend(of_b.iter().filter(|l| !of_a.contains(l)));
        let dtype = self.result_dtype(0)?;
        let y = self.dot(a, b, &d, dtype)?;
        batch.extend(free);
        Ok((y, batch))
    }

    /// Selects slices of the operand along `dim` by index, separately for each index of the first `batch` dimensions.
    pub(super) fn torch_index_select(&mut self, dim: usize, batch: usize) -> Result<()> {
        let [x, indices] = self.take()?;
        let (rank, index_rank) = (x.ty.rank(), indices.ty.rank());
        self.ensure(dim < rank && batch <= dim && batch <= index_rank, || {
            format!("dim = {dim} and batch_dims = {batch} of {} by {}", x.ty, indices.ty)
        })?;
        let places = index_rank - batch;
        let dimensions = GatherDimensions {
            offset_dims: (batch..dim).chain(dim + places..rank + places - 1).collect(),
            collapsed_slice_dims: vec![dim],
            operand_batching_dims: (0..batch).collect(),
            start_indices_batching_dims: (0..batch).collect(),
            start_index_map: vec![dim],
            index_vector_dim: index_rank,
        };
        let size = |d: usize| if d < batch || d == dim { 1 } else { i64::try_from(x.ty.dims[d]).unwrap_or(i64::MAX) };
        let sizes: Vec<i64> = (0..rank).map(size).collect();
        self.gather_from(x, indices, &dimensions, &sizes)
    }
}

/// Returns the labels of `term` for `rank` dimensions. Returns `None` if `term` is malformed or does not fit `rank`.
fn labels(term: &str, rank: usize) -> Option<Vec<Label>> {
    let term: String = term.chars().filter(|c| !c.is_whitespace()).collect();
    let letters = |part: &str| -> Option<Vec<Label>> {
        part.chars().map(|c| c.is_alphabetic().then_some(Label::Letter(c))).collect()
    };
    let Some((before, after)) = term.split_once("...") else {
        return letters(&term).filter(|l| l.len() == rank);
    };
    let (mut list, after) = (letters(before)?, letters(after)?);
    let count = rank.checked_sub(list.len() + after.len())?;
    list.extend((0..count).rev().map(Label::Ellipsis));
    list.extend(after);
    Some(list)
}

//! Contractions.
#![expect(clippy::cast_sign_loss, reason = "row-major strides are not negative")]

use stablehlo::ir::{Binary, DotDimensions, Unary};

use super::types::OuterProduct;
use super::{LoweringContext, Result, TypedValue};
use crate::engine::dtype::DType;
use crate::engine::kernels::dot::{Dot, Side, dot_fn};
use crate::engine::view::{View, strides_of};

/// Maximum length of the vectors whose products are elementwise ops instead of a call per pair of vectors.
const SHORT: usize = 16;
/// Minimum number of such products.
const MIN_SHORT: usize = 64;

impl LoweringContext<'_, '_> {
    pub(super) fn dot_general(&mut self, d: &DotDimensions) -> Result<()> {
        let [a, b] = self.take()?;
        let dtype = self.result_dtype(0)?;
        let y = self.dot_checked(a, b, d, dtype)?;
        self.finish(vec![y])
    }

    /// Lowers a contraction after checking its dimension numbers.
    pub(super) fn dot_checked(
        &mut self,
        a: TypedValue,
        b: TypedValue,
        d: &DotDimensions,
        dtype: DType,
    ) -> Result<TypedValue> {
        let mut lists = d.lhs_batching.clone();
        lists.extend_from_slice(&d.lhs_contracting);
        self.distinct(&lists, a.ty.rank(), "lhs dimensions")?;
        let mut lists = d.rhs_batching.clone();
        lists.extend_from_slice(&d.rhs_contracting);
        self.distinct(&lists, b.ty.rank(), "rhs dimensions")?;
        let extents = |t: &TypedValue, list: &[usize]| list.iter().map(|&i| t.ty.dims[i]).collect::<Vec<_>>();
        let fits = extents(&a, &d.lhs_batching) == extents(&b, &d.rhs_batching)
            && extents(&a, &d.lhs_contracting) == extents(&b, &d.rhs_contracting);
        self.ensure(fits, || format!("the operands are {} and {}, whose extents differ along {d:?}", a.ty, b.ty))?;
        self.dot(a, b, d, dtype)
    }

    /// Lowers a contraction whose result has elements of `dtype`.
    pub(super) fn dot(&mut self, a: TypedValue, b: TypedValue, d: &DotDimensions, dtype: DType) -> Result<TypedValue> {
        if let Some(part) = dtype.part() {
            return self.by_parts(a, b, dtype, |cx, a, b| cx.dot(a, b, d, part));
        }
        if dtype.computed() != dtype {
            let y = self.dot(a, b, d, dtype.computed())?;
            return self.converted(y, dtype);
        }
        let (a, b) = (self.widened(a)?, self.widened(b)?);
        let mixed = a.ty.dtype != b.ty.dtype || dot_fn(a.ty.dtype, dtype).is_none();
        // Operands of different types are multiplied in the result's type.
        let (a, b) = if mixed { (self.converted(a, dtype)?, self.converted(b, dtype)?) } else { (a, b) };
        let run = dot_fn(a.ty.dtype, dtype).ok_or_else(|| self.unsupported())?;
        let extents = |t: &TypedValue, list: &[usize]| list.iter().map(|&i| t.ty.dims[i]).collect::<Vec<_>>();
        let batch = extents(&a, &d.lhs_batching);
        let depth = extents(&a, &d.lhs_contracting);
        let free_a = rest(a.ty.rank(), &d.lhs_batching, &d.lhs_contracting);
        let free_b = rest(b.ty.rank(), &d.rhs_batching, &d.rhs_contracting);
        let mut dims = batch.clone();
        dims.extend(extents(&a, &free_a));
        dims.extend(extents(&b, &free_b));
        let ty = self.typed(dtype, &dims)?;
        let k: usize = depth.iter().product();
        let products: usize = dims.iter().product();
        let is_short = (2..=SHORT).contains(&k) && products >= MIN_SHORT && products == batch.iter().product::<usize>();
        if k == 1 || is_short {
            let strides = |x: &TypedValue, batch: &[usize], before: usize, free: &[usize], after: usize| {
                let own = strides_of(&x.ty.dims);
                let of = |list: &[usize]| list.iter().map(|&d| own[d]).collect::<Vec<isize>>();
                [of(batch), vec![0; before], of(free), vec![0; after]].concat()
            };
            let strides = [
                strides(&a, &d.lhs_batching, 0, &free_a, free_b.len()),
                strides(&b, &d.rhs_batching, free_a.len(), &free_b, 0),
            ];
            let offsets = [offsets(&a.ty.dims, &d.lhs_contracting), offsets(&b.ty.dims, &d.rhs_contracting)];
            let [factors_a, factors_b] = [self.converted(a, dtype)?, self.converted(b, dtype)?];
            let product = OuterProduct { ty, factors: [factors_a.value, factors_b.value], strides };
            if k == 1 {
                return self.outer_product(product);
            }
            let [lhs, rhs] = offsets;
            let mut sum = self.multiplied(&product, [lhs[0], rhs[0]])?;
            for (&lhs, &rhs) in lhs.iter().zip(&rhs).skip(1) {
                let term = self.multiplied(&product, [lhs, rhs])?;
                sum = self.bin(Binary::Add, &sum, &term)?;
            }
            return Ok(sum);
        }
        let (a, lhs) = self.side(a, &d.lhs_batching, &free_a, &d.lhs_contracting)?;
        let (b, rhs) = self.side(b, &d.rhs_batching, &free_b, &d.rhs_contracting)?;
        let m = extents(
            &TypedValue { value: 0, ty: ty.clone() },
            &(batch.len()..batch.len() + free_a.len()).collect::<Vec<_>>(),
        );
        let n: usize = dims[batch.len() + free_a.len()..].iter().product();
        let operand = a.ty.dtype;
        let kernel = Dot { m: m.iter().product(), k, n, lhs, rhs, operand, run };
        let v = self.kernel(kernel, &[a.value, b.value], &[], std::slice::from_ref(&ty))[0];
        Ok(TypedValue { value: v, ty })
    }

    /// Multiplies the elements of two arrays, each through a view. Remembers the factors, because a transpose of the
    /// result is an outer product, too.
    pub(super) fn outer_product(&mut self, product: OuterProduct) -> Result<TypedValue> {
        let y = self.multiplied(&product, [0, 0])?;
        self.graph.outer_products.insert(y.value, product);
        Ok(y)
    }

    /// Multiplies the elements of two arrays, each through a view from an offset.
    fn multiplied(&mut self, product: &OuterProduct, offsets: [usize; 2]) -> Result<TypedValue> {
        let OuterProduct { ty, factors, strides } = product;
        let mut read = |at: usize| {
            let value = self.load(factors[at], View::new(&ty.dims, &strides[at], offsets[at]));
            TypedValue { value, ty: ty.clone() }
        };
        let (a, b) = (read(0), read(1));
        self.bin(Binary::Multiply, &a, &b)
    }

    /// Converts `x` to the element type in which the engine computes, if `x` has a narrow type.
    pub(super) fn widened(&mut self, x: TypedValue) -> Result<TypedValue> {
        let dtype = x.ty.dtype.computed();
        self.converted(x, dtype)
    }

    /// Computes a product of complex tensors as four products of their real and imaginary parts.
    pub(super) fn by_parts(
        &mut self,
        a: TypedValue,
        b: TypedValue,
        dtype: DType,
        mut product: impl FnMut(&mut Self, TypedValue, TypedValue) -> Result<TypedValue>,
    ) -> Result<TypedValue> {
        let (a, b) = (self.converted(a, dtype)?, self.converted(b, dtype)?);
        let (ar, ai) = (self.un(Unary::Real, &a)?, self.un(Unary::Imag, &a)?);
        let (br, bi) = (self.un(Unary::Real, &b)?, self.un(Unary::Imag, &b)?);
        let rr = product(self, ar.clone(), br.clone())?;
        let ii = product(self, ai.clone(), bi.clone())?;
        let ri = product(self, ar, bi)?;
        let ir = product(self, ai, br)?;
        let re = self.bin(Binary::Subtract, &rr, &ii)?;
        let im = self.bin(Binary::Add, &ri, &ir)?;
        self.bin(Binary::Complex, &re, &im)
    }

    /// Describes an operand as a batch of matrices. If its free or contracting dimensions have no common stride, the
    /// operand is rearranged first.
    fn side(
        &mut self,
        x: TypedValue,
        batch: &[usize],
        free: &[usize],
        contract: &[usize],
    ) -> Result<(TypedValue, Side)> {
        // If the operand is the result of a transpose and was not reshaped, read the operand of the transpose in its
        // own layout.
        if let Some((source, permutation)) = self.graph.transposed.get(&x.value).cloned()
            && permutation.iter().map(|&p| source.ty.dims[p]).eq(x.ty.dims.iter().copied())
            && source.ty.dtype == x.ty.dtype
        {
            let through = |dims: &[usize]| dims.iter().map(|&d| permutation[d]).collect::<Vec<_>>();
            return self.side(source, &through(batch), &through(free), &through(contract));
        }
        let own = strides_of(&x.ty.dims);
        let merged = |dims: &[usize]| merge(&x.ty.dims, &own, dims);
        if let (Some(f), Some(c)) = (merged(free), merged(contract)) {
            let side = Side { batch: matrices(&x.ty.dims, &own, batch), free: f, contract: c };
            return Ok((x, side));
        }
        let permutation: Vec<usize> = batch.iter().chain(free).chain(contract).copied().collect();
        let y = self.permuted(&x, &permutation)?;
        let own = strides_of(&y.ty.dims);
        let (b, f) = (batch.len(), batch.len() + free.len());
        let axes = |from: usize, to: usize| (from..to).collect::<Vec<_>>();
        let side = Side {
            batch: matrices(&y.ty.dims, &own, &axes(0, b)),
            free: merge(&y.ty.dims, &own, &axes(b, f)).unwrap_or(1),
            contract: merge(&y.ty.dims, &own, &axes(f, y.ty.rank())).unwrap_or(1),
        };
        Ok((y, side))
    }
}

/// Returns the dimensions below `rank` that are in neither list, in ascending order.
pub(super) fn rest(rank: usize, a: &[usize], b: &[usize]) -> Vec<usize> {
    (0..rank).filter(|d| !a.contains(d) && !b.contains(d)).collect()
}

/// Returns the offset of each element along the listed dimensions of a row-major array, in elements.
fn offsets(dims: &[usize], list: &[usize]) -> Vec<usize> {
    let own = strides_of(dims);
    let mut offsets = vec![0];
    for &d in list {
        offsets = offsets
            .iter()
            .flat_map(|at| (0..dims[d]).map(move |i| (at, i)))
            .map(|(at, i)| at + i * own[d] as usize)
            .collect();
    }
    offsets
}

/// Merges the dimensions in `list` into one dimension and returns its stride. Returns `None` if the dimensions have no
/// common stride.
fn merge(dims: &[usize], strides: &[isize], list: &[usize]) -> Option<usize> {
    let list: Vec<usize> = list.iter().copied().filter(|&d| dims[d] != 1).collect();
    for pair in list.windows(2) {
        if strides[pair[0]] as usize != strides[pair[1]] as usize * dims[pair[1]] {
            return None;
        }
    }
    Some(list.last().map_or(1, |&d| strides[d] as usize))
}

/// Returns the view of the first element of each matrix, along the listed dimensions.
fn matrices(dims: &[usize], strides: &[isize], batch: &[usize]) -> View {
    let (dims, strides): (Vec<usize>, Vec<isize>) = batch.iter().map(|&d| (dims[d], strides[d])).unzip();
    View::new(&dims, &strides, 0)
}

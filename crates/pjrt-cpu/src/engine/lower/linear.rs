//! Contractions.
#![expect(clippy::cast_sign_loss, reason = "row-major strides are not negative")]

use stablehlo::ir::{DotDimensions, TransposeA};

use super::{Cx, Result, Tv};
use crate::engine::dtype::{DType, TensorType};
use crate::engine::kernels::dot::{Dot, Side, dot_fn};
use crate::engine::kernels::linalg::{Cholesky, TriangularSolve};
use crate::engine::view::strides_of;

impl Cx<'_, '_> {
    pub(super) fn dot_general(&mut self, d: &DotDimensions) -> Result<()> {
        let [mut a, mut b] = self.take()?;
        let mut lists = d.lhs_batching.clone();
        lists.extend(&d.lhs_contracting);
        self.distinct(&lists, a.ty.rank(), "lhs dimensions")?;
        let mut lists = d.rhs_batching.clone();
        lists.extend(&d.rhs_contracting);
        self.distinct(&lists, b.ty.rank(), "rhs dimensions")?;
        let extents = |t: &Tv, list: &[usize]| list.iter().map(|&i| t.ty.dims[i]).collect::<Vec<_>>();
        let batch = extents(&a, &d.lhs_batching);
        let depth = extents(&a, &d.lhs_contracting);
        let fits = batch == extents(&b, &d.rhs_batching) && depth == extents(&b, &d.rhs_contracting);
        self.ensure(fits, || format!("{} and {} along {d:?}", a.ty, b.ty))?;
        let result = self.result_type(0)?;
        if a.ty.dtype != b.ty.dtype {
            // Mixed operands are multiplied in the result's type.
            a = self.converted(a, result.dtype)?;
            b = self.converted(b, result.dtype)?;
        }
        let run = match dot_fn(a.ty.dtype, result.dtype) {
            Some(run) => run,
            None => {
                a = self.converted(a, result.dtype)?;
                b = self.converted(b, result.dtype)?;
                dot_fn(result.dtype, result.dtype).ok_or_else(|| self.unsupported())?
            }
        };
        let free_a = rest(a.ty.rank(), &d.lhs_batching, &d.lhs_contracting);
        let free_b = rest(b.ty.rank(), &d.rhs_batching, &d.rhs_contracting);
        let mut dims = batch.clone();
        dims.extend(extents(&a, &free_a));
        dims.extend(extents(&b, &free_b));
        let ty = self.typed(result.dtype, &dims)?;
        let (a, lhs) = self.side(a, &d.lhs_batching, &free_a, &d.lhs_contracting)?;
        let (b, rhs) = self.side(b, &d.rhs_batching, &free_b, &d.rhs_contracting)?;
        let m = extents(&Tv { v: 0, ty: ty.clone() }, &(batch.len()..batch.len() + free_a.len()).collect::<Vec<_>>());
        let n: usize = dims[batch.len() + free_a.len()..].iter().product();
        let kernel = Dot { m: m.iter().product(), k: depth.iter().product(), n, lhs, rhs, run };
        let v = self.kernel(kernel, &[a.v, b.v], &[], std::slice::from_ref(&ty))[0];
        self.finish_one(v, ty)
    }

    /// One operand as a batch of matrices; rearranged first where its dimensions are too scattered for two strides.
    fn side(&mut self, x: Tv, batch: &[usize], free: &[usize], contract: &[usize]) -> Result<(Tv, Side)> {
        self.listable(batch.iter().map(|&d| x.ty.dims[d]))?;
        // A transposed operand is read in its original layout, if its dimensions are still those of the transpose.
        if let Some((source, permutation)) = self.l.transposed.get(&x.v).cloned()
            && permutation.iter().map(|&p| source.ty.dims[p]).eq(x.ty.dims.iter().copied())
            && source.ty.dtype == x.ty.dtype
        {
            let through = |dims: &[usize]| dims.iter().map(|&d| permutation[d]).collect::<Vec<_>>();
            return self.side(source, &through(batch), &through(free), &through(contract));
        }
        let own = strides_of(&x.ty.dims);
        let merged = |dims: &[usize]| merge(&x.ty.dims, &own, dims);
        if let (Some(f), Some(c)) = (merged(free), merged(contract)) {
            let side = Side { batch: offsets(&x.ty.dims, &own, batch), free: f, contract: c };
            return Ok((x, side));
        }
        let permutation: Vec<usize> = batch.iter().chain(free).chain(contract).copied().collect();
        let y = self.permuted(&x, &permutation)?;
        let own = strides_of(&y.ty.dims);
        let (b, f) = (batch.len(), batch.len() + free.len());
        let axes = |from: usize, to: usize| (from..to).collect::<Vec<_>>();
        let side = Side {
            batch: offsets(&y.ty.dims, &own, &axes(0, b)),
            free: merge(&y.ty.dims, &own, &axes(b, f)).unwrap_or(1),
            contract: merge(&y.ty.dims, &own, &axes(f, y.ty.rank())).unwrap_or(1),
        };
        Ok((y, side))
    }
}

/// Dimensions in neither list.
pub(super) fn rest(rank: usize, a: &[usize], b: &[usize]) -> Vec<usize> {
    (0..rank).filter(|d| !a.contains(d) && !b.contains(d)).collect()
}

/// The stride of several dimensions walked as one, if there is one.
fn merge(dims: &[usize], strides: &[isize], list: &[usize]) -> Option<usize> {
    let list: Vec<usize> = list.iter().copied().filter(|&d| dims[d] != 1).collect();
    for pair in list.windows(2) {
        if strides[pair[0]] as usize != strides[pair[1]] as usize * dims[pair[1]] {
            return None;
        }
    }
    Some(list.last().map_or(1, |&d| strides[d] as usize))
}

/// Offsets of all indices of the listed dimensions, in row-major order.
pub(super) fn offsets(dims: &[usize], strides: &[isize], list: &[usize]) -> Vec<usize> {
    let mut all = vec![0];
    for &d in list {
        all = all.iter().flat_map(|&o| (0..dims[d]).map(move |i| o + i * strides[d] as usize)).collect();
    }
    all
}

impl Cx<'_, '_> {
    /// Whether floats of this type are computed as `f64`; narrow ones are not supported by the dense solvers.
    fn is_wide(&self, ty: &TensorType) -> Result<bool> {
        match ty.dtype {
            DType::F32 => Ok(false),
            DType::F64 => Ok(true),
            _ => Err(self.unsupported()),
        }
    }

    pub(super) fn cholesky(&mut self, lower: bool) -> Result<()> {
        let [a] = self.take()?;
        let wide = self.is_wide(&a.ty)?;
        let (Some(&n), true) = (a.ty.dims.last(), a.ty.rank() >= 2) else {
            return Err(self.invalid(format!("of {}", a.ty)));
        };
        self.ensure(a.ty.dims[a.ty.rank() - 2] == n, || format!("of {}", a.ty))?;
        let v = self.kernel(Cholesky { n, lower, wide }, &[a.v], &[], std::slice::from_ref(&a.ty))[0];
        self.finish_one(v, a.ty)
    }

    pub(super) fn triangular_solve(
        &mut self,
        left: bool,
        lower: bool,
        unit: bool,
        transpose: TransposeA,
    ) -> Result<()> {
        let [a, b] = self.take()?;
        let wide = self.is_wide(&a.ty)?;
        let rank = a.ty.rank();
        self.ensure(rank >= 2 && b.ty.rank() == rank && a.ty.dtype == b.ty.dtype, || format!("{} and {}", a.ty, b.ty))?;
        let (n, rows, columns) = (a.ty.dims[rank - 1], b.ty.dims[rank - 2], b.ty.dims[rank - 1]);
        let fits = a.ty.dims[rank - 2] == n
            && a.ty.dims[..rank - 2] == b.ty.dims[..rank - 2]
            && n == if left { rows } else { columns };
        self.ensure(fits, || format!("{} and {}", a.ty, b.ty))?;
        // For real numbers the adjoint is the transpose.
        let transpose = transpose != TransposeA::NoTranspose;
        let kernel = TriangularSolve { n, rows, columns, left, lower, unit, transpose, wide };
        let v = self.kernel(kernel, &[a.v, b.v], &[Some(1)], std::slice::from_ref(&b.ty))[0];
        self.finish_one(v, b.ty)
    }
}

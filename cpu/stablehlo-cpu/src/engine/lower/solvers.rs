//! Dense solvers: `cholesky`, `triangular_solve`, and QR factorizations by reflections.

use stablehlo::ir::TransposeA;

use super::{LoweringContext, Result, TypedValue};
use crate::engine::dtype::{DType, TensorType};
use crate::engine::kernels::linalg::cholesky::Cholesky;
use crate::engine::kernels::linalg::householder::{HouseholderProduct, Qr};
use crate::engine::kernels::linalg::scalar::Field;
use crate::engine::kernels::linalg::triangular_solve::TriangularSolve;

impl LoweringContext<'_, '_> {
    /// Returns the field in which a dense solver computes, and the element type that represents its elements.
    pub(super) fn field(&self, ty: &TensorType) -> Result<(Field, DType)> {
        match ty.dtype {
            DType::F32 | DType::Bf16 | DType::F16 => Ok((Field::F32, DType::F32)),
            DType::F64 => Ok((Field::F64, DType::F64)),
            DType::C64 | DType::C128 => Ok((Field::C128, DType::C128)),
            _ if ty.dtype.is_narrow_float() => Ok((Field::F32, DType::F32)),
            _ => Err(self.unsupported()),
        }
    }

    pub(super) fn cholesky(&mut self, lower: bool) -> Result<()> {
        let [a] = self.take()?;
        let (field, wide) = self.field(&a.ty)?;
        let (Some(&n), true) = (a.ty.dims.last(), a.ty.rank() >= 2) else {
            return Err(self.invalid(format!("cannot take a {}", a.ty)));
        };
        self.ensure(a.ty.dims[a.ty.rank() - 2] == n, || format!("cannot take a {}", a.ty))?;
        let dtype = a.ty.dtype;
        let a = self.converted(a, wide)?;
        let v = self.kernel(Cholesky { n, lower, field }, &[a.value], &[], std::slice::from_ref(&a.ty))[0];
        let y = self.converted(TypedValue { value: v, ty: a.ty }, dtype)?;
        self.finish(vec![y])
    }

    pub(super) fn triangular_solve(
        &mut self,
        left: bool,
        lower: bool,
        unit: bool,
        transpose: TransposeA,
    ) -> Result<()> {
        let [a, b] = self.take()?;
        let (field, wide) = self.field(&a.ty)?;
        let rank = a.ty.rank();
        self.ensure(rank >= 2 && b.ty.rank() == rank && a.ty.dtype == b.ty.dtype, || format!("{} and {}", a.ty, b.ty))?;
        let (n, rows, columns) = (a.ty.dims[rank - 1], b.ty.dims[rank - 2], b.ty.dims[rank - 1]);
        let fits = a.ty.dims[rank - 2] == n
            && a.ty.dims[..rank - 2] == b.ty.dims[..rank - 2]
            && n == if left { rows } else { columns };
        self.ensure(fits, || format!("{} and {}", a.ty, b.ty))?;
        // For real numbers the adjoint is the transpose.
        let conjugate = transpose == TransposeA::Adjoint;
        let transpose = transpose != TransposeA::NoTranspose;
        let dtype = b.ty.dtype;
        let (a, b) = (self.converted(a, wide)?, self.converted(b, wide)?);
        let kernel = TriangularSolve { n, rows, columns, left, lower, unit, transpose, conjugate, field };
        let v = self.kernel(kernel, &[a.value, b.value], &[Some(1)], std::slice::from_ref(&b.ty))[0];
        let y = self.converted(TypedValue { value: v, ty: b.ty }, dtype)?;
        self.finish(vec![y])
    }

    /// Converts the matrices `x` to the element type in which reflections are computed. Also returns the field of this
    /// type, and the numbers of rows and columns.
    fn reflected(&mut self, x: &TypedValue) -> Result<(Field, TypedValue, [usize; 2])> {
        let (field, wide) = self.field(&x.ty)?;
        let &[.., m, n] = &x.ty.dims[..] else {
            return Err(self.invalid(format!("cannot take a {}", x.ty)));
        };
        Ok((field, self.converted(x.clone(), wide)?, [m, n]))
    }

    pub(super) fn qr(&mut self) -> Result<()> {
        let [x] = self.take()?;
        let (field, wide, [m, n]) = self.reflected(&x)?;
        let mut dims = x.ty.dims[..x.ty.rank() - 2].to_vec();
        dims.push(m.min(n));
        let tau = self.typed(wide.ty.dtype, &dims)?;
        let types = [wide.ty.clone(), tau];
        let outs = self.kernel(Qr { m, n, field }, &[wide.value], &[Some(0), None], &types);
        let results =
            outs.into_iter().zip(types).map(|(v, ty)| self.converted(TypedValue { value: v, ty }, x.ty.dtype));
        let results = results.collect::<Result<_>>()?;
        self.finish(results)
    }

    pub(super) fn householder_product(&mut self) -> Result<()> {
        let [x, tau] = self.take()?;
        let (field, wide, [m, n]) = self.reflected(&x)?;
        let batch = &x.ty.dims[..x.ty.rank() - 2];
        let k = tau.ty.dims.last().copied().unwrap_or(0);
        let fits = tau.ty.dtype == x.ty.dtype && tau.ty.rank() + 1 == x.ty.rank() && tau.ty.dims.starts_with(batch);
        self.ensure(fits && k <= n && n <= m, || format!("{} reflections of {}", tau.ty, x.ty))?;
        let tau = self.converted(tau, wide.ty.dtype)?;
        let kernel = HouseholderProduct { m, n, k, field };
        let v = self.kernel(kernel, &[wide.value, tau.value], &[Some(0)], std::slice::from_ref(&wide.ty))[0];
        let y = self.converted(TypedValue { value: v, ty: wide.ty }, x.ty.dtype)?;
        self.finish(vec![y])
    }
}

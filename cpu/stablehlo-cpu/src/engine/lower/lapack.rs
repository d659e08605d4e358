//! LAPACK's routines under the names that JAX uses on the platform `cpu`, such as `lapack_dsyevd_ffi`. Programs that
//! are exported for the platform `cpu` call these routines. A plugin's Python package can make JAX emit the same calls
//! for the plugin's own platform.

use std::sync::Arc;

use stablehlo::ir::{Attribute, OpKind};

use super::{LoweringContext, Result, TypedValue, tensor_type, type_of};
use crate::engine::dtype::{DType, TensorType};
use crate::engine::graph::ValueIndex;
use crate::engine::kernels::linalg::lapack::{Lapack, Precision, Routine};

/// Splits a custom-call target into an element type and the name of a routine. The first letter of the routine's full
/// name selects the element type and is not part of the returned name. Returns `None` if the target does not have the
/// form of a LAPACK routine.
fn split(target: &str) -> Option<(DType, &str)> {
    let name = target.strip_prefix("lapack_")?.strip_suffix("_ffi")?;
    let dtype = match name.get(..1)? {
        "s" => DType::F32,
        "d" => DType::F64,
        "c" => DType::C64,
        "z" => DType::C128,
        _ => return None,
    };
    Some((dtype, &name[1..]))
}

/// Returns the type of the real part of a complex type, and other types unchanged.
fn real_of(dtype: DType) -> DType {
    match dtype {
        DType::C64 => DType::F32,
        DType::C128 => DType::F64,
        real => real,
    }
}

impl LoweringContext<'_, '_> {
    /// Lowers a LAPACK routine. Returns `None` if the target is not a LAPACK routine.
    ///
    /// The operand and result layouts of the custom call are ignored. They describe only how arrays are stored in
    /// memory.
    pub(super) fn lapack(&mut self, target: &str) -> Option<Result<()>> {
        // This routine is JAX's own variant of LAPACK's `gtsv`.
        if target == "tridiagonal_solve_perturbed_ffi" {
            return Some(self.three_diagonals(None));
        }
        let (dtype, name) = split(target)?;
        let letter = |name: &str| {
            let code = self.call_attribute(name).and_then(Attribute::as_integer);
            code.and_then(|code| u8::try_from(code).ok()).map(char::from)
        };
        let lower = letter("uplo") != Some('U');
        let routine = match name {
            "geqrf" => return Some(self.qr()),
            "orgqr" | "ungqr" => return Some(self.householder_product()),
            "syevd" | "heevd" => Routine::Symmetric { lower },
            // `gesdd` and `gesvd` differ only in their algorithms.
            "gesdd" | "gesvd" => {
                let vectors = letter("mode") != Some('N');
                // Without vectors, `mode` does not determine the sizes of the arrays of vectors, and JAX declares
                // arrays of either size.
                let full = if vectors { letter("mode") == Some('A') } else { self.declares_all_vectors() };
                Routine::Singular { full, vectors }
            }
            "geev" => Routine::General {
                left: letter("compute_left") == Some('V'),
                right: letter("compute_right") == Some('V'),
                precision: Precision::of(dtype),
            },
            "gees" if letter("sort") == Some('S') => return Some(Err(self.unsupported())),
            "gees" => Routine::Schur { precision: Precision::of(dtype) },
            "gehrd" => Routine::Hessenberg,
            "sytrd" | "hetrd" => Routine::Tridiagonal { lower },
            "getrf" => Routine::Lu,
            "geqp3" => Routine::PivotedQr,
            "gtsv" => return Some(self.three_diagonals(Some(dtype))),
            _ => return None,
        };
        let expected = 1 + usize::from(routine == Routine::PivotedQr);
        let given = self.op.operands.len();
        if given != expected {
            // XLA checks the operands of a custom-call handler only when the call runs. A call with wrong operands is
            // therefore an error only if the program reaches it.
            let error = format!("{given} operands, but the routine takes {expected}");
            return Some(self.handled(target, Arc::new(move |_, _, _| Err(error.clone()))));
        }
        Some(self.factorize(routine, dtype))
    }

    /// Lowers XLA's `Eigh`, which computes eigenvectors and ascending eigenvalues. The first value in `backend_config`
    /// selects the triangle. It is `1` or `true` for the lower triangle, and `0` or `false` for the upper triangle. The
    /// other values configure XLA's iterative algorithm, and this lowering ignores them.
    pub(super) fn eigh(&mut self) -> Result<()> {
        let [x] = self.take()?;
        let is_square = matches!(&x.ty.dims[..], [.., m, n] if m == n);
        self.ensure(is_square, || format!("cannot take a {}", x.ty))?;
        let OpKind::CustomCall { backend_config, .. } = &self.op.kind else {
            return Err(self.unsupported());
        };
        let config = backend_config.as_str().unwrap_or_default();
        let lower = match config.split(',').next().map(str::trim) {
            Some("1" | "true") => true,
            Some("0" | "false") => false,
            _ => {
                return Err(self.invalid(format!(
                    "backend_config {config:?} does not begin with 1 (lower triangle) or 0 (upper triangle)"
                )));
            }
        };
        let real = real_of(x.ty.dtype);
        self.decompose(Routine::Symmetric { lower }, &x, &[x.ty.dtype, real])
    }

    /// Lowers XLA's `LuDecomposition`, which torch_tpu and JAX's lowering for TPUs use.
    pub(super) fn lu_decomposition(&mut self) -> Result<()> {
        let [x] = self.take()?;
        self.decompose(Routine::PermutedLu, &x, &[x.ty.dtype, DType::I32, DType::I32])
    }

    /// Lowers a native routine on matrices of any float type. `results` are the element types of the op's results.
    fn decompose(&mut self, routine: Routine, x: &TypedValue, results: &[DType]) -> Result<()> {
        let dtype = match x.ty.dtype {
            DType::Bf16 | DType::F16 => DType::F32,
            DType::F32 | DType::F64 | DType::C64 | DType::C128 => x.ty.dtype,
            _ => return Err(self.unsupported()),
        };
        let &[ref batch @ .., m, n] = &x.ty.dims[..] else {
            return Err(self.invalid(format!("cannot take a {}", x.ty)));
        };
        let matrices = self.converted(x.clone(), dtype)?;
        let types = self.factor_types(routine, dtype, batch, [m, n])?;
        let kernel = Lapack { routine, m, n, batch: batch.iter().product(), dtype };
        let outs = self.kernel(kernel, &[matrices.value], &[], &types);
        let parts = outs.into_iter().zip(types).zip(results);
        let results =
            parts.map(|((value, ty), &to)| self.converted(TypedValue { value, ty }, to)).collect::<Result<_>>()?;
        self.finish(results)
    }

    /// Lowers a routine whose first operand is a batch of matrices of type `dtype`. Converts the operands of routines
    /// that are not native to double precision.
    fn factorize(&mut self, routine: Routine, dtype: DType) -> Result<()> {
        let operands = self.operands()?;
        let Some((x, pivots)) = operands.split_first() else { return Err(self.unsupported()) };
        let &[ref batch @ .., m, n] = &x.ty.dims[..] else {
            return Err(self.invalid(format!("cannot take a {}", x.ty)));
        };
        let square = !matches!(routine, Routine::Singular { .. } | Routine::Lu | Routine::PivotedQr);
        self.ensure(x.ty.dtype == dtype && (!square || m == n), || format!("cannot take a {}", x.ty))?;
        if routine == Routine::Hessenberg {
            self.check_whole_matrix(n)?;
        }
        let wide = match dtype {
            dtype if routine.is_native() => dtype,
            DType::C64 | DType::C128 => DType::C128,
            _ => DType::F64,
        };
        let types = self.factor_types(routine, wide, batch, [m, n])?;
        let mut ins = vec![self.converted(x.clone(), wide)?.value];
        if let [columns] = pivots {
            self.ensure(columns.ty == types[1], || format!("the pivots must be a {}, not a {}", types[1], columns.ty))?;
            ins.push(columns.value);
        }
        let kernel = Lapack { routine, m, n, batch: batch.iter().product(), dtype: wide };
        let outs = self.kernel(kernel, &ins, &[], &types);
        self.finish_narrow(dtype, outs, types)
    }

    /// Returns whether the declared matrices of left and right singular vectors are both square. If they are not, the
    /// number of vectors on each side equals the number of singular values.
    fn declares_all_vectors(&self) -> bool {
        let is_square = |id| {
            let ty = type_of(self.frame.func, id).and_then(tensor_type);
            ty.is_ok_and(|ty| matches!(&ty.dims[..], [.., rows, columns] if rows == columns))
        };
        self.op.results.get(2..4).is_some_and(|vectors| vectors.iter().all(|&id| is_square(id)))
    }

    /// Checks that the attributes `low` and `high` of `gehrd`, if present, select all rows and columns of the matrix.
    fn check_whole_matrix(&self, n: usize) -> Result<()> {
        let has_value = |name: &str, expected: usize| {
            let value = self.call_attribute(name).and_then(Attribute::as_integer);
            value.is_none_or(|value| i64::try_from(expected) == Ok(value))
        };
        self.ensure(has_value("low", 1) && has_value("high", n), || {
            "attributes low and high must select the whole matrix".to_owned()
        })
    }

    /// Returns the types of a routine's results for a batch of `m x n` matrices with elements of type `wide`.
    fn factor_types(
        &self,
        routine: Routine,
        wide: DType,
        batch: &[usize],
        [m, n]: [usize; 2],
    ) -> Result<Vec<TensorType>> {
        let k = m.min(n);
        // LAPACK returns the real and imaginary parts of a real matrix's eigenvalues separately.
        let eigenvalues = if wide == DType::C128 { vec![(wide, vec![n])] } else { vec![(wide, vec![n]); 2] };
        let mut types = match routine {
            Routine::Symmetric { .. } => vec![(wide, vec![n, n]), (real_of(wide), vec![n])],
            Routine::Singular { full, .. } => {
                let (rows, columns) = if full { (m, n) } else { (k, k) };
                vec![(wide, vec![m, n]), (real_of(wide), vec![k]), (wide, vec![m, rows]), (wide, vec![columns, n])]
            }
            Routine::General { .. } => [eigenvalues, vec![(DType::C128, vec![n, n]); 2]].concat(),
            Routine::Schur { .. } => {
                [vec![(wide, vec![n, n]); 2], eigenvalues, vec![(DType::I32, Vec::new())]].concat()
            }
            Routine::Hessenberg => vec![(wide, vec![n, n]), (wide, vec![n.saturating_sub(1)])],
            Routine::Tridiagonal { .. } => {
                let between = vec![n.saturating_sub(1)];
                vec![(wide, vec![n, n]), (DType::F64, vec![n]), (DType::F64, between.clone()), (wide, between)]
            }
            Routine::Lu => vec![(wide, vec![m, n]), (DType::I32, vec![k])],
            Routine::PermutedLu => vec![(wide, vec![m, n]), (DType::I32, vec![k]), (DType::I32, vec![m])],
            Routine::PivotedQr => vec![(wide, vec![m, n]), (DType::I32, vec![n]), (wide, vec![k])],
            // `three_diagonals` lowers this routine.
            Routine::ThreeDiagonals { .. } => return Err(self.unsupported()),
        };
        // All other routines also return the status that LAPACK calls `info`.
        if !matches!(routine, Routine::PivotedQr | Routine::PermutedLu) {
            types.push((DType::I32, Vec::new()));
        }
        types.into_iter().map(|(dtype, dims)| self.typed(dtype, &[batch, &dims].concat())).collect()
    }

    /// Converts results that were computed in double precision to the precision of `dtype`, and binds them to the
    /// results of the op.
    fn finish_narrow(&mut self, dtype: DType, outs: Vec<ValueIndex>, types: Vec<TensorType>) -> Result<()> {
        let narrow = |of: DType| match (dtype, of) {
            (DType::F32 | DType::C64, DType::F64) => DType::F32,
            (DType::F32 | DType::C64, DType::C128) => DType::C64,
            _ => of,
        };
        let mut results = Vec::with_capacity(types.len());
        for (value, ty) in outs.into_iter().zip(types) {
            let to = narrow(ty.dtype);
            results.push(self.converted(TypedValue { value, ty }, to)?);
        }
        self.finish(results)
    }

    /// Lowers a solver of tridiagonal systems. If `dtype` is given, uses LAPACK's algorithm for this element type.
    /// Otherwise enlarges pivots so that the solution is finite.
    fn three_diagonals(&mut self, dtype: Option<DType>) -> Result<()> {
        let operands = self.operands()?;
        let [below, d, above, b] = &operands[..] else {
            return Err(self.invalid(format!("{} operands", operands.len())));
        };
        let (&[ref batch @ .., m, n], own) = (&b.ty.dims[..], b.ty.dtype) else {
            return Err(self.invalid(format!("cannot take a {}", b.ty)));
        };
        let wide = match own {
            DType::F32 | DType::F64 => DType::F64,
            DType::C64 | DType::C128 => DType::C128,
            _ => return Err(self.unsupported()),
        };
        let diagonal = self.typed(own, &[batch, &[m]].concat())?;
        let fits = [below, d, above].iter().all(|given| given.ty == diagonal) && dtype.is_none_or(|dtype| dtype == own);
        self.ensure(fits, || format!("cannot take {}, {}, {} and {}", below.ty, d.ty, above.ty, b.ty))?;
        let mut types = Vec::new();
        if dtype.is_some() {
            let diagonal = TensorType { dtype: wide, ..diagonal };
            types.extend([diagonal.clone(), diagonal.clone(), diagonal]);
        }
        types.push(TensorType { dtype: wide, ..b.ty.clone() });
        if dtype.is_some() {
            types.push(self.typed(DType::I32, batch)?);
        }
        let perturb = dtype.is_none().then_some(Precision::of(own));
        let routine = Routine::ThreeDiagonals { perturb };
        let kernel = Lapack { routine, m, n, batch: batch.iter().product(), dtype: wide };
        let ins =
            operands.into_iter().map(|operand| Ok(self.converted(operand, wide)?.value)).collect::<Result<Vec<_>>>()?;
        let outs = self.kernel(kernel, &ins, &[], &types);
        self.finish_narrow(own, outs, types)
    }
}

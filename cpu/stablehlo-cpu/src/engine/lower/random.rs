//! Lowers `rng`.

use std::sync::atomic::AtomicU64;

use stablehlo::ir::RngDistribution;

use super::{LoweringContext, Result, TypedValue};
use crate::engine::dtype::DType;
use crate::engine::kernels::random::{Distribution, Rng};

impl LoweringContext<'_, '_> {
    pub(super) fn rng(&mut self, distribution: RngDistribution) -> Result<()> {
        let [a, b, _] = self.take()?;
        self.same(&a, &b)?;
        let ty = self.result_type(0)?;
        let fits = a.ty.rank() == 0 && a.ty.dtype == ty.dtype;
        self.ensure(fits, || format!("bounds of type {} for {ty}", a.ty))?;
        let normal = distribution == RngDistribution::Normal;
        let float = ty.dtype.is_float() || ty.dtype.is_narrow_float();
        let (distribution, drawn) = match (normal, float) {
            (true, true) => (Distribution::Normal, DType::F64),
            (false, true) => (Distribution::Uniform { narrow: ty.dtype != DType::F64 }, DType::F64),
            (false, false) if ty.dtype.part().is_none() => (Distribution::Integers, DType::I64),
            _ => return Err(self.unsupported()),
        };
        let (a, b) = (self.converted(a, drawn)?, self.converted(b, drawn)?);
        let wide = self.typed(drawn, &ty.dims)?;
        let key = self.graph.ops.len() as u64;
        let kernel = Rng { distribution, drawn: AtomicU64::new(0), key };
        let v = self.kernel(kernel, &[a.value, b.value], &[], std::slice::from_ref(&wide))[0];
        let y = self.converted(TypedValue { value: v, ty: wide }, ty.dtype)?;
        self.finish(vec![y])
    }
}

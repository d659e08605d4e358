//! Lowers `reduce`.

use stablehlo::ir::{Binary, Unary};

use super::linear::rest;
use super::region::{arg_reducer, combine};
use super::{LoweringContext, Result, TypedValue};
use crate::engine::dtype::TensorType;
use crate::engine::graph::{Op, ValueIndex};
use crate::engine::kernels::arg_reduce::{ArgReduce, arg_reduce_fn};
use crate::engine::kernels::reduce::{Extents, Reduce, ReduceAny, reduce_fn};
use crate::engine::scalar_fn::Combine;
use crate::engine::view::{View, strides_of};

impl<'m> LoweringContext<'_, 'm> {
    /// Splits the operands into inputs and initial values. The inputs must have equal extents. Each initial value must
    /// be a scalar of its input's element type.
    pub(super) fn inputs_and_inits(&self) -> Result<(Vec<TypedValue>, Vec<TypedValue>)> {
        let mut inputs = self.operands()?;
        let count = inputs.len() / 2;
        self.ensure(count > 0 && inputs.len() == 2 * count, || format!("{} operands", inputs.len()))?;
        let inits = inputs.split_off(count);
        for (x, init) in inputs.iter().zip(&inits) {
            let fits = x.ty.dims == inputs[0].ty.dims && init.ty.rank() == 0 && init.ty.dtype == x.ty.dtype;
            self.ensure(fits, || format!("an initial value of type {} for {} beside {}", init.ty, x.ty, inputs[0].ty))?;
        }
        Ok((inputs, inits))
    }

    /// Returns the op's only region.
    pub(super) fn body(&self) -> Result<&'m stablehlo::ir::Region> {
        match &self.op.regions[..] {
            [body] => Ok(body),
            regions => Err(self.invalid(format!("takes one region, not {}", regions.len()))),
        }
    }

    /// Returns the parameter types of a reducer. They consist of one scalar type per input for the running values,
    /// followed by the same types for the new values.
    pub(super) fn reducer_types(&self, inputs: &[TypedValue]) -> Result<Vec<TensorType>> {
        let once: Result<Vec<TensorType>> = inputs.iter().map(|x| self.typed(x.ty.dtype, &[])).collect();
        let once = once?;
        Ok([once.clone(), once].concat())
    }

    pub(super) fn reduce(&mut self, dimensions: &[usize]) -> Result<()> {
        let (inputs, inits) = self.inputs_and_inits()?;
        let body = self.body()?;
        let first = inputs[0].clone();
        let rank = first.ty.rank();
        self.distinct(dimensions, rank, "dimensions")?;
        let kept = rest(rank, dimensions, &[]);
        let dims: Vec<usize> = kept.iter().map(|&d| first.ty.dims[d]).collect();
        if let (1, Some(Combine::Op(op))) = (inputs.len(), combine(body))
            && let Some(y) = self.reduced(op, &first, &inits[0], dimensions)?
        {
            return self.finish(vec![y]);
        }
        if let ([x, positions], [init, first], &[dimension]) = (&inputs[..], &inits[..], dimensions)
            && let Some(is_max) = arg_reducer(body)
            && let Some(found) = self.arg_reduced(is_max, x, positions, init, first, dimension)?
        {
            return self.finish(found);
        }
        let types = self.reducer_types(&inputs)?;
        let body = self.scalar_fn(body, &types)?;
        self.ensure(body.results[..] == types[..inputs.len()], || format!("the body returns {:?}", body.results))?;
        let order: Vec<usize> = {
            let mut d = dimensions.to_vec();
            d.sort_unstable();
            d.extend(&kept);
            d
        };
        let own = strides_of(&first.ty.dims);
        let sizes: Vec<usize> = order.iter().map(|&d| first.ty.dims[d]).collect();
        let strides: Vec<isize> = order.iter().map(|&d| own[d]).collect();
        let mut ins: Vec<ValueIndex> = inputs.iter().chain(&inits).map(|t| t.value).collect();
        ins.extend(&body.captured);
        let results: Result<Vec<TensorType>> = inputs.iter().map(|x| self.typed(x.ty.dtype, &dims)).collect();
        let results = results?;
        let kernel = ReduceAny {
            view: View::new(&sizes, &strides, 0),
            reduced: sizes[..dimensions.len()].iter().product(),
            kept: dims.iter().product(),
            sizes: inputs.iter().map(|x| x.ty.dtype.size()).collect(),
            body,
        };
        let outs = self.kernel(kernel, &ins, &[], &results);
        self.finish(outs.into_iter().zip(results).map(|(v, ty)| TypedValue { value: v, ty }).collect())
    }

    /// Lowers a reduction by `op`. Returns `None` if there is no loop for it. Narrow types are reduced in the type in
    /// which the engine computes. The real and imaginary parts of complex sums are reduced separately.
    pub(super) fn reduced(
        &mut self,
        op: Binary,
        x: &TypedValue,
        init: &TypedValue,
        dimensions: &[usize],
    ) -> Result<Option<TypedValue>> {
        let dtype = x.ty.dtype;
        if dtype.part().is_some() && op == Binary::Add {
            let mut parts = Vec::with_capacity(2);
            for part in [Unary::Real, Unary::Imag] {
                let (x, init) = (self.un(part, x)?, self.un(part, init)?);
                parts.extend(self.reduced(op, &x, &init, dimensions)?);
            }
            return match &parts[..] {
                [re, im] => self.bin(Binary::Complex, re, im).map(Some),
                _ => Ok(None),
            };
        }
        if dtype.computed() != dtype {
            let wide = (self.converted(x.clone(), dtype.computed())?, self.converted(init.clone(), dtype.computed())?);
            let y = self.reduced(op, &wide.0, &wide.1, dimensions)?;
            return y.map(|y| self.converted(y, dtype)).transpose();
        }
        let Some(run) = reduce_fn(op, dtype) else {
            return Ok(None);
        };
        let kept = rest(x.ty.rank(), dimensions, &[]);
        let dims: Vec<usize> = kept.iter().map(|&d| x.ty.dims[d]).collect();
        let ty = self.typed(dtype, &dims)?;
        let (x, [outer, reduced, inner]) = self.three_parts(x, dimensions, &kept)?;
        let kernel = Reduce { extents: Extents { outer, reduced, inner }, op, dtype, run };
        let v = self.kernel(kernel, &[x, init.value], &[], std::slice::from_ref(&ty))[0];
        Ok(Some(TypedValue { value: v, ty }))
    }

    /// Lowers the search for the position of an extreme. Returns `None` if `positions` are not those along the
    /// dimension, or if there is no loop for the element types.
    fn arg_reduced(
        &mut self,
        is_max: bool,
        x: &TypedValue,
        positions: &TypedValue,
        init: &TypedValue,
        first: &TypedValue,
        dimension: usize,
    ) -> Result<Option<Vec<TypedValue>>> {
        let dims = &x.ty.dims;
        let inner: usize = dims[dimension + 1..].iter().product();
        let is_iota = self.out.iter().rev().any(|node| match node.op {
            Op::Iota(iota) => {
                node.outs[..] == [positions.value] && iota.shape() == (inner.max(1), dims[dimension].max(1))
            }
            _ => false,
        });
        let starts_at_zero = self.known(first.value).is_some_and(|bytes| bytes.iter().all(|&byte| byte == 0));
        let dtype = x.ty.dtype;
        let run = arg_reduce_fn(is_max, dtype.computed(), positions.ty.dtype);
        let (Some(run), true, true) = (run, is_iota, starts_at_zero) else { return Ok(None) };
        let extents = Extents { outer: dims[..dimension].iter().product(), reduced: dims[dimension], inner };
        let kept: Vec<usize> = rest(x.ty.rank(), &[dimension], &[]).iter().map(|&d| dims[d]).collect();
        let (x, init) = (self.converted(x.clone(), dtype.computed())?, self.converted(init.clone(), dtype.computed())?);
        let types = [self.typed(dtype.computed(), &kept)?, self.typed(positions.ty.dtype, &kept)?];
        let outs = self.kernel(ArgReduce { extents, run }, &[x.value, init.value], &[], &types);
        let [found, positions] = types;
        let found = self.converted(TypedValue { value: outs[0], ty: found }, dtype)?;
        Ok(Some(vec![found, TypedValue { value: outs[1], ty: positions }]))
    }

    /// Returns `x` in the form `[outer, reduced, inner]`, and these three extents. If the reduced and the kept
    /// dimensions alternate more often than in this form, `x` is rearranged.
    fn three_parts(&mut self, x: &TypedValue, reduced: &[usize], kept: &[usize]) -> Result<(ValueIndex, [usize; 3])> {
        // Find the runs of dimensions that are all reduced or all kept. Skip dimensions of extent one, because they can
        // be part of any run.
        let mut runs: Vec<(bool, usize)> = Vec::new();
        for (d, &dim) in x.ty.dims.iter().enumerate().filter(|&(_, &dim)| dim != 1) {
            let kind = reduced.contains(&d);
            match runs.last_mut() {
                Some((last, extent)) if *last == kind => *extent *= dim,
                _ => runs.push((kind, dim)),
            }
        }
        let parts = match runs[..] {
            [] => Some([1, 1, 1]),
            [(false, kept)] => Some([1, 1, kept]),
            [(true, r)] => Some([1, r, 1]),
            [(true, r), (false, i)] => Some([1, r, i]),
            [(false, o), (true, r)] => Some([o, r, 1]),
            [(false, o), (true, r), (false, i)] => Some([o, r, i]),
            _ => None,
        };
        if let Some(parts) = parts {
            return Ok((x.value, parts));
        }
        let order: Vec<usize> = kept.iter().chain(reduced).copied().collect();
        let y = self.permuted(x, &order)?;
        let outer: usize = kept.iter().map(|&d| x.ty.dims[d]).product();
        Ok((y.value, [outer, reduced.iter().map(|&d| x.ty.dims[d]).product(), 1]))
    }
}

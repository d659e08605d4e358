//! Constants and elementwise ops.

use stablehlo::ir::{Binary, ComparisonDirection, ComparisonType, Literal, RngAlgorithm, Unary};

use super::{Cx, Result, Tv};
use crate::engine::dtype::{DType, TensorType};
use crate::engine::elementwise as loops;
use crate::engine::graph::{Node, Op};
use crate::engine::kernels::rng::{Generator, RngBits};
use crate::engine::kernels::shape::Reinterpret;
use crate::engine::tile::Iota;

impl Cx<'_, '_> {
    pub(super) fn constant(&mut self, literal: &Literal) -> Result<()> {
        let ty = self.result_type(0)?;
        let size = ty.dtype.size();
        let elements = if literal.splat { 1 } else { ty.elements() };
        let got = literal.data.len();
        self.ensure(got == elements * size, || {
            format!("{ty} needs {} bytes of data, {got} are given", elements * size)
        })?;
        let mut data = std::borrow::Cow::Borrowed(&literal.data[..]);
        if ty.dtype == DType::Bool && data.iter().any(|&b| b > 1) {
            data.to_mut().iter_mut().for_each(|b| *b = u8::from(*b != 0));
        }
        let v = if literal.splat || ty.elements() == 1 {
            self.l.splat_value(&data, ty.elements())
        } else {
            self.dense(&ty, &data)?
        };
        self.finish_one(v, ty)
    }

    pub(super) fn zero(&mut self) -> Result<()> {
        let ty = self.result_type(0)?;
        let v = self.l.splat_value(&vec![0; ty.dtype.size()], ty.elements());
        self.finish_one(v, ty)
    }

    pub(super) fn iota(&mut self, dimension: usize) -> Result<()> {
        let ty = self.result_type(0)?;
        self.ensure(dimension < ty.rank(), || format!("dimension {dimension} of {ty}"))?;
        let inner: usize = ty.dims[dimension + 1..].iter().product();
        let iota = Iota::new(ty.dtype, inner, ty.dims[dimension]).ok_or_else(|| self.unsupported())?;
        let v = self.l.value(&ty);
        self.out.push(Node { op: Op::Iota(iota), ins: Vec::new(), outs: vec![v] });
        self.finish_one(v, ty)
    }

    pub(super) fn unary(&mut self, op: Unary) -> Result<()> {
        let [x] = self.take()?;
        let map = loops::unary(op, x.ty.dtype).ok_or_else(|| self.unsupported())?;
        let dtype = if op == Unary::IsFinite { DType::Bool } else { x.ty.dtype };
        let ty = TensorType { dtype, dims: x.ty.dims.clone() };
        let v = self.map(map, &[x.v], &ty);
        self.finish_one(v, ty)
    }

    pub(super) fn binary(&mut self, op: Binary) -> Result<()> {
        let [a, b] = self.take()?;
        self.same(&a, &b)?;
        let map = loops::binary(op, a.ty.dtype).ok_or_else(|| self.unsupported())?;
        let v = self.map(map, &[a.v, b.v], &a.ty);
        self.finish_one(v, a.ty)
    }

    pub(super) fn same(&self, a: &Tv, b: &Tv) -> Result<()> {
        self.ensure(a.ty == b.ty, || format!("operands of different types {} and {}", a.ty, b.ty))
    }

    pub(super) fn compare(&mut self, direction: ComparisonDirection, kind: ComparisonType) -> Result<()> {
        let [a, b] = self.take()?;
        self.same(&a, &b)?;
        let map = loops::compare(direction, kind, a.ty.dtype).ok_or_else(|| self.unsupported())?;
        let ty = TensorType { dtype: DType::Bool, dims: a.ty.dims.clone() };
        let v = self.map(map, &[a.v, b.v], &ty);
        self.finish_one(v, ty)
    }

    pub(super) fn select(&mut self) -> Result<()> {
        let [p, a, b] = self.take()?;
        self.same(&a, &b)?;
        let fits = p.ty.dtype == DType::Bool && (p.ty.rank() == 0 || p.ty.dims == a.ty.dims);
        self.ensure(fits, || format!("predicate of type {} for {}", p.ty, a.ty))?;
        let v = match self.l.splat(p.v) {
            Some(bytes) => {
                if bytes[0] != 0 {
                    a.v
                } else {
                    b.v
                }
            }
            None => self.map(loops::select(a.ty.dtype.size()), &[p.v, a.v, b.v], &a.ty),
        };
        self.finish_one(v, a.ty)
    }

    pub(super) fn clamp(&mut self) -> Result<()> {
        let [low, x, high] = self.take()?;
        for bound in [&low, &high] {
            let fits = bound.ty.dtype == x.ty.dtype && (bound.ty.rank() == 0 || bound.ty.dims == x.ty.dims);
            self.ensure(fits, || format!("bound of type {} for {}", bound.ty, x.ty))?;
        }
        let map = loops::clamp(x.ty.dtype).ok_or_else(|| self.unsupported())?;
        let v = self.map(map, &[low.v, x.v, high.v], &x.ty);
        self.finish_one(v, x.ty)
    }

    pub(super) fn convert(&mut self) -> Result<()> {
        let [x] = self.take()?;
        let ty = TensorType { dtype: self.result_type(0)?.dtype, dims: x.ty.dims.clone() };
        if ty.dtype == x.ty.dtype {
            return self.finish(vec![x]);
        }
        let map = loops::convert(x.ty.dtype, ty.dtype).ok_or_else(|| self.unsupported())?;
        let v = self.map(map, &[x.v], &ty);
        self.finish_one(v, ty)
    }

    /// Reinterprets the bytes; between sizes the smaller type has one more dimension, which is contiguous.
    pub(super) fn bitcast_convert(&mut self) -> Result<()> {
        let [x] = self.take()?;
        let ty = self.result_type(0)?;
        let (from, to) = (x.ty.dtype.size(), ty.dtype.size());
        if [x.ty.dtype, ty.dtype].iter().any(|d| !(d.is_integer() || d.size() > 1)) && x.ty.dtype != ty.dtype {
            // Truth values and types narrower than a byte do not use all bits of their byte.
            return Err(self.unsupported());
        }
        let fits = match from.cmp(&to) {
            std::cmp::Ordering::Equal => x.ty.dims == ty.dims,
            std::cmp::Ordering::Greater => ty.dims.split_last() == Some((&(from / to), &x.ty.dims)),
            std::cmp::Ordering::Less => x.ty.dims.split_last() == Some((&(to / from), &ty.dims)),
        };
        self.ensure(fits, || format!("from {} to {ty}", x.ty))?;
        let v = match (from == to, self.l.splat(x.v)) {
            (true, _) => x.v,
            (false, _) => self.kernel(Reinterpret, &[x.v], &[Some(0)], std::slice::from_ref(&ty))[0],
        };
        self.finish_one(v, ty)
    }

    pub(super) fn reduce_precision(&mut self, exponent_bits: u32, mantissa_bits: u32) -> Result<()> {
        let [x] = self.take()?;
        self.ensure((1..=32).contains(&exponent_bits), || format!("{exponent_bits} exponent bits"))?;
        let map =
            loops::reduce_precision(x.ty.dtype, exponent_bits, mantissa_bits).ok_or_else(|| self.unsupported())?;
        let v = self.map(map, &[x.v], &x.ty);
        self.finish_one(v, x.ty)
    }

    pub(super) fn rng_bit_generator(&mut self, algorithm: RngAlgorithm) -> Result<()> {
        let [state] = self.take()?;
        let ty = self.result_type(1)?;
        let words = state.ty.dims.first().copied().unwrap_or(0);
        let fits = state.ty.dtype == DType::U64 && state.ty.rank() == 1;
        if !fits || !ty.dtype.is_integer() {
            return Err(self.unsupported());
        }
        let generator = match algorithm {
            RngAlgorithm::ThreeFry => {
                // The first even dimension takes turns, or else the largest.
                let even = ty.dims.iter().position(|d| d % 2 == 0);
                let largest = (0..ty.rank()).rev().max_by_key(|&d| ty.dims[d]);
                match even.or(largest) {
                    Some(d) => {
                        let inner = ty.dims[d + 1..].iter().product();
                        Generator::ThreeFry { extent: ty.dims[d], inner }
                    }
                    None => Generator::ThreeFry { extent: 1, inner: 1 },
                }
            }
            RngAlgorithm::Default | RngAlgorithm::Philox => Generator::Philox,
        };
        let allowed = words == 2 || (words == 3 && generator == Generator::Philox);
        self.ensure(allowed, || format!("a state of type {}", state.ty))?;
        let types = [state.ty, ty.clone()];
        let outs = self.kernel(RngBits { generator, size: ty.dtype.size() }, &[state.v], &[], &types);
        self.finish(outs.into_iter().zip(types).map(|(v, ty)| Tv { v, ty }).collect())
    }
}

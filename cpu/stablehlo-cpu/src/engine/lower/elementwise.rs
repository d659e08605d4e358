//! Lowers constants and elementwise ops.

use stablehlo::ir::{Binary, ComparisonDirection, ComparisonType, Literal, RngAlgorithm, Unary};

use super::{LoweringContext, Result, TypedValue};
use crate::engine::dtype::{DType, TensorType};
use crate::engine::elementwise as loops;
use crate::engine::graph::{Node, Op};
use crate::engine::kernels::rng::{Generator, RngBits};
use crate::engine::kernels::shape::{Reinterpret, Repack};
use crate::engine::tile::Iota;

impl LoweringContext<'_, '_> {
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
        if let Some(wrap) = loops::wrap(ty.dtype) {
            let given = data.to_vec();
            wrap.code.run(&given, &[], &[], data.to_mut());
        }
        let v = if literal.splat || ty.elements() == 1 {
            self.graph.splat_value(&data, ty.elements())
        } else {
            self.dense(&ty, &data)?
        };
        self.finish_one(v, ty)
    }

    pub(super) fn zero(&mut self) -> Result<()> {
        let ty = self.result_type(0)?;
        let v = self.graph.splat_value(&vec![0; ty.dtype.size()], ty.elements());
        self.finish_one(v, ty)
    }

    /// Creates a tensor of equal floats.
    pub(super) fn filled(&mut self, x: f64, dtype: DType, dims: &[usize]) -> Result<TypedValue> {
        let ty = self.typed(DType::F64, dims)?;
        let v = self.graph.splat_value(&x.to_ne_bytes(), ty.elements());
        self.converted(TypedValue { value: v, ty }, dtype)
    }

    pub(super) fn iota(&mut self, dimension: usize) -> Result<()> {
        let ty = self.result_type(0)?;
        let y = self.counted(ty, dimension)?;
        self.finish(vec![y])
    }

    /// Creates a tensor of type `ty` in which each element is its own index along `dimension`.
    pub(super) fn counted(&mut self, ty: TensorType, dimension: usize) -> Result<TypedValue> {
        self.ensure(dimension < ty.rank(), || format!("dimension {dimension} of {ty}"))?;
        let inner: usize = ty.dims[dimension + 1..].iter().product();
        // If there is no loop for a type, compute the indices as `i64` and convert them.
        let counted = match Iota::new(ty.dtype, inner, ty.dims[dimension]) {
            Some(_) => ty.dtype,
            None => DType::I64,
        };
        let iota = Iota::new(counted, inner, ty.dims[dimension]).ok_or_else(|| self.unsupported())?;
        let counted = TensorType { dtype: counted, dims: ty.dims.clone() };
        let v = self.graph.value(&counted);
        self.out.push(Node { op: Op::Iota(iota), ins: Vec::new(), outs: vec![v] });
        self.converted(TypedValue { value: v, ty: counted }, ty.dtype)
    }

    pub(super) fn unary(&mut self, op: Unary) -> Result<()> {
        let [x] = self.take()?;
        let y = self.un(op, &x)?;
        self.finish(vec![y])
    }

    /// Applies the unary op `op` to a tensor.
    pub(super) fn un(&mut self, op: Unary, x: &TypedValue) -> Result<TypedValue> {
        let dtype = x.ty.dtype;
        let made = match op {
            Unary::IsFinite => DType::Bool,
            Unary::Abs | Unary::Real | Unary::Imag => dtype.part().unwrap_or(dtype),
            _ => dtype,
        };
        let ty = TensorType { dtype: made, dims: x.ty.dims.clone() };
        if let Some(map) = loops::unary(op, dtype) {
            let v = self.map(map, &[x.value], &ty);
            return Ok(TypedValue { value: v, ty });
        }
        match op {
            Unary::Real if dtype.part().is_none() => return Ok(x.clone()),
            Unary::Imag if dtype.part().is_none() => {
                let v = self.graph.splat_value(&vec![0; dtype.size()], ty.elements());
                return Ok(TypedValue { value: v, ty });
            }
            Unary::CountLeadingZeros | Unary::Popcnt if dtype.narrow_bits().is_some() => {
                let map = loops::counted(dtype, op == Unary::CountLeadingZeros).ok_or_else(|| self.unsupported())?;
                let v = self.map(map, &[x.value], &ty);
                return self.wrapped(TypedValue { value: v, ty });
            }
            _ => {}
        }
        if dtype.elementwise() == dtype {
            return Err(self.unsupported());
        }
        let wide = self.converted(x.clone(), dtype.elementwise())?;
        let y = self.un(op, &wide)?;
        if made == DType::Bool { Ok(y) } else { self.converted(y, dtype) }
    }

    /// Zero- or sign-extends narrow integers into the unused bits of their bytes.
    fn wrapped(&mut self, x: TypedValue) -> Result<TypedValue> {
        let map = loops::wrap(x.ty.dtype).ok_or_else(|| self.unsupported())?;
        let v = self.map(map, &[x.value], &x.ty);
        Ok(TypedValue { value: v, ty: x.ty })
    }

    pub(super) fn binary(&mut self, op: Binary) -> Result<()> {
        let [a, b] = self.take()?;
        let y = self.bin(op, &a, &b)?;
        self.finish(vec![y])
    }

    /// Applies the binary op `op` to two tensors of the same type.
    pub(super) fn bin(&mut self, op: Binary, a: &TypedValue, b: &TypedValue) -> Result<TypedValue> {
        self.same(a, b)?;
        let dtype = a.ty.dtype;
        if op == Binary::Complex {
            let made = match dtype {
                DType::F32 => DType::C64,
                _ => DType::C128,
            };
            let map = loops::complex(dtype).ok_or_else(|| self.unsupported())?;
            let ty = TensorType { dtype: made, dims: a.ty.dims.clone() };
            let v = self.map(map, &[a.value, b.value], &ty);
            return Ok(TypedValue { value: v, ty });
        }
        if let (Binary::Divide | Binary::Remainder, Some(power)) = (op, self.power_of_two(b)) {
            return self.divided(op, a, power);
        }
        if let Some(mut map) = loops::binary(op, dtype) {
            if let (Binary::Divide | Binary::Remainder, Some(divisor)) = (op, self.equal_integers(b)) {
                map.code = loops::divide_by(op, dtype, divisor).unwrap_or(map.code);
            }
            let v = self.map(map, &[a.value, b.value], &a.ty);
            return Ok(TypedValue { value: v, ty: a.ty.clone() });
        }
        if dtype.elementwise() == dtype {
            return Err(self.unsupported());
        }
        // A right shift of a narrow integer runs in a wider type. A logical shift needs an operand that is extended
        // with zeros, and an arithmetic shift needs an operand that is extended with copies of the sign bit.
        let shifted = match (op, dtype) {
            (Binary::ShiftRightLogical, DType::I2) => DType::U2,
            (Binary::ShiftRightLogical, DType::I4) => DType::U4,
            (Binary::ShiftRightArithmetic, DType::U2) => DType::I2,
            (Binary::ShiftRightArithmetic, DType::U4) => DType::I4,
            _ => dtype,
        };
        let (mut a, mut b) = (a.clone(), b.clone());
        if shifted != dtype {
            a = self.converted(a, shifted)?;
            if shifted == DType::I2 || shifted == DType::I4 {
                // Keep the bytes of the shift amounts. The shift reads them as unsigned numbers.
                b = TypedValue { value: b.value, ty: TensorType { dtype: DType::I8, dims: b.ty.dims } };
            } else {
                b = self.converted(b, shifted)?;
            }
        }
        let wide_a = self.converted(a, shifted.elementwise())?;
        let wide_b = self.converted(b, shifted.elementwise())?;
        let y = self.bin(op, &wide_a, &wide_b)?;
        self.converted(y, dtype)
    }

    /// Returns the element of a constant of equal integers of a type with whole bytes.
    fn equal_integers(&self, x: &TypedValue) -> Option<i128> {
        let dtype = x.ty.dtype;
        if !dtype.is_integer() || dtype.computed() != dtype {
            return None;
        }
        let unused = 8 * (16 - dtype.size());
        let high = i128::from_le_bytes(self.graph.splat(x.value)?) << unused;
        // Shift back with copies of the sign bit, or with zeros.
        Some(if dtype.is_signed() { high >> unused } else { (high.cast_unsigned() >> unused).cast_signed() })
    }

    /// Returns `k` if all elements of `x` are the same power of two `2^k`, of an integer type with whole bytes.
    fn power_of_two(&self, x: &TypedValue) -> Option<u8> {
        let number = u64::try_from(self.equal_integers(x)?).ok()?;
        u8::try_from(number.trailing_zeros()).ok().filter(|_| number.is_power_of_two())
    }

    /// Computes the quotient or the remainder of integers and `2^power` with shifts, which have vector code.
    fn divided(&mut self, op: Binary, a: &TypedValue, power: u8) -> Result<TypedValue> {
        let ty = &a.ty;
        let bits = u8::try_from(8 * ty.dtype.size()).unwrap_or(u8::MAX);
        let shift = |cx: &mut Self, op, x: &TypedValue, by: u8| {
            let mut amount = [0; 8];
            amount[0] = by;
            let value = cx.graph.splat_value(&amount[..ty.dtype.size()], ty.elements());
            cx.bin(op, x, &TypedValue { value, ty: ty.clone() })
        };
        let quotient = if !ty.dtype.is_signed() {
            shift(self, Binary::ShiftRightLogical, a, power)?
        } else if power == 0 {
            a.clone()
        } else {
            // Quotients are rounded towards zero, and shifts round down. Add `2^power - 1` to negative numbers first.
            let sign = shift(self, Binary::ShiftRightArithmetic, a, bits - 1)?;
            let correction = shift(self, Binary::ShiftRightLogical, &sign, bits - power)?;
            let corrected = self.bin(Binary::Add, a, &correction)?;
            shift(self, Binary::ShiftRightArithmetic, &corrected, power)?
        };
        if op == Binary::Divide {
            return Ok(quotient);
        }
        let whole = shift(self, Binary::ShiftLeft, &quotient, power)?;
        self.bin(Binary::Subtract, a, &whole)
    }

    pub(super) fn same(&self, a: &TypedValue, b: &TypedValue) -> Result<()> {
        self.ensure(a.ty == b.ty, || format!("operands of different types {} and {}", a.ty, b.ty))
    }

    pub(super) fn compare(&mut self, direction: ComparisonDirection, kind: ComparisonType) -> Result<()> {
        let [a, b] = self.take()?;
        let y = self.compared(direction, kind, &a, &b)?;
        self.finish(vec![y])
    }

    pub(super) fn select(&mut self) -> Result<()> {
        let [p, a, b] = self.take()?;
        self.same(&a, &b)?;
        let fits = p.ty.dtype == DType::Bool && (p.ty.rank() == 0 || p.ty.dims == a.ty.dims);
        self.ensure(fits, || format!("predicate of type {} for {}", p.ty, a.ty))?;
        let v = match self.graph.splat(p.value) {
            Some(bytes) => {
                if bytes[0] != 0 {
                    a.value
                } else {
                    b.value
                }
            }
            None => self.map(loops::select(a.ty.dtype.size()), &[p.value, a.value, b.value], &a.ty),
        };
        self.finish_one(v, a.ty)
    }

    pub(super) fn clamp(&mut self) -> Result<()> {
        let [low, x, high] = self.take()?;
        for bound in [&low, &high] {
            let fits = bound.ty.dtype == x.ty.dtype && (bound.ty.rank() == 0 || bound.ty.dims == x.ty.dims);
            self.ensure(fits, || format!("bound of type {} for {}", bound.ty, x.ty))?;
        }
        let (dtype, wide) = (x.ty.dtype, x.ty.dtype.elementwise());
        let map = loops::clamp(wide).ok_or_else(|| self.unsupported())?;
        let low = self.converted(low, wide)?;
        let x = self.converted(x, wide)?;
        let high = self.converted(high, wide)?;
        let v = self.map(map, &[low.value, x.value, high.value], &x.ty);
        let y = self.converted(TypedValue { value: v, ty: x.ty }, dtype)?;
        self.finish(vec![y])
    }

    pub(super) fn fma(&mut self) -> Result<()> {
        let [a, b, c] = self.take()?;
        self.same(&a, &b)?;
        self.same(&a, &c)?;
        let (dtype, wide) = (a.ty.dtype, a.ty.dtype.elementwise());
        // A result that was rounded to nearest twice could be wrong, so do not round it to `f32` first.
        let map = if wide == dtype { loops::fma(dtype) } else { (wide == DType::F32).then(loops::fma_to_odd) };
        let map = map.ok_or_else(|| self.unsupported())?;
        let a = self.converted(a, wide)?;
        let b = self.converted(b, wide)?;
        let c = self.converted(c, wide)?;
        let v = self.map(map, &[a.value, b.value, c.value], &a.ty);
        let y = self.converted(TypedValue { value: v, ty: a.ty }, dtype)?;
        self.finish(vec![y])
    }

    pub(super) fn convert(&mut self) -> Result<()> {
        let [x] = self.take()?;
        let dtype = self.result_dtype(0)?;
        let y = self.converted(x, dtype)?;
        self.finish(vec![y])
    }

    /// Converts `x` to another element type.
    pub(super) fn converted(&mut self, x: TypedValue, dtype: DType) -> Result<TypedValue> {
        let steps = loops::convert(x.ty.dtype, dtype).ok_or_else(|| self.unsupported())?;
        let mut y = x;
        for (map, dtype) in steps {
            let ty = TensorType { dtype, dims: y.ty.dims };
            y = TypedValue { value: self.map(map, &[y.value], &ty), ty };
        }
        // If no loop is needed, the bytes already represent the other type.
        y.ty.dtype = dtype;
        Ok(y)
    }

    /// Lowers `bitcast_convert`. If the widths differ, the tensor of the narrower type has an additional innermost
    /// dimension.
    pub(super) fn bitcast_convert(&mut self) -> Result<()> {
        let [x] = self.take()?;
        let dtype = self.result_dtype(0)?;
        let (from, to) = (x.ty.dtype.bits(), dtype.bits());
        if x.ty.dtype == dtype {
            return self.finish(vec![x]);
        }
        let dims = match from.cmp(&to) {
            std::cmp::Ordering::Equal => Some(x.ty.dims.to_vec()),
            std::cmp::Ordering::Greater => (from % to == 0).then(|| [&x.ty.dims[..], &[from / to]].concat()),
            std::cmp::Ordering::Less => match x.ty.dims.split_last() {
                Some((&last, dims)) if last * from == to => Some(dims.to_vec()),
                _ => None,
            },
        };
        let dims =
            dims.ok_or_else(|| self.invalid(format!("cannot convert {} to elements of {}", x.ty, dtype.name())))?;
        let ty = self.typed(dtype, &dims)?;
        if from == to {
            let y = TypedValue { value: x.value, ty };
            // Set the unused bits of each byte as the new type requires. In a narrow integer, they depend on its sign.
            let y = if loops::wrap(y.ty.dtype).is_some() {
                self.wrapped(y)?
            } else if x.ty.dtype.narrow_bits().is_some() {
                let v = self
                    .wrapped(TypedValue {
                        value: y.value,
                        ty: TensorType { dtype: DType::U4, dims: y.ty.dims.clone() },
                    })?
                    .value;
                TypedValue { value: v, ty: y.ty }
            } else {
                y
            };
            return self.finish(vec![y]);
        }
        let v = if from < 8 || to < 8 {
            let y = self.kernel(Repack { from, to }, &[x.value], &[], std::slice::from_ref(&ty))[0];
            let y = TypedValue { value: y, ty: ty.clone() };
            if loops::wrap(ty.dtype).is_some() { self.wrapped(y)?.value } else { y.value }
        } else {
            self.kernel(Reinterpret, &[x.value], &[Some(0)], std::slice::from_ref(&ty))[0]
        };
        self.finish_one(v, ty)
    }

    pub(super) fn reduce_precision(&mut self, exponent_bits: u32, mantissa_bits: u32) -> Result<()> {
        let [x] = self.take()?;
        self.ensure((1..=32).contains(&exponent_bits), || format!("{exponent_bits} exponent bits"))?;
        let dtype = x.ty.dtype;
        let x = self.converted(x, dtype.elementwise())?;
        let map =
            loops::reduce_precision(x.ty.dtype, exponent_bits, mantissa_bits).ok_or_else(|| self.unsupported())?;
        let v = self.map(map, &[x.value], &x.ty);
        let y = self.converted(TypedValue { value: v, ty: x.ty }, dtype)?;
        self.finish(vec![y])
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
                // The two words of each counter alternate along the first dimension of even extent. If no extent is
                // even, they alternate along the largest dimension.
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
        let outs = self.kernel(RngBits { generator, size: ty.dtype.size() }, &[state.value], &[], &types);
        self.finish(outs.into_iter().zip(types).map(|(v, ty)| TypedValue { value: v, ty }).collect())
    }
}

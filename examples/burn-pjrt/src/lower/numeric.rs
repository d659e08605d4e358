//! Operations on numeric tensors of any type: arithmetic, comparisons, reductions and scans.

use burn_ir::{BinaryOpIr, DimOpIr, NumericOperationIr as N, ReduceDimOpIr, ReduceOpIr, ScalarOpIr, TensorIr};
use stablehlo::builder::Value;
use stablehlo::ir::{ComparisonDirection as Direction, ElementType};

use super::{Lower, Result};
use crate::dtype::extents;

/// A binary arithmetic operation.
#[derive(Clone, Copy)]
enum Binary {
    Add,
    Sub,
    Mul,
    Div,
    Rem,
}

/// An associative operation for reductions and scans.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Combine {
    Sum,
    Product,
    Max,
    Min,
}

impl Lower<'_> {
    pub(super) fn numeric(&mut self, op: &N, argument: bool) -> Result<()> {
        match op {
            N::Add(op) => self.binary(op, Binary::Add),
            N::Sub(op) => self.binary(op, Binary::Sub),
            N::Mul(op) => self.binary(op, Binary::Mul),
            N::Div(op) => self.binary(op, Binary::Div),
            N::Rem(op) => self.binary(op, Binary::Rem),
            N::AddScalar(op) => self.with_scalar(op, Binary::Add, argument),
            N::SubScalar(op) => self.with_scalar(op, Binary::Sub, argument),
            N::MulScalar(op) => self.with_scalar(op, Binary::Mul, argument),
            N::DivScalar(op) => self.with_scalar(op, Binary::Div, argument),
            N::RemScalar(op) => self.with_scalar(op, Binary::Rem, argument),
            N::Abs(op) => {
                let x = self.value(&op.input)?;
                let unsigned = !self.element(x)?.is_float() && !self.element(x)?.is_signed_integer();
                self.set(&op.out, if unsigned { x } else { self.f.abs(x)? })
            }
            N::Full(op) => {
                let value = self.constant(op.value, self.types.element(op.out.dtype)?)?;
                self.set(&op.out, self.f.broadcast_to(value, &extents(&op.out))?)
            }
            N::Mean(op) => self.mean(&op.input, &op.out, &all(&op.input)),
            N::MeanDim(op) => self.mean(&op.input, &op.out, &[op.axis]),
            N::Sum(op) => self.reduced(op, Combine::Sum),
            N::Prod(op) => self.reduced(op, Combine::Product),
            N::Max(op) => self.reduced(op, Combine::Max),
            N::Min(op) => self.reduced(op, Combine::Min),
            N::SumDim(op) => self.reduced_along(op, Combine::Sum),
            N::ProdDim(op) => self.reduced_along(op, Combine::Product),
            N::MaxDim(op) => self.reduced_along(op, Combine::Max),
            N::MinDim(op) => self.reduced_along(op, Combine::Min),
            N::MaxAbs(op) => self.max_abs(&op.input, &op.out, &all(&op.input)),
            N::MaxAbsDim(op) => self.max_abs(&op.input, &op.out, &[op.axis]),
            N::Greater(op) => self.compared(op, Direction::Gt),
            N::GreaterEqual(op) => self.compared(op, Direction::Ge),
            N::Lower(op) => self.compared(op, Direction::Lt),
            N::LowerEqual(op) => self.compared(op, Direction::Le),
            N::GreaterElem(op) => self.compared_with(op, Direction::Gt),
            N::GreaterEqualElem(op) => self.compared_with(op, Direction::Ge),
            N::LowerElem(op) => self.compared_with(op, Direction::Lt),
            N::LowerEqualElem(op) => self.compared_with(op, Direction::Le),
            N::ArgMax(op) => {
                let (_, at) = self.extreme(&op.input, op.axis, Direction::Gt)?;
                self.set_reshaped(&op.out, at)
            }
            N::ArgMin(op) => {
                let (_, at) = self.extreme(&op.input, op.axis, Direction::Lt)?;
                self.set_reshaped(&op.out, at)
            }
            N::MaxDimWithIndices(op) => {
                let (value, at) = self.extreme(&op.tensor, op.dim, Direction::Gt)?;
                self.set_reshaped(&op.out, value)?;
                self.set_reshaped(&op.out_indices, at)
            }
            N::MinDimWithIndices(op) => {
                let (value, at) = self.extreme(&op.tensor, op.dim, Direction::Lt)?;
                self.set_reshaped(&op.out, value)?;
                self.set_reshaped(&op.out_indices, at)
            }
            N::TopK(op) => self.top(op, 0),
            N::ArgTopK(op) => self.top(op, 1),
            N::Clamp(op) => {
                let x = self.value(&op.tensor)?;
                let element = self.element(x)?;
                let (min, max) = (self.constant(op.min, element)?, self.constant(op.max, element)?);
                self.set(&op.out, self.f.minimum(self.f.maximum(x, min)?, max)?)
            }
            N::IntRandom(op) => self.random(&op.out, op.distribution),
            N::Powi(op) => {
                let x = self.value(&op.lhs)?;
                let exponent = self.converted(self.value(&op.rhs)?, self.element(x)?)?;
                self.set(&op.out, self.f.power(x, exponent)?)
            }
            N::PowiScalar(op) => {
                let result = self.integer_power(self.value(&op.lhs)?, op.rhs.elem::<i64>())?;
                self.set(&op.out, result)
            }
            N::CumSum(op) => self.scan(op, Combine::Sum),
            N::CumProd(op) => self.scan(op, Combine::Product),
            N::CumMin(op) => self.scan(op, Combine::Min),
            N::CumMax(op) => self.scan(op, Combine::Max),
        }
    }

    fn binary(&mut self, op: &BinaryOpIr, binary: Binary) -> Result<()> {
        let result = self.arithmetic(self.value(&op.lhs)?, self.value(&op.rhs)?, binary)?;
        self.set(&op.out, result)
    }

    fn with_scalar(&mut self, op: &ScalarOpIr, binary: Binary, argument: bool) -> Result<()> {
        let x = self.value(&op.lhs)?;
        let scalar = self.scalar(op.rhs, self.element(x)?, argument)?;
        let result = self.arithmetic(x, scalar, binary)?;
        self.set(&op.out, result)
    }

    fn arithmetic(&self, x: Value, y: Value, binary: Binary) -> Result<Value> {
        let f = self.f;
        Ok(match binary {
            Binary::Add => f.add(x, y)?,
            Binary::Sub => f.subtract(x, y)?,
            Binary::Mul => f.multiply(x, y)?,
            Binary::Div => f.divide(x, y)?,
            Binary::Rem => {
                // The remainder has the sign of the divisor, as in Python.
                let rest = f.remainder(x, y)?;
                let element = self.element(x)?;
                if element.is_float() || element.is_signed_integer() { f.remainder(f.add(rest, y)?, y)? } else { rest }
            }
        })
    }

    fn compared(&mut self, op: &BinaryOpIr, direction: Direction) -> Result<()> {
        let result = self.f.compare(self.value(&op.lhs)?, direction, self.value(&op.rhs)?)?;
        self.set(&op.out, result)
    }

    fn compared_with(&mut self, op: &ScalarOpIr, direction: Direction) -> Result<()> {
        let x = self.value(&op.lhs)?;
        let scalar = self.constant(op.rhs, self.element(x)?)?;
        self.set(&op.out, self.f.compare(x, direction, scalar)?)
    }

    fn mean(&mut self, input: &TensorIr, out: &TensorIr, dimensions: &[usize]) -> Result<()> {
        let x = self.value(input)?;
        let wide = self.wide(x)?;
        let count: usize = dimensions.iter().map(|&d| input.shape[d]).product();
        // The sum of integers may exceed the range of their type, so compute it in the device's type for 64-bit
        // integers.
        let element = self.element(wide)?;
        let long = if element.is_float() { wide } else { self.converted(wide, self.long_integer(element)?)? };
        let sum = self.sum(long, dimensions)?;
        let mean = self.f.divide(sum, self.number_like(count as f64, sum)?)?;
        self.set_reshaped(out, mean)
    }

    /// Returns the type in which the device stores 64-bit integers with the signedness of `element`. Returns `element`
    /// if the device does not support them.
    fn long_integer(&self, element: ElementType) -> Result<ElementType> {
        let signed = element.is_signed_integer();
        let dtype = if signed { burn_backend::DType::I64 } else { burn_backend::DType::U64 };
        Ok(self.types.element(dtype).unwrap_or(element))
    }

    fn reduced(&mut self, op: &ReduceOpIr, combine: Combine) -> Result<()> {
        let result = self.reduce(self.value(&op.input)?, combine, &all(&op.input))?;
        self.set_reshaped(&op.out, result)
    }

    fn reduced_along(&mut self, op: &ReduceDimOpIr, combine: Combine) -> Result<()> {
        let result = self.reduce(self.value(&op.input)?, combine, &[op.axis])?;
        self.set_reshaped(&op.out, result)
    }

    fn max_abs(&mut self, input: &TensorIr, out: &TensorIr, dimensions: &[usize]) -> Result<()> {
        let x = self.value(input)?;
        let element = self.element(x)?;
        let x = if element.is_float() || element.is_signed_integer() { self.f.abs(x)? } else { x };
        let result = self.reduce(x, Combine::Max, dimensions)?;
        self.set_reshaped(out, result)
    }

    /// Reduces `dimensions` with the operation `combine`. The result does not have these dimensions.
    pub(super) fn reduce(&self, x: Value, combine: Combine, dimensions: &[usize]) -> Result<Value> {
        let element = self.element(x)?;
        let wide = if combine == Combine::Product { self.wide(x)? } else { x };
        if combine == Combine::Sum {
            return self.sum(x, dimensions);
        }
        let start = self.neutral(combine, self.element(wide)?)?;
        let result = self.f.reduce(wide, start, dimensions, |a, b| self.combined(a, b, combine))?;
        self.converted(result, element)
    }

    fn combined(&self, a: Value, b: Value, combine: Combine) -> stablehlo::Result<Value> {
        match combine {
            Combine::Sum => self.f.add(a, b),
            Combine::Product => self.f.multiply(a, b),
            Combine::Max => self.f.maximum(a, b),
            Combine::Min => self.f.minimum(a, b),
        }
    }

    /// Returns the identity element of the operation.
    pub(super) fn neutral(&self, combine: Combine, element: ElementType) -> Result<Value> {
        match combine {
            Combine::Sum => self.number(0.0, element),
            Combine::Product => self.number(1.0, element),
            Combine::Max if element.is_float() => self.number(f64::NEG_INFINITY, element),
            Combine::Min if element.is_float() => self.number(f64::INFINITY, element),
            Combine::Max | Combine::Min => self.limit(combine == Combine::Min, element),
        }
    }

    /// Creates a constant with the largest or the smallest value of an integer type or of booleans.
    fn limit(&self, largest: bool, element: ElementType) -> Result<Value> {
        let f = self.f;
        let bits = element.bit_width();
        Ok(match (element, largest) {
            (ElementType::Bool, _) => f.constant(largest)?,
            (ElementType::I64, true) => f.constant(i64::MAX)?,
            (ElementType::I64, false) => f.constant(i64::MIN)?,
            (ElementType::Ui64, true) => f.constant(u64::MAX)?,
            (element, true) if element.is_signed_integer() => self.number(2f64.powi(bits as i32 - 1) - 1.0, element)?,
            (element, false) if element.is_signed_integer() => self.number(-(2f64.powi(bits as i32 - 1)), element)?,
            (element, true) => self.number(2f64.powi(bits as i32) - 1.0, element)?,
            (element, false) => self.number(0.0, element)?,
        })
    }

    /// Returns the largest or smallest element along a dimension, and the position of its first occurrence. A NaN takes
    /// precedence over all other values.
    fn extreme(&self, input: &TensorIr, dimension: usize, direction: Direction) -> Result<(Value, Value)> {
        let f = self.f;
        let x = self.value(input)?;
        let index = self.types.element(burn_backend::DType::I32)?;
        let positions = self.positions(&extents(input), dimension, index)?;
        let combine = if direction == Direction::Gt { Combine::Max } else { Combine::Min };
        let start = (self.neutral(combine, self.element(x)?)?, self.limit(true, index)?);
        let float = self.element(x)?.is_float();
        Ok(f.reduce((x, positions), start, &[dimension], |a, b| {
            let mut better = f.compare(a.0, direction, b.0)?;
            let mut tie = f.compare(a.0, Direction::Eq, b.0)?;
            if float {
                let (a_nan, b_nan) = (f.compare(a.0, Direction::Ne, a.0)?, f.compare(b.0, Direction::Ne, b.0)?);
                better = f.or(better, f.and(a_nan, f.not(b_nan)?)?)?;
                tie = f.or(tie, f.and(a_nan, b_nan)?)?;
            }
            let first = f.compare(a.1, Direction::Lt, b.1)?;
            let keep = f.or(better, f.and(tie, first)?)?;
            Ok((f.select(keep, a.0, b.0)?, f.select(keep, a.1, b.1)?))
        })?)
    }

    /// Sets the output to the largest elements along a dimension in descending order if `result` is 0, and to their
    /// positions if it is 1.
    fn top(&mut self, op: &ReduceDimOpIr, result: usize) -> Result<()> {
        let f = self.f;
        let x = self.value(&op.input)?;
        let shape = extents(&op.input);
        let positions = self.positions(&shape, op.axis, self.types.element(burn_backend::DType::I32)?)?;
        let sorted = f.sort([x, positions], op.axis, true, |a, b| f.compare(a[0], Direction::Gt, b[0]))?;
        let (zeros, ones) = (vec![0; shape.len()], vec![1; shape.len()]);
        let first = f.slice(sorted[result], &zeros, &extents(&op.out), &ones)?;
        self.set(&op.out, first)
    }

    /// Raises each element to a constant integer power. Multiplies repeatedly for floats with exponents from -64 to 64,
    /// and for integers with exponents that are not negative. Otherwise uses the power op.
    pub(super) fn integer_power(&self, x: Value, exponent: i64) -> Result<Value> {
        let f = self.f;
        let float = self.element(x)?.is_float();
        if !(0..=64).contains(&exponent) && float {
            return Ok(match exponent {
                -64..0 => f.divide(self.number_like(1.0, x)?, self.integer_power(x, -exponent)?)?,
                _ => f.power(x, self.number_like(exponent as f64, x)?)?,
            });
        }
        if exponent < 0 {
            // The exponent is negative. Only 1 and -1 have integer inverses, and the power op computes these.
            return Ok(f.power(x, self.number_like(exponent as f64, x)?)?);
        }
        let (mut result, mut square, mut rest) = (None, x, exponent);
        while rest > 0 {
            if rest & 1 == 1 {
                result = Some(match result {
                    Some(result) => f.multiply(result, square)?,
                    None => square,
                });
            }
            rest >>= 1;
            if rest > 0 {
                square = f.multiply(square, square)?;
            }
        }
        match result {
            Some(result) => Ok(result),
            None => Ok(f.broadcast_to(self.number_like(1.0, x)?, &self.shape(x)?)?),
        }
    }

    /// Combines each element with all elements before it along a dimension. The lowering is a sequence of steps, and
    /// each step doubles the number of elements that are combined.
    fn scan(&mut self, op: &DimOpIr, combine: Combine) -> Result<()> {
        let f = self.f;
        let input = self.value(&op.input)?;
        let sums = matches!(combine, Combine::Sum | Combine::Product);
        let mut x = if sums { self.wide(input)? } else { input };
        let start = self.neutral(combine, self.element(x)?)?;
        let rank = op.input.shape.num_dims();
        let (none, extent) = (vec![0; rank], op.input.shape[op.axis] as i64);
        let mut step = 1;
        while step < extent {
            let (mut low, mut high) = (none.clone(), none.clone());
            (low[op.axis], high[op.axis]) = (step, -step);
            let before = f.pad(x, start, &low, &high, &none)?;
            x = self.combined(before, x, combine)?;
            step *= 2;
        }
        self.set(&op.out, x)
    }
}

/// Returns all dimensions of a tensor.
fn all(tensor: &TensorIr) -> Vec<usize> {
    (0..tensor.shape.num_dims()).collect()
}

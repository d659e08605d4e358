//! Random numbers from the generator that the plugin declares.
//!
//! The states of the generators are arguments of the program. [`crate::PjrtDevice`] passes new states to each run. On
//! the same plugin, runs with the same seed and the same operations draw the same numbers.

use burn_backend::Distribution;
use burn_ir::{FloatOperationIr, NumericOperationIr, OperationIr, TensorIr};
use plugin_manifest::capabilities::RngBitGenerator;
use stablehlo::builder::Value;
use stablehlo::ir::{ComparisonDirection as Direction, ElementType, RngAlgorithm, TensorType};

use super::{Lower, Result};
use crate::dtype::extents;
use crate::error::Error;

/// Returns the tensor that an operation fills with random numbers, or `None` for any other operation.
pub(crate) fn random_output(op: &OperationIr) -> Option<&TensorIr> {
    match op {
        OperationIr::Float(_, FloatOperationIr::Random(op))
        | OperationIr::NumericInt(_, NumericOperationIr::IntRandom(op)) => Some(&op.out),
        _ => None,
    }
}

impl Lower<'_> {
    pub(super) fn random(&mut self, out: &TensorIr, distribution: Distribution) -> Result<()> {
        let f = self.f;
        let element = self.types.element(out.dtype)?;
        let shape = extents(out);
        // Uniform numbers are drawn in this type, which is that of the tensor, or `f32` for integer tensors. Normal
        // numbers are drawn in `f64` if this type is `f64`, and otherwise in `f32`. The Bernoulli distribution always
        // compares numbers of type `f32`.
        let float = if element.is_float() { element } else { ElementType::F32 };
        let count: i64 = shape.iter().product();
        let result = match distribution {
            Distribution::Default if !element.is_float() => {
                let bits = self.bits_of(&[count], unsigned(element))?;
                f.bitcast_convert(bits, element)?
            }
            Distribution::Default => self.uniform(count, float)?,
            Distribution::Uniform(low, high) if !element.is_float() => self.integers(count, element, low, high)?,
            Distribution::Uniform(low, high) => {
                let scaled = f.multiply(self.uniform(count, float)?, self.number(high - low, float)?)?;
                let shifted = f.add(scaled, self.number(low, float)?)?;
                // Rounding may produce the upper bound, which the distribution excludes. Replace it with the lower
                // bound.
                let reached = f.compare(shifted, Direction::Ge, self.number(high, float)?)?;
                f.select(reached, self.number(low, float)?, shifted)?
            }
            Distribution::Bernoulli(probability) => {
                let uniform = self.uniform(count, ElementType::F32)?;
                f.compare(uniform, Direction::Lt, self.number(probability, ElementType::F32)?)?
            }
            Distribution::Normal(mean, deviation) => {
                let wide = if float == ElementType::F64 { float } else { ElementType::F32 };
                let scaled = f.multiply(self.normal(count, wide)?, self.number(deviation, wide)?)?;
                f.add(scaled, self.number(mean, wide)?)?
            }
        };
        self.set_reshaped_converted(out, result)
    }

    fn set_reshaped_converted(&mut self, out: &TensorIr, value: Value) -> Result<()> {
        let value = self.converted(value, self.types.element(out.dtype)?)?;
        self.set_reshaped(out, value)
    }

    /// Draws a tensor of uniformly distributed random integers with the given shape and element type. Uses the next
    /// generator of the program.
    fn bits_of(&mut self, shape: &[i64], element: ElementType) -> Result<Value> {
        let f = self.f;
        let Some(states) = self.generators else { return Err(Error::unsupported("random numbers", "no generator")) };
        let at = self.next_generator;
        self.next_generator += 1;
        let state = f.reshape(f.slice(states, &[at, 0], &[at + 1, 2], &[1, 1])?, &[2])?;
        let algorithm = match self.types.capabilities().rng_bit_generator {
            RngBitGenerator::Philox => RngAlgorithm::Philox,
            RngBitGenerator::ThreeFry => RngAlgorithm::ThreeFry,
            _ => RngAlgorithm::Default,
        };
        Ok(f.rng_bit_generator(state, algorithm, TensorType::new(shape, element))?.1)
    }

    /// Draws uniformly distributed numbers from 0 (inclusive) to 1 (exclusive). The number of random bits equals the
    /// precision of the type.
    fn uniform(&mut self, count: i64, element: ElementType) -> Result<Value> {
        let bits = if element == ElementType::F64 { ElementType::Ui64 } else { ElementType::Ui32 };
        let random = self.bits_of(&[count], bits)?;
        self.unit(random, element)
    }

    fn unit(&self, random: Value, element: ElementType) -> Result<Value> {
        let f = self.f;
        let digits = match element {
            ElementType::F64 => 53,
            ElementType::F16 => 11,
            ElementType::Bf16 => 8,
            _ => 24,
        };
        let width = self.element(random)?.bit_width() as i32;
        let high = f.shift_right_logical(random, self.number_like(f64::from(width - digits), random)?)?;
        let number = f.convert(high, element)?;
        Ok(f.multiply(number, self.number_like(2f64.powi(-digits), number)?)?)
    }

    /// Draws normally distributed numbers with the Box-Muller transform.
    fn normal(&mut self, count: i64, element: ElementType) -> Result<Value> {
        let f = self.f;
        let bits = if element == ElementType::F64 { ElementType::Ui64 } else { ElementType::Ui32 };
        let random = self.bits_of(&[2, count], bits)?;
        let pairs = self.unit(random, element)?;
        let row = |i: i64| f.reshape(f.slice(pairs, &[i, 0], &[i + 1, count], &[1, 1])?, &[count]);
        // The uniform number u is less than 1, so the logarithm of 1 - u is finite.
        let logarithm = f.log_plus_one(f.negate(row(0)?)?)?;
        let radius = f.sqrt(f.multiply(logarithm, self.number_like(-2.0, logarithm)?)?)?;
        let angle = f.multiply(row(1)?, self.number_like(std::f64::consts::TAU, radius)?)?;
        Ok(f.multiply(radius, f.cosine(angle)?)?)
    }

    /// Draws integers from `low` (inclusive) to `high` (exclusive).
    fn integers(&mut self, count: i64, element: ElementType, low: f64, high: f64) -> Result<Value> {
        let f = self.f;
        let (low, high) = (low as i64, high as i64);
        let span = high.saturating_sub(low).max(1).unsigned_abs();
        let random = self.bits_of(&[count], ElementType::Ui64)?;
        let offset = f.convert(f.remainder(random, f.constant(span)?)?, ElementType::I64)?;
        self.converted(f.add(offset, f.constant(low)?)?, element)
    }
}

/// Returns the unsigned integer type with the bit width of `element`.
fn unsigned(element: ElementType) -> ElementType {
    match element.bit_width() {
        8 => ElementType::Ui8,
        16 => ElementType::Ui16,
        32 => ElementType::Ui32,
        _ => ElementType::Ui64,
    }
}

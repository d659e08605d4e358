//! Elementwise ops, and NumPy-style broadcasting.

use std::panic::Location;

use super::function::FunctionBuilder;
use super::state::{At, Types};
use super::value::Value;
use crate::error::{ErrorKind, Result};
use crate::ir::*;

macro_rules! unary_methods {
    ($($(#[doc = $doc:literal])+ $method:ident $variant:ident;)*) => {
        impl FunctionBuilder {
            $(
                $(#[doc = $doc])+
                ///
                /// # Errors
                ///
                /// Returns an error if the op does not support the element type of the operand.
                #[track_caller]
                pub fn $method(&self, x: Value) -> Result<Value> {
                    self.add_elementwise(Location::caller(), &[x], OpKind::Unary(Unary::$variant), Unary::$variant as usize)
                }
            )*
        }
    };
}

macro_rules! binary_methods {
    ($($(#[doc = $doc:literal])+ $method:ident $variant:ident;)*) => {
        impl FunctionBuilder {
            $(
                $(#[doc = $doc])+
                ///
                /// # Errors
                ///
                /// Returns an error if the types of the operands differ, or if the op does not support their element
                /// type.
                #[track_caller]
                pub fn $method(&self, x: Value, y: Value) -> Result<Value> {
                    self.binary(Location::caller(), Binary::$variant, x, y)
                }
            )*
        }
    };
}

unary_methods! {
    /// Computes the absolute value. The absolute value of a complex number is real.
    abs Abs;
    /// Computes the cube root.
    cbrt Cbrt;
    /// Rounds up to an integer.
    ceil Ceil;
    /// Counts the leading zero bits.
    count_leading_zeros CountLeadingZeros;
    /// Computes the cosine.
    cosine Cosine;
    /// Raises 2 to the power of the number. Needs StableHLO 1.23.0.
    exp2 Exp2;
    /// Computes the exponential function.
    exponential Exponential;
    /// Computes the exponential function minus 1. The result is accurate near 0.
    exponential_minus_one ExponentialMinusOne;
    /// Rounds down to an integer.
    floor Floor;
    /// Returns the imaginary part. The imaginary part of a real number is 0.
    imag Imag;
    /// Returns whether a number is neither infinite nor NaN.
    is_finite IsFinite;
    /// Computes the natural logarithm.
    log Log;
    /// Computes the logarithm to the base 2. Needs StableHLO 1.23.0.
    log2 Log2;
    /// Computes the natural logarithm of 1 plus the number. The result is accurate near 0.
    log_plus_one LogPlusOne;
    /// Computes the logistic function, `1 / (1 + exp(-x))`.
    logistic Logistic;
    /// Negates the number.
    negate Negate;
    /// Computes the logical complement of booleans, or the bitwise complement of integers.
    not Not;
    /// Counts the set bits.
    popcnt Popcnt;
    /// Returns the real part.
    real Real;
    /// Rounds to the nearest integer. Ties round away from zero.
    round_nearest_afz RoundNearestAfz;
    /// Rounds to the nearest integer. Ties round to the even integer.
    round_nearest_even RoundNearestEven;
    /// Computes the reciprocal of the square root.
    rsqrt Rsqrt;
    /// Computes the sign of a real number: -1, 0 or 1. Divides a complex number by its absolute value.
    sign Sign;
    /// Computes the sine.
    sine Sine;
    /// Computes the square root.
    sqrt Sqrt;
    /// Computes the tangent.
    tan Tan;
    /// Computes the hyperbolic tangent.
    tanh Tanh;
}

binary_methods! {
    /// Adds two numbers. For booleans, computes the logical OR.
    add Add;
    /// Computes the logical AND of booleans, or the bitwise AND of integers.
    and And;
    /// Computes the angle of the point with the vertical coordinate `x` and the horizontal coordinate `y`, like
    /// `atan2(x, y)` in C.
    atan2 Atan2;
    /// Creates complex numbers with the real part `x` and the imaginary part `y`.
    complex Complex;
    /// Divides `x` by `y`. The quotient of integers is rounded towards zero.
    divide Divide;
    /// Returns the larger number. For booleans, computes the logical OR.
    maximum Maximum;
    /// Returns the smaller number. For booleans, computes the logical AND.
    minimum Minimum;
    /// Multiplies two numbers. For booleans, computes the logical AND.
    multiply Multiply;
    /// Computes the logical OR of booleans, or the bitwise OR of integers.
    or Or;
    /// Raises `x` to the power of `y`.
    power Power;
    /// Computes the remainder of the division of `x` by `y`. The remainder has the sign of `x`.
    remainder Remainder;
    /// Shifts `x` to the left by `y` bits.
    shift_left ShiftLeft;
    /// Shifts `x` to the right by `y` bits. The sign bit is repeated.
    shift_right_arithmetic ShiftRightArithmetic;
    /// Shifts `x` to the right by `y` bits. Zeros are shifted in.
    shift_right_logical ShiftRightLogical;
    /// Subtracts `y` from `x`.
    subtract Subtract;
    /// Computes the logical XOR of booleans, or the bitwise XOR of integers.
    xor Xor;
}

impl FunctionBuilder {
    fn binary(&self, at: At, binary: Binary, x: Value, y: Value) -> Result<Value> {
        let operands = self.broadcast_if_on(binary.name(), at, [x, y])?;
        self.add_elementwise(at, &operands, OpKind::Binary(binary), Unary::ALL.len() + binary as usize)
    }

    /// Compares two tensors elementwise. The result holds booleans. The comparison type is the default of the element
    /// type.
    ///
    /// # Errors
    ///
    /// Returns an error if the types of the operands differ, or if the operands are complex and `direction` is neither
    /// `Eq` nor `Ne`.
    #[track_caller]
    pub fn compare(&self, x: Value, direction: ComparisonDirection, y: Value) -> Result<Value> {
        self.compare_at(Location::caller(), x, direction, y, ComparisonType::NoType)
    }

    /// Compares two tensors elementwise. `compare_type` selects how elements are compared, for example by the total
    /// order of floating-point numbers.
    ///
    /// # Errors
    ///
    /// Returns an error in the same cases as [`Self::compare`], and if numbers that are not floating-point numbers are
    /// compared in weak order.
    #[track_caller]
    pub fn compare_as(
        &self,
        x: Value,
        direction: ComparisonDirection,
        y: Value,
        compare_type: ComparisonType,
    ) -> Result<Value> {
        self.compare_at(Location::caller(), x, direction, y, compare_type)
    }

    fn compare_at(
        &self,
        at: At,
        x: Value,
        direction: ComparisonDirection,
        y: Value,
        compare_type: ComparisonType,
    ) -> Result<Value> {
        let operands = self.broadcast_if_on("compare", at, [x, y])?;
        self.one(at, OpKind::Compare { compare_type, direction }, &operands, Types::Inferred)
    }

    /// Selects the elements of `on_true` where `predicate` is true, and the elements of `on_false` elsewhere. The
    /// predicate is a scalar or has the shape of `on_true`.
    ///
    /// # Errors
    ///
    /// Returns an error if the predicate does not hold booleans, or if the types of `on_true` and `on_false` differ.
    #[track_caller]
    pub fn select(&self, predicate: Value, on_true: Value, on_false: Value) -> Result<Value> {
        let at = Location::caller();
        let operands = self.broadcast_if_on("select", at, [predicate, on_true, on_false])?;
        self.one(at, OpKind::Select, &operands, Types::Inferred)
    }

    /// Limits each element of `x` to the range from `min` to `max`. `min` and `max` are scalars or have the shape of
    /// `x`.
    ///
    /// # Errors
    ///
    /// Returns an error if the element types of the operands differ, or if `min` or `max` is neither a scalar nor of
    /// the shape of `x`.
    #[track_caller]
    pub fn clamp(&self, min: Value, x: Value, max: Value) -> Result<Value> {
        let at = Location::caller();
        let operands = self.broadcast_if_on("clamp", at, [min, x, max])?;
        self.one(at, OpKind::Clamp, &operands, Types::Inferred)
    }

    /// Multiplies `a` by `b` and adds `c`. The exact result is rounded once. Needs StableHLO 1.24.0.
    ///
    /// # Errors
    ///
    /// Returns an error if the types of the operands differ, or if they do not hold floating-point numbers.
    #[track_caller]
    pub fn fma(&self, a: Value, b: Value, c: Value) -> Result<Value> {
        let at = Location::caller();
        let operands = self.broadcast_if_on("fma", at, [a, b, c])?;
        self.one(at, OpKind::Fma, &operands, Types::Inferred)
    }

    /// Converts the elements to another element type.
    ///
    /// # Errors
    ///
    /// Returns an error if the operand is not a tensor.
    #[track_caller]
    pub fn convert(&self, x: Value, element: ElementType) -> Result<Value> {
        let at = Location::caller();
        let ty = self.tensor_of("stablehlo.convert", at, x)?;
        self.one(at, OpKind::Convert, &[x], Types::one(TensorType { shape: ty.shape, element }))
    }

    /// Rounds floating-point numbers to a format with this many exponent bits and mantissa bits. The element type does
    /// not change.
    ///
    /// # Errors
    ///
    /// Returns an error if the operand does not hold floating-point numbers, or if `exponent_bits` is 0.
    #[track_caller]
    pub fn reduce_precision(&self, x: Value, exponent_bits: u32, mantissa_bits: u32) -> Result<Value> {
        let kind = OpKind::ReducePrecision { exponent_bits, mantissa_bits };
        self.one(Location::caller(), kind, &[x], Types::Inferred)
    }

    /// Broadcasts tensors to a common shape by NumPy's rules. The shapes are aligned at their last dimensions, and
    /// dimensions that are missing or have the extent 1 are repeated.
    ///
    /// # Errors
    ///
    /// Returns an error if two extents differ and neither is 1, or if an extent that must be repeated is dynamic.
    #[track_caller]
    pub fn broadcast_shapes<const N: usize>(&self, values: [Value; N]) -> Result<[Value; N]> {
        self.broadcast_all("broadcast_in_dim", Location::caller(), values)
    }

    /// Broadcasts a tensor to this shape by NumPy's rules. See [`Self::broadcast_shapes`].
    ///
    /// # Errors
    ///
    /// Returns an error if an extent of the tensor is neither 1 nor the corresponding extent of the shape, or if the
    /// tensor has more dimensions than the shape.
    #[track_caller]
    pub fn broadcast_to(&self, x: Value, shape: &[i64]) -> Result<Value> {
        let at = Location::caller();
        let ty = self.tensor_of("stablehlo.broadcast_in_dim", at, x)?;
        self.broadcast_at(at, x, &ty, shape)
    }

    fn broadcast_at(&self, at: At, x: Value, ty: &TensorType, shape: &[i64]) -> Result<Value> {
        if ty.shape == shape {
            return Ok(x);
        }
        let Some(first) = shape.len().checked_sub(ty.rank()) else {
            let message = format!("{ty} has more dimensions than the shape {shape:?}");
            return Err(self.error(ErrorKind::Shape, "broadcast_in_dim", at, message));
        };
        let kind = OpKind::BroadcastInDim { broadcast_dimensions: (first..shape.len()).collect() };
        self.one(at, kind, &[x], Types::one(TensorType::new(shape, ty.element)))
    }

    fn broadcast_if_on<const N: usize>(&self, op: &str, at: At, values: [Value; N]) -> Result<[Value; N]> {
        if self.broadcasts() { self.broadcast_all(op, at, values) } else { Ok(values) }
    }

    fn broadcast_all<const N: usize>(&self, op: &str, at: At, values: [Value; N]) -> Result<[Value; N]> {
        let name = format!("stablehlo.{op}");
        let types: Vec<TensorType> =
            values.iter().map(|&value| self.tensor_of(&name, at, value)).collect::<Result<_>>()?;
        let rank = types.iter().map(TensorType::rank).max().unwrap_or(0);
        let mut shape = vec![1; rank];
        for (i, ty) in types.iter().enumerate() {
            let first = rank - ty.rank();
            for (d, &extent) in ty.shape.iter().enumerate() {
                let common = &mut shape[first + d];
                if *common == 1 {
                    *common = extent;
                } else if extent != 1 && extent != *common {
                    let message = format!(
                        "operand {i} of type {ty} cannot be broadcast: its dimension {d} must be 1 or {common} to fit the \
                         others"
                    );
                    return Err(self.error(ErrorKind::Shape, op, at, message));
                }
            }
        }
        let mut all = values;
        for (value, ty) in all.iter_mut().zip(&types) {
            *value = self.broadcast_at(at, *value, ty, &shape)?;
        }
        Ok(all)
    }
}

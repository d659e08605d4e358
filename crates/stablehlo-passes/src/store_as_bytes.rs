//! The pass `store_as_bytes`.

use stablehlo::ir::{
    Binary as B, ComparisonDirection as D, ElementType, Func, Literal, Module, Op, OpKind, TensorType, Type,
    Unary as U, ValueId,
};
use stablehlo::{Error, ErrorKind, FloatFormat, NonFinite, Patch, Result, rewrite};

use crate::apply::{apply_all, retype};
use crate::build::{Build, bits_of, of};
use crate::evaluate::Number;

/// Stores elements of types of at most eight bits, other than `i8`, `ui8` and `i1`, as bytes, for devices without these
/// types. Returns `None` if the program has no such types.
///
/// ```text
/// func.func @main(%x: tensor<4xi8>) -> tensor<4xi4> {      func.func @main(%x: tensor<4xi8>) -> tensor<4xi8> {
///   %0 = stablehlo.convert %x                          =>    %1 = stablehlo.shift_left %x, 4
///   return %0 : tensor<4xi4>                                 %0 = stablehlo.shift_right_arithmetic %1, 4
/// }                                                          return %0 : tensor<4xi8>
///                                                          }
/// ```
///
/// The bytes are those of a [`Literal`](stablehlo::ir::Literal) and of arrays of the host: bit patterns of floats as
/// `ui8`, and sign- or zero-extended integers as `i8` or `ui8`. Conversions become integer arithmetic that rounds to
/// nearest even, saturates and creates NaN as the type does. They need `f32`, `i32`, and for other types than those
/// `f64` and `i64`.
///
/// Call [`widen_narrow_types`](crate::widen_narrow_types) first, and [`canonicalize`](crate::canonicalize) afterwards,
/// which removes conversions of a type to itself.
///
/// # Errors
///
/// Returns an error if an op computes with elements of these types, or converts their bits to a type of another width.
/// The module must be verified.
pub fn store_as_bytes(module: &Module) -> Result<Option<Module>> {
    let is_narrow = |ty: &Type| ty.as_tensor().is_some_and(|ty| byte(ty.element).is_some());
    let applies = |func: &Func| func.values.iter().chain(&func.results).any(is_narrow);
    apply_all(module, applies, |func, locations| {
        let elements: Vec<Option<ElementType>> = func.values.iter().map(|ty| Some(ty.as_tensor()?.element)).collect();
        retype(func, stored);
        let element = |value: ValueId| elements.get(value.0 as usize).copied().flatten();
        rewrite(func, locations, |op, patch| replace(op, patch, &element))
    })
}

/// Returns the type of the bytes of a narrow type.
fn byte(element: ElementType) -> Option<ElementType> {
    match element.bit_width() {
        1 | 9.. => None,
        _ if matches!(element, ElementType::I8 | ElementType::Ui8) => None,
        _ if element.is_signed_integer() => Some(ElementType::I8),
        _ => Some(ElementType::Ui8),
    }
}

fn stored(ty: &Type) -> Option<Type> {
    match ty {
        Type::Tensor(ty) => Some(Type::Tensor(of(ty, byte(ty.element)?))),
        _ => None,
    }
}

fn replace(mut op: Op, patch: &mut Patch<'_>, element: &impl Fn(ValueId) -> Option<ElementType>) -> Result<()> {
    let is_narrow = |value: &ValueId| element(*value).is_some_and(|element| byte(element).is_some());
    if !op.operands.iter().chain(&op.results).any(is_narrow) {
        patch.push(op);
        return Ok(());
    }
    match (&mut op.kind, &op.operands[..], &op.results[..]) {
        (OpKind::Constant(literal), ..) => {
            let ty = of(&literal.ty, byte(literal.ty.element).unwrap_or(literal.ty.element));
            *literal = Literal { ty, ..literal.clone() };
        }
        (OpKind::Convert, &[x], &[y]) => {
            let (Some(from), Some(to)) = (element(x), element(y)) else { return Err(unsupported(&op)) };
            let value = converted(patch, x, from, to)?;
            // The result stays the same value, of which the original type is known.
            patch.define(OpKind::Convert, &[value], &[y]);
            return Ok(());
        }
        (OpKind::BitcastConvert, &[x], &[y]) => {
            let width = |value| element(value).map(ElementType::bit_width);
            if width(x) != width(y) || width(x) != Some(8) {
                return Err(unsupported(&op));
            }
        }
        (
            OpKind::BroadcastInDim { .. }
            | OpKind::Call { .. }
            | OpKind::Case
            | OpKind::Concatenate { .. }
            | OpKind::DynamicBroadcastInDim { .. }
            | OpKind::DynamicGather { .. }
            | OpKind::DynamicPad
            | OpKind::DynamicReshape
            | OpKind::DynamicSlice { .. }
            | OpKind::DynamicUpdateSlice
            | OpKind::Gather { .. }
            | OpKind::GetDimensionSize { .. }
            | OpKind::If
            | OpKind::Map { .. }
            | OpKind::OptimizationBarrier
            | OpKind::Pad { .. }
            | OpKind::RealDynamicSlice
            | OpKind::Reduce { .. }
            | OpKind::ReduceWindow { .. }
            | OpKind::Reshape
            | OpKind::Return
            | OpKind::Reverse { .. }
            | OpKind::Scatter { .. }
            | OpKind::Select
            | OpKind::SelectAndScatter { .. }
            | OpKind::SetDimensionSize { .. }
            | OpKind::Slice { .. }
            | OpKind::Sort { .. }
            | OpKind::Transpose { .. }
            | OpKind::While,
            ..,
        ) => {}
        _ => return Err(unsupported(&op)),
    }
    patch.push(op);
    Ok(())
}

#[cold]
fn unsupported(op: &Op) -> Error {
    let message =
        format_args!("{} of elements that are stored as bytes; call widen_narrow_types first", op.kind.name());
    Error::new(ErrorKind::Unsupported, message)
}

/// Converts a value whose narrow elements are already bytes.
fn converted(patch: &mut Patch<'_>, x: ValueId, from: ElementType, to: ElementType) -> Result<ValueId> {
    let is_float = |element: ElementType| element.is_float() && byte(element).is_some();
    let x = if is_float(from) { decoded(patch, x, from)? } else { x };
    if is_float(to) {
        // Numbers of other types are exact in `f64`, or too large for the narrow type.
        let element = patch.tensor(x)?.element;
        // The least powers of two are denormal in `f32`.
        let is_small = element.is_float() && element != ElementType::F64 && to != ElementType::F8E8M0FNU;
        let x = patch.convert(x, if is_small { ElementType::F32 } else { ElementType::F64 })?;
        return encoded(patch, x, to);
    }
    let Some(stored) = byte(to) else { return patch.convert(x, to) };
    let bits = to.bit_width();
    let element = patch.tensor(x)?.element;
    if element.is_float() {
        // The conversion to a byte saturates at the bounds of the byte.
        let (low, high) = match stored {
            ElementType::I8 => (-f64::from(1 << (bits - 1)), f64::from((1 << (bits - 1)) - 1)),
            _ => (0.0, f64::from((1 << bits) - 1)),
        };
        let (low, high) = (patch.like(x, low)?, patch.like(x, high)?);
        let is_nan = patch.compare(D::Ne, x, x)?;
        let zero = patch.like(x, 0.0)?;
        let x = patch.select(is_nan, zero, x)?;
        let x = patch.binary(B::Maximum, x, low)?;
        let x = patch.binary(B::Minimum, x, high)?;
        return patch.convert(x, stored);
    }
    let x = patch.convert(x, stored)?;
    let ty = patch.tensor(x)?.clone();
    if stored == ElementType::Ui8 {
        let mask = patch.splat(ty, Number::Integer((1 << bits) - 1))?;
        return patch.binary(B::And, x, mask);
    }
    let unused = patch.splat(ty, Number::Integer(i128::from(8 - bits)))?;
    let x = patch.binary(B::ShiftLeft, x, unused)?;
    patch.binary(B::ShiftRightArithmetic, x, unused)
}

/// Adds ops on the bits of floats of a wide type.
struct Bits {
    /// The type of the bits.
    int: TensorType,
    mantissa: u32,
    bias: i32,
}

impl Bits {
    fn of(ty: &TensorType) -> Result<Self> {
        let (mantissa, bias) = if ty.element == ElementType::F64 { (52, 1023) } else { (23, 127) };
        Ok(Self { int: of(ty, bits_of(ty.element)?), mantissa, bias })
    }

    fn number(&self, patch: &mut Patch<'_>, number: i64) -> Result<ValueId> {
        patch.splat(self.int.clone(), Number::Integer(number.into()))
    }

    /// Adds an op with a number as its second operand.
    fn with(&self, patch: &mut Patch<'_>, op: B, x: ValueId, number: i64) -> Result<ValueId> {
        let number = self.number(patch, number)?;
        patch.binary(op, x, number)
    }

    fn is(&self, patch: &mut Patch<'_>, direction: D, x: ValueId, number: i64) -> Result<ValueId> {
        let number = self.number(patch, number)?;
        patch.compare(direction, x, number)
    }

    fn cast(&self, patch: &mut Patch<'_>, x: ValueId, ty: &TensorType) -> ValueId {
        patch.add(OpKind::BitcastConvert, &[x], ty.clone())
    }
}

/// The bit pattern without the sign of infinity in a format that has one.
fn infinity(format: FloatFormat) -> i64 {
    ((1 << format.exponent_bits) - 1) << format.mantissa_bits
}

/// Returns the `f32` of each bit pattern.
fn decoded(patch: &mut Patch<'_>, x: ValueId, from: ElementType) -> Result<ValueId> {
    let ty = of(patch.tensor(x)?, ElementType::F32);
    let bits = Bits::of(&ty)?;
    let code = patch.convert(x, bits.int.element)?;
    let nan = patch
        .constant(ty.clone(), if ty.num_elements() == Some(0) { vec![] } else { f32::NAN.to_le_bytes().to_vec() })?;
    let Some(format) = FloatFormat::of(from) else {
        // A power of two, of which the least one is denormal.
        let power = bits.with(patch, B::ShiftLeft, code, 23)?;
        let least = bits.number(patch, 1 << 22)?;
        let is_least = bits.is(patch, D::Eq, code, 0)?;
        let power = patch.select(is_least, least, power)?;
        let (power, is_nan) = (bits.cast(patch, power, &ty), bits.is(patch, D::Eq, code, 255)?);
        return patch.select(is_nan, nan, power);
    };
    let FloatFormat { mantissa_bits: mantissa, bias, .. } = format;
    let width = format.exponent_bits + mantissa;
    let ones = (1 << width) - 1;
    let magnitude = bits.with(patch, B::And, code, ones)?;
    let sign = bits.with(patch, B::And, code, 1 << width)?;
    let shifted = bits.with(patch, B::ShiftLeft, magnitude, i64::from(bits.mantissa - mantissa))?;
    let normal = bits.with(patch, B::Add, shifted, i64::from(bits.bias - bias) << bits.mantissa)?;
    let normal = bits.cast(patch, normal, &ty);
    let unit = patch.like(normal, 2f64.powi(1 - bias - mantissa.cast_signed()))?;
    let small = patch.convert(magnitude, ElementType::F32)?;
    let small = patch.binary(B::Multiply, small, unit)?;
    let is_small = bits.is(patch, D::Lt, magnitude, 1 << mantissa)?;
    let mut y = patch.select(is_small, small, normal)?;
    let (negated, is_negative) = (patch.unary(U::Negate, y)?, bits.is(patch, D::Ne, sign, 0)?);
    match format.non_finite {
        NonFinite::Ieee => {
            let (large, is_infinite) =
                (patch.like(y, f64::INFINITY)?, bits.is(patch, D::Eq, magnitude, infinity(format))?);
            y = patch.select(is_infinite, large, y)?;
            let negated = patch.unary(U::Negate, y)?;
            let y = patch.select(is_negative, negated, y)?;
            let is_nan = bits.is(patch, D::Gt, magnitude, infinity(format))?;
            with_nan(patch, y, is_nan, is_negative, nan)
        }
        NonFinite::Fn => {
            let y = patch.select(is_negative, negated, y)?;
            let is_nan = bits.is(patch, D::Eq, magnitude, ones)?;
            with_nan(patch, y, is_nan, is_negative, nan)
        }
        NonFinite::Fnuz => {
            let (y, is_nan) = (patch.select(is_negative, negated, y)?, bits.is(patch, D::Eq, code, 1 << width)?);
            patch.select(is_nan, nan, y)
        }
        NonFinite::Finite => patch.select(is_negative, negated, y),
    }
}

/// Puts a NaN of the sign in place of some numbers.
fn with_nan(patch: &mut Patch<'_>, y: ValueId, is_nan: ValueId, is_negative: ValueId, nan: ValueId) -> Result<ValueId> {
    let negated = patch.unary(U::Negate, nan)?;
    let nan = patch.select(is_negative, negated, nan)?;
    patch.select(is_nan, nan, y)
}

/// Returns the bit pattern of each `f32` or `f64`, rounded to nearest even.
fn encoded(patch: &mut Patch<'_>, x: ValueId, to: ElementType) -> Result<ValueId> {
    let bits = Bits::of(patch.tensor(x)?)?;
    let all = bits.cast(patch, x, &bits.int);
    let is_negative = bits.is(patch, D::Lt, all, 0)?;
    let magnitude = patch.unary(U::Abs, x)?;
    let of_magnitude = bits.cast(patch, magnitude, &bits.int);
    let is_nan = patch.compare(D::Ne, x, x)?;
    let Some(format) = FloatFormat::of(to) else {
        // Half of the next power of two rounds up. Only finite positive numbers have a power.
        let rounded = bits.with(patch, B::Add, of_magnitude, 1 << (bits.mantissa - 1))?;
        let exponent = bits.with(patch, B::ShiftRightLogical, rounded, bits.mantissa.into())?;
        let code = bits.with(patch, B::Subtract, exponent, i64::from(bits.bias) - 127)?;
        let (low, high) = (bits.number(patch, 0)?, bits.number(patch, 255)?);
        let code = patch.binary(B::Maximum, code, low)?;
        let code = patch.binary(B::Minimum, code, high)?;
        let zero = patch.like(x, 0.0)?;
        let limit = patch.like(x, f64::INFINITY)?;
        let (is_low, is_high) = (patch.compare(D::Le, x, zero)?, patch.compare(D::Eq, x, limit)?);
        let is_bad = patch.binary(B::Or, is_low, is_high)?;
        let is_bad = patch.binary(B::Or, is_bad, is_nan)?;
        let code = patch.select(is_bad, high, code)?;
        return patch.convert(code, ElementType::Ui8);
    };
    let FloatFormat { mantissa_bits: mantissa, bias, .. } = format;
    let width = format.exponent_bits + mantissa;
    let (ones, sign) = ((1i64 << width) - 1, 1i64 << width);
    // Adds just less than half of a unit, or half of it to an odd number, to the bits that are dropped.
    let dropped = bits.mantissa - mantissa;
    let kept = bits.with(patch, B::ShiftRightLogical, of_magnitude, dropped.into())?;
    let odd = bits.with(patch, B::And, kept, 1)?;
    let rounded = bits.with(patch, B::Add, of_magnitude, (1 << (dropped - 1)) - 1)?;
    let rounded = patch.binary(B::Add, rounded, odd)?;
    let code = bits.with(patch, B::ShiftRightLogical, rounded, dropped.into())?;
    let code = bits.with(patch, B::Subtract, code, i64::from(bits.bias - bias) << mantissa)?;
    // Multiples of the least number are integers.
    let unit = patch.like(x, 2f64.powi(mantissa.cast_signed() + bias - 1))?;
    let least = patch.like(x, 2f64.powi(1 - bias))?;
    let is_small = patch.compare(D::Lt, magnitude, least)?;
    let zero = patch.like(x, 0.0)?;
    let small = patch.select(is_small, magnitude, zero)?;
    let small = patch.binary(B::Multiply, small, unit)?;
    let small = patch.unary(U::RoundNearestEven, small)?;
    let small = patch.convert(small, bits.int.element)?;
    let code = patch.select(is_small, small, code)?;
    let (largest, above, nan) = match format.non_finite {
        NonFinite::Ieee => (infinity(format) - 1, infinity(format), infinity(format) | 1 << (mantissa - 1)),
        NonFinite::Fn => (ones - 1, ones, ones),
        NonFinite::Fnuz => (ones, sign, sign),
        NonFinite::Finite => (ones, ones, sign),
    };
    let (is_above, above) = (bits.is(patch, D::Gt, code, largest)?, bits.number(patch, above)?);
    let code = patch.select(is_above, above, code)?;
    let nan = bits.number(patch, nan)?;
    let code = patch.select(is_nan, nan, code)?;
    let signed = bits.with(patch, B::Or, code, sign)?;
    let mut takes_sign = is_negative;
    if format.non_finite == NonFinite::Fnuz {
        let is_other = bits.is(patch, D::Ne, code, 0)?;
        takes_sign = patch.binary(B::And, takes_sign, is_other)?;
    }
    let code = patch.select(takes_sign, signed, code)?;
    patch.convert(code, ElementType::Ui8)
}

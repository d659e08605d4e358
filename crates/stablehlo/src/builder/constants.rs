//! Creates constants from Rust numbers and slices.

use std::panic::Location;

use half::{bf16, f16};
use num_complex::Complex;

use super::function::FunctionBuilder;
use super::state::Types;
use super::value::Value;
use crate::error::{Error, ErrorKind, Result};
use crate::float::encode;
use crate::ir::{ElementType, Literal, OpKind, TensorType};

/// A Rust type for the elements of a constant. For element types without such a Rust type, such as `f8E4M3FN` and `i4`,
/// use [`Literal::numbers`].
pub trait Element: Copy + sealed::Sealed {
    /// Element type of the constant.
    const TYPE: ElementType;

    /// Appends the little-endian bytes of the value.
    fn write(self, bytes: &mut Vec<u8>);
}

mod sealed {
    pub trait Sealed {}
}

macro_rules! elements {
    ($($ty:ty => $element:ident),* $(,)?) => {
        $(
            impl sealed::Sealed for $ty {}

            impl Element for $ty {
                const TYPE: ElementType = ElementType::$element;

                fn write(self, bytes: &mut Vec<u8>) {
                    bytes.extend_from_slice(&self.to_le_bytes());
                }
            }
        )*
    };
}

elements! {
    i8 => I8, i16 => I16, i32 => I32, i64 => I64,
    u8 => Ui8, u16 => Ui16, u32 => Ui32, u64 => Ui64,
    f16 => F16, bf16 => Bf16, f32 => F32, f64 => F64,
}

impl sealed::Sealed for bool {}

impl Element for bool {
    const TYPE: ElementType = ElementType::Bool;

    fn write(self, bytes: &mut Vec<u8>) {
        bytes.push(self.into());
    }
}

macro_rules! complex_elements {
    ($($part:ty => $element:ident),*) => {
        $(
            impl sealed::Sealed for Complex<$part> {}

            impl Element for Complex<$part> {
                const TYPE: ElementType = ElementType::$element;

                fn write(self, bytes: &mut Vec<u8>) {
                    self.re.write(bytes);
                    self.im.write(bytes);
                }
            }
        )*
    };
}

complex_elements!(f32 => ComplexF32, f64 => ComplexF64);

impl Literal {
    /// Creates a scalar.
    pub fn scalar<T: Element>(value: T) -> Self {
        let mut data = Vec::with_capacity(size_of::<T>());
        value.write(&mut data);
        Self { ty: TensorType::new([], T::TYPE), data: data.into(), splat: false }
    }

    /// Creates a tensor with these elements in row-major order.
    ///
    /// # Errors
    ///
    /// Returns an error if the number of elements does not match the shape.
    pub fn from_slice<T: Element>(values: &[T], shape: &[i64]) -> Result<Self> {
        let ty = TensorType::new(shape, T::TYPE);
        expect_count(&ty, values.len())?;
        let mut data = Vec::with_capacity(size_of_val(values));
        values.iter().for_each(|value| value.write(&mut data));
        Self::new(ty, data)
    }

    /// Creates a tensor whose elements all have this value. The value is stored once.
    ///
    /// # Errors
    ///
    /// Returns an error if an extent is negative or dynamic.
    pub fn splat<T: Element>(value: T, shape: &[i64]) -> Result<Self> {
        let mut data = Vec::with_capacity(size_of::<T>());
        value.write(&mut data);
        repeated(TensorType::new(shape, T::TYPE), data)
    }

    /// Creates a tensor of any element type whose elements all have this value. The value is stored once.
    ///
    /// If the element type is a floating-point type, rounds the value to the nearest number of this type, with ties to
    /// even. If the element type is complex, the real part is rounded in the same way, and the imaginary part is 0.
    ///
    /// # Errors
    ///
    /// Returns an error if an extent is negative or dynamic, or if the type cannot represent the value. An integer type
    /// cannot represent a fraction or a number out of its range, and some floating-point types cannot represent NaN.
    pub fn full(value: f64, ty: TensorType) -> Result<Self> {
        let mut data = Vec::new();
        write_number(value, ty.element, &mut data)?;
        repeated(ty, data)
    }

    /// Creates a tensor of any element type with these elements in row-major order. Converts each element as
    /// [`Self::full`] does.
    ///
    /// # Errors
    ///
    /// Returns an error in the same cases as [`Self::full`], and if the number of elements does not match the shape.
    ///
    /// ```
    /// use stablehlo::ir::{ElementType, Literal, TensorType};
    ///
    /// let scales = Literal::numbers(&[1.0, 0.5, -2.0], TensorType::new([3], ElementType::F8E4M3FN))?;
    /// assert_eq!(scales.data[..], [0x38, 0x30, 0xC0]);
    /// assert!(Literal::numbers(&[8.0], TensorType::new([1], ElementType::I4)).is_err());
    /// # Ok::<(), stablehlo::Error>(())
    /// ```
    pub fn numbers(values: &[f64], ty: TensorType) -> Result<Self> {
        expect_count(&ty, values.len())?;
        let mut data = Vec::with_capacity(values.len().saturating_mul(ty.element.byte_size()));
        values.iter().try_for_each(|&value| write_number(value, ty.element, &mut data))?;
        Self::new(ty, data)
    }
}

impl<T: Element> From<T> for Literal {
    fn from(value: T) -> Self {
        Self::scalar(value)
    }
}

fn expect_count(ty: &TensorType, count: usize) -> Result<()> {
    if ty.num_elements() == Some(count) {
        return Ok(());
    }
    Err(Error::new(ErrorKind::Type, format_args!("a constant of type {ty} cannot have {count} elements")))
}

fn repeated(ty: TensorType, element: Vec<u8>) -> Result<Literal> {
    let empty = ty.num_elements() == Some(0);
    Literal::new(ty, if empty { Vec::new() } else { element })
}

/// Appends `value` to `bytes` as one element of type `element`, in the byte format of [`Literal`]. Returns an error if
/// the type cannot represent the value.
fn write_number(value: f64, element: ElementType, bytes: &mut Vec<u8>) -> Result<()> {
    if let Some(part) = element.complex_part() {
        write_number(value, part, bytes)?;
        return write_number(0.0, part, bytes);
    }
    let number = if element.is_float() { encode(value, element) } else { integer(value, element) };
    let Some(number) = number else {
        return Err(Error::new(ErrorKind::Type, format_args!("{value} is not a number of type {element}")));
    };
    bytes.extend_from_slice(&number.to_le_bytes()[..element.byte_size()]);
    Ok(())
}

/// Converts a number to an integer or a boolean, and returns the bits of the result, extended to 64 bits. Returns
/// `None` if the number is a fraction, is not finite, or is outside the range of the type.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the value is an integer in range")]
fn integer(value: f64, element: ElementType) -> Option<u64> {
    let width = element.bit_width();
    let signed = element.is_signed_integer();
    // The bounds are powers of two, which an `f64` represents exactly.
    let limit = (2f64).powi(if signed { width.cast_signed() - 1 } else { width.cast_signed() });
    let fits = value.fract() == 0.0 && value < limit && value >= if signed { -limit } else { 0.0 };
    fits.then(|| if signed { (value as i64).cast_unsigned() } else { value as u64 })
}

impl FunctionBuilder {
    /// Adds a constant. A number or a `bool` becomes a scalar, and a [`Literal`] becomes a tensor of its type.
    ///
    /// # Errors
    ///
    /// Returns an error if the literal's data does not fit its type.
    ///
    /// ```
    /// use stablehlo::builder::ModuleBuilder;
    /// use stablehlo::ir::{ElementType, Literal, TensorType};
    ///
    /// let module = ModuleBuilder::new("constants");
    /// module.function("main", |f| {
    ///     let scalar = f.constant(1.5f32)?;
    ///     let matrix = f.constant(Literal::from_slice(&[1i64, 2, 3, 4], &[2, 2])?)?;
    ///     let small = f.full(0.5, TensorType::new([8], ElementType::F8E5M2))?;
    ///     Ok((scalar, matrix, small))
    /// })?;
    /// # module.build()?;
    /// # Ok::<(), stablehlo::Error>(())
    /// ```
    #[track_caller]
    pub fn constant(&self, value: impl Into<Literal>) -> Result<Value> {
        let literal = value.into();
        let ty = literal.ty.clone();
        self.one(Location::caller(), OpKind::Constant(literal), &[], Types::one(ty))
    }

    /// Adds a constant with these elements in row-major order. See [`Literal::from_slice`].
    ///
    /// # Errors
    ///
    /// Returns an error if the number of elements does not match the shape.
    #[track_caller]
    pub fn constant_slice<T: Element>(&self, values: &[T], shape: &[i64]) -> Result<Value> {
        let at = Location::caller();
        let literal = Literal::from_slice(values, shape).map_err(|e| self.place(e, "stablehlo.constant", at))?;
        let ty = literal.ty.clone();
        self.one(at, OpKind::Constant(literal), &[], Types::one(ty))
    }

    /// Adds a constant whose elements all have this value. See [`Literal::splat`].
    ///
    /// # Errors
    ///
    /// Returns an error if an extent is negative or dynamic.
    #[track_caller]
    pub fn splat<T: Element>(&self, value: T, shape: &[i64]) -> Result<Value> {
        let at = Location::caller();
        let literal = Literal::splat(value, shape).map_err(|e| self.place(e, "stablehlo.constant", at))?;
        let ty = literal.ty.clone();
        self.one(at, OpKind::Constant(literal), &[], Types::one(ty))
    }

    /// Adds a constant of any element type whose elements all have this value. See [`Literal::full`].
    ///
    /// # Errors
    ///
    /// Returns an error if an extent is negative or dynamic, or if the type cannot represent the value.
    #[track_caller]
    pub fn full(&self, value: f64, ty: TensorType) -> Result<Value> {
        let at = Location::caller();
        let literal = Literal::full(value, ty).map_err(|e| self.place(e, "stablehlo.constant", at))?;
        let ty = literal.ty.clone();
        self.one(at, OpKind::Constant(literal), &[], Types::one(ty))
    }
}

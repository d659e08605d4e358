//! `PJRT_Buffer_Type`: element types, and the Rust types that represent them.

use std::fmt;
use std::str::FromStr;

use bytemuck::{CheckedBitPattern, NoUninit};

macro_rules! element_types {
    ($($name:ident = $raw:literal, $text:literal, $mlir:literal, $bits:literal;)*) => {
        /// Type of a buffer's elements. The codes and names are those of `PJRT_Buffer_Type`.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        #[allow(missing_docs, reason = "the names of the C API")]
        #[repr(u32)]
        pub enum ElementType {
            $($name = $raw,)*
        }

        impl ElementType {
            /// Every element type, in the C API's order.
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            /// Returns the type with this code in the C API, or `None` for an unknown code.
            #[must_use]
            pub const fn from_raw(raw: u32) -> Option<Self> {
                match raw {
                    $($raw => Some(Self::$name),)*
                    _ => None,
                }
            }

            /// Returns XLA's name of the type, such as `f32`, `s32` or `pred`.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)*
                }
            }

            /// Returns StableHLO's name of the type, such as `f32`, `i32` or `i1`.
            #[must_use]
            pub const fn stablehlo_name(self) -> &'static str {
                match self {
                    $(Self::$name => $mlir,)*
                }
            }

            /// Returns the number of bits of one element, or 0 for a token.
            #[must_use]
            pub const fn bits(self) -> usize {
                match self {
                    $(Self::$name => $bits,)*
                }
            }
        }
    };
}

element_types! {
    Pred = 1, "pred", "i1", 8;
    S8 = 2, "s8", "i8", 8;
    S16 = 3, "s16", "i16", 16;
    S32 = 4, "s32", "i32", 32;
    S64 = 5, "s64", "i64", 64;
    U8 = 6, "u8", "ui8", 8;
    U16 = 7, "u16", "ui16", 16;
    U32 = 8, "u32", "ui32", 32;
    U64 = 9, "u64", "ui64", 64;
    F16 = 10, "f16", "f16", 16;
    F32 = 11, "f32", "f32", 32;
    F64 = 12, "f64", "f64", 64;
    Bf16 = 13, "bf16", "bf16", 16;
    C64 = 14, "c64", "complex<f32>", 64;
    C128 = 15, "c128", "complex<f64>", 128;
    F8E5M2 = 16, "f8e5m2", "f8E5M2", 8;
    F8E4M3FN = 17, "f8e4m3fn", "f8E4M3FN", 8;
    F8E4M3B11FNUZ = 18, "f8e4m3b11fnuz", "f8E4M3B11FNUZ", 8;
    F8E5M2FNUZ = 19, "f8e5m2fnuz", "f8E5M2FNUZ", 8;
    F8E4M3FNUZ = 20, "f8e4m3fnuz", "f8E4M3FNUZ", 8;
    S4 = 21, "s4", "i4", 4;
    U4 = 22, "u4", "ui4", 4;
    Token = 23, "token", "token", 0;
    S2 = 24, "s2", "i2", 2;
    U2 = 25, "u2", "ui2", 2;
    F8E4M3 = 26, "f8e4m3", "f8E4M3", 8;
    F8E3M4 = 27, "f8e3m4", "f8E3M4", 8;
    F8E8M0FNU = 28, "f8e8m0fnu", "f8E8M0FNU", 8;
    F4E2M1FN = 29, "f4e2m1fn", "f4E2M1FN", 4;
    S1 = 30, "s1", "si1", 1;
    U1 = 31, "u1", "ui1", 1;
    F6E2M3FN = 32, "f6e2m3fn", "f6E2M3FN", 6;
    F6E3M2FN = 33, "f6e3m2fn", "f6E3M2FN", 6;
}

impl ElementType {
    /// Returns the type's code in the C API.
    #[must_use]
    pub const fn as_raw(self) -> u32 {
        self as u32
    }

    /// Returns the number of bytes of one element on the host, where sub-byte types take one byte. Returns 0 for a
    /// token.
    #[must_use]
    pub const fn host_size(self) -> usize {
        self.bits().div_ceil(8)
    }
}

impl fmt::Display for ElementType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The error for an unknown name of an element type.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not an element type; known are {known}", known = known())]
pub struct UnknownElementType(String);

fn known() -> String {
    ElementType::ALL.iter().map(|ty| ty.name()).collect::<Vec<_>>().join(", ")
}

/// Parses XLA's and StableHLO's names of element types.
impl FromStr for ElementType {
    type Err = UnknownElementType;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let known = |ty: &&Self| ty.name() == text || ty.stablehlo_name() == text;
        Self::ALL.iter().find(known).copied().ok_or_else(|| UnknownElementType(text.to_owned()))
    }
}

mod sealed {
    pub trait Sealed {}
}

/// A Rust type whose slices are host data of one [`ElementType`].
///
/// The trait is sealed, so unsafe code may rely on [`Self::TYPE`] and treat memory of the Rust type as elements of that
/// element type. Transfer arrays of other types as bytes, or as a type with the same bit patterns.
///
/// ```compile_fail,E0277
/// #[derive(Clone, Copy, Debug, bytemuck::NoUninit, bytemuck::AnyBitPattern)]
/// #[repr(transparent)]
/// struct Mine(u8);
/// impl pjrt_types::Element for Mine {
///     const TYPE: pjrt_types::ElementType = pjrt_types::ElementType::F64;
/// }
/// ```
pub trait Element: NoUninit + CheckedBitPattern + Send + Sync + fmt::Debug + sealed::Sealed {
    /// The element type that the Rust type represents.
    const TYPE: ElementType;
}

macro_rules! elements {
    ($($ty:ty = $name:ident),* $(,)?) => {
        $(
            impl sealed::Sealed for $ty {}
            impl Element for $ty {
                const TYPE: ElementType = {
                    assert!(size_of::<$ty>() == ElementType::$name.host_size());
                    ElementType::$name
                };
            }
        )*
    };
}
elements! {
    bool = Pred,
    i8 = S8,
    i16 = S16,
    i32 = S32,
    i64 = S64,
    u8 = U8,
    u16 = U16,
    u32 = U32,
    u64 = U64,
    half::f16 = F16,
    half::bf16 = Bf16,
    f32 = F32,
    f64 = F64,
    num_complex::Complex<f32> = C64,
    num_complex::Complex<f64> = C128,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers_round_trip() {
        for ty in ElementType::ALL {
            assert_eq!(ElementType::from_raw(ty.as_raw()), Some(*ty));
            assert_eq!(ty.name().parse(), Ok(*ty));
            assert_eq!(ty.stablehlo_name().parse(), Ok(*ty));
        }
        assert_eq!(ElementType::from_raw(0), None);
        assert_eq!(ElementType::from_raw(34), None);
        assert!("f33".parse::<ElementType>().unwrap_err().to_string().contains("known are pred, s8"));
    }

    #[test]
    fn rust_types_have_their_host_size() {
        fn check<T: Element>() {
            assert_eq!(size_of::<T>(), T::TYPE.host_size(), "{}", T::TYPE);
        }
        check::<bool>();
        check::<i64>();
        check::<half::bf16>();
        check::<num_complex::Complex<f64>>();
    }
}

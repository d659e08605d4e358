//! Structs that begin with their size, so that fields can be appended.

/// A C struct of the caller whose fields this library reads or sets. Its first field is `struct_size`.
///
/// # Safety
///
/// The type must be `repr(C)`, its first field must be a `usize` with the name `struct_size`, and any bytes of which
/// the first are those of a valid value and the others zero must be a valid value.
pub(crate) unsafe trait StructSize: Copy {
    /// Size of the struct in the first version of the header. A smaller size is an error.
    const FIRST_SIZE: usize;
    /// A value whose bytes are all zero.
    const ZERO: Self;
    /// Name of the type in C.
    const NAME: &'static str;
}

/// Declares that structs of C begin with `struct_size`. A struct that grew is followed by the size that it had at
/// first.
macro_rules! struct_sizes {
    (@first $ty:ident) => { size_of::<$ty>() };
    (@first $ty:ident $first:literal) => { $first };
    ($($ty:ident $(= $first:literal)?),* $(,)?) => {
        $(
            // SAFETY: the struct is repr(C), begins with `struct_size`, and has only integers, floats and pointers.
            unsafe impl crate::border::sized::StructSize for $ty {
                const FIRST_SIZE: usize = crate::border::sized::struct_sizes!(@first Self $($first)?);
                #[allow(clippy::disallowed_methods, reason = "the one place where structs are zeroed")]
                // SAFETY: zeros are valid integers, floats and nullable pointers.
                const ZERO: Self = unsafe { std::mem::zeroed() };
                const NAME: &'static str = stringify!($ty);
            }
        )*
    };
}
pub(crate) use struct_sizes;

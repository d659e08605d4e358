//! Structs that begin with their size, so that fields can be appended.

/// A struct of the caller's that this library fills, and that begins with `struct_size`.
///
/// # Safety
///
/// The type is `repr(C)` and its first field is a `usize` called `struct_size`.
pub(super) unsafe trait StructSize: Copy {
    /// Size of the struct in the first version of the header; a smaller one is a mistake.
    const FIRST_SIZE: usize;
    /// The C type's name.
    const NAME: &'static str;
}

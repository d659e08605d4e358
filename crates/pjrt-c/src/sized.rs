//! Structs that begin with their size, so that fields can be appended.

/// A struct of the caller that this library fills. It begins with `struct_size`.
///
/// # Safety
///
/// The type is `repr(C)` and its first field is a `usize` called `struct_size`.
pub(crate) unsafe trait StructSize: Copy {
    /// Size of the struct in the first version of the header. A smaller size is an error.
    const FIRST_SIZE: usize;
    /// The name of the C type.
    const NAME: &'static str;
}

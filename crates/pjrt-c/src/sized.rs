//! Structs that begin with their size, so that fields can be appended.

/// A C struct of the caller whose fields this library sets. Its first field is `struct_size`.
///
/// # Safety
///
/// The type must be `repr(C)`, and its first field must be a `usize` with the name `struct_size`.
pub(crate) unsafe trait StructSize: Copy {
    /// Size of the struct in the first version of the header. A smaller size is an error.
    const FIRST_SIZE: usize;
    /// Name of the type in C.
    const NAME: &'static str;
}

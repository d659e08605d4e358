//! Structs that begin with their size, so that fields can be appended.

/// A struct of the C interface that begins with `struct_size`.
///
/// # Safety
///
/// The type is `repr(C)` and its first field is a `usize` called `struct_size`. If it is ever read from C, all bytes are
/// values of its fields: there is no `bool`, no `enum` and no reference.
pub(super) unsafe trait StructSize: Copy {
    /// Size of the struct in the first version of the header; a smaller one is a mistake.
    const FIRST_SIZE: usize;
    /// The C type's name.
    const NAME: &'static str;
}

//! Raw declarations of the PJRT C API, OpenXLA's device plugin interface.
//!
//! [`bindings`] contains the C declarations, and [`slot`] has one marker type for each function of [`PJRT_Api`].
//! [`AbiStruct`] describes the size that each struct announces in its first word. `cargo xtask codegen` generates all
//! of this code from the upstream headers. The code is committed, so that a build needs neither the headers nor
//! libclang. `NOTICE` names the headers. The crate has no dependencies, allocates nothing and supports 64-bit targets,
//! as PJRT does.
//!
//! # Rules of the interface
//!
//! - Every struct begins with its size. A struct that a caller or a plugin passes may be shorter or longer than the
//!   struct in this crate. Code may access only the bytes that are part of both structs. [`AbiStruct::STRUCT_SIZE`] is
//!   the header's `_STRUCT_SIZE`, which is smaller than `size_of` if the last field is narrower than the struct's
//!   alignment.
//! - [`Bool`] represents a C `bool`, so that a byte that is neither 0 nor 1 can be read without undefined behavior.
#![no_std]

#[allow(
    missing_debug_implementations,
    missing_docs,
    non_camel_case_types,
    non_snake_case,
    non_upper_case_globals,
    unnameable_types,
    clippy::all,
    clippy::missing_safety_doc,
    reason = "generated from C headers, whose names they keep"
)]
#[rustfmt::skip]
pub mod bindings;
#[allow(missing_debug_implementations, non_camel_case_types, unused_qualifications, clippy::all, clippy::undocumented_unsafe_blocks, reason = "generated; the markers carry the header's names")]
#[rustfmt::skip]
mod slots;
mod static_api;

#[doc = include_str!("contracts.md")]
pub mod contracts {}

pub use bindings::*;
pub use slots::*;
pub use static_api::StaticApi;

/// A C `bool` in the structs of the PJRT C API. Any byte is a valid value, and every byte except 0 means true.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
#[repr(transparent)]
pub struct Bool(u8);

impl Bool {
    /// Returns whether the byte is not 0.
    #[inline]
    pub const fn get(self) -> bool {
        self.0 != 0
    }
}

impl From<bool> for Bool {
    #[inline]
    fn from(value: bool) -> Self {
        Self(u8::from(value))
    }
}

impl core::fmt::Debug for Bool {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        self.get().fmt(f)
    }
}

/// A struct of the interface whose first word is its size.
///
/// # Safety
///
/// The implementor is `repr(C)` and begins with a `usize` for its size (its own `struct_size`, or the `struct_size` of
/// its `PJRT_Extension_Base`). `STRUCT_SIZE` is at most `size_of::<Self>()`. Every bit pattern, including all zeros, is
/// a valid value.
pub unsafe trait AbiStruct: Copy + 'static {
    /// Name of the struct in the header.
    const NAME: &'static str;
    /// The header's `_STRUCT_SIZE`: the end of the last field, without the padding after it.
    const STRUCT_SIZE: usize;
    /// The smallest size that any caller or plugin of a supported minor version of the API announces.
    const MIN_SIZE: usize;
    /// For each minor version of the API that made the struct longer: this version, and the size that callers of older
    /// versions announce. The entries are in ascending order.
    const HISTORY: &'static [(u32, usize)];
    /// A wrong size that some callers announce, and the actual size of their struct. The wrong size is smaller, because
    /// the size constant in older headers referred to the wrong field. `None` if no older header is wrong in this way.
    const UNDERSTATED: Option<(usize, usize)> = None;
    /// The first minor version of the API whose header has the correct size, and the smaller size in older headers.
    /// `None` if the size was always correct.
    const ANNOUNCED: Option<(u32, usize)> = None;

    /// Returns the actual size in bytes of a caller's struct that announces `size`.
    #[inline]
    fn size_behind(size: usize) -> usize {
        match Self::UNDERSTATED {
            Some((announced, actual)) if size == announced => actual,
            _ => size,
        }
    }

    /// Returns the size that a caller or plugin of this minor version of the API announces.
    #[inline]
    fn size_at(minor: u32) -> usize {
        if let Some((since, size)) = Self::ANNOUNCED
            && minor < since
        {
            return size;
        }
        let newer = Self::HISTORY.iter().find(|(since, _)| *since > minor);
        newer.map_or(Self::STRUCT_SIZE, |(_, size)| *size)
    }

    /// Creates a struct whose fields are all zero, except for its size.
    #[must_use]
    #[inline]
    fn new() -> Self {
        #[expect(clippy::disallowed_methods, reason = "the home of zeroed interface structs")]
        // SAFETY: all-zero bytes are a valid value by this trait's contract.
        let mut new: Self = unsafe { core::mem::zeroed() };
        // SAFETY: the struct begins with a `usize` by this trait's contract, and `new` is ours alone.
        unsafe { (&raw mut new).cast::<usize>().write(Self::STRUCT_SIZE) };
        new
    }
}

/// A function of a table: a field of [`PJRT_Api`] or of an extension struct.
///
/// # Safety
///
/// `OFFSET` is the offset in `Table` of a nullable pointer to `unsafe extern "C" fn(*mut Args) -> Return`.
pub unsafe trait Slot: 'static {
    /// The table that contains the function.
    type Table: Copy + 'static;
    /// The argument struct of the function, to which its only argument points.
    type Args: AbiStruct;
    /// `*mut PJRT_Error`, or `()` for functions that cannot fail.
    type Return: Copy;
    /// Name of the function in the header.
    const NAME: &'static str;
    /// Index among the functions of the table, counted from 0.
    const INDEX: usize;
    /// Offset of the function pointer in the table, in bytes.
    const OFFSET: usize;
    /// First minor version of the API with this function, or 0 if the function already existed before version 0.29.
    const SINCE: u32;

    /// Returns the function pointer from a table that has at least the size of `Table`.
    fn get(table: &Self::Table) -> Option<unsafe extern "C" fn(*mut Self::Args) -> Self::Return>;
}

/// An extension struct, which is a node of the chain that starts at [`PJRT_Api::extension_start`].
///
/// # Safety
///
/// The implementor begins with a [`PJRT_Extension_Base`]. Every node of the chain whose type is `TYPE` is this struct.
pub unsafe trait Extension: AbiStruct {
    /// Type of the node, as in [`PJRT_Extension_Base::type_`].
    const TYPE: PJRT_Extension_Type;
}

/// Layout of a struct of the headers, for checks and dumps.
#[derive(Clone, Copy, Debug)]
pub struct StructInfo {
    /// Name of the struct in the header.
    pub name: &'static str,
    /// `sizeof` of the struct.
    pub size: usize,
    /// The header's `_STRUCT_SIZE` of the struct.
    pub struct_size: usize,
    /// Name and offset of each field, in order.
    pub fields: &'static [(&'static str, usize)],
}

/// Tests the examples of the package's README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct PackageReadme;

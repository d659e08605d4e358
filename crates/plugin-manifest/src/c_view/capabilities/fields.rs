//! Code for each field of [`dp_capabilities`], generated from the table of the capabilities.

use std::mem::offset_of;

use pjrt_sys::AbiStruct;

use super::forms::CForm;
use super::owned::Owned;
use super::structs::dp_capabilities;
use crate::capabilities::for_each_capability;
use crate::{Capabilities, Result};

/// The name of a C field, and the byte offset in the struct at which the field ends.
#[derive(Clone, Copy, Debug)]
pub(super) struct Field {
    #[cfg_attr(not(test), expect(dead_code, reason = "for tests that name the field"))]
    pub(super) name: &'static str,
    pub(super) end: usize,
}

/// Generates the list of the C fields, and the functions that convert all fields from and to C. The pattern of
/// `complete` has no `..`, so the code does not compile if a field of the struct is missing from the table.
macro_rules! fields {
    ($(
        $(#[$doc:meta])*
        $field:ident: $ty:ty { c: [$($c:ident),*], replaces: $replaces:literal, }
    )*) => {
        /// All C fields. `struct_size` is first, and the other fields are in the order of the table.
        pub(super) const FIELDS: &[Field] = &{
            const fn size_of_field<T>(_: fn(&dp_capabilities) -> &T) -> usize {
                size_of::<T>()
            }
            const fn complete(all: dp_capabilities) {
                let dp_capabilities { struct_size: _, $($($c: _),*),* } = all;
            }
            let _ = complete;
            [
                Field { name: "struct_size", end: size_of::<usize>() },
                $($(
                    Field {
                        name: stringify!($c),
                        end: offset_of!(dp_capabilities, $c) + size_of_field(|all| &all.$c),
                    },
                )*)*
            ]
        };

        /// Reads every field. Does not check whether the fields are consistent with each other.
        ///
        /// # Safety
        ///
        /// All data that the fields point to satisfies V8 of `docs/safety.md`.
        pub(super) unsafe fn read_fields(from: &dp_capabilities) -> Result<Capabilities> {
            let mut read = Capabilities::default();
            $(
                // SAFETY: V8 (descriptors): each pointer of the struct is null or readable for its length.
                read.$field = unsafe { CForm::read(($(from.$c,)*), [$(stringify!($c)),*]) }?;
            )*
            Ok(read)
        }

        /// Sets every field. Pointers in the fields refer to memory of `owned`.
        pub(super) fn write_fields(from: &Capabilities, to: &mut dp_capabilities, owned: &mut Owned) -> Result<()> {
            $( ($(to.$c,)*) = CForm::write(&from.$field, owned)?; )*
            Ok(())
        }
    };
}
for_each_capability!(fields);

/// Returns the byte offset at which the last field that is completely within the first `struct_size` bytes ends.
/// Returns 0 if `struct_size` is too small for its own field. A copy up to this offset never ends within a field.
pub(super) fn whole_fields(struct_size: usize) -> usize {
    FIELDS.iter().map(|field| field.end).filter(|end| *end <= struct_size).max().unwrap_or(0)
}

/// Returns the byte offset at which the last field of the struct ends.
const fn end() -> usize {
    let (mut index, mut end) = (0, 0);
    while index < FIELDS.len() {
        if FIELDS[index].end > end {
            end = FIELDS[index].end;
        }
        index += 1;
    }
    end
}

// SAFETY: the struct is `repr(C)`, begins with its size, and consists of integers, floats and raw pointers, for which
// every bit pattern is valid.
unsafe impl AbiStruct for dp_capabilities {
    const NAME: &'static str = "dp_capabilities";
    const STRUCT_SIZE: usize = end();
    const MIN_SIZE: usize = FIELDS[0].end;
    const HISTORY: &'static [(u32, usize)] = &[];
}

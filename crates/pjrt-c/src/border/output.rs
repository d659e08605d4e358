//! The results that functions write to places of their callers.

use plugin_manifest::c_view::capabilities::dp_string;

use crate::border::failure::Outcome;
use crate::border::handle;
use crate::border::handle::Owned;
use crate::border::memory;
use crate::border::sized::StructSize;
use crate::border::table::Object;
use crate::border::text::NO_TEXT;
use crate::buffer::dp_shape;
use crate::registry::dp_api_version;
use crate::stablehlo::dp_value;

/// A value that a function writes to a place of its caller.
///
/// # Safety
///
/// `write` must write no more than a place of the declared type has.
pub(crate) unsafe trait Output: Sized {
    /// The type of the place in C.
    type Place;

    /// Checks the place before the function does anything.
    ///
    /// # Safety
    ///
    /// The caller must keep the contracts K1 (outputs are writable) and K4 (structs have the size they declare), and
    /// `place` is not null.
    unsafe fn check(place: *mut Self::Place) -> Outcome<()> {
        let _ = place;
        Ok(())
    }

    /// Writes the value.
    ///
    /// # Safety
    ///
    /// The contracts of `check`, which must have returned no error.
    unsafe fn write(self, place: *mut Self::Place);
}

/// The value that a function returns if it cannot report why it failed.
pub(crate) trait Empty {
    const EMPTY: Self;
}

// SAFETY: one pointer is written.
unsafe impl<T: Object> Output for Owned<T> {
    type Place = *mut T;

    #[inline]
    unsafe fn write(self, place: *mut *mut T) {
        let handle = handle::give(self.0);
        // SAFETY: K1 (outputs are writable).
        unsafe { place.write(handle) };
    }
}

macro_rules! plain {
    ($($ty:ty = $empty:expr),* $(,)?) => {
        $(
            // SAFETY: one value is written.
            unsafe impl Output for $ty {
                type Place = Self;

                #[inline]
                unsafe fn write(self, place: *mut Self) {
                    // SAFETY: K1 (outputs are writable).
                    unsafe { place.write(self) };
                }
            }

            impl Empty for $ty {
                const EMPTY: Self = $empty;
            }
        )*
    };
}

plain!(dp_string = NO_TEXT, bool = false, u32 = 0, i32 = 0, u64 = 0, i64 = 0, usize = 0);

macro_rules! structs {
    ($($ty:ty),*) => {
        $(
            // SAFETY: one value is written.
            unsafe impl Output for $ty {
                type Place = Self;

                unsafe fn write(self, place: *mut Self) {
                    // SAFETY: K1 (outputs are writable).
                    unsafe { place.write(self) };
                }
            }
        )*
    };
}

structs!(dp_api_version, dp_shape, dp_value);

impl Empty for f64 {
    const EMPTY: Self = 0.0;
}

impl Empty for () {
    const EMPTY: Self = ();
}

// SAFETY: one pointer is written.
unsafe impl<T> Output for *const T {
    type Place = Self;

    unsafe fn write(self, place: *mut Self) {
        // SAFETY: K1 (outputs are writable).
        unsafe { place.write(self) };
    }
}

// SAFETY: one pointer is written.
unsafe impl<T> Output for *mut T {
    type Place = Self;

    unsafe fn write(self, place: *mut Self) {
        // SAFETY: K1 (outputs are writable).
        unsafe { place.write(self) };
    }
}

impl<T> Empty for *const T {
    const EMPTY: Self = std::ptr::null();
}

impl<T> Empty for *mut T {
    const EMPTY: Self = std::ptr::null_mut();
}

/// A struct of which as much is written as the caller knows.
// SAFETY: no more is written than the place declares.
unsafe impl<T: StructSize> Output for memory::Struct<T> {
    type Place = T;

    unsafe fn check(place: *mut T) -> Outcome<()> {
        // SAFETY: K4 (structs have the size they declare).
        unsafe { memory::struct_size(place, "out") }.map(drop)
    }

    unsafe fn write(self, place: *mut T) {
        // SAFETY: K4 (the first word is readable).
        let size = unsafe { place.cast::<usize>().read() }.min(size_of::<T>());
        let from = &raw const self.0;
        // SAFETY: K4: `size` bytes are writable, and the value has at least as many.
        unsafe { from.cast::<u8>().copy_to_nonoverlapping(place.cast::<u8>(), size) };
        // SAFETY: K4: the first word is writable.
        unsafe { place.cast::<usize>().write(size) };
    }
}

//! A call of a function that a mutant replaces.

use std::ptr;

use pjrt_sys::{AbiStruct, PJRT_Error, Slot};

use super::tables::{Place, real};

/// A copy of the arguments of a call. Fields that the caller's struct lacks are 0.
#[repr(C)]
pub(crate) struct Call<S: Slot> {
    /// The arguments. After the call, the results are copied back to the caller's struct.
    pub(crate) args: S::Args,
    /// The bytes after the fields of this crate's header, if the struct of a newer caller is longer.
    pub(crate) more: [u64; 16],
}

/// The return type of a PJRT function.
pub(crate) trait Answer: Copy + 'static {
    /// The value that reports success.
    const SUCCESS: Self;
    /// Returns whether the value reports success.
    fn is_success(self) -> bool;
}

impl Answer for *mut PJRT_Error {
    const SUCCESS: Self = ptr::null_mut();

    fn is_success(self) -> bool {
        self.is_null()
    }
}

impl Answer for () {
    const SUCCESS: Self = ();

    fn is_success(self) -> bool {
        true
    }
}

impl<S: Slot<Table: Place, Return: Answer>> Call<S> {
    /// Copies the arguments of a caller.
    ///
    /// # Safety
    ///
    /// Contract M1 must hold for `args`.
    pub(super) unsafe fn of(args: *const S::Args) -> Self {
        let mut call = Self { args: S::Args::new(), more: [0; 16] };
        // SAFETY: M1 (calls): the struct begins with its size.
        let known = unsafe { Self::known(args) };
        // SAFETY: M1 (calls): the arguments are readable for this size, and the call has at least this size.
        unsafe { ptr::copy_nonoverlapping(args.cast::<u8>(), (&raw mut call).cast(), known) };
        call
    }

    /// Copies the results to the caller's arguments.
    ///
    /// # Safety
    ///
    /// Contract M1 must hold for `args`, and `of` must have created `self` from `args`.
    pub(super) unsafe fn finish(&self, args: *mut S::Args) {
        // SAFETY: M1 (calls): the struct begins with its size.
        let known = unsafe { Self::known(args) };
        // SAFETY: M1 (calls): the arguments are writable for this size, and the call has at least this size.
        unsafe { ptr::copy_nonoverlapping(ptr::from_ref(self).cast::<u8>(), args.cast(), known) };
    }

    /// Returns the size of the caller's struct, limited to the size of a `Call`.
    ///
    /// # Safety
    ///
    /// Contract M1 must hold for `args`.
    unsafe fn known(args: *const S::Args) -> usize {
        // SAFETY: M1 (calls): the struct begins with its size.
        let announced = unsafe { args.cast::<usize>().read() };
        S::Args::size_behind(announced).min(size_of::<Self>())
    }

    /// Returns whether the caller's struct lacks arguments that every version of the header has.
    pub(super) fn is_short(&self) -> bool {
        // SAFETY: `AbiStruct`: the struct begins with its size.
        let announced = unsafe { (&raw const self.args).cast::<usize>().read() };
        announced < S::Args::MIN_SIZE
    }

    /// Calls the device's function with the arguments. Returns success if the device lacks the function.
    pub(crate) fn pass(&mut self) -> S::Return {
        let Some(function) = real::<S>() else { return S::Return::SUCCESS };
        // SAFETY: M1 (calls), M3 (faults): the arguments come from the caller, or the mutant has replaced them.
        unsafe { function(ptr::from_mut(self).cast()) }
    }
}

//! A call of a function that a mutant replaces.

use std::ptr;

use pjrt_sys::{AbiStruct, PJRT_Error, Slot};

use super::tables::{Place, real};

/// The arguments of a call, copied from the caller's. Fields that the caller's struct lacks are 0.
#[repr(C)]
pub(crate) struct Call<S: Slot> {
    /// The arguments. The results are copied back after the call.
    pub(crate) args: S::Args,
    /// Bytes after the fields of this crate's header, in the struct of a newer caller.
    pub(crate) more: [u64; 16],
}

/// The return type of a function.
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
    /// M1 for `args`.
    pub(super) unsafe fn of(args: *const S::Args) -> Self {
        let mut call = Self { args: S::Args::new(), more: [0; 16] };
        // SAFETY: M1 (calls).
        let known = unsafe { Self::known(args) };
        // SAFETY: M1 (calls), and the call has at least this size.
        unsafe { ptr::copy_nonoverlapping(args.cast::<u8>(), (&raw mut call).cast(), known) };
        call
    }

    /// Copies the results to the arguments of the caller.
    ///
    /// # Safety
    ///
    /// M1 for `args`, from which `of` copied.
    pub(super) unsafe fn finish(&self, args: *mut S::Args) {
        // SAFETY: M1 (calls).
        let known = unsafe { Self::known(args) };
        // SAFETY: M1 (calls), and the call has at least this size.
        unsafe { ptr::copy_nonoverlapping(ptr::from_ref(self).cast::<u8>(), args.cast(), known) };
    }

    /// Returns the number of bytes that the caller's struct has and that a call can contain.
    ///
    /// # Safety
    ///
    /// M1 for `args`.
    unsafe fn known(args: *const S::Args) -> usize {
        // SAFETY: M1 (calls): the struct begins with its size.
        let announced = unsafe { args.cast::<usize>().read() };
        S::Args::size_behind(announced).min(size_of::<Self>())
    }

    /// Returns whether the caller's struct lacks arguments that each version of the header has.
    pub(super) fn is_short(&self) -> bool {
        // SAFETY: `AbiStruct`: the struct begins with its size.
        let announced = unsafe { (&raw const self.args).cast::<usize>().read() };
        announced < S::Args::MIN_SIZE
    }

    /// Calls the device's function.
    pub(crate) fn pass(&mut self) -> S::Return {
        let Some(function) = real::<S>() else { return S::Return::SUCCESS };
        // SAFETY: M1 (calls), M3 (faults): the arguments are the caller's, or those with which the mutant replaced them.
        unsafe { function(ptr::from_mut(self).cast()) }
    }
}

//! Host memory that a plugin reads after the call that passed it.

use std::ptr::NonNull;

use crate::event::Event;
use crate::handle::Foreign;

/// Data on the heap that a plugin may read until the loan is returned. A loan that is only dropped leaks the data,
/// because the plugin may still read it.
pub(crate) struct Loan<D>(Foreign<NonNull<D>>);

impl<D: Send + Sync + 'static> Loan<D> {
    pub(crate) fn new(data: D) -> Self {
        // Use a box, because the data may contain its elements directly and must not move. Use a raw pointer, because
        // moving a `Box` would assert exclusive access to contents that the plugin reads.
        Self(Foreign(NonNull::from(Box::leak(Box::new(data)))))
    }

    /// The data. The address does not change until the loan is returned.
    pub(crate) fn data(&self) -> &D {
        // SAFETY: the data lives until `give_back`, which takes the loan.
        unsafe { self.0.0.as_ref() }
    }

    /// Drops the data, which the plugin no longer reads.
    pub(crate) fn give_back(self) {
        // SAFETY: the pointer is that of the box in `new`, and no other call frees it, because this one takes the loan.
        drop(unsafe { Box::from_raw(self.0.0.as_ptr()) });
    }

    /// Drops the data when the operation has ended. `Client::synchronize` waits for it.
    pub(crate) fn until(self, event: &Event) {
        event.hold(self, |loan, _| loan.give_back());
    }
}

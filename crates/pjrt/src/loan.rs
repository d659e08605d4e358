//! Memory of the host that a plugin reads or writes after the call that passed it.

use std::ptr::NonNull;

use crate::event::Event;
use crate::send_ptr::SendPtr;

/// Data on the heap that a plugin may use until the loan is returned. A loan that is only dropped leaks the data,
/// because the plugin may still use it.
pub(crate) struct Loan<D>(SendPtr<NonNull<D>>);

impl<D: Send + 'static> Loan<D> {
    pub(crate) fn new(data: D) -> Self {
        // Use a box, because the data may contain its elements directly and must not move. Use a raw pointer, because
        // moving a `Box` would assert exclusive access to contents that the plugin uses.
        Self(SendPtr(NonNull::from(Box::leak(Box::new(data)))))
    }

    /// The data. The address does not change until the loan is returned.
    pub(crate) fn data(&self) -> &D
    where
        D: Sync,
    {
        // SAFETY: the data lives until `take`, which takes the loan.
        unsafe { self.0.0.as_ref() }
    }

    /// The data, before the plugin uses it. The address does not change until the loan is returned.
    pub(crate) fn data_mut(&mut self) -> &mut D {
        // SAFETY: the data lives until `take`, which takes the loan; no other reference exists while this one does.
        unsafe { self.0.0.as_mut() }
    }

    /// Returns the data, which the plugin no longer uses.
    pub(crate) fn take(self) -> D {
        // SAFETY: the pointer is that of the box in `new`, and no other call frees it, because this one takes the loan.
        *unsafe { Box::from_raw(self.0.0.as_ptr()) }
    }

    /// Drops the data, which the plugin no longer uses.
    pub(crate) fn give_back(self) {
        drop(self.take());
    }

    /// Drops the data when the operation has ended. `Client::synchronize` waits for it.
    pub(crate) fn until(self, event: &Event) {
        event.hold(self, |loan, _| loan.give_back());
    }
}

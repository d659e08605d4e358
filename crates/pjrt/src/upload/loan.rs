//! Host memory that a plugin may read or write after the call that passed the memory has returned.

use std::ptr::NonNull;

use crate::objects::event::Event;
use crate::table::send_ptr::SendPtr;

/// Host data that a plugin may use until [`Loan::take`] or [`Loan::give_back`] ends the loan. Dropping a loan without
/// ending it leaks the data, because the plugin may still use the data.
pub(crate) struct Loan<D: ?Sized>(SendPtr<NonNull<D>>);

impl<D: Send + 'static> Loan<D> {
    pub(crate) fn new(data: D) -> Self {
        // Allocate the data on the heap, because `D` may store its elements inline, and they must not move. Keep a raw
        // pointer, because moving a `Box` would assert exclusive access to memory that the plugin uses.
        Self(SendPtr(NonNull::from(Box::leak(Box::new(data)))))
    }

    /// Returns the data. Its address does not change until the loan ends.
    pub(crate) fn data(&self) -> &D
    where
        D: Sync,
    {
        // SAFETY: the data lives until `take`, which consumes the loan.
        unsafe { self.0.0.as_ref() }
    }

    /// Returns the data for access before the plugin uses it. The address does not change until the loan ends.
    pub(crate) fn data_mut(&mut self) -> &mut D {
        // SAFETY: the data lives until `take`, which consumes the loan. `&mut self` ensures that no other reference
        // exists.
        unsafe { self.0.0.as_mut() }
    }

    /// Ends the loan and returns the data. The plugin must no longer use the data.
    pub(crate) fn take(self) -> D {
        *self.into_box()
    }

    /// Forgets the type of the data.
    pub(crate) fn erase(self) -> Loan<dyn Send> {
        let erased: NonNull<dyn Send> = self.0.0;
        Loan(SendPtr(erased))
    }
}

impl<D: Send + ?Sized + 'static> Loan<D> {
    fn into_box(self) -> Box<D> {
        // SAFETY: the pointer came from the box in `new`. This call consumes the loan, so the box is freed only once.
        unsafe { Box::from_raw(self.0.0.as_ptr()) }
    }

    /// Ends the loan and drops the data. The plugin must no longer use the data.
    pub(crate) fn give_back(self) {
        drop(self.into_box());
    }

    /// Drops the data when the operation of `event` has ended. `Client::synchronize` waits until the data is dropped.
    pub(crate) fn until(self, event: &Event) {
        event.hold(self, |loan, _| loan.give_back());
    }
}

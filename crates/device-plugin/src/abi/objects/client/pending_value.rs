//! Buffers whose value is set after the call that creates them has returned.

use std::sync::{Arc, OnceLock};

use pjrt_sys::PJRT_Buffer;

use crate::abi::objects::client::buffer::{BufferHandle, Value};
use crate::abi::objects::client::state::Client;
use crate::abi::reclaim::refcount::Counted;
use crate::array_layout::ArrayLayout;
use crate::contain::drop_contained;
use crate::{Backend, Completer, Event, Placement, Result};

/// The producer of a buffer whose value is set later: the cell for the value, and the completer of the buffer's event.
/// The field is `None` after the value or an error has been set, or after [`PendingValue::take`]. If the producer kept
/// the cell, it would keep the value alive after the framework has deleted the buffer.
pub(crate) struct PendingValue<B: Backend>(Option<(Arc<OnceLock<B::Buffer>>, Completer)>);

impl<B: Backend> PendingValue<B> {
    /// Creates a buffer for the framework, and the producer that sets the buffer's value. `is_dynamic` specifies
    /// whether the array may have dynamic dimensions.
    pub(crate) fn new(
        client: &Counted<Client<B>>,
        form: &ArrayLayout,
        to: Placement,
        is_dynamic: bool,
    ) -> (*mut PJRT_Buffer, Self) {
        let place = Arc::new(OnceLock::new());
        let (ready, completer) = Event::pending();
        let value = Value::Later(Arc::clone(&place));
        let handle = BufferHandle::new(client.share(), value, form, to, ready, is_dynamic).as_ptr().cast();
        (handle, Self(Some((place, completer))))
    }

    /// Returns the address of the cell for the value. Returns `None` if the value or an error has been set.
    pub(crate) fn address(&self) -> Option<usize> {
        self.0.as_ref().map(|(place, _)| Arc::as_ptr(place).addr())
    }

    /// Returns whether the buffer still waits for its value.
    pub(crate) fn is_open(&self) -> bool {
        self.0.is_some()
    }

    /// Moves the producer out, so that the caller can release its lock before using the producer.
    pub(crate) fn take(&mut self) -> Self {
        Self(self.0.take())
    }

    /// Sets the buffer's value, which the backend has just created. The buffer becomes ready together with the value's
    /// event. If the backend failed, sets the buffer's error.
    pub(crate) fn made(&mut self, result: Result<(B::Buffer, Event)>) {
        let Some((place, completer)) = self.0.take() else { return };
        match result {
            Ok((value, ready)) => {
                drop(place.set(value));
                // Drop the producer's reference to the cell, because the next user of the buffer may need to be the
                // sole owner of the value.
                drop_contained(place);
                // Most backends always return a ready event, so the compiler removes the other branch.
                if ready.is_born_ready() {
                    completer.complete_internally(Ok(()));
                } else {
                    ready.on_ready(move |ready| completer.complete_internally(ready.clone()));
                }
            }
            Err(error) => completer.complete_internally(Err(error)),
        }
    }

    /// Sets the buffer's value or its error. Only the first call has an effect.
    pub(crate) fn set(&mut self, result: Result<B::Buffer>) {
        self.made(result.map(|value| (value, Event::ready())));
    }
}

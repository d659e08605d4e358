//! Buffers whose value comes after the call that created them.

use std::sync::{Arc, OnceLock};

use pjrt_sys::PJRT_Buffer;

use crate::abi::objects::client::buffer::{BufferHandle, Value};
use crate::abi::objects::client::state::Client;
use crate::abi::reclaim::refcount::Counted;
use crate::array_layout::ArrayLayout;
use crate::contain::drop_contained;
use crate::{Backend, Completer, Event, Placement, Result};

/// The producer's end of a buffer whose value comes later: where the value goes, and the buffer's completer. Empty once the
/// buffer is ready or another producer has taken over, so that nothing keeps a value that the framework deletes.
pub(crate) struct PendingValue<B: Backend>(Option<(Arc<OnceLock<B::Buffer>>, Completer)>);

impl<B: Backend> PendingValue<B> {
    /// A buffer for the framework, and the means to give it a value.
    pub(crate) fn new(client: &Counted<Client<B>>, form: &ArrayLayout, to: Placement) -> (*mut PJRT_Buffer, Self) {
        let place = Arc::new(OnceLock::new());
        let (ready, completer) = Event::pending();
        let handle = BufferHandle::give(client.share(), Value::Later(Arc::clone(&place)), form, to, ready);
        (handle, Self(Some((place, completer))))
    }

    /// Whether the value will be that one.
    pub(crate) fn is_of(&self, value: &Arc<OnceLock<B::Buffer>>) -> bool {
        self.0.as_ref().is_some_and(|(place, _)| Arc::ptr_eq(place, value))
    }

    /// Whether the buffer waits for its value.
    pub(crate) fn is_open(&self) -> bool {
        self.0.is_some()
    }

    /// Moves the producer's end out, so that it can be used without a lock.
    pub(crate) fn take(&mut self) -> Self {
        Self(self.0.take())
    }

    /// Gives the buffer a value that the backend has just made and the event of that value, or an error.
    pub(crate) fn made(&mut self, result: Result<(B::Buffer, Event)>) {
        let Some((place, completer)) = self.0.take() else { return };
        match result {
            Ok((value, ready)) => {
                drop(place.set(value));
                // The next user of the buffer may need the only reference.
                drop_contained(place);
                // The compiler knows this for most backends.
                if ready.is_born_ready() {
                    completer.settle(Ok(()));
                } else {
                    ready.on_ready(move |ready| completer.settle(ready.clone()));
                }
            }
            Err(error) => completer.settle(Err(error)),
        }
    }

    /// Gives the buffer its value or its error; the first call counts.
    pub(crate) fn set(&mut self, result: Result<B::Buffer>) {
        self.made(result.map(|value| (value, Event::ready())));
    }
}

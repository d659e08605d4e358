//! Buffers whose value is set after the call that creates them has returned.

use std::sync::{Arc, OnceLock};

use crate::abi::objects::client::value::Value;
use crate::contain::drop_contained;
use crate::{Completer, Event, Result};

/// The producer of a buffer whose value is set later: the cell for the value, and the completer of the buffer's event.
/// The field is `None` after the value or an error has been set, or after [`PendingValue::take`]. If the producer kept
/// the cell, it would keep the value alive after the framework has deleted the buffer.
pub(crate) struct PendingValue<V>(Option<(Arc<OnceLock<V>>, Completer)>);

impl<V> PendingValue<V> {
    /// Creates the value of a buffer, the buffer's event, and the producer that sets both.
    pub(super) fn new() -> (Value<V>, Event, Self) {
        let place = Arc::new(OnceLock::new());
        let (ready, completer) = Event::pending();
        (Value::Later(Arc::clone(&place)), ready, Self(Some((place, completer))))
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
    pub(crate) fn made(&mut self, result: Result<(V, Event)>) {
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
    pub(crate) fn set(&mut self, result: Result<V>) {
        self.made(result.map(|value| (value, Event::ready())));
    }
}

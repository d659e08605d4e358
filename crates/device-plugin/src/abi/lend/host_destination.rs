//! Reads that go on after the framework's call: the memory they fill, and when the framework has it back.

use crate::abi::objects::client::buffer::{BufferHandle, Value};
use crate::abi::objects::client::state::Client;
use crate::abi::objects::client::transfer::Destination;
use crate::abi::objects::owned_arrays::drop_contained;
use crate::abi::table::entry::contain_in;
use crate::{Backend, Completer, Event, Result};

/// Memory of the framework that a read fills, for as long as this value lives: [`Backend::begin_read`] may hand it to
/// another thread. The framework has the memory back when this is dropped and the event of the read has come.
pub struct HostDestination {
    /// Until the end.
    memory: Option<Destination>,
    gone: Option<Completer>,
}

impl HostDestination {
    /// The memory, and the event of the moment in which nobody can write to it any more.
    fn new(memory: Destination) -> (Self, Event) {
        let (gone, completer) = Event::pending();
        (Self { memory: Some(memory), gone: Some(completer) }, gone)
    }

    /// The bytes to fill, as many as the array has: dense, row-major, sub-byte types in one byte per element. What they
    /// are before means nothing.
    pub fn bytes(&mut self) -> &mut [u8] {
        let Some(memory) = &mut self.memory else { return &mut [] };
        // SAFETY: V3, the framework leaves the memory to the plugin until the event of its call, which `read` completes
        // after this value is gone.
        unsafe { memory.slice() }.unwrap_or_default()
    }
}

impl Drop for HostDestination {
    fn drop(&mut self) {
        self.memory = None;
        if let Some(gone) = self.gone.take() {
            gone.complete(Ok(()));
        }
    }
}

impl std::fmt::Debug for HostDestination {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HostDestination").finish_non_exhaustive()
    }
}

/// Begins to read a buffer, now or when it is ready. The event comes when the backend's has come and the backend has
/// given up the memory, whichever is later.
///
/// `done` runs when all has gone well.
pub(crate) fn read<B: Backend>(
    buffer: &BufferHandle<B>,
    memory: Destination,
    done: impl FnOnce() + Send + 'static,
) -> Result<Event> {
    let held = buffer.hold()?;
    let (event, completer) = Event::pending();
    match buffer.ready.result() {
        Some(Ok(())) => begin(&buffer.client, held.value(), memory, completer, done),
        Some(Err(error)) => completer.settle(Err(error)),
        None => {
            // The framework may destroy the buffer before it is ready.
            let (client, value) = (buffer.client.share(), held.value().clone());
            buffer.ready.on_ready_away(move |ready| {
                match ready {
                    Ok(()) => begin(&client, &value, memory, completer, done),
                    Err(error) => completer.settle(Err(error.clone())),
                }
                drop_contained((client, value));
            });
        }
    }
    Ok(event)
}

/// Begins to read a buffer that is ready.
fn begin<B: Backend>(
    client: &Client<B>,
    value: &Value<B>,
    memory: Destination,
    completer: Completer,
    done: impl FnOnce() + Send + 'static,
) {
    let (destination, gone) = HostDestination::new(memory);
    let begin = || client.backend.begin_read(value.available()?, destination);
    let begun = contain_in("PJRT_Buffer_ToHostBuffer", begin);
    let end = move |result: Result<()>| {
        gone.on_ready(move |_| {
            if result.is_ok() {
                done();
            }
            completer.settle(result);
        });
    };
    match begun {
        Ok(event) => event.on_ready(move |result| end(result.clone())),
        Err(error) => end(Err(error)),
    }
}

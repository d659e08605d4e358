//! Asynchronous reads, which continue after the framework's call has returned.

use crate::abi::lend::destination::Destination;
use crate::abi::lend::host_destination::HostDestination;
use crate::abi::objects::client::handle::{BufferHandle, Client};
use crate::abi::objects::client::value::Value;
use crate::contain::{contain_in, drop_contained};
use crate::features::FeatureCalls;
use crate::{Backend, Completer, Event, Result};

/// Begins to read a buffer, at once if it is ready or if the backend has the feature `queued_transfers`, or else when
/// it becomes ready. The returned event becomes ready when the backend's event is ready and the backend has dropped the
/// destination.
///
/// `done` runs if the read succeeds.
pub(crate) fn read<B: Backend>(
    buffer: &BufferHandle<B>,
    memory: Destination,
    done: impl FnOnce() + Send + 'static,
) -> Result<Event> {
    let held = buffer.hold()?;
    let (event, completer) = Event::pending();
    match buffer.ready.result() {
        Some(Ok(())) => begin(&buffer.client, held.value(), Event::ready(), memory, completer, done),
        Some(Err(error)) => completer.complete_internally(Err(error)),
        None if const { B::FEATURES.queued_transfers } && held.value().get().is_some() => {
            begin(&buffer.client, held.value(), buffer.ready.clone(), memory, completer, done);
        }
        None => {
            // Keep the client and the value alive, because the framework may destroy the buffer before it is ready.
            let (client, value) = (buffer.client.share(), held.value().clone());
            buffer.ready.on_ready_off_thread(move |ready| {
                match ready {
                    Ok(()) => begin(&client, &value, Event::ready(), memory, completer, done),
                    Err(error) => completer.complete_internally(Err(error.clone())),
                }
                drop_contained((value, client));
            });
        }
    }
    Ok(event)
}

/// Begins to read a buffer with the event `ready`. `completer` completes the event that [`read`] returned. It reports
/// the errors of both, because a backend does not know all of the buffer. For example, an argument of its launch may
/// fail.
fn begin<B: Backend>(
    client: &Client<B>,
    value: &Value<B::Buffer>,
    ready: Event,
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
            completer.complete_internally(result);
        });
    };
    match begun {
        Ok(event) => Event::all([ready, event]).on_ready(move |result| end(result.clone())),
        Err(error) => end(Err(error)),
    }
}

//! Closes the sockets of a connection together.

use std::sync::{Mutex, PoisonError};

use crate::net::stream::Stream;

/// The sockets of a connection: its own, and those of its rings.
#[derive(Default)]
pub(crate) struct Closer(Mutex<State>);

#[derive(Default)]
struct State {
    streams: Vec<Stream>,
    is_closed: bool,
}

impl Closer {
    /// Adds a handle of a socket. Closes it at once if the others are closed.
    pub(crate) fn add(&self, stream: Stream) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if state.is_closed {
            stream.shutdown();
        }
        state.streams.push(stream);
    }

    /// Closes all sockets, also while other threads use them.
    pub(crate) fn close(&self) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.is_closed = true;
        state.streams.iter().for_each(Stream::shutdown);
    }
}

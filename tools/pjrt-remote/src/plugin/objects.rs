//! Objects of the server that this process holds.

use std::sync::Arc;

use device_plugin::Event;

use crate::plugin::connection::Connection;

/// The handle of an object. The server frees the object when this value is dropped.
#[derive(Debug)]
pub(crate) struct Handle {
    pub(crate) id: u64,
    pub(crate) connection: Arc<Connection>,
}

/// The id of a handle whose object the server has freed already.
const FREED: u64 = 0;

impl Drop for Handle {
    fn drop(&mut self) {
        if self.id != FREED {
            self.connection.release(self.id);
        }
    }
}

/// A buffer of the server.
#[derive(Clone, Debug)]
pub struct RemoteBuffer {
    pub(crate) handle: Arc<Handle>,
    /// Becomes ready when the request that creates the buffer has ended. Ready for the outputs of programs, which
    /// become ready with the event of their run.
    pub(crate) ready: Event,
}

impl RemoteBuffer {
    /// Drops a buffer that the server frees, because a run consumed it.
    pub(crate) fn consume(self) {
        if let Some(mut handle) = Arc::into_inner(self.handle) {
            handle.id = FREED;
        }
    }
}

/// A compiled program of the server.
#[derive(Debug)]
pub struct RemoteExecutable {
    pub(crate) handle: Handle,
}

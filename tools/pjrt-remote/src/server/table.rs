//! The objects of one client.

use std::collections::HashMap;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use pjrt::{Buffer, LoadedExecutable, Shape};

use crate::server::failure::{Outcome, exhausted, invalid};
use crate::server::limits::HANDLES;
use crate::server::sessions::Held;
use crate::wire::frame::Broken;
use crate::wire::messages::Failure;

/// A compiled program, and the indices of the devices that run it.
pub(crate) struct Loaded {
    pub(crate) executable: LoadedExecutable,
    pub(crate) devices: Vec<u32>,
    /// Sizes of the outputs on each device, as the sizes of their shapes on the host.
    pub(crate) output_bytes: Vec<u64>,
    /// Sum of these sizes, or `u64::MAX` if one is unknown.
    pub(crate) output_space: u64,
}

/// Returns the size of an array on the host, or 0 if it is unknown.
pub(crate) fn host_bytes(shape: &Shape) -> u64 {
    shape.host_size().map_or(0, |size| size as u64)
}

/// A buffer of a client. It counts until nothing in the server uses it, also if the client has released its handle.
pub(crate) struct Counted {
    buffer: Buffer,
    charge: Charge,
}

impl Counted {
    /// Returns the size of the buffer on the host, or 0 if it is unknown.
    pub(crate) fn bytes(&self) -> u64 {
        self.charge.bytes
    }

    pub(crate) fn into_buffer(self) -> Buffer {
        self.buffer
    }
}

impl Deref for Counted {
    type Target = Buffer;

    fn deref(&self) -> &Buffer {
        &self.buffer
    }
}

/// Bytes that count as held by a client until this value is dropped.
struct Charge {
    bytes: u64,
    held: Arc<Held>,
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.held.bytes.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// What a handle names.
pub(crate) enum Object {
    Buffer(Arc<Counted>),
    Executable(Arc<Loaded>),
    /// The result of a request that failed. Requests that use it fail with the same error.
    Failed(Arc<Failure>),
}

/// The objects of one client, by the handles that the client chose.
pub(crate) struct Table {
    objects: HashMap<u64, Object>,
    max_bytes: u64,
    held: Arc<Held>,
}

impl Table {
    pub(crate) fn new(max_bytes: u64, held: Arc<Held>) -> Self {
        Self { objects: HashMap::new(), max_bytes, held }
    }

    /// Returns the object for a buffer whose size on the host is `bytes`.
    pub(crate) fn buffer_object(&self, buffer: Buffer, bytes: u64) -> Object {
        self.held.bytes.fetch_add(bytes, Ordering::Relaxed);
        let charge = Charge { bytes, held: Arc::clone(&self.held) };
        Object::Buffer(Arc::new(Counted { buffer, charge }))
    }

    /// Adds an object.
    ///
    /// # Errors
    ///
    /// The client breaks the protocol if it uses a handle twice, or has too many objects.
    pub(crate) fn insert(&mut self, handle: u64, object: Object) -> Result<(), Broken> {
        if self.objects.len() >= HANDLES {
            return Err(Broken::Protocol(format!("the client holds more than {HANDLES} objects")));
        }
        let before = self.objects.insert(handle, object);
        self.publish();
        match before {
            None => Ok(()),
            Some(_) => Err(Broken::Protocol(format!("the handle {handle} is in use"))),
        }
    }

    fn publish(&self) {
        self.held.objects.store(self.objects.len(), Ordering::Relaxed);
    }

    /// Checks that the client may hold another `bytes` bytes.
    pub(crate) fn check_space(&self, bytes: u64) -> Outcome<()> {
        let (own, limit) = (self.held.bytes.load(Ordering::Relaxed), self.max_bytes);
        if own.saturating_add(bytes) <= limit {
            return Ok(());
        }
        Err(exhausted(&format!(
            "{bytes} bytes requested, but the buffers of this client have {own} of at most {limit} bytes; free buffers, \
             or raise the limit of the server"
        )))
    }

    pub(crate) fn buffer(&self, handle: u64) -> Outcome<&Arc<Counted>> {
        match self.objects.get(&handle) {
            Some(Object::Buffer(buffer)) => Ok(buffer),
            Some(Object::Failed(failure)) => Err(Arc::clone(failure)),
            _ => Err(invalid(&format!("the handle {handle} does not name a buffer of this client"))),
        }
    }

    pub(crate) fn executable(&self, handle: u64) -> Outcome<&Arc<Loaded>> {
        match self.objects.get(&handle) {
            Some(Object::Executable(executable)) => Ok(executable),
            Some(Object::Failed(failure)) => Err(Arc::clone(failure)),
            _ => Err(invalid(&format!("the handle {handle} does not name an executable of this client"))),
        }
    }

    pub(crate) fn remove(&mut self, handle: u64) -> Option<Object> {
        let object = self.objects.remove(&handle);
        self.publish();
        object
    }
}

//! The objects of one client.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use pjrt::{Buffer, ErrorCode, LoadedExecutable};

use crate::server::limits::HANDLES;
use crate::server::sessions::Held;
use crate::shared::limits::MAX_BLOCKS;
use crate::shared::memory::Readable;
use crate::wire::frame::Broken;
use crate::wire::messages::Failure;

/// A compiled program, and the indices of the devices that run it.
pub(crate) struct Loaded {
    pub(crate) executable: LoadedExecutable,
    pub(crate) devices: Vec<u32>,
    /// Sizes of the outputs on each device, as the sizes of their shapes on the host.
    pub(crate) output_bytes: Vec<u64>,
}

/// What a handle names.
pub(crate) enum Object {
    /// A buffer, and its size on the host.
    Buffer(Arc<Buffer>, u64),
    Executable(Arc<Loaded>),
    /// A block of shared memory, in which the client passes arrays.
    Block(Arc<Readable>),
    /// The result of a request that failed. Requests that use it fail with the same error.
    Failed(Arc<Failure>),
}

/// The objects of one client, by the handles that the client chose.
pub(crate) struct Table {
    objects: HashMap<u64, Object>,
    /// Total size of the buffers on the host.
    bytes: u64,
    max_bytes: u64,
    blocks: usize,
    /// The counters for lists of clients.
    held: Arc<Held>,
}

/// Returns the failure for an invalid argument.
pub(crate) fn invalid(message: &str) -> Arc<Failure> {
    Arc::new(Failure::new(ErrorCode::INVALID_ARGUMENT.as_raw(), message, &[]))
}

impl Table {
    pub(crate) fn new(max_bytes: u64, held: Arc<Held>) -> Self {
        Self { objects: HashMap::new(), bytes: 0, max_bytes, blocks: 0, held }
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
        match &object {
            Object::Buffer(_, bytes) => self.bytes = self.bytes.saturating_add(*bytes),
            Object::Block(_) if self.blocks >= MAX_BLOCKS => {
                return Err(Broken::Protocol(format!("the client shares more than {MAX_BLOCKS} blocks of memory")));
            }
            Object::Block(_) => self.blocks += 1,
            Object::Executable(_) | Object::Failed(_) => {}
        }
        let before = self.objects.insert(handle, object);
        self.publish();
        match before {
            None => Ok(()),
            Some(_) => Err(Broken::Protocol(format!("the handle {handle} is in use"))),
        }
    }

    fn publish(&self) {
        self.held.objects.store(self.objects.len() - self.blocks.min(self.objects.len()), Ordering::Relaxed);
        self.held.bytes.store(self.bytes, Ordering::Relaxed);
    }

    /// Checks that the client may hold another `bytes` bytes.
    pub(crate) fn check_space(&self, bytes: u64) -> Result<(), Arc<Failure>> {
        if self.bytes.saturating_add(bytes) <= self.max_bytes {
            return Ok(());
        }
        let (own, limit) = (self.bytes, self.max_bytes);
        let message = format!(
            "{bytes} bytes requested, but the buffers of this client have {own} of at most {limit} bytes; free buffers, \
             or raise the limit of the server"
        );
        Err(Arc::new(Failure::new(ErrorCode::RESOURCE_EXHAUSTED.as_raw(), &message, &[])))
    }

    pub(crate) fn buffer(&self, handle: u64) -> Result<&Arc<Buffer>, Arc<Failure>> {
        match self.objects.get(&handle) {
            Some(Object::Buffer(buffer, _)) => Ok(buffer),
            Some(Object::Failed(failure)) => Err(Arc::clone(failure)),
            _ => Err(invalid(&format!("the handle {handle} does not name a buffer of this client"))),
        }
    }

    pub(crate) fn block(&self, handle: u64) -> Option<&Arc<Readable>> {
        match self.objects.get(&handle) {
            Some(Object::Block(block)) => Some(block),
            _ => None,
        }
    }

    pub(crate) fn executable(&self, handle: u64) -> Result<&Arc<Loaded>, Arc<Failure>> {
        match self.objects.get(&handle) {
            Some(Object::Executable(executable)) => Ok(executable),
            Some(Object::Failed(failure)) => Err(Arc::clone(failure)),
            _ => Err(invalid(&format!("the handle {handle} does not name an executable of this client"))),
        }
    }

    pub(crate) fn remove(&mut self, handle: u64) -> Option<Object> {
        let object = self.objects.remove(&handle);
        match &object {
            Some(Object::Buffer(_, bytes)) => self.bytes = self.bytes.saturating_sub(*bytes),
            Some(Object::Block(_)) => self.blocks -= 1,
            Some(Object::Executable(_) | Object::Failed(_)) | None => {}
        }
        self.publish();
        object
    }
}

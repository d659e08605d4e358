//! Host memory of the copies between host and device.

use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use device_plugin::{HostAlias, HostArray, HostDestination};

/// The bytes that a copy to the device reads. Dereferences to a slice of bytes and is cheap to clone. Clones refer to
/// the same bytes.
///
/// The bytes do not move or change until [`Driver::wait`](crate::Driver::wait) has returned for the copy, so a driver
/// may pass their address to the device. The runtime copies the framework's data only if the framework may change it
/// after its call.
///
/// A driver that keeps a clone must drop it before the copy has ended.
#[derive(Clone)]
pub struct HostSource(Bytes);

#[derive(Clone)]
enum Bytes {
    Copied(Arc<Vec<u8>>),
    Lent(HostAlias),
}

impl HostSource {
    pub(crate) fn new(host: HostArray<'_>) -> Self {
        Self(match host.alias() {
            Some(alias) => Bytes::Lent(alias),
            None => Bytes::Copied(Arc::new(host.into_bytes())),
        })
    }

    pub(crate) fn copied(bytes: Vec<u8>) -> Self {
        Self(Bytes::Copied(Arc::new(bytes)))
    }
}

impl Deref for HostSource {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.0 {
            Bytes::Copied(bytes) => bytes,
            Bytes::Lent(alias) => alias,
        }
    }
}

impl fmt::Debug for HostSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HostSource({} bytes)", self.len())
    }
}

/// The host memory that a copy from the device fills. Cheap to clone. Clones refer to the same memory.
///
/// The memory does not move until [`Driver::wait`](crate::Driver::wait) has returned for the copy. Most targets then
/// lose their memory, because the runtime returns it to the framework. Clones stay valid.
#[derive(Clone)]
pub struct HostTarget {
    len: usize,
    memory: Arc<Mutex<Option<Memory>>>,
}

enum Memory {
    Framework(HostDestination),
    Owned(Vec<u8>),
}

impl Memory {
    fn bytes(&mut self) -> &mut [u8] {
        match self {
            Self::Framework(destination) => destination.bytes(),
            Self::Owned(bytes) => bytes,
        }
    }
}

impl HostTarget {
    fn new(mut memory: Memory) -> Self {
        Self { len: memory.bytes().len(), memory: Arc::new(Mutex::new(Some(memory))) }
    }

    pub(crate) fn framework(destination: HostDestination) -> Self {
        Self::new(Memory::Framework(destination))
    }

    pub(crate) fn owned(bytes: Vec<u8>) -> Self {
        Self::new(Memory::Owned(bytes))
    }

    fn lock(&self) -> MutexGuard<'_, Option<Memory>> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the size of the memory in bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether the size is 0.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the address of the memory, for a driver that passes it to the device. The device may write `len` bytes
    /// until [`Driver::wait`](crate::Driver::wait) has returned for the copy. May return null after that time.
    pub fn as_mut_ptr(&self) -> *mut u8 {
        self.lock().as_mut().map_or(std::ptr::null_mut(), |memory| memory.bytes().as_mut_ptr())
    }

    /// Copies `bytes` to the memory from byte `offset` on. Omits bytes beyond the end of the memory, and all
    /// bytes if the target has lost its memory.
    pub fn write(&self, offset: usize, bytes: &[u8]) {
        if let Some(to) = self.lock().as_mut().and_then(|memory| memory.bytes().get_mut(offset..)) {
            let len = bytes.len().min(to.len());
            to[..len].copy_from_slice(&bytes[..len]);
        }
    }

    /// Returns the memory to the framework, if it belongs to the framework.
    pub(crate) fn release(&self) {
        let memory = self.lock().take_if(|memory| matches!(memory, Memory::Framework(_)));
        // Drop the memory without holding the lock, because this notifies the framework.
        drop(memory);
    }

    /// Takes the bytes of a target from [`HostTarget::owned`]. Returns `None` for other targets.
    pub(crate) fn take_bytes(&self) -> Option<Vec<u8>> {
        match self.lock().take()? {
            Memory::Owned(bytes) => Some(bytes),
            Memory::Framework(_) => None,
        }
    }
}

impl fmt::Debug for HostTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HostTarget({} bytes)", self.len)
    }
}

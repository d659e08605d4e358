//! The contents of a `PJRT_Buffer` of the CPU device: a tensor, or a promise of one.

use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use device_plugin::{Error, Event, HostAlias, Result};

use stablehlo_cpu::Tensor;

/// A buffer of the device. It contains a tensor, or receives a tensor when its execution ends. Clones share the
/// elements.
#[derive(Clone)]
pub struct CpuBuffer(Repr);

#[derive(Clone)]
enum Repr {
    Now(Tensor),
    Later(Arc<Promise>),
}

/// A tensor that is still being computed.
pub(crate) struct Promise {
    /// Becomes ready when the tensor exists, or when the execution has failed.
    ready: Event,
    tensor: OnceLock<Tensor>,
    /// Whether the tensor has dynamic dimensions.
    is_dynamic: bool,
}

impl Promise {
    /// Creates a promise that is fulfilled or fails before the event `ready` becomes ready. `is_dynamic` is whether the
    /// tensor has dynamic dimensions.
    pub(crate) fn new(ready: Event, is_dynamic: bool) -> Arc<Self> {
        Arc::new(Self { ready, tensor: OnceLock::new(), is_dynamic })
    }

    /// Fulfills the promise.
    pub(crate) fn keep(&self, tensor: Tensor) {
        // The promise has only one producer, so this method is called only once.
        let _ = self.tensor.set(tensor);
    }
}

impl From<Tensor> for CpuBuffer {
    #[inline]
    fn from(tensor: Tensor) -> Self {
        Self(Repr::Now(tensor))
    }
}

impl From<Arc<Promise>> for CpuBuffer {
    fn from(promise: Arc<Promise>) -> Self {
        Self(Repr::Later(promise))
    }
}

impl CpuBuffer {
    /// Returns the event that becomes ready with the tensor, or `None` if the tensor exists or its execution has
    /// failed.
    #[inline]
    pub(crate) fn pending(&self) -> Option<&Event> {
        match &self.0 {
            Repr::Now(_) => None,
            Repr::Later(promise) => (!promise.ready.is_ready()).then_some(&promise.ready),
        }
    }

    /// Returns whether the tensor has dynamic dimensions. Does not wait for the tensor.
    #[inline]
    pub(crate) fn is_dynamic(&self) -> bool {
        match &self.0 {
            Repr::Now(tensor) => tensor.is_dynamic(),
            Repr::Later(promise) => promise.is_dynamic,
        }
    }

    /// Waits for the tensor and returns it.
    pub(crate) fn tensor(&self) -> Result<&Tensor> {
        match &self.0 {
            Repr::Now(tensor) => Ok(tensor),
            Repr::Later(promise) => {
                promise.ready.wait()?;
                promise.tensor.get().ok_or_else(broken)
            }
        }
    }

    /// Waits for the tensor and returns it, as its only owner if the buffer has no clones.
    #[inline]
    pub(crate) fn into_tensor(self) -> Result<Tensor> {
        match self.0 {
            Repr::Now(tensor) => Ok(tensor),
            Repr::Later(promise) => {
                promise.ready.wait()?;
                match Arc::try_unwrap(promise) {
                    Ok(promise) => promise.tensor.into_inner(),
                    Err(shared) => shared.tensor.get().cloned(),
                }
                .ok_or_else(broken)
            }
        }
    }
}

fn broken() -> Error {
    Error::internal("an execution ended well without one of its outputs")
}

impl fmt::Debug for CpuBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Repr::Now(tensor) => tensor.fmt(f),
            Repr::Later(promise) => f.debug_tuple("Later").field(&promise.tensor.get()).finish(),
        }
    }
}

/// Wraps memory that the framework lends, so that the engine can read its bytes through [`AsRef`].
pub(crate) struct Lent<T>(pub(crate) T);

impl AsRef<[u8]> for Lent<HostAlias> {
    fn as_ref(&self) -> &[u8] {
        self.0.deref()
    }
}

impl AsRef<[u8]> for Lent<device_plugin::ForeignMemory> {
    fn as_ref(&self) -> &[u8] {
        self.0.bytes().unwrap_or_default()
    }
}

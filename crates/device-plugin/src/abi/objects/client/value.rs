//! The values of buffers.

use std::sync::{Arc, OnceLock};

use crate::{Error, Result};

/// The value of a buffer: the backend's own buffer, if it exists.
pub(crate) enum Value<V> {
    Now(V),
    /// A cell that is filled before the buffer's event becomes ready. It stays empty if the buffer fails.
    Later(Arc<OnceLock<V>>),
    Gone,
}

impl<V: Clone> Value<V> {
    /// Returns the backend's buffer, or `None` if it was taken or does not exist yet.
    #[inline]
    pub(crate) fn get(&self) -> Option<&V> {
        match self {
            Self::Now(value) => Some(value),
            Self::Later(value) => value.get(),
            Self::Gone => None,
        }
    }

    /// Returns the address of the cell of [`Value::Later`].
    pub(super) fn address(&self) -> Option<usize> {
        match self {
            Self::Later(value) => Some(Arc::as_ptr(value).addr()),
            Self::Now(_) | Self::Gone => None,
        }
    }

    /// Returns the backend's buffer of a buffer that is ready. An error means that the SDK or the backend broke an
    /// invariant.
    pub(crate) fn available(&self) -> Result<&V> {
        self.get().ok_or_else(|| Error::internal("the backend reported the buffer ready without giving it a value"))
    }

    /// Returns the backend's buffer by value. Clones it if other users share the cell of [`Value::Later`].
    pub(super) fn into_buffer(self) -> Option<V> {
        match self {
            Self::Now(value) => Some(value),
            Self::Later(value) => match Arc::try_unwrap(value) {
                Ok(value) => value.into_inner(),
                Err(shared) => shared.get().cloned(),
            },
            Self::Gone => None,
        }
    }
}

impl<V: Clone> Clone for Value<V> {
    fn clone(&self) -> Self {
        match self {
            Self::Now(value) => Self::Now(value.clone()),
            Self::Later(value) => Self::Later(Arc::clone(value)),
            Self::Gone => Self::Gone,
        }
    }
}

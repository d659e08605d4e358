//! Host data to be copied to a device.

use std::borrow::Cow;

use crate::abi::lend::host_alias::{AliasSource, HostAlias};
use crate::{Error, Result, Shape};

/// An array on the host: dense, row-major, sub-byte types in one byte per element.
///
/// It usually borrows the framework's memory. The framework's `pjrt::HostArray` owns its data.
#[derive(Debug)]
pub struct HostArray<'a> {
    shape: &'a Shape,
    bytes: Cow<'a, [u8]>,
    /// Present if the data is dense and the framework lets the device keep using its memory.
    alias: Option<&'a AliasSource>,
}

impl<'a> HostArray<'a> {
    /// Host data of this shape.
    ///
    /// # Errors
    ///
    /// `INVALID_ARGUMENT` if the size of `bytes` does not match the shape.
    pub fn new(shape: &'a Shape, bytes: impl Into<Cow<'a, [u8]>>) -> Result<Self> {
        let bytes = bytes.into();
        if shape.host_size() != Some(bytes.len()) {
            return Err(Error::invalid_argument(format!(
                "the host data has {} bytes, which is not the size of {shape}",
                bytes.len()
            )));
        }
        Ok(Self { shape, bytes, alias: None })
    }

    pub(crate) fn with_alias(mut self, alias: &'a AliasSource) -> Self {
        self.alias = Some(alias);
        self
    }

    /// Element type and extents.
    pub fn shape(&self) -> &'a Shape {
        self.shape
    }

    /// The data.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns the data as a vector. Copies it, unless the SDK has already done so.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes.into_owned()
    }

    /// Whether the SDK has copied the data, so that [`HostArray::into_bytes`] costs nothing.
    pub fn is_owned(&self) -> bool {
        matches!(self.bytes, Cow::Owned(_))
    }

    /// The framework's own memory, if the framework guarantees not to modify it as long as the buffer exists. A backend
    /// whose device reads host memory keeps the alias in its buffer instead of a copy. When the last clone of the alias
    /// is dropped, the SDK notifies the framework. Returns `None` if the data must be copied.
    pub fn alias(&self) -> Option<HostAlias> {
        self.alias.map(AliasSource::alias)
    }
}

/// Allocates `size` zero bytes. Frameworks choose sizes, so running out of memory is an error and does not end the
/// process.
pub(crate) fn zeroed(size: usize) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    bytes
        .try_reserve_exact(size)
        .map_err(|_| Error::resource_exhausted(format!("the system cannot allocate {size} bytes of host memory")))?;
    bytes.resize(size, 0);
    Ok(bytes)
}

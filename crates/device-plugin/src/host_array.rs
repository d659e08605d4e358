//! Host data to be copied to a device.

use std::borrow::Cow;

use crate::abi::lend::host_alias::{AliasSource, HostAlias};
use crate::{Error, Result, Shape};

/// A dense, row-major array on the host. Elements narrower than a byte occupy one byte each.
///
/// The array usually borrows the framework's memory. The framework's own type for host data is `pjrt::HostArray`.
#[derive(Debug)]
pub struct HostArray<'a> {
    shape: &'a Shape,
    bytes: Cow<'a, [u8]>,
    /// Set if the data is dense and the framework allows the device to keep using this memory after the call.
    alias: Option<&'a AliasSource>,
}

impl<'a> HostArray<'a> {
    /// Creates host data of this shape.
    ///
    /// # Errors
    ///
    /// Returns `INVALID_ARGUMENT` if the size of `bytes` does not match the shape.
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

    /// Returns the element type and the extents.
    pub fn shape(&self) -> &'a Shape {
        self.shape
    }

    /// Returns the data.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns the data as a vector. Copies the data unless [`HostArray::is_owned`] returns `true`.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes.into_owned()
    }

    /// Whether this array owns a copy of the data, so that [`HostArray::into_bytes`] need not copy it again.
    pub fn is_owned(&self) -> bool {
        matches!(self.bytes, Cow::Owned(_))
    }

    /// Returns a reference to the framework's memory if the framework guarantees not to modify it while the buffer
    /// exists. Returns `None` if the data must be copied. A backend whose device can read host memory stores the alias
    /// in its buffer instead of a copy. When the last clone of the alias is dropped, the SDK notifies the framework.
    pub fn alias(&self) -> Option<HostAlias> {
        self.alias.map(AliasSource::alias)
    }
}

/// Allocates `size` zero bytes. Frameworks choose the size, so a failed allocation returns an error instead of aborting
/// the process.
pub(crate) fn zeroed(size: usize) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    bytes
        .try_reserve_exact(size)
        .map_err(|_| Error::resource_exhausted(format!("the system cannot allocate {size} bytes of host memory")))?;
    bytes.resize(size, 0);
    Ok(bytes)
}

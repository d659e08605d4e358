//! Host data on its way to a device.

use std::borrow::Cow;

use crate::abi::lend::host_alias::{AliasSource, HostAlias};
use crate::{Error, Result, Shape};

/// An array on the host: dense, row-major, sub-byte types in one byte per element.
#[derive(Debug)]
pub struct HostArray<'a> {
    shape: &'a Shape,
    bytes: Cow<'a, [u8]>,
    /// Present where the framework lets the device keep using its memory and the data is dense there.
    alias: Option<&'a AliasSource>,
}

impl<'a> HostArray<'a> {
    /// Host data of that shape.
    ///
    /// # Errors
    ///
    /// `INVALID_ARGUMENT` when the bytes are not exactly those of the shape.
    pub fn new(shape: &'a Shape, bytes: impl Into<Cow<'a, [u8]>>) -> Result<Self> {
        let bytes = bytes.into();
        if shape.host_size() != Some(bytes.len()) {
            return Err(Error::invalid_argument(format!("{} bytes of host data do not make {shape}", bytes.len())));
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

    /// The data to keep; copied, unless the SDK had to copy already.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes.into_owned()
    }

    /// Whether the SDK had to copy the data, so that [`HostArray::into_bytes`] costs nothing.
    pub fn is_owned(&self) -> bool {
        matches!(self.bytes, Cow::Owned(_))
    }

    /// The framework's own memory, where it promised to leave it alone as long as the buffer lives: a backend whose
    /// device reads host memory keeps the alias in its buffer instead of a copy. The framework learns that its memory
    /// is free again when the last clone of the alias is dropped. None where the data must be copied.
    pub fn alias(&self) -> Option<HostAlias> {
        self.alias.map(AliasSource::alias)
    }
}

/// That many zero bytes. Frameworks choose sizes, and running out of memory is their error, not the process's end.
pub(crate) fn zeroed(size: usize) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(size).map_err(|_| Error::resource_exhausted(format!("{size} bytes of host memory")))?;
    bytes.resize(size, 0);
    Ok(bytes)
}

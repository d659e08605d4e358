//! The destinations of transfers.

use std::sync::Arc;

use crate::error::Error;
use crate::objects::device::Device;
use crate::objects::memory::Memory;
use crate::objects::owners::ClientInner;

/// The destination of a transfer: a device or a memory of the client. A plugin written with the crate `device-plugin`
/// receives it as `device_plugin::Placement`, which identifies devices and memories by index.
///
/// ```
/// # use pjrt::{ClientOptions, Placement, Upload};
/// # let client = plugin_registry::open("cpu")?.client(&ClientOptions::new())?;
/// let device = client.default_device()?;
/// let x = client.upload(Upload::of(&[1.0f32]).to(Placement::Device(&device)))?;
/// let y = client.upload(Upload::of(&[1.0f32]).to(&device.default_memory()?))?; // by `From`
/// assert_eq!(x.memory()?, y.memory()?);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub enum Placement<'a> {
    /// The default memory of the client's first addressable device.
    #[default]
    Default,
    /// The default memory of a device.
    Device(&'a Device),
    /// A memory of the client.
    Memory(&'a Memory),
}

impl Placement<'_> {
    /// Returns an error if the device or memory belongs to another client.
    pub(crate) fn check(self, client: &Arc<ClientInner>) -> Result<(), Error> {
        let owner = match self {
            Self::Default => client,
            Self::Device(device) => device.handle().owner(),
            Self::Memory(memory) => memory.handle().owner(),
        };
        if Arc::ptr_eq(owner, client) {
            return Ok(());
        }
        Err(Error::invalid("the device or memory belongs to another client"))
    }
}

impl<'a> From<&'a Device> for Placement<'a> {
    fn from(device: &'a Device) -> Self {
        Self::Device(device)
    }
}

impl<'a> From<&'a Memory> for Placement<'a> {
    fn from(memory: &'a Memory) -> Self {
        Self::Memory(memory)
    }
}

//! `PJRT_MemoryDescriptions_Extension`: describes the memories of devices. The devices may be absent.

use pjrt_sys::extension_slot as function;
use pjrt_sys::*;

use super::functions::Functions;
use super::plugin_extension::{PluginExtension, sealed};
use crate::error::Error;
use crate::objects::device::DeviceDescription;
use crate::objects::owners::Plugin;
use crate::table::read;

/// Functions that describe the memories of a device, given the device's description, for ahead-of-time compilation.
///
/// ```
/// # use pjrt::ClientOptions;
/// # use pjrt::extensions::MemoryDescriptions;
/// # let client = plugin_registry::open("cpu")?.client(&ClientOptions::new())?;
/// let plugin = client.plugin();
/// let memories = plugin.extension::<MemoryDescriptions>().ok_or("the plugin describes no memories")?;
/// let device = client.default_device()?.description()?;
/// assert!(memories.memories(&device)?.iter().any(|memory| memory.is_default));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
#[doc(alias = "PJRT_MemoryDescriptions_Extension")]
pub struct MemoryDescriptions(Functions<PJRT_MemoryDescriptions_Extension>);

impl sealed::Sealed for MemoryDescriptions {}

impl PluginExtension for MemoryDescriptions {
    fn of(plugin: &Plugin) -> Option<Self> {
        Functions::of(plugin).map(Self)
    }
}

/// A memory kind of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct MemoryDescription {
    /// The platform's name of the kind, such as `device` or `pinned_host`.
    pub kind: String,
    /// The platform's id of the kind.
    pub kind_id: i32,
    /// Whether this memory is the default memory of the device.
    pub is_default: bool,
}

impl MemoryDescriptions {
    /// Returns the memories of a device, in no particular order.
    ///
    /// # Errors
    ///
    /// Returns an error if the description belongs to another plugin.
    #[doc(alias = "PJRT_DeviceDescription_MemoryDescriptions")]
    pub fn memories(&self, device: &DeviceDescription) -> Result<Vec<MemoryDescription>, Error> {
        type Function = function::PJRT_DeviceDescription_MemoryDescriptions;
        let malformed = |broken| Error::malformed(Function::NAME, broken);
        self.0.check(device.handle().api())?;
        let mut args = PJRT_DeviceDescription_MemoryDescriptions_Args::new();
        args.device_description = device.handle().as_ptr();
        // SAFETY: C2 (calls): the description is live and belongs to this plugin.
        unsafe { self.0.call::<Function>(&mut args) }?;
        // SAFETY: C3 (objects): the array lives as long as the description.
        let all = unsafe { read::slice(args.memory_descriptions, args.num_memory_descriptions) }.map_err(malformed)?;
        let one = |(index, raw): (usize, &*const PJRT_MemoryDescription)| {
            let raw = read::object(raw.cast_mut()).map_err(malformed)?;
            // SAFETY: C3 (objects): the memory description lives as long as the device description.
            let (kind, kind_id) = unsafe { self.kind(raw.as_ptr()) }?;
            // If there is no default memory, `default_memory_index` is the maximum of `usize`, which is not the index
            // of any memory.
            Ok(MemoryDescription { kind, kind_id, is_default: index == args.default_memory_index })
        };
        all.iter().enumerate().map(one).collect()
    }

    /// # Safety
    ///
    /// `raw` is a live memory description of this plugin.
    #[doc(alias = "PJRT_MemoryDescription_Kind")]
    unsafe fn kind(&self, raw: *const PJRT_MemoryDescription) -> Result<(String, i32), Error> {
        type Function = function::PJRT_MemoryDescription_Kind;
        let mut args = PJRT_MemoryDescription_Kind_Args::new();
        args.memory_description = raw;
        // SAFETY: C2 (calls): the description is live.
        unsafe { self.0.call::<Function>(&mut args) }?;
        // SAFETY: C3 (objects): the name lives as long as the description.
        let kind = unsafe { read::text(args.kind, args.kind_size) };
        let kind = kind.map_err(|broken| Error::malformed(Function::NAME, broken))?.into_owned();
        Ok((kind, args.kind_id))
    }
}

//! Optional groups of functions, one file each: `plugin.extension::<Layouts>()`.

mod layouts;

use pjrt_sys::Extension;

pub use layouts::Layouts;

use crate::handle::Foreign;
use crate::plugin::Plugin;

mod sealed {
    pub trait Sealed {}
}

/// An optional group of functions; see [`Plugin::extension`].
pub trait PluginExtension: Sized + sealed::Sealed {
    /// The plugin's group; none where it does not offer it.
    fn of(plugin: &Plugin) -> Option<Self>;
}

/// A copy of the plugin's extension of that type.
fn find<E: Extension>(plugin: &Plugin) -> Option<Foreign<E>> {
    plugin.extension_nodes().iter().find_map(|node| node.copy::<E>())
}

/// Names of the extension types of `PJRT_Extension_Type`, by number.
const NAMES: [&str; 25] = [
    "Gpu_Custom_Call",
    "Profiler",
    "Custom_Partitioner",
    "Stream",
    "Layouts",
    "FFI",
    "MemoryDescriptions",
    "Triton",
    "RawBuffer",
    "PhaseCompile",
    "Example",
    "Unknown",
    "CrossHostTransfers",
    "ExecutableMetadata",
    "Callback",
    "HostAllocator",
    "TpuTopology",
    "TpuExecutable",
    "Megascale",
    "Shardings",
    "AbiVersion",
    "Collectives",
    "MultiSlice",
    "HostMemoryAllocator",
    "XlaTransform",
];

/// Name of an extension type; none for a number newer than this crate.
pub fn name(ty: u32) -> Option<&'static str> {
    NAMES.get(usize::try_from(ty).ok()?).copied()
}

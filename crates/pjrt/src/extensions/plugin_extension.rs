//! The trait by which a plugin returns its extensions, and their names.

use crate::plugin::Plugin;

pub(super) mod sealed {
    pub trait Sealed {}
}

/// An optional group of functions; see [`Plugin::extension`].
pub trait PluginExtension: Sized + sealed::Sealed {
    /// Returns the plugin's extension of this type, if it has one.
    fn of(plugin: &Plugin) -> Option<Self>;
}

impl Plugin {
    /// Types of the plugin's extensions, in the order of its chain: the number, and the name if it is known.
    #[doc(alias = "PJRT_Extension_Base")]
    pub fn extensions(&self) -> Vec<(u32, Option<&'static str>)> {
        self.extension_nodes().iter().map(|node| (node.ty, name(node.ty))).collect()
    }

    /// Returns an extension of the plugin, if it has one of this type.
    pub fn extension<E: PluginExtension>(&self) -> Option<E> {
        E::of(self)
    }
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

/// Name of an extension type. `None` if the number is newer than this crate.
pub fn name(ty: u32) -> Option<&'static str> {
    NAMES.get(usize::try_from(ty).ok()?).copied()
}

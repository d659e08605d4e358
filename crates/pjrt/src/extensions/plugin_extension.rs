//! The trait by which a plugin returns its extensions, and their names.

use crate::api::ExtensionNode;
use crate::plugin::Plugin;

pub(super) mod sealed {
    pub trait Sealed {}
}

/// Implements [`PluginExtension`] for a newtype around the functions of a table.
macro_rules! plugin_extension {
    ($name:ident($table:ident)) => {
        impl $crate::extensions::plugin_extension::sealed::Sealed for $name {}

        impl $crate::extensions::plugin_extension::PluginExtension for $name {
            fn of(plugin: &$crate::Plugin) -> Option<Self> {
                $crate::extensions::functions::Functions::of(plugin).map(Self)
            }
        }

        impl $crate::handle::Owner for $name {
            fn api(&self) -> &$crate::api::Api {
                self.0.plugin.api()
            }
        }
    };
}
pub(super) use plugin_extension;

/// An optional group of functions; see [`Plugin::extension`].
pub trait PluginExtension: Sized + sealed::Sealed {
    /// Returns the plugin's extension of this type, if it has one.
    fn of(plugin: &Plugin) -> Option<Self>;
}

/// An extension of a plugin, which may be one that this crate does not know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ExtensionInfo {
    /// The number in `PJRT_Extension_Type`.
    pub number: u32,
    /// The name. `None` if the number is newer than this crate.
    pub name: Option<&'static str>,
    /// The size of the plugin's struct, in bytes. It grows with each version of the extension.
    pub struct_size: usize,
}

impl Plugin {
    /// The plugin's extensions, in the order of its chain, unknown ones included.
    #[doc(alias = "PJRT_Extension_Base")]
    pub fn extensions(&self) -> Vec<ExtensionInfo> {
        let info = |node: &ExtensionNode| ExtensionInfo {
            number: node.ty,
            name: name(node.ty),
            struct_size: node.struct_size,
        };
        self.extension_nodes().iter().map(info).collect()
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

//! The trait of extensions, and the names of extension types.

use crate::objects::owners::Plugin;
use crate::table::api::ExtensionNode;

pub(super) mod sealed {
    pub trait Sealed {}
}

/// Implements [`PluginExtension`] and `Owner` for a newtype around the `Functions` of an extension.
macro_rules! plugin_extension {
    ($name:ident($table:ident)) => {
        impl $crate::extensions::plugin_extension::sealed::Sealed for $name {}

        impl $crate::extensions::plugin_extension::PluginExtension for $name {
            fn of(plugin: &$crate::Plugin) -> Option<Self> {
                $crate::extensions::functions::Functions::of(plugin).map(Self)
            }
        }

        impl $crate::table::handle::Owner for $name {
            fn api(&self) -> &$crate::table::api::Api {
                self.0.plugin.api()
            }
        }
    };
}
pub(super) use plugin_extension;

/// An optional group of functions. See [`Plugin::extension`].
pub trait PluginExtension: Sized + sealed::Sealed {
    /// Returns the plugin's extension of this type, if the plugin has it.
    fn of(plugin: &Plugin) -> Option<Self>;
}

/// Properties of a plugin's extension. The type of the extension may be unknown to this crate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ExtensionInfo {
    /// The type of the extension, as the value of its `PJRT_Extension_Type`.
    pub number: u32,
    /// The name of the extension type. `None` if the type is newer than this crate.
    pub name: Option<&'static str>,
    /// The size of the plugin's struct, in bytes. Newer versions of an extension have larger structs.
    pub struct_size: usize,
}

impl Plugin {
    /// Returns the plugin's extensions, including unknown extensions, in the order of the plugin's extension chain.
    #[doc(alias = "PJRT_Extension_Base")]
    pub fn extensions(&self) -> Vec<ExtensionInfo> {
        let info = |node: &ExtensionNode| ExtensionInfo {
            number: node.ty,
            name: name(node.ty),
            struct_size: node.struct_size,
        };
        self.extension_nodes().iter().map(info).collect()
    }

    /// Returns the plugin's extension of type `E`, if the plugin has it.
    pub fn extension<E: PluginExtension>(&self) -> Option<E> {
        E::of(self)
    }
}

/// Names of the extension types. The index of a name is the value of its `PJRT_Extension_Type`.
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

/// Returns the name of an extension type, given the value of its `PJRT_Extension_Type`. Returns `None` if the type is
/// newer than this crate.
pub fn name(ty: u32) -> Option<&'static str> {
    NAMES.get(usize::try_from(ty).ok()?).copied()
}

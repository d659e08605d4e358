//! Write a PJRT plugin in safe Rust.
//!
//! PJRT is the C interface through which JAX, PyTorch/XLA and other frameworks drive devices. It is a table of function
//! pointers, which a shared library returns from `GetPjrtApi`. This crate, called the SDK in its documentation, fills
//! the table from two small traits. [`DevicePlugin`] describes the plugin. [`Backend`] drives the devices, and
//! transfers data, compiles programs and executes them. Other functions of PJRT are optional features, most of which
//! have their own trait in [`features`]. The SDK handles events, errors, strings that outlive a call, strided host
//! data, donation, deletion, reference counts, layouts, memory kinds and serialization. A panic in a backend becomes an
//! error of the call in which it happened.
//!
//! A plugin that frameworks load is a crate of type `cdylib` with `#[device_plugin(export)]`. The attribute defines
//! `GetPjrtApi`. It also defines `DevicePlugin_GetDescriptor`, which returns a description of the plugin with
//! properties that PJRT does not cover. Without `export`, a Rust program that links the crate uses the plugin through
//! its `api()` function, and [`registered`] lists the plugin. See `examples/echo_plugin.rs` for a first plugin,
//! `examples/wrapper_plugin.rs` for a description of an existing library, and `examples/static_plugins.rs` for two
//! plugins in one C program. The following plugin has no `export`, so it is meant to be linked into a Rust program:
//!
//! ```
//! use std::sync::Arc;
//!
//! use device_plugin::{
//!     Backend, Compiled, CompileOptions, ClientOptions, DeviceInfo, DevicePlugin, Event, ExecutableInfo, HostArray,
//!     Launch, Placement, Program, Result, device_plugin,
//! };
//!
//! /// A device whose programs take and return nothing.
//! pub struct Echo;
//!
//! #[device_plugin]
//! impl DevicePlugin for Echo {
//!     const NAME: &'static str = "echo";
//!     type Backend = EchoDevice;
//! }
//!
//! pub struct EchoDevice;
//!
//! impl Backend for EchoDevice {
//!     type Buffer = Arc<Vec<u8>>;
//!     type Executable = ();
//!
//!     fn create(_: &ClientOptions) -> Result<Self> {
//!         Ok(Self)
//!     }
//!     fn devices(&self) -> Vec<DeviceInfo> {
//!         vec![DeviceInfo::new(0, "echo")]
//!     }
//!     fn buffer_from_host(&self, host: HostArray<'_>, _: Placement) -> Result<Self::Buffer> {
//!         Ok(Arc::new(host.into_bytes()))
//!     }
//!     fn read(&self, buffer: &Self::Buffer, to: &mut [u8]) -> Result<()> {
//!         to.copy_from_slice(buffer);
//!         Ok(())
//!     }
//!     fn compile(&self, _: &Program, _: &CompileOptions) -> Result<Compiled<()>> {
//!         Ok(Compiled::new((), ExecutableInfo::new("echo", [], [])))
//!     }
//!     fn execute(&self, _: &Arc<()>, launch: &mut Launch<'_, Self>) -> Result<Event> {
//!         for i in 0..launch.inputs.len() {
//!             launch.outputs.push(launch.inputs[i].clone())?;
//!         }
//!         Ok(Event::ready())
//!     }
//! }
//!
//! let api = device_plugin::raw::api::<Echo>();
//! assert_eq!(api.pjrt_api_version.minor_version, 117);
//! ```

#![deny(unsafe_code)]

// The expansion of `#[device_plugin]` refers to this crate as `device_plugin`. This alias makes the name valid inside
// the crate, too.
extern crate self as device_plugin;

#[allow(unsafe_code, reason = "the functions of the C table")]
mod abi;
mod array_layout;
mod backend;
mod client_options;
mod compile_options;
mod default_layout;
mod descriptor;
mod event;
mod execute_options;
pub mod features;
pub mod ffi;
mod hlo;
mod info;
mod no_backend;
mod per_type;
mod plugin;
pub mod profiler;
mod program;
mod rendezvous;
mod serialized_format;
#[cfg(feature = "stablehlo")]
pub mod stablehlo;
mod strided;
mod threads;

pub use abi::lend::foreign_memory::ForeignMemory;
pub use abi::lend::host_array::{HostAlias, HostArray};
pub use abi::lend::host_channel::{CopyToDeviceStream, HostChannels, HostChunk};
pub use abi::lend::host_destination::HostDestination;
pub use abi::lend::key_value_store::KeyValueStore;
pub use abi::lend::output_callbacks::OutputCallbacks;
pub use abi::objects::client::home_process::HomeProcess;
pub use backend::{Backend, Inputs, Launch, Outputs};
pub use bytes::Bytes;
pub use client_options::ClientOptions;
pub use compile_options::{CompileOptionSchema, CompileOptionType};
pub use descriptor::descriptor;
pub use event::{Completer, Event};
pub use execute_options::ExecuteOptions;
pub use info::{DeviceInfo, MemoryInfo, Placement, ProcessInfo, ProcessState, TaskIncarnation, TopologyInfo};
pub use no_backend::NoBackend;
pub use pjrt_sys::StaticApi;
pub use pjrt_types::{
    ApiVersion, CompileOptions, CompiledMemoryStats, DeviceAssignment, Element, ElementType, ErrorCode,
    HostBufferSemantics, Layout, MemoryStats, NamedValue, OptionOverride, Shape, UnknownFields, Value,
};
pub use plugin::DevicePlugin;
pub use plugin_macros::device_plugin;
pub use plugin_manifest::{
    Autocast, Capabilities, Depth, Descriptor, EnvPlan, Environment, Error, Fault, Faults, Hooks, Library, Manifest,
    OptionSchema, OptionSpec, OptionType, Ownership, ProcessPlan, ProcessTopology, Program, Registered, Result,
    StablehloVersions, Support, SupportTable, builtin, c_view, capabilities, header, manifest, process, registered,
    support, value_from_json, value_to_json, variants,
};
use plugin_manifest::{artifact, contain};
pub use program::{Compiled, ExecutableInfo};
pub use rendezvous::{Rendezvous, RendezvousStore};

/// Defines the C functions `GetPjrtApi` and `DevicePlugin_GetDescriptor` of a shared library for a plugin that another
/// crate implements. For a plugin in the same crate, use `#[device_plugin(export)]`.
///
/// ```ignore
/// device_plugin::export!(pjrt_cpu::Cpu);
/// // A plugin without a backend has no table to return.
/// device_plugin::export!(example::Wrapper, descriptor_only);
/// // `acme_GetPjrtApi` and `acme_DevicePlugin_GetDescriptor`, for a static library with several plugins.
/// device_plugin::export!(example::Acme, prefix = "acme");
/// ```
#[macro_export]
macro_rules! export {
    ($($arguments:tt)*) => {
        $crate::__private::export! { $crate; $($arguments)* }
    };
}

/// The C function table of a plugin, for tests that call it as a framework does.
///
/// This module follows the PJRT header, so it may change with any minor version of this crate.
pub mod raw {
    pub use crate::abi::{API_MINOR, api};
}

/// Items for the expansions of [`macro@device_plugin`] and [`export!`], and for the crate `device-runtime`. Not part of
/// the public API.
#[doc(hidden)]
pub mod __private {
    pub use pjrt_sys::PJRT_Api;
    pub use plugin_macros::export;
    pub use plugin_manifest::contain::contain;
    pub use plugin_manifest::inventory;

    pub use crate::abi::lend::host_array::zeroed;
    use crate::abi::table::shared_api::SharedApi;
    pub use crate::c_view::descriptor::dp_descriptor;
    pub use crate::descriptor::descriptor;
    pub use crate::event::on_driver_thread;
    pub use crate::features::calls::signature_memory_stats;
    pub use crate::features::calls::through_host::host_size;
    pub use crate::features::{Implemented, NotImplemented, Probe, check};
    use crate::{Backend, DevicePlugin, Registered, StaticApi};

    /// Returns the C function table of a plugin. Each call returns the same table.
    pub fn api<P: DevicePlugin>() -> StaticApi {
        P::shared_api()
    }

    /// Returns the entry of a plugin for the list of plugins that are linked into a program.
    pub const fn registered<P: DevicePlugin>() -> Registered {
        crate::descriptor::registered::<P>()
    }

    /// Returns the description of a plugin for C.
    pub fn c_descriptor<P: DevicePlugin>() -> *const dp_descriptor {
        crate::descriptor::c_descriptor::<P>()
    }

    /// Fails to compile if the name or an alias of the plugin is invalid, or if `#[device_plugin]` is on an `impl` of
    /// another trait.
    pub const fn assert_names<P: DevicePlugin>() {
        assert!(
            crate::manifest::is_name(P::NAME),
            "NAME of a plugin must be a lower-case letter, then lower-case letters, digits and underscores"
        );
        let mut index = 0;
        while index < P::ALIASES.len() {
            assert!(
                crate::manifest::is_name(P::ALIASES[index]),
                "each of a plugin's ALIASES must be a lower-case letter, then lower-case letters, digits and \
                 underscores"
            );
            index += 1;
        }
    }

    /// Fails to compile if the plugin has no backend, and therefore no function table to export.
    pub const fn assert_backend<P: DevicePlugin>() {
        assert!(
            <P::Backend as Backend>::FEATURES.present,
            "the plugin has no backend, so GetPjrtApi has no table to return; write \
             `device_plugin::export!(path::Plugin, descriptor_only)`, and in its own crate `type Backend = NoBackend;` \
             or nothing"
        );
    }
}

/// Tests the examples in two chapters of the book.
#[cfg(doctest)]
#[doc = include_str!("../../../book/src/package.md")]
#[doc = include_str!("../../../book/src/port-a-cpp-plugin.md")]
struct Book;

/// Tests the examples of the package's README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct PackageReadme;

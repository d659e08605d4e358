//! Layers between a framework and a PJRT plugin.
//!
//! A framework calls a plugin through a table of functions. Instead of the plugin, a framework can load a library that
//! contains layers. The layers then observe, change or answer the calls. Neither the framework nor the plugin has to
//! change. [`export!`] exports the entry point of such a library. The library loads the plugin at the path in
//! `PJRT_LAYERS_PLUGIN`, and returns a copy of the plugin's table to the framework. In this copy, forwarders replace
//! the functions that a [`Layer`] selects. A forwarder passes the call to the layers and then to the plugin. For almost
//! all other functions, the copy contains the plugin's pointers.
//!
//! The layers never wrap handles, because extensions and other libraries pass raw handles. A layer that stores data
//! about an object keeps the data in a map of its own, with the handle as the key.
//!
//! The unsafe code is in the private module `core` and in generated code. Layers are safe code. They read copies of a
//! call's arguments through [`Call`].

mod beside;
pub mod compat;
mod core;
pub mod fault;
mod function;
#[allow(
    unused_qualifications,
    clippy::all,
    clippy::undocumented_unsafe_blocks,
    reason = "generated; the SAFETY comment is in the generator"
)]
#[rustfmt::skip]
mod generated;
mod groups;
mod layer;
mod layer_error;
mod output;
pub mod overrides;
pub mod record;
mod settings;
pub mod trace;
pub mod validate;
pub mod variables;

pub use beside::SETTINGS_FILE;
pub use core::{Answer, Call, CompiledProgram, Execution, Instance, Plugin, Stack, TablePlan};
pub use function::{Field, ForwardedFunction, Function, Kind, Layout};
pub use layer::{Layer, Outcome, Step};
pub use layer_error::LayerError;

#[doc(hidden)]
pub use pjrt_sys::PJRT_Api;

/// Returns the function table of the stack of layers `I`. The first call creates the stack from the [`SETTINGS_FILE`]
/// beside the library, or from the [environment variables](variables) if this file does not exist.
///
/// `own` creates additional layers. The settings can select them by name, like the layers of this crate. If the
/// settings are invalid or the plugin cannot be loaded, every function of the table returns an error with the reason.
pub fn api<I: Instance>(own: impl FnOnce() -> Vec<Box<dyn Layer>>) -> *const PJRT_Api {
    if let Some(stack) = I::cell().get() {
        return stack.table();
    }
    let (plugin, layers) = settings::start(own());
    Stack::start::<I>(plugin, layers).as_raw()
}

/// Activates the layer with the name `layer` in the stack `I`, or deactivates it if `active` is `false`. Has no effect
/// before the first call of [`api`].
pub fn set_active<I: Instance>(layer: &str, active: bool) {
    if let Some(stack) = I::cell().get() {
        stack.set_active(layer, active);
    }
}

/// Declares a type that implements [`Instance`], with a static cell for the [`Stack`] of a stack of layers.
#[macro_export]
macro_rules! instance {
    ($(#[$attribute:meta])* $visibility:vis $name:ident) => {
        $(#[$attribute])*
        #[derive(Debug)]
        $visibility enum $name {}

        impl $crate::Instance for $name {
            fn cell() -> &'static ::std::sync::OnceLock<$crate::Stack> {
                static STACK: ::std::sync::OnceLock<$crate::Stack> = ::std::sync::OnceLock::new();
                &STACK
            }
        }
    };
}

/// Exports `GetPjrtApi` and `PjrtLayers_SetTracing` from a shared library. `GetPjrtApi` loads the plugin at the path in
/// `PJRT_LAYERS_PLUGIN`.
///
/// `export!(vec![Box::new(Mine)])` adds layers. Like the layers of this crate, they are in the stack only if
/// `PJRT_LAYERS` names them. A layer with the name of one of this crate's layers replaces that layer.
#[macro_export]
macro_rules! export {
    () => {
        $crate::export!(::std::vec::Vec::new());
    };
    ($own:expr) => {
        $crate::instance!(Process);

        /// Returns the function table for the framework.
        #[allow(unsafe_code, reason = "the symbol is the interface of a plugin")]
        #[unsafe(no_mangle)]
        pub extern "C" fn GetPjrtApi() -> *const $crate::PJRT_Api {
            $crate::api::<Process>(|| $own)
        }

        /// Switches the layer `trace` on, or off if `on` is 0. Has no effect before the first call of `GetPjrtApi`.
        #[allow(unsafe_code, reason = "programs call the symbol while they run")]
        #[unsafe(no_mangle)]
        pub extern "C" fn PjrtLayers_SetTracing(on: u8) {
            $crate::set_active::<Process>("trace", on != 0);
        }
    };
}

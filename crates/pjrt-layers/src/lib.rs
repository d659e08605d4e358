//! Layers between a framework and a PJRT plugin.
//!
//! A framework calls a plugin through a table of functions. A framework can load a library with layers in place of the
//! plugin, and the layers observe the calls. Neither the framework nor the plugin has to change. [`export!`] makes such
//! a library. It loads the plugin that `PJRT_LAYERS_PLUGIN` names, and gives the framework a copy of the plugin's
//! table. In this copy, forwarders replace the functions that a [`Layer`] asks for. The others keep the plugin's own
//! pointers.
//!
//! Handles are never wrapped, because extensions and other libraries pass raw handles. A layer that stores data about
//! an object keeps them in a table of its own.
//!
//! The unsafe code is in the core. Layers are safe code. They read arguments through [`Call`], which copies them.

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
pub mod overrides;
pub mod record;
mod settings;
mod thread_id;
pub mod trace;
pub mod validate;
pub mod variables;

pub use beside::SETTINGS_FILE;
pub use core::{Answer, Call, CompiledProgram, Execution, Instance, State, TablePlan};
pub use function::{Field, ForwardedFunction, Function, Kind, Layout};
pub use layer::{Layer, Outcome, Step};
pub use layer_error::LayerError;

#[doc(hidden)]
pub use pjrt_sys::PJRT_Api;

/// Returns the table of the process's stack of layers, which it creates from the [`SETTINGS_FILE`] beside the library, or from
/// the [environment variables](variables).
///
/// `own` creates the layers that the settings may name besides those of this crate. If the plugin cannot be loaded, every
/// function of the table returns an error with the reason.
pub fn api<I: Instance>(own: impl FnOnce() -> Vec<Box<dyn Layer>>) -> *const PJRT_Api {
    if let Some(state) = I::cell().get() {
        return state.table();
    }
    let (plugin, layers) = settings::start(own());
    State::start::<I>(plugin, layers).as_raw()
}

/// Switches a layer of a stack on or off while the process runs. Has no effect before the stack is started.
pub fn set_active<I: Instance>(layer: &str, active: bool) {
    if let Some(state) = I::cell().get() {
        state.set_active(layer, active);
    }
}

/// Declares a type for a stack of layers.
#[macro_export]
macro_rules! instance {
    ($(#[$attribute:meta])* $visibility:vis $name:ident) => {
        $(#[$attribute])*
        #[derive(Debug)]
        $visibility enum $name {}

        impl $crate::Instance for $name {
            fn cell() -> &'static ::std::sync::OnceLock<$crate::State> {
                static STATE: ::std::sync::OnceLock<$crate::State> = ::std::sync::OnceLock::new();
                &STATE
            }
        }
    };
}

/// Exports `GetPjrtApi` from a shared library, which loads the plugin that `PJRT_LAYERS_PLUGIN` names.
///
/// `export!(vec![Box::new(Mine)])` adds layers. Like those of this crate, they are in the stack only if `PJRT_LAYERS` names
/// them. If a layer has the name of one of this crate, it replaces that one.
#[macro_export]
macro_rules! export {
    () => {
        $crate::export!(::std::vec::Vec::new());
    };
    ($own:expr) => {
        $crate::instance!(Process);

        /// Returns the table for the framework.
        #[allow(unsafe_code, reason = "the symbol is the interface of a plugin")]
        #[unsafe(no_mangle)]
        pub extern "C" fn GetPjrtApi() -> *const $crate::PJRT_Api {
            $crate::api::<Process>(|| $own)
        }

        /// Switches the layer `trace` on, or off if `on` is 0. Has no effect before `GetPjrtApi`.
        #[allow(unsafe_code, reason = "programs call the symbol while they run")]
        #[unsafe(no_mangle)]
        pub extern "C" fn PjrtLayers_SetTracing(on: u8) {
            $crate::set_active::<Process>("trace", on != 0);
        }
    };
}

//! `#[device_plugin]`, the attribute that exports a plugin; documented where it is used, in `device-plugin`.
#![forbid(unsafe_code)]

mod device_plugin;

use proc_macro::TokenStream;

/// Exports the plugin an implementation of `DevicePlugin` describes.
///
/// On `impl DevicePlugin for Example` it
///
/// - adds `Example::api() -> StaticApi`, the table for a program that embeds the plugin (a framework in Rust hands it
///   to `pjrt::Plugin::from_static`), and
/// - with `#[device_plugin(export)]` defines the C function `GetPjrtApi`, by which frameworks find the plugin in a
///   shared library.
///
/// A shared library must export exactly one `GetPjrtApi`, and every crate linked into it may define the symbol at most
/// once. So `export` belongs into the crate that *is* the shared library. A plugin that is also embedded as a Rust
/// library leaves its library crate without `export` and exports from a thin `cdylib` crate, or guards the attribute
/// with a feature that only the shared library enables: `#[cfg_attr(feature = "export", device_plugin(export))]`.
///
/// The expansion holds no logic: it calls generic functions of `device-plugin`.
#[proc_macro_attribute]
pub fn device_plugin(arguments: TokenStream, item: TokenStream) -> TokenStream {
    device_plugin::expand(arguments.into(), item.into()).into()
}

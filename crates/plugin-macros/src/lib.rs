//! `#[device_plugin]` and `export!`, which register and export a plugin. `device-plugin` re-exports and documents them.
#![forbid(unsafe_code)]

mod arguments;
mod errors;
mod expand;
mod plugin;

use proc_macro::TokenStream;

/// Registers and exports a plugin. Put the attribute on the implementation of `DevicePlugin`.
///
/// On `impl DevicePlugin for Example`, the attribute
///
/// - adds `type Backend = NoBackend;` if there is no backend, because another library drives the device;
/// - adds `const VERSION`, the crate's version, if it is missing;
/// - adds `Example::descriptor() -> Result<Descriptor, Faults>`, the plugin's description;
/// - adds `Example::api() -> StaticApi` if there is a backend: the table for a program that embeds the plugin (a
///   framework in Rust passes it to `pjrt::Plugin::from_static`);
/// - lists the plugin in `device_plugin::registered()` of every program that links it; and
/// - with `export`, defines the C functions through which frameworks find the plugin in a shared library.
///
/// # Arguments
///
/// | argument | meaning |
/// |---|---|
/// | `export` | Defines `DevicePlugin_GetDescriptor` and, if there is a backend, `GetPjrtApi`. |
/// | `prefix = "acme"` | With `export`: the functions are `acme_DevicePlugin_GetDescriptor` and `acme_GetPjrtApi`, so that one program can link several plugins statically. Frameworks do not find a plugin in a shared library that has only prefixed functions. |
/// | `register = false` | Omits the plugin from `registered()`. |
/// | `crate = dp` | The name of `device-plugin` if `Cargo.toml` renames it, or a path to it through another crate, such as `framework::device_plugin`. |
///
/// # Which functions a library exports
///
/// A shared library exports at most one function of each name, so only one of its crates may define the function.
/// `export` therefore belongs in the crate that *is* the shared library. If a plugin is also embedded as a Rust
/// library, do not use `export` in its library crate. Export it from a thin `cdylib` crate with
/// `device_plugin::export!(path::Example)`.
///
/// A plugin without a backend exports no `GetPjrtApi`, because frameworks call the one of the wrapped library. A
/// forwarding function would have to load a library without the framework's knowledge. The library of such a plugin is
/// for programs that read descriptors. The plugin's Python package gives JAX and PyTorch/XLA the path of the wrapped
/// library.
///
/// # Registration
///
/// Registration only lists a plugin. Its code does not run until the program uses it, and the program decides when to
/// create clients. Each shared library has its own list. If a program embeds a plugin and also loads it as a shared
/// library, the plugin exists twice, with two tables. `registered()` lists each type once. A plugin in a Rust library
/// is linked if the program uses any item of that library. If it uses no other item, `use example_plugin as _;` links
/// the library.
///
/// The expansion contains no logic. It calls generic functions of `device-plugin`, and compiles in crates that forbid
/// unsafe code.
#[proc_macro_attribute]
pub fn device_plugin(arguments: TokenStream, item: TokenStream) -> TokenStream {
    expand::attribute(arguments.into(), item.into()).into()
}

/// The implementation of `device_plugin::export!`, which passes the path of `device-plugin` first.
#[doc(hidden)]
#[proc_macro]
pub fn export(tokens: TokenStream) -> TokenStream {
    expand::export(tokens.into()).into()
}

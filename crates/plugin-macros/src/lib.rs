//! `#[device_plugin]` and `export!`, which register and export a plugin. `device-plugin` re-exports and documents them.
#![forbid(unsafe_code)]

mod arguments;
mod entry;
mod errors;
mod expand;
mod plugin;

use proc_macro::TokenStream;

/// Registers and exports a plugin. Put the attribute on the implementation of `DevicePlugin`.
///
/// On `impl DevicePlugin for Example`, the attribute
///
/// - adds `type Backend = NoBackend;` if the implementation has no backend because another library drives the device;
/// - adds `const VERSION` with the version of the crate if it is missing;
/// - adds `Example::descriptor() -> Result<Descriptor, Faults>`, which returns the description of the plugin;
/// - adds `Example::api() -> StaticApi` if there is a backend. It returns the function table for a program that embeds
///   the plugin. A framework in Rust passes the table to `pjrt::Plugin::from_static`;
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
/// | `crate = dp` | The name of the crate `device-plugin` if `Cargo.toml` renames it, or a path to the crate through another crate, such as `framework::device_plugin`. |
///
/// # Which functions a library exports
///
/// A shared library can export only one function of each name, so only one crate may define the function. `export`
/// therefore belongs in the crate that *is* the shared library. If a plugin is also embedded as a Rust library, do not
/// use `export` in its library crate. Export it from a thin `cdylib` crate with
/// `device_plugin::export!(path::Example)`.
///
/// A plugin without a backend exports no `GetPjrtApi`, because frameworks call `GetPjrtApi` of the wrapped library. A
/// function that forwards the call would have to load a library without the framework's knowledge. Only programs that
/// read descriptors load the library of such a plugin. The plugin's Python package passes the path of the wrapped
/// library to JAX and PyTorch/XLA.
///
/// # Registration
///
/// Registration only lists a plugin. Its code does not run until the program uses it, and the program decides when to
/// create clients. Each shared library has its own list. If a program embeds a plugin and also loads it as a shared
/// library, the plugin exists twice, with two function tables. `registered()` lists each type once. The linker includes
/// a plugin in a Rust library only if the program uses an item of that library. If the program needs no other item,
/// write `use example_plugin as _;`.
///
/// The expansion contains no logic. It calls generic functions of `device-plugin`, and compiles in crates that forbid
/// unsafe code.
#[proc_macro_attribute]
pub fn device_plugin(arguments: TokenStream, item: TokenStream) -> TokenStream {
    expand::attribute(arguments.into(), item.into()).into()
}

/// Implements `device_plugin::export!`, which passes the path of `device-plugin` as the first argument.
#[doc(hidden)]
#[proc_macro]
pub fn export(tokens: TokenStream) -> TokenStream {
    expand::export(tokens.into()).into()
}

/// Implements a function of the C table in `device-plugin`.
#[doc(hidden)]
#[proc_macro_attribute]
pub fn entry(arguments: TokenStream, function: TokenStream) -> TokenStream {
    entry::entry(arguments.into(), function.into()).unwrap_or_else(syn::Error::into_compile_error).into()
}

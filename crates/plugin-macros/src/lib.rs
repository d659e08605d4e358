//! `#[device_plugin]` and `export!`, which register and export a plugin; documented where they are used, in
//! `device-plugin`.
#![forbid(unsafe_code)]

mod arguments;
mod errors;
mod expand;
mod plugin;

use proc_macro::TokenStream;

/// Registers and exports the plugin an implementation of `DevicePlugin` describes.
///
/// On `impl DevicePlugin for Example` it
///
/// - adds `type Backend = NoBackend;` where there is no backend, because another library drives the device;
/// - adds `const VERSION`, the crate's version, where there is none;
/// - adds `Example::descriptor() -> Result<Descriptor, Faults>`, all the plugin says of itself;
/// - adds, where there is a backend, `Example::api() -> StaticApi`, the table for a program that embeds the plugin (a
///   framework in Rust hands it to `pjrt::Plugin::from_static`);
/// - lists the plugin in `device_plugin::registered()` of every program it is linked into; and
/// - with `export` defines the C functions by which frameworks find the plugin in a shared library.
///
/// # Arguments
///
/// | argument | meaning |
/// |---|---|
/// | `export` | Defines `DevicePlugin_GetDescriptor` and, where there is a backend, `GetPjrtApi`. |
/// | `prefix = "acme"` | With `export`: the functions are `acme_DevicePlugin_GetDescriptor` and `acme_GetPjrtApi`, so that one program can link several plugins statically. Frameworks find no plugin in a shared library with prefixed functions alone. |
/// | `register = false` | Leaves the plugin out of `registered()`. |
/// | `crate = dp` | The name under which `Cargo.toml` knows `device-plugin`, where it renames it, or a path to it through another crate, such as `framework::device_plugin`. |
///
/// # Which functions a library exports
///
/// A shared library exports at most one function of a name, and every crate linked into it may define the name at most
/// once. So `export` belongs into the crate that *is* the shared library. A plugin that is also embedded as a Rust
/// library leaves its library crate without `export`, and a thin `cdylib` crate exports it by
/// `device_plugin::export!(path::Example)`.
///
/// A plugin without a backend exports no `GetPjrtApi`: that of its library is the one to call, and a function that
/// forwards to it would have to load a library behind the framework's back. Such a library is for programs that read
/// descriptors; JAX and PyTorch/XLA are pointed to the wrapped library by the plugin's Python package.
///
/// # Registration
///
/// A registered plugin is known to the program, and no more: nothing of it runs until it is asked for, and creating
/// clients is the program's decision. Each shared library has a list of its own. So a program that both embeds a
/// plugin and loads it as a shared library knows it twice, by two tables; `registered()` lists each type once.
/// A plugin that only a Rust library defines is linked into a program that uses anything of that library; where nothing
/// else is used, `use example_plugin as _;` links it.
///
/// The expansion holds no logic: it calls generic functions of `device-plugin`, and compiles in crates that forbid
/// unsafe code.
#[proc_macro_attribute]
pub fn device_plugin(arguments: TokenStream, item: TokenStream) -> TokenStream {
    expand::attribute(arguments.into(), item.into()).into()
}

/// What `device_plugin::export!` calls, with the path of `device-plugin` first.
#[doc(hidden)]
#[proc_macro]
pub fn export(tokens: TokenStream) -> TokenStream {
    expand::export(tokens.into()).into()
}

//! `#[c_function]`, the attribute with which `pjrt-c` declares the functions of its C interface.
//!
//! The attribute turns a safe Rust function into a C function with the same name:
//!
//! ```ignore
//! /// Returns the plugin with this name.
//! #[c_function]
//! pub fn dp_registry_find(registry: &dp_registry, name: &str) -> Outcome<Owned<dp_plugin>> { /* body */ }
//! ```
//!
//! becomes the following function, whose body runs in `guard::call`:
//!
//! ```ignore
//! #[unsafe(no_mangle)]
//! pub unsafe extern "C" fn dp_registry_find(
//!     registry: *const dp_registry,
//!     name: *const c_char,
//!     out: *mut *mut dp_plugin,
//!     error: *mut *mut dp_error,
//! ) -> dp_code { /* body */ }
//! ```
//!
//! The types of the parameters decide what C passes, and which checks the function makes before its body runs:
//!
//! | Rust | C | checked |
//! |---|---|---|
//! | `&dp_x` | `const dp_x *` | a live object |
//! | `&mut dp_x` | `dp_x *` | a live object |
//! | `Option<&dp_x>` | `const dp_x *` | null or a live object |
//! | `Owned<dp_x>` | `dp_x *` | a live object, which the function consumes |
//! | `Held<dp_x>` | `const dp_x *` | a live object, which gets a reference |
//! | `&str` | `const char *` | not null, UTF-8 |
//! | `Option<&str>` | `const char *` | null or UTF-8 |
//! | `Name<'_>`, which is `&str` | `const char *` | not null, not empty, UTF-8 |
//! | `PathBuf` | `const char *` | not null, not empty |
//! | `&[T]` | `const T *`, `size_t` | not null unless empty, aligned |
//! | `Handles<dp_x>` | `const dp_x *const *`, `size_t` | like `&[T]`; the body checks the objects |
//! | `Texts<'_>` | `const char *const *`, `size_t` | like `&[T]`; the body checks the texts |
//! | `Fill<T>` | `T *`, `size_t` | like `&[T]` |
//! | `Fill<u8>` | `void *`, `size_t` | like `&[T]` |
//! | `Fill<*mut dp_x>` | `dp_x **`, `size_t` | like `&[T]` |
//! | `Lent` | `const void *`, `size_t`, `release`, its context | not null unless empty; given back after any error |
//! | `Context` | `void *`, `release` | nothing; given back after any error |
//! | `UploadOf` | `const dp_upload *` | like `Struct`; the data is given back after any error |
//! | `Tensor<M>` | `M *` | not null, aligned; freed after any error |
//! | `Struct<dp_x>` | `const dp_x *` | not null, aligned, `struct_size` |
//! | `Plain<dp_x>` | `const dp_x *` | not null, aligned |
//! | `Out<T>` | `T *` | nothing; null means that the caller does not need this output |
//! | `Out<Owned<dp_x>>` | `dp_x **` | nothing |
//! | `&[u8]` | `const void *`, `size_t` | like `&[T]` |
//! | `Descriptor` | `const dp_descriptor *` | a valid description |
//! | `StaticApi` | `const PJRT_Api *` | not null |
//! | `Option<ProcessTopology>` | `const dp_topology *` | null or a valid topology |
//! | any other type | the same type | nothing |
//!
//! The result decides the kind of function:
//!
//! | Rust | C |
//! |---|---|
//! | `Outcome<()>` | returns `dp_code`; the last parameter is `dp_error **error` |
//! | `Outcome<Owned<dp_x>>` | the same, with the parameter `dp_x **out` |
//! | `Outcome<T>` | the same, with the parameter `T *out` |
//! | any other type | returns this type; if a check fails, its empty value |

mod expand;

use proc_macro::TokenStream;

/// Declares a function of the C interface.
#[proc_macro_attribute]
pub fn c_function(_: TokenStream, function: TokenStream) -> TokenStream {
    let function = syn::parse_macro_input!(function as syn::ItemFn);
    match expand::Function::new(&function) {
        Ok(parsed) => parsed.definition(&function).into(),
        Err(error) => error.into_compile_error().into(),
    }
}

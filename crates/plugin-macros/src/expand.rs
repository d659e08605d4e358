//! Expands the attribute and `export!` to calls of generic functions, without logic.

use proc_macro2::TokenStream;
use quote::{format_ident, quote};
use syn::{Attribute, Type};

use crate::arguments::{self, Arguments};
use crate::errors::Errors;
use crate::plugin::{self, Plugin};

/// Expands the attribute to the item, the additional items, and the errors with their remedies.
pub(crate) fn attribute(tokens: TokenStream, item: TokenStream) -> TokenStream {
    let mut errors = Errors::default();
    let arguments = arguments::of_attribute(tokens, &mut errors);
    let plugin = plugin::read(item, &arguments.krate, &mut errors);
    // Keep the valid code after an error, so that the compiler does not report further errors in the rest of the crate.
    match plugin {
        Ok(plugin) => {
            let implementation = &plugin.item;
            let embedding = embedding(&plugin, &arguments);
            let rest = errors.is_empty().then(|| linking(&plugin, &arguments));
            let errors = errors.into_tokens();
            quote! { #implementation #embedding #rest #errors }
        }
        Err(item) => {
            let errors = errors.into_tokens();
            quote! { #item #errors }
        }
    }
}

/// Expands `export!` to the C functions of a plugin.
pub(crate) fn export(tokens: TokenStream) -> TokenStream {
    let mut errors = Errors::default();
    let (plugin, arguments) = arguments::of_export(tokens, &mut errors);
    let functions = plugin
        .filter(|_| errors.is_empty())
        .map(|plugin| functions(&plugin, &arguments, !arguments.descriptor_only, &[]));
    let errors = errors.into_tokens();
    quote! { #functions #errors }
}

/// Creates the method `descriptor` and, if there is a backend, `api`. Programs that embed the plugin call them.
fn embedding(plugin: &Plugin, arguments: &Arguments) -> TokenStream {
    let (ty, conditions, krate) = (&plugin.item.self_ty, &plugin.conditions, &arguments.krate);
    let api = plugin.backend.then(|| {
        quote! {
            /// Returns the C function table of the plugin, for a program that embeds the plugin.
            pub fn api() -> #krate::StaticApi {
                #krate::__private::api::<#ty>()
            }
        }
    });
    quote! {
        #(#conditions)*
        #[allow(dead_code, reason = "for programs that embed the plugin")]
        impl #ty {
            #api

            /// Returns the description of the plugin.
            ///
            /// # Errors
            ///
            /// Returns all errors of the description.
            pub fn descriptor() -> ::core::result::Result<#krate::Descriptor, #krate::Faults> {
                #krate::__private::descriptor::<#ty>()
            }
        }

    }
}

/// Creates the exported C functions and the registration, unless the arguments omit them. Also creates checks at
/// compile time of the plugin's names and, if there is a backend, of its features.
fn linking(plugin: &Plugin, arguments: &Arguments) -> TokenStream {
    let (ty, conditions, krate) = (&plugin.item.self_ty, &plugin.conditions, &arguments.krate);
    let functions = arguments.export.then(|| functions(ty, arguments, plugin.backend, conditions));
    let registered = arguments.register.then(|| {
        quote! {
            #(#conditions)*
            const _: () = {
                #krate::__private::inventory::submit! { #krate::__private::registered::<#ty>() }
            };
        }
    });
    let features = plugin.backend.then(|| {
        quote! {
            #(#conditions)*
            const _: () = #krate::check_features!(<#ty as #krate::DevicePlugin>::Backend);
        }
    });
    quote! {
        #(#conditions)*
        const _: () = #krate::__private::assert_names::<#ty>();

        #features

        #functions
        #registered
    }
}

/// Creates `DevicePlugin_GetDescriptor` and, if `table` is `true`, `GetPjrtApi`.
fn functions(ty: &Type, arguments: &Arguments, table: bool, conditions: &[Attribute]) -> TokenStream {
    let krate = &arguments.krate;
    let prefixed = |name: &str| match &arguments.prefix {
        Some(prefix) => format!("{prefix}_{name}"),
        None => name.to_owned(),
    };
    let get_pjrt_api = table.then(|| {
        let symbol = prefixed("GetPjrtApi");
        quote! {
            const _: () = #krate::__private::assert_backend::<#ty>();

            #[unsafe(export_name = #symbol)]
            extern "C" fn get_pjrt_api() -> *const #krate::__private::PJRT_Api {
                #krate::__private::api::<#ty>().as_raw()
            }
        }
    });
    let symbol = prefixed("DevicePlugin_GetDescriptor");
    let once = format_ident!("export_with_another_prefix__{}_is_taken", symbol);
    quote! {
        #(#conditions)*
        const _: () = {
            #get_pjrt_api

            #[unsafe(export_name = #symbol)]
            extern "C" fn get_descriptor() -> *const #krate::__private::dp_descriptor {
                #krate::__private::c_descriptor::<#ty>()
            }
        };

        // This macro makes a second export of the same symbol a compile error. All exported macros of a crate share one
        // namespace, so the error occurs even in another module.
        #(#conditions)*
        #[doc(hidden)]
        #[macro_export]
        macro_rules! #once { () => {}; }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plugin(members: TokenStream) -> TokenStream {
        quote! {
            #[cfg(feature = "device")]
            impl DevicePlugin for Example {
                const NAME: &'static str = "example";
                #members
            }
        }
    }

    fn expanded(arguments: TokenStream, members: TokenStream) -> String {
        attribute(arguments, plugin(members)).to_string()
    }

    #[test]
    fn symbols_are_those_asked_for() {
        let backend = || {
            quote!(
                type Backend = Device;
            )
        };
        let wrapper = || {
            quote!(
                fn library() -> Library {
                    // SAFETY: R1 (the library is trusted): it is this vendor's PJRT plugin.
                    unsafe { Library::beside("x") }
                }
            )
        };
        let symbols = |text: &str| -> Vec<String> {
            let names = text.split("export_name = \"").skip(1);
            names.map(|rest| rest.split('"').next().unwrap_or_default().to_owned()).collect()
        };
        assert!(symbols(&expanded(quote!(), backend())).is_empty());
        let both = ["GetPjrtApi", "DevicePlugin_GetDescriptor"];
        assert_eq!(symbols(&expanded(quote!(export), backend())), both);
        assert_eq!(symbols(&expanded(quote!(export,), wrapper())), both[1..]);
        assert_eq!(
            symbols(&expanded(quote!(export, prefix = "a"), backend())),
            ["a_GetPjrtApi", "a_DevicePlugin_GetDescriptor"]
        );
        assert_eq!(symbols(&export(quote!(dp; a::B)).to_string()), both);
        assert_eq!(symbols(&export(quote!(dp; a::B, descriptor_only)).to_string()), both[1..]);
    }

    #[test]
    fn additions_keep_cfg() {
        let text = expanded(
            quote!(export),
            quote!(
                type Backend = Device;
            ),
        );
        let file: syn::File = syn::parse_str(&text).unwrap();
        assert_eq!(file.items.len(), 7, "{text}");
        for item in &file.items {
            let attributes = match item {
                syn::Item::Impl(item) => &item.attrs,
                syn::Item::Const(item) => &item.attrs,
                syn::Item::Macro(item) => &item.attrs,
                _ => panic!("{text}"),
            };
            assert!(attributes.iter().any(|attribute| attribute.path().is_ident("cfg")), "{text}");
        }
    }

    #[test]
    fn registration_can_be_left_out() {
        let backend = || {
            quote!(
                type Backend = Device;
            )
        };
        assert!(expanded(quote!(), backend()).contains("submit"));
        assert!(!expanded(quote!(register = false), backend()).contains("submit"));
    }

    #[test]
    fn faulty_library_is_one_fault() {
        let text = expanded(
            quote!(export),
            quote!(
                fn library(&self) -> Library {
                    // SAFETY: R1 (the library is trusted): it is this vendor's PJRT plugin.
                    unsafe { Library::beside("x") }
                }
            ),
        );
        assert!(text.contains("`self`") && !text.contains("neither a backend nor a library"), "{text}");
    }

    #[test]
    fn faulty_plugin_is_not_linked() {
        let text = expanded(
            quote!(export, exprt),
            quote!(
                type Backend = Device;
            ),
        );
        assert!(text.contains("compile_error") && text.contains("impl DevicePlugin for Example"), "{text}");
        assert!(!text.contains("export_name") && !text.contains("submit"), "{text}");
    }
}

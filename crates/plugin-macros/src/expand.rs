//! What the attribute and `export!` add: calls of generic functions, no logic.

use proc_macro2::TokenStream;
use quote::{format_ident, quote};
use syn::{Attribute, Type};

use crate::arguments::{self, Arguments};
use crate::errors::Errors;
use crate::plugin::{self, Plugin};

/// The item as it was and what the attribute adds, with the errors that say what to write instead.
pub(crate) fn attribute(tokens: TokenStream, item: TokenStream) -> TokenStream {
    let mut errors = Errors::default();
    let arguments = arguments::of_attribute(tokens, &mut errors);
    let plugin = plugin::read(item.clone(), &arguments.krate, &mut errors);
    let errors = errors.into_tokens();
    // The item stays also after an error, so that the rest of the crate is not reported as well.
    let Some(plugin) = plugin else { return quote! { #item #errors } };
    let implementation = &plugin.item;
    let added = added(&plugin, &arguments);
    quote! { #implementation #added #errors }
}

/// The C functions of a plugin that is described elsewhere.
pub(crate) fn export(tokens: TokenStream) -> TokenStream {
    let mut errors = Errors::default();
    let (plugin, arguments) = arguments::of_export(tokens, &mut errors);
    let functions = plugin.map(|plugin| functions(&plugin, &arguments, !arguments.descriptor_only, &[]));
    let errors = errors.into_tokens();
    quote! { #functions #errors }
}

fn added(plugin: &Plugin, arguments: &Arguments) -> TokenStream {
    let (ty, conditions, krate) = (&plugin.item.self_ty, &plugin.conditions, &arguments.krate);
    let api = plugin.backend.then(|| {
        quote! {
            /// The plugin's table, for a program that embeds it.
            pub fn api() -> #krate::StaticApi {
                #krate::__private::api::<#ty>()
            }
        }
    });
    let functions = arguments.export.then(|| functions(ty, arguments, plugin.backend, conditions));
    let registered = arguments.register.then(|| {
        quote! {
            #(#conditions)*
            const _: () = {
                #krate::__private::inventory::submit! { #krate::Registered::of::<#ty>() }
            };
        }
    });
    quote! {
        #(#conditions)*
        #[allow(dead_code, reason = "for programs that embed the plugin")]
        impl #ty {
            #api

            /// What the plugin says of itself.
            ///
            /// # Errors
            ///
            /// All faults of the description.
            pub fn descriptor() -> ::core::result::Result<#krate::Descriptor, #krate::Faults> {
                #krate::__private::descriptor::<#ty>()
            }
        }

        #(#conditions)*
        const _: () = #krate::__private::assert_names::<#ty>();

        #functions
        #registered
    }
}

/// `GetPjrtApi`, where there is a table, and `DevicePlugin_GetDescriptor`.
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

        // All of a crate's exported macros lie in one place: a second of the name is an error, in whatever module.
        #(#conditions)*
        #[doc(hidden)]
        #[macro_export]
        macro_rules! #once { () => {}; }
    }
}

//! Checks and expansion of `#[device_plugin]`.

use proc_macro2::TokenStream;
use quote::{ToTokens, quote};
use syn::parse::Parser;
use syn::punctuated::Punctuated;
use syn::{Error, Ident, Item, ItemImpl, Token};

const USE: &str = "write `#[device_plugin] impl DevicePlugin for Example { … }`";

/// The item as it was and what the attribute adds, or the errors that say what to write instead.
pub(crate) fn expand(arguments: TokenStream, item: TokenStream) -> TokenStream {
    let mut errors = None;
    let export = check(arguments_of(arguments), &mut errors).unwrap_or_default();
    let added = check(item_of(item.clone()), &mut errors).map(|item| add(&item, export));
    let errors = errors.map(Error::into_compile_error);
    // The item stays also after an error, so that the rest of the crate is not reported as well.
    quote! { #item #added #errors }
}

fn check<T>(result: Result<T, Error>, errors: &mut Option<Error>) -> Option<T> {
    match result {
        Ok(value) => Some(value),
        Err(error) => {
            match errors {
                Some(all) => all.combine(error),
                None => *errors = Some(error),
            }
            None
        }
    }
}

/// Whether `GetPjrtApi` is to be exported.
fn arguments_of(arguments: TokenStream) -> Result<bool, Error> {
    let arguments = Punctuated::<Ident, Token![,]>::parse_terminated.parse2(arguments).map_err(|error| {
        Error::new(error.span(), "the only argument of `device_plugin` is `export`: write `#[device_plugin(export)]`")
    })?;
    let mut export = false;
    for argument in arguments {
        if argument != "export" {
            return Err(Error::new(
                argument.span(),
                format!("`{argument}` is no argument of `device_plugin`; the only one is `export`"),
            ));
        }
        if export {
            return Err(Error::new(argument.span(), "`export` is given twice"));
        }
        export = true;
    }
    Ok(export)
}

fn item_of(item: TokenStream) -> Result<ItemImpl, Error> {
    let item = match syn::parse2::<Item>(item)? {
        Item::Impl(item) => item,
        other => {
            return Err(Error::new_spanned(
                first_token(&other),
                format!("`#[device_plugin]` belongs on an implementation of `DevicePlugin`; {USE}"),
            ));
        }
    };
    let Some((negative, path, _)) = &item.trait_ else {
        return Err(Error::new_spanned(
            &item.self_ty,
            format!("this implements no trait, but `#[device_plugin]` needs `DevicePlugin`; {USE}"),
        ));
    };
    if negative.is_some() || path.segments.last().is_none_or(|segment| segment.ident != "DevicePlugin") {
        return Err(Error::new_spanned(
            path,
            format!("`#[device_plugin]` belongs on an implementation of `DevicePlugin`, not of this trait; {USE}"),
        ));
    }
    if !item.generics.params.is_empty() {
        return Err(Error::new_spanned(
            &item.generics,
            "a plugin is one type: a generic `DevicePlugin` has no single table to export. Implement it for a type \
             without parameters",
        ));
    }
    Ok(item)
}

/// The token by which a reader finds the item.
fn first_token(item: &Item) -> TokenStream {
    item.to_token_stream().into_iter().take(1).collect()
}

fn add(item: &ItemImpl, export: bool) -> TokenStream {
    let plugin = &item.self_ty;
    let symbol = export.then(|| {
        quote! {
            const _: () = {
                /// The table of this library's plugin, for frameworks.
                #[unsafe(no_mangle)]
                pub extern "C" fn GetPjrtApi() -> *const ::device_plugin::__private::PJRT_Api {
                    ::device_plugin::__private::api::<#plugin>()
                }
            };
        }
    });
    quote! {
        const _: () = ::device_plugin::__private::assert_device_plugin::<#plugin>();

        #[allow(dead_code, reason = "for programs that embed the plugin")]
        impl #plugin {
            /// The plugin's table, for a program that embeds it.
            pub fn api() -> ::device_plugin::StaticApi {
                ::device_plugin::__private::static_api::<#plugin>()
            }
        }

        #symbol
    }
}

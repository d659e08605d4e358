//! Checks and expansion of `#[device_plugin]`.

use proc_macro2::TokenStream;
use quote::{ToTokens, quote};
use syn::parse::Parser;
use syn::punctuated::Punctuated;
use syn::{Error, Ident, ImplItem, Item, ItemImpl, Token, parse_quote};

const USE: &str = "write `#[device_plugin] impl DevicePlugin for Example { … }`";

/// The item as it was and what the attribute adds, or the errors that say what to write instead.
pub(crate) fn expand(arguments: TokenStream, item: TokenStream) -> TokenStream {
    let mut errors = None;
    let export = check(arguments_of(arguments), &mut errors).unwrap_or_default();
    let parsed = check(item_of(item.clone()), &mut errors);
    let errors = errors.map(Error::into_compile_error);
    // The item stays also after an error, so that the rest of the crate is not reported as well.
    let Some(mut plugin) = parsed else { return quote! { #item #errors } };
    complete(&mut plugin);
    let added = add(&plugin, export);
    quote! { #plugin #added #errors }
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

/// Traits have no default for a type, so a plugin without a backend gets the type here.
fn complete(item: &mut ItemImpl) {
    let backend = |item: &ImplItem| matches!(item, ImplItem::Type(ty) if ty.ident == "Backend");
    if !item.items.iter().any(backend) {
        item.items.push(parse_quote! { type Backend = ::device_plugin::NoBackend; });
    }
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
                    <#plugin>::api().as_raw()
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
                // A static has one address, by which a framework knows the plugin again; a constant need not.
                static TABLE: ::device_plugin::StaticApi = ::device_plugin::__private::static_api::<#plugin>();
                TABLE
            }
        }

        #symbol
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expanded(arguments: TokenStream, item: TokenStream) -> String {
        expand(arguments, item).to_string()
    }

    /// The messages of the errors, in order.
    fn errors(arguments: TokenStream, item: TokenStream) -> Vec<String> {
        let expanded = expand(arguments, item).to_string();
        let parts = expanded.split("compile_error ! {").skip(1);
        parts.map(|part| part.split('"').nth(1).unwrap_or_default().to_owned()).collect()
    }

    fn plugin() -> TokenStream {
        quote! {
            impl DevicePlugin for Example {
                const NAME: &'static str = "example";
                type Backend = ExampleDevice;
            }
        }
    }

    #[test]
    fn only_export_defines_the_symbol() {
        let plain = expanded(quote!(), plugin());
        assert!(!plain.contains("GetPjrtApi") && !plain.contains("compile_error"), "{plain}");
        assert!(plain.contains("pub fn api ()"), "{plain}");
        let exported = expanded(quote!(export), plugin());
        assert!(exported.contains("no_mangle") && exported.contains("GetPjrtApi"), "{exported}");
        assert!(expanded(quote!(export,), plugin()).contains("GetPjrtApi"));
        assert!(
            expanded(quote!(), quote! { impl device_plugin::DevicePlugin for a::Example {} }).contains("a :: Example")
        );
    }

    #[test]
    fn misuse_says_what_to_write_and_keeps_the_item() {
        for (item, says) in [
            (quote! { struct Example; }, "belongs on an implementation of `DevicePlugin`"),
            (quote! { fn example() {} }, "belongs on an implementation of `DevicePlugin`"),
            (quote! { impl Example { fn new() {} } }, "this implements no trait"),
            (quote! { impl Default for Example {} }, "not of this trait"),
            (quote! { impl !DevicePlugin for Example {} }, "not of this trait"),
            (quote! { impl<T> DevicePlugin for Example<T> {} }, "a plugin is one type"),
        ] {
            let errors = errors(quote!(), item.clone());
            assert_eq!(errors.len(), 1, "{errors:?}");
            assert!(errors[0].contains(says), "{errors:?}");
            assert!(expanded(quote!(), item.clone()).starts_with(&item.to_string()));
        }
    }

    #[test]
    fn all_errors_are_reported_at_once() {
        let errors = errors(quote!(exported), quote! { struct Example; });
        assert_eq!(errors.len(), 2, "{errors:?}");
        assert!(errors[0].contains("`exported` is no argument of `device_plugin`; the only one is `export`"));
        let one = |arguments| self::errors(arguments, plugin());
        assert!(one(quote!(export, export))[0].contains("given twice"));
        assert!(one(quote!(name = "x"))[0].contains("write `#[device_plugin(export)]`"));
        assert!(one(quote!("x"))[0].contains("write `#[device_plugin(export)]`"));
    }
}

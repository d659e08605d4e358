//! Checks and completes the implementation of `DevicePlugin` to which the attribute is applied.

use proc_macro2::TokenStream;
use quote::{ToTokens, quote};
use syn::{
    Attribute, Error, Expr, ExprLit, FnArg, ImplItem, ImplItemFn, Item, ItemImpl, Lit, ReturnType, Type, Visibility,
    parse_quote,
};

use crate::errors::{Errors, hint};

const USE: &str = "write `#[device_plugin] impl DevicePlugin for Example { … }`";
const EITHER: &str = "write `type Backend = …;` if the device is written in Rust, or `fn library() -> Library { \
                      unsafe { Library::beside(\"libexample.so\") } }` if another library drives it";

/// The functions of the trait: name, number of arguments, and signature.
pub(crate) const FUNCTIONS: &[(&str, usize, &str)] = &[
    ("library", 0, "fn library() -> Library"),
    ("capabilities", 0, "fn capabilities() -> Capabilities"),
    ("options", 0, "fn options() -> OptionSchema"),
    ("process", 0, "fn process() -> ProcessPlan"),
    ("configure", 2, "fn configure(topology: &ProcessTopology, environment: &Environment) -> Result<EnvPlan>"),
    ("ownership", 0, "fn ownership() -> Ownership"),
    ("shutdown", 0, "fn shutdown()"),
    ("manifest", 1, "fn manifest(manifest: Manifest) -> Manifest"),
    ("initialize", 0, "fn initialize() -> Result<()>"),
    ("stablehlo_versions", 0, "fn stablehlo_versions() -> Option<StablehloVersions>"),
    ("supports", 2, "fn supports(program: &Program, depth: Depth) -> Option<Support>"),
    ("attributes", 0, "fn attributes() -> Vec<NamedValue>"),
];

/// A checked implementation of `DevicePlugin`.
pub(crate) struct Plugin {
    /// The implementation, without invalid members and with the missing members.
    pub(crate) item: ItemImpl,
    /// Whether the plugin has a backend, and therefore a function table.
    pub(crate) backend: bool,
    /// `cfg` conditions of the implementation, which must also apply to the additional items.
    pub(crate) conditions: Vec<Attribute>,
}

/// Parses the item. If it is not a usable implementation, the error contains the tokens to keep: the whole item if it
/// compiles without the attribute, and otherwise none.
pub(crate) fn read(item: TokenStream, krate: &TokenStream, errors: &mut Errors) -> Result<Plugin, TokenStream> {
    let mut item = match implementation(item.clone()) {
        Ok(item) => item,
        Err((error, stays)) => {
            errors.push(error);
            return Err(if stays { item } else { TokenStream::new() });
        }
    };
    if let Some(unsafety) = item.unsafety.take() {
        errors.at(unsafety, "`DevicePlugin` is a safe trait; remove `unsafe`");
    }
    if let Some(default) = item.defaultness.take() {
        errors.at(default, "an implementation of `DevicePlugin` cannot be specialized; remove `default`");
    }
    let conditions = item.attrs.iter().filter(|attribute| is_cfg(attribute)).cloned().collect();
    let says_library = item.items.iter().any(is_library);
    item.items.retain_mut(|member| keep(member, errors));
    let backend = complete(&mut item, krate, says_library, errors);
    Ok(Plugin { item, backend, conditions })
}

/// Parses the implementation. On failure, returns the error and whether the item compiles without the attribute.
fn implementation(item: TokenStream) -> Result<ItemImpl, (Error, bool)> {
    let wrong = |tokens: &dyn ToTokens, message: &str| (Error::new_spanned(tokens.to_token_stream(), message), true);
    let item = match syn::parse2::<Item>(item).map_err(|error| (error, true))? {
        Item::Impl(item) => item,
        other => {
            let message = format!("`#[device_plugin]` belongs on an implementation of `DevicePlugin`; {USE}");
            return Err(wrong(&first_token(&other), &message));
        }
    };
    let Some((negative, path, _)) = &item.trait_ else {
        let message = format!("this implements no trait, but `#[device_plugin]` needs `DevicePlugin`; {USE}");
        return Err(wrong(&item.self_ty, &message));
    };
    if negative.is_some() {
        let (error, _) = wrong(path, &format!("a negative implementation is not a plugin; remove the `!`, and {USE}"));
        return Err((error, false));
    }
    if path.segments.last().is_none_or(|segment| segment.ident != "DevicePlugin") {
        let message =
            format!("`#[device_plugin]` belongs on an implementation of `DevicePlugin`, not of this trait; {USE}");
        return Err(wrong(path, &message));
    }
    if !item.generics.params.is_empty() {
        let message = "a generic `DevicePlugin` has no single table to export; implement it for a type without \
                       parameters";
        return Err(wrong(&item.generics, message));
    }
    if let Some(clause) = &item.generics.where_clause {
        let message = "a plugin must be one type without conditions; remove the `where` clause";
        return Err(wrong(clause, message));
    }
    let Type::Path(ty) = &*item.self_ty else {
        let message =
            "a plugin must be a type of this crate; write `pub struct Example;` and implement `DevicePlugin` for it";
        let (error, _) = wrong(&item.self_ty, message);
        return Err((error, false));
    };
    let mut tokens = ty.to_token_stream().into_iter().flat_map(flat);
    if let Some(lifetime) = tokens.find(|token| token.to_string() == "'") {
        let message = "a plugin cannot borrow data; implement `DevicePlugin` for a type without lifetimes";
        return Err(wrong(&lifetime, message));
    }
    Ok(item)
}

/// Returns all tokens of a tree, including those within groups. Omits the delimiters of groups.
fn flat(tree: proc_macro2::TokenTree) -> Vec<proc_macro2::TokenTree> {
    match tree {
        proc_macro2::TokenTree::Group(group) => group.stream().into_iter().flat_map(flat).collect(),
        other => vec![other],
    }
}

fn is_cfg(attribute: &Attribute) -> bool {
    attribute.path().is_ident("cfg") || attribute.path().is_ident("cfg_attr")
}

/// Returns the token at which an error about the item points.
fn first_token(item: &Item) -> TokenStream {
    let past_attributes = |item: &Item| -> Option<TokenStream> {
        Some(match item {
            Item::Struct(item) => item.struct_token.to_token_stream(),
            Item::Enum(item) => item.enum_token.to_token_stream(),
            Item::Trait(item) => item.trait_token.to_token_stream(),
            Item::Fn(item) => item.sig.fn_token.to_token_stream(),
            Item::Mod(item) => item.mod_token.to_token_stream(),
            _ => return None,
        })
    };
    past_attributes(item).unwrap_or_else(|| item.to_token_stream().into_iter().take(1).collect())
}

/// Checks a member. Returns `false` if the member must be removed, because the compiler would report a second error for
/// it.
fn keep(member: &mut ImplItem, errors: &mut Errors) -> bool {
    match member {
        ImplItem::Const(constant) => match constant.ident.to_string().as_str() {
            "NAME" => {
                name(&mut constant.expr, "", errors);
                true
            }
            "VERSION" => true,
            "ALIASES" => {
                if let Expr::Reference(aliases) = &mut constant.expr
                    && let Expr::Array(aliases) = &mut *aliases.expr
                {
                    aliases.elems.iter_mut().for_each(|alias| name(alias, " as an alias", errors));
                }
                true
            }
            other => {
                let all = ["NAME", "ALIASES", "VERSION"];
                let hint = hint(other, all, "its constants are `NAME`, `ALIASES` and `VERSION`");
                errors.at(&constant.ident, format!("`DevicePlugin` has no constant `{other}`{hint}"));
                false
            }
        },
        ImplItem::Type(ty) if ty.ident == "Backend" => {
            decided(&ty.attrs, "Backend", errors);
            true
        }
        ImplItem::Type(ty) => {
            let hint = hint(&ty.ident.to_string(), ["Backend"], "its only type is `Backend`");
            errors.at(&ty.ident, format!("`DevicePlugin` has no type `{}`{hint}", ty.ident));
            false
        }
        ImplItem::Fn(function) => known_function(function, errors),
        ImplItem::Macro(call) => {
            let message = "`#[device_plugin]` cannot see the items that a macro expands to; write them out, or call the \
                           macro inside the functions";
            errors.at(&call.mac.path, message);
            false
        }
        _ => true,
    }
}

/// Checks a name that is a literal. The compiler checks names that are other expressions.
fn name(expression: &mut Expr, what: &str, errors: &mut Errors) {
    let literal = match expression {
        Expr::Lit(ExprLit { lit, .. }) => lit,
        _ => return,
    };
    let Lit::Str(text) = literal else {
        errors.at(&*literal, format!("write the name{what} as a string literal, such as `\"example\"`"));
        *expression = parse_quote!("example");
        return;
    };
    let value = text.value();
    if is_name(&value) {
        return;
    }
    let fitted = fitted(&value);
    let hint = if is_name(&fitted) { format!(", such as {fitted:?}") } else { String::new() };
    let message = format!(
        "{value:?} is not a valid name{what}; write a lower-case letter, then lower-case letters, digits and \
         underscores{hint}"
    );
    errors.at(&*text, message);
    *expression = parse_quote!("example");
}

fn is_name(text: &str) -> bool {
    let mut characters = text.chars();
    characters.next().is_some_and(|c| c.is_ascii_lowercase())
        && characters.all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
}

/// Returns a valid name that is similar to `text`, if possible.
fn fitted(text: &str) -> String {
    let fit = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '_' };
    text.trim().chars().map(fit).collect()
}

/// Checks that a member has no `cfg` condition, because the additional items depend on its presence.
fn decided(attributes: &[Attribute], member: &str, errors: &mut Errors) {
    if let Some(cfg) = attributes.iter().find(|attribute| is_cfg(attribute)) {
        let message = format!(
            "`#[device_plugin]` cannot evaluate the condition on `{member}`; put the condition on the whole \
             implementation, or on the type or function that `{member}` uses"
        );
        errors.at(cfg, message);
    }
}

fn known_function(function: &mut ImplItemFn, errors: &mut Errors) -> bool {
    let name = function.sig.ident.to_string();
    let Some((_, arguments, write)) = FUNCTIONS.iter().find(|(known, ..)| *known == name) else {
        let names = FUNCTIONS.iter().map(|(known, ..)| *known);
        let hint = hint(&name, names, "put functions of your own into `impl Example { … }`");
        errors.at(&function.sig.ident, format!("`DevicePlugin` has no function `{name}`{hint}"));
        return false;
    };
    if name == "library" {
        decided(&function.attrs, "library", errors);
    }
    let signature = &function.sig;
    let mut fault = |tokens: &dyn ToTokens, message: String| {
        errors.at(tokens.to_token_stream(), format!("{message}; write `{write}`"));
        false
    };
    if let Some(FnArg::Receiver(receiver)) = signature.inputs.first() {
        return fault(receiver, format!("`{name}` must not take `self`, because a plugin is a type without values"));
    }
    if let Some(word) = &signature.asyncness {
        return fault(word, format!("`{name}` must not be `async`"));
    }
    if let Some(word) = &signature.unsafety {
        return fault(word, format!("`{name}` must not be `unsafe`"));
    }
    if let Some(word) = &signature.constness {
        return fault(word, format!("`{name}` must not be `const`"));
    }
    if let Some(abi) = &signature.abi {
        return fault(abi, format!("`{name}` must not be `extern`"));
    }
    if !signature.generics.params.is_empty() {
        return fault(&signature.generics, format!("`{name}` must not have generic parameters"));
    }
    if let Visibility::Public(word) = &function.vis {
        return fault(word, format!("`{name}` must not have a visibility, because it is part of a trait"));
    }
    if signature.inputs.len() != *arguments {
        let count = match arguments {
            0 => "no arguments".to_owned(),
            1 => "one argument".to_owned(),
            many => format!("{many} arguments"),
        };
        return fault(&signature.ident, format!("`{name}` must take {count}"));
    }
    let returns = write.contains("->");
    if returns != matches!(signature.output, ReturnType::Type(..)) {
        let message = if returns { "must return a value" } else { "must not return a value" };
        return fault(&signature.ident, format!("`{name}` {message}"));
    }
    true
}

/// Adds members that a trait cannot provide by default. Returns whether the plugin has a backend.
fn complete(item: &mut ItemImpl, krate: &TokenStream, says_library: bool, errors: &mut Errors) -> bool {
    let path = item.trait_.as_ref().map(|(_, path, _)| path.clone());
    let says = |item: &ItemImpl, name: &str| {
        item.items.iter().any(|member| matches!(member, ImplItem::Const(constant) if constant.ident == name))
    };
    if !says(item, "VERSION") {
        // Without Cargo, a build sets no version.
        item.items.push(parse_quote! {
            const VERSION: &'static ::core::primitive::str = match ::core::option_env!("CARGO_PKG_VERSION") {
                ::core::option::Option::Some(version) => version,
                ::core::option::Option::None => "",
            };
        });
    }
    let configures = |member: &ImplItem| matches!(member, ImplItem::Fn(function) if function.sig.ident == "configure");
    if !item.items.iter().any(configures) {
        item.items.push(parse_quote! { const CONFIGURES: ::core::primitive::bool = false; });
    }
    if !says(item, "NAME") {
        let message = "the plugin has no name; write `const NAME: &'static str = \"example\";`";
        errors.at(path.to_token_stream(), message);
        item.items.push(parse_quote! { const NAME: &'static ::core::primitive::str = "example"; });
    }
    let backend = item.items.iter().find_map(|member| match member {
        ImplItem::Type(ty) if ty.ident == "Backend" => Some(ty.clone()),
        _ => None,
    });
    let library = item.items.iter().find_map(|member| match member {
        ImplItem::Fn(function) if is_library(member) => Some(function.sig.ident.clone()),
        _ => None,
    });
    let Some(backend) = backend else {
        // A backend of an invalid form has been removed and reported already.
        if !says_library {
            errors.at(path.to_token_stream(), format!("the plugin has neither a backend nor a library; {EITHER}"));
        }
        item.items.push(parse_quote! { type Backend = #krate::NoBackend; });
        return false;
    };
    if is_no_backend(&backend.ty) {
        if !says_library {
            errors.at(&backend.ty, format!("the plugin has neither a backend nor a library; {EITHER}"));
        }
        return false;
    }
    if let Some(library) = library {
        let message = "the plugin has both a backend and a library, but a framework can use only one; remove \
                       `type Backend` if another library drives the device, or else remove `fn library`";
        errors.at(quote!(#library), message);
    }
    true
}

fn is_library(member: &ImplItem) -> bool {
    matches!(member, ImplItem::Fn(function) if function.sig.ident == "library")
}

fn is_no_backend(ty: &Type) -> bool {
    matches!(ty, Type::Path(path) if path.path.segments.last().is_some_and(|segment| segment.ident == "NoBackend"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the trait as `device-plugin` declares it.
    fn declared() -> syn::ItemTrait {
        let source = include_str!("../../device-plugin/src/plugin.rs");
        let file = syn::parse_file(source).unwrap();
        let items = file.items.into_iter();
        let mut traits = items.filter_map(|item| if let Item::Trait(item) = item { Some(item) } else { None });
        traits.find(|item| item.ident == "DevicePlugin").unwrap()
    }

    #[test]
    fn functions_match_trait() {
        // Users of the attribute do not write the functions that are hidden from the documentation.
        let hidden: Attribute = parse_quote!(#[doc(hidden)]);
        let functions: Vec<syn::Signature> = declared()
            .items
            .into_iter()
            .filter_map(|item| if let syn::TraitItem::Fn(function) = item { Some(function) } else { None })
            .filter(|function| !function.attrs.contains(&hidden))
            .map(|function| function.sig)
            .collect();
        let names: Vec<String> = functions.iter().map(|signature| signature.ident.to_string()).collect();
        assert_eq!(names.len(), FUNCTIONS.len(), "{names:?}");
        for signature in functions {
            let (_, arguments, write) = FUNCTIONS.iter().find(|(name, ..)| signature.ident == name).unwrap();
            assert_eq!(signature.inputs.len(), *arguments, "{write}");
            let written: syn::Signature = syn::parse_str(write).unwrap();
            assert_eq!(written.to_token_stream().to_string(), signature.to_token_stream().to_string());
        }
        let others = declared().items.into_iter().filter_map(|item| match item {
            syn::TraitItem::Const(item) => Some(item.ident.to_string()),
            syn::TraitItem::Type(item) => Some(item.ident.to_string()),
            _ => None,
        });
        assert_eq!(others.collect::<Vec<_>>(), ["NAME", "ALIASES", "VERSION", "CONFIGURES", "Backend"]);
    }

    #[test]
    fn adds_missing_items() {
        let mut errors = Errors::default();
        let item = quote! {
            impl a::DevicePlugin for b::Example {
                const NAME: &'static str = "example";
                fn library() -> Library { unsafe { Library::beside("x") } }
            }
        };
        let plugin = read(item, &quote!(::dp), &mut errors).unwrap_or_else(|item| panic!("{item}"));
        assert!(errors.is_empty() && !plugin.backend);
        let text = plugin.item.to_token_stream().to_string();
        assert!(text.contains("type Backend = :: dp :: NoBackend ;") && text.contains("CONFIGURES"), "{text}");
    }

    #[test]
    fn names_are_fitted() {
        for (text, name) in [("My-Device", "my_device"), (" A.b ", "a_b"), ("9", "9")] {
            assert_eq!(fitted(text), name);
        }
        assert!(is_name("a_9") && !is_name("9a") && !is_name("") && !is_name("aB"));
    }
}

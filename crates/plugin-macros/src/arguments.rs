//! The arguments of `#[device_plugin(…)]` and of `export!(…)`.

use proc_macro2::{Span, TokenStream};
use quote::quote;
use syn::ext::IdentExt;
use syn::parse::{Parse, ParseStream, Parser};
use syn::{Error, Expr, ExprLit, Ident, Lit, LitStr, Path, Token, Type};

use crate::errors::{Errors, hint};

const ATTRIBUTE: &[&str] = &["export", "prefix", "register", "crate"];
const ATTRIBUTE_HELP: &str =
    "the arguments of `#[device_plugin]` are `export`, `prefix = \"…\"`, `register = false` and `crate = path`";
const EXPORT: &[&str] = &["prefix", "descriptor_only"];
const EXPORT_HELP: &str = "write `export!(path::Plugin)`, optionally followed by `prefix = \"…\"` or `descriptor_only`";

/// The parsed arguments of `#[device_plugin]` or `export!`.
pub(crate) struct Arguments {
    /// Whether to define the C functions.
    pub(crate) export: bool,
    /// Prefix of the names of the C functions.
    pub(crate) prefix: Option<String>,
    /// Whether `registered()` lists the plugin.
    pub(crate) register: bool,
    /// Whether to export only the descriptor, for a plugin without a backend.
    pub(crate) descriptor_only: bool,
    /// The path of the crate `device-plugin`.
    pub(crate) krate: TokenStream,
}

impl Default for Arguments {
    fn default() -> Self {
        Self { export: false, prefix: None, register: true, descriptor_only: false, krate: quote!(::device_plugin) }
    }
}

/// An argument of the form `name` or `name = value`.
struct Argument {
    name: Ident,
    value: Option<Expr>,
}

impl Parse for Argument {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let name = input.call(Ident::parse_any)?;
        let value = if input.peek(Token![=]) {
            input.parse::<Token![=]>()?;
            Some(input.parse()?)
        } else {
            None
        };
        Ok(Self { name, value })
    }
}

type List = syn::punctuated::Punctuated<Argument, Token![,]>;

/// Parses the arguments of the attribute. Reports invalid arguments to `errors`, and returns the valid ones.
pub(crate) fn of_attribute(tokens: TokenStream, errors: &mut Errors) -> Arguments {
    let mut arguments = Arguments::default();
    let list = match List::parse_terminated.parse2(tokens) {
        Ok(list) => list,
        Err(error) => {
            errors.push(Error::new(error.span(), format!("{ATTRIBUTE_HELP}; separate them by commas")));
            return arguments;
        }
    };
    let mut prefix_at = None;
    take(list, ATTRIBUTE, ATTRIBUTE_HELP, errors, |name, value, errors| {
        match name.to_string().as_str() {
        "export" => match value {
            None => arguments.export = true,
            Some(value) => {
                arguments.export = true;
                errors.at(value, "`export` takes no value; write `export`, or `export, prefix = \"…\"`");
            }
        },
        "prefix" => {
            prefix_at = Some(name.span());
            arguments.prefix = prefix(name, value, errors);
        }
        "register" => match value {
            Some(Expr::Lit(ExprLit { lit: Lit::Bool(value), .. })) => arguments.register = value.value,
            _ => errors.at(
                name,
                "the only value of `register` is `false`; write `register = false`, or remove it to register the plugin",
            ),
        },
        _ => match value {
            Some(Expr::Path(path)) if path.qself.is_none() => {
                let path: Path = path.path;
                let here = |name: &&Ident| ["crate", "self", "super"].iter().any(|known| name == known);
                // A single identifier refers to a crate, even if a local item has the same name.
                let is_crate = path.get_ident().is_some_and(|name| !here(&name));
                arguments.krate = if is_crate { quote!(::#path) } else { quote!(#path) };
            }
            _ => errors.at(name, "write the path of the crate `device-plugin` without quotes, such as `crate = dp`"),
        },
    }
    });
    if let (Some(span), false) = (prefix_at, arguments.export) {
        let message = "a prefix has no effect without exported functions; write `#[device_plugin(export, prefix = \
                       \"…\")]`";
        errors.push(Error::new(span, message));
    }
    arguments
}

/// Parses the arguments of `export!`: the path of `device-plugin`, the plugin, and the options.
pub(crate) fn of_export(tokens: TokenStream, errors: &mut Errors) -> (Option<Type>, Arguments) {
    let mut arguments = Arguments { export: true, ..Arguments::default() };
    let parse = |input: ParseStream<'_>| {
        arguments.krate = input.step(|cursor| match cursor.token_tree() {
            Some((tree, rest)) => Ok((TokenStream::from(tree), rest)),
            None => Err(cursor.error(EXPORT_HELP)),
        })?;
        input.parse::<Token![;]>()?;
        if input.is_empty() {
            return Err(Error::new(Span::call_site(), EXPORT_HELP));
        }
        let plugin: Type = input.parse().map_err(|error| Error::new(error.span(), EXPORT_HELP))?;
        if !input.is_empty() {
            input.parse::<Token![,]>().map_err(|error| Error::new(error.span(), EXPORT_HELP))?;
        }
        let list = input.call(List::parse_terminated).map_err(|error| Error::new(error.span(), EXPORT_HELP))?;
        Ok((plugin, list))
    };
    match parse.parse2(tokens) {
        Ok((plugin, list)) => {
            take(list, EXPORT, EXPORT_HELP, errors, |name, value, errors| {
                if name == "prefix" {
                    arguments.prefix = prefix(name, value, errors);
                } else if value.is_some() {
                    errors.at(name, "`descriptor_only` takes no value");
                } else {
                    arguments.descriptor_only = true;
                }
            });
            (Some(plugin), arguments)
        }
        Err(error) => {
            errors.push(error);
            (None, arguments)
        }
    }
}

/// Passes each known argument to `each` at its first occurrence. Reports unknown and repeated arguments as errors.
fn take(
    list: List,
    known: &[&str],
    help: &str,
    errors: &mut Errors,
    mut each: impl FnMut(&Ident, Option<Expr>, &mut Errors),
) {
    let mut seen: Vec<Ident> = Vec::new();
    for Argument { name, value } in list {
        if !known.iter().any(|known| name == known) {
            let hint = hint(&name.to_string(), known.iter().copied(), help);
            errors.at(&name, format!("unknown argument `{name}`{hint}"));
        } else if seen.contains(&name) {
            errors.at(&name, format!("`{name}` is given twice; remove one"));
        } else {
            each(&name, value, errors);
            seen.push(name);
        }
    }
}

/// Parses a prefix: a string literal that can begin a C identifier.
fn prefix(name: &Ident, value: Option<Expr>, errors: &mut Errors) -> Option<String> {
    let literal: Option<LitStr> = match value {
        Some(Expr::Lit(ExprLit { lit: Lit::Str(literal), .. })) => Some(literal),
        _ => None,
    };
    let Some(literal) = literal else {
        errors.at(name, "write the prefix as a string literal; `prefix = \"example\"` makes `example_GetPjrtApi`");
        return None;
    };
    let text = literal.value();
    let letters = |c: char| c.is_ascii_alphanumeric() || c == '_';
    if text.chars().next().is_some_and(|c| c.is_ascii_alphabetic()) && text.chars().all(letters) {
        return Some(text);
    }
    let message = format!(
        "the prefix {text:?} cannot begin the name of a C function; write a letter, then letters, digits and \
         underscores"
    );
    errors.at(literal, message);
    None
}

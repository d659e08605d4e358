//! `#[entry]`, with which `device-plugin` implements the functions of the C table.

use proc_macro2::TokenStream;
use quote::{ToTokens, quote};
use syn::parse::{Parse, ParseStream, Parser};
use syn::punctuated::Punctuated;
use syn::spanned::Spanned;
use syn::{Error, Expr, FnArg, Ident, ItemFn, Pat, Path, Result, Token, parse_quote};

/// One of the arguments in `#[entry(hot, module = function)]`.
enum Argument {
    /// The module with the marker types of the table's functions.
    Module(Path),
    Property(Ident),
}

impl Parse for Argument {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        let name: Ident = input.parse()?;
        if name == "module" {
            input.parse::<Token![=]>()?;
            return input.parse().map(Self::Module);
        }
        Ok(Self::Property(name))
    }
}

/// The arguments of the attribute.
struct Arguments {
    module: Path,
    constants: Vec<TokenStream>,
}

impl Arguments {
    fn read(all: Punctuated<Argument, Token![,]>) -> Result<Self> {
        let mut read = Self { module: parse_quote!(::pjrt_sys::slot), constants: Vec::new() };
        for argument in all {
            match argument {
                Argument::Module(module) => read.module = module,
                Argument::Property(name) => read.property(&name)?,
            }
        }
        Ok(read)
    }

    fn property(&mut self, name: &Ident) -> Result<()> {
        match name.to_string().as_str() {
            "extension" => self.module = parse_quote!(::pjrt_sys::extension_slot),
            "hot" => self.flag("HOT", true),
            "no_outputs" => self.flag("OUTPUTS", false),
            "destroys" => {
                self.flag("OUTPUTS", false);
                self.flag("DESTROYS", true);
            }
            "traced" => self.flag("TRACED", true),
            "caller_context" => self.flag("CALLER_CONTEXT", true),
            "fixed_size" => self.constants.push(quote! {
                const SIZE: crate::abi::table::entry::SizeRule = crate::abi::table::entry::SizeRule::Fixed;
            }),
            _ => return Err(Error::new(name.span(), "no constant of `Entry` has this name")),
        }
        Ok(())
    }

    fn flag(&mut self, constant: &str, value: bool) {
        let constant = Ident::new(constant, proc_macro2::Span::call_site());
        self.constants.push(quote! { const #constant: bool = #value; });
    }
}

/// Implements the trait `Entry` with a function that has the name of a function of the table. The second argument of
/// the function, if there is one, has the name of a handle in the argument struct.
pub(crate) fn entry(arguments: TokenStream, function: TokenStream) -> Result<TokenStream> {
    let arguments = Punctuated::<Argument, Token![,]>::parse_terminated.parse2(arguments)?;
    let Arguments { module, constants } = Arguments::read(arguments)?;
    let function: ItemFn = syn::parse2(function)?;
    let slot = &function.sig.ident;
    let generics = &function.sig.generics;
    let Some(plugin) = generics.type_params().next().map(|plugin| &plugin.ident) else {
        return Err(Error::new(slot.span(), "the function is generic over the plugin"));
    };
    let mut inputs = function.sig.inputs.iter();
    let Some(FnArg::Typed(args)) = inputs.next() else {
        return Err(Error::new(function.sig.span(), "the first argument is the argument struct"));
    };
    let handle = match inputs.next() {
        None => None,
        Some(FnArg::Typed(handle)) => Some(handle),
        Some(other) => return Err(Error::new(other.span(), "the second argument is a handle")),
    };
    let handle = handle.map(|handle| {
        let (Pat::Ident(name), ty) = (&*handle.pat, &handle.ty) else {
            return Err(Error::new(handle.pat.span(), "the handle has the name of a field of the argument struct"));
        };
        let (field, text) = (&name.ident, name.ident.to_string());
        let args: Expr = syn::parse2(args.pat.to_token_stream())?;
        Ok(quote! {
            // SAFETY: V2 (handles).
            let #field: #ty = unsafe { crate::abi::table::ffi_read::handle::<#plugin, _>(#args.#field, #text) }?;
        })
    });
    let handle = handle.transpose()?;
    let (attributes, body, output) = (&function.attrs, &function.block, &function.sig.output);
    Ok(quote! {
        impl #generics crate::abi::table::entry::Entry<#module::#slot> for crate::abi::table::entry::Shim<#plugin> {
            #(#constants)*

            fn plugin() -> &'static str {
                #plugin::name()
            }

            #(#attributes)*
            unsafe fn call(#args) #output {
                #handle
                #body
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expanded(arguments: &str, function: &str) -> Result<String> {
        let tokens = |text: &str| text.parse::<TokenStream>().unwrap();
        entry(tokens(arguments), tokens(function)).map(|tokens| tokens.to_string().replace(' ', ""))
    }

    #[test]
    fn constants_module_and_handle() {
        let text = "unsafe fn PJRT_X<P: DevicePlugin>(args: &mut PJRT_X_Args, buffer: &Buffer) -> Result<()> { run() }";
        let made = expanded("extension, destroys", text).unwrap();
        for part in [
            "Entry<::pjrt_sys::extension_slot::PJRT_X>",
            "constOUTPUTS:bool=false;constDESTROYS:bool=true;",
            "letbuffer:&Buffer=unsafe{crate::abi::table::ffi_read::handle::<P,_>(args.buffer,\"buffer\")}?;",
        ] {
            assert!(made.contains(part), "{part}: {made}");
        }
        assert!(expanded("module = function", text).unwrap().contains("Entry<function::PJRT_X>"));
    }

    #[test]
    fn mistakes_are_errors() {
        let text = "unsafe fn PJRT_X<P: DevicePlugin>(args: &mut PJRT_X_Args) -> Result<()> { run() }";
        assert_eq!(expanded("warm", text).unwrap_err().to_string(), "no constant of `Entry` has this name");
        for wrong in ["unsafe fn PJRT_X(args: &mut A) {}", "fn x<P: D>() {}", "fn x<P: D>(args: &mut A, (a, b): C) {}"]
        {
            assert!(expanded("", wrong).is_err(), "{wrong}");
        }
    }
}

//! The parameters and the result of a function in C, derived from its declaration in Rust. `cargo xtask header` also
//! compiles this file.

use proc_macro2::{Span, TokenStream};
use quote::{format_ident, quote};
use syn::{Error, FnArg, GenericArgument, Ident, ItemFn, Pat, PathArguments, ReturnType, Type, parse_quote};

/// A function of the C interface.
pub(crate) struct Function {
    name: Ident,
    parameters: Vec<Parameter>,
    /// Type of the result if the function cannot fail.
    getter: Option<Type>,
    /// Type to which `out` points.
    out: Option<Type>,
}

/// A parameter in Rust, and how its value is made.
struct Parameter {
    name: Ident,
    /// One or two parameters in C.
    c: Vec<(Ident, Type)>,
    /// The expression for the value. `None` if the value is passed on unchanged.
    read: Option<TokenStream>,
    /// Whether reading the value takes something from the caller. It is read first, so that it is given back or freed
    /// whatever else is wrong.
    takes: bool,
}

impl Function {
    /// Reads the declaration of a function.
    pub(crate) fn new(function: &ItemFn) -> Result<Self, Error> {
        let parameters = function.sig.inputs.iter().map(Parameter::new).collect::<Result<_, _>>()?;
        let result: Type = match &function.sig.output {
            ReturnType::Default => parse_quote!(()),
            ReturnType::Type(_, ty) => (**ty).clone(),
        };
        let (getter, out) = match generic(&result, "Outcome") {
            None => (Some(result), None),
            Some(Type::Tuple(unit)) if unit.elems.is_empty() => (None, None),
            Some(value) => (None, Some(place(value))),
        };
        Ok(Self { name: function.sig.ident.clone(), parameters, getter, out })
    }

    /// Returns the function's parameters and its result in C.
    pub(crate) fn signature(&self) -> TokenStream {
        let mut parameters: Vec<TokenStream> =
            self.parameters.iter().flat_map(|it| &it.c).map(|(name, ty)| quote!(#name: #ty)).collect();
        let name = &self.name;
        if let Some(getter) = &self.getter {
            return quote!(fn #name(#(#parameters),*) -> #getter);
        }
        if let Some(out) = &self.out {
            parameters.push(quote!(out: *mut #out));
        }
        parameters.push(quote!(error: *mut *mut dp_error));
        quote!(fn #name(#(#parameters),*) -> dp_code)
    }

    /// Returns the definition of the function.
    #[allow(dead_code, reason = "`cargo xtask header` needs only the signatures")]
    pub(crate) fn definition(&self, function: &ItemFn) -> TokenStream {
        let signature = self.signature();
        let (attrs, vis) = (&function.attrs, &function.vis);
        let mut body = function.clone();
        body.attrs.clear();
        body.vis = syn::Visibility::Inherited;
        body.sig.ident = format_ident!("body");
        let read = |parameters: Vec<&Parameter>, end: TokenStream| {
            let names = parameters.iter().map(|it| &it.name);
            let values = parameters.iter().map(|it| &it.read);
            quote! {
                #(
                    // SAFETY: the contracts of this function.
                    let #names = unsafe { #values } #end;
                )*
            }
        };
        let (taken, other): (Vec<&Parameter>, Vec<&Parameter>) =
            self.parameters.iter().filter(|it| it.read.is_some()).partition(|it| it.takes);
        let names: Vec<&Ident> = taken.iter().map(|it| &it.name).collect();
        let (first, rest) = (read(taken, quote!()), read(other, quote!(?)));
        let arguments = self.parameters.iter().map(|it| &it.name);
        let name = self.name.to_string();
        let call = quote!(body(#(#arguments),*));
        let read = quote!(#(let #names = #names?;)* #rest);
        let run = match (&self.getter, &self.out) {
            (Some(_), _) => quote!(crate::border::guard::get(move || { #read Ok(#call) })),
            (None, None) => quote!(crate::border::guard::run(#name, error, move || { #read #call })),
            (None, Some(_)) => quote!(crate::border::guard::call(#name, out, error, move || { #read #call })),
        };
        quote! {
            #(#attrs)*
            ///
            /// # Safety
            ///
            /// The caller must keep the contracts K1 to K6 of [`pjrt::contracts`].
            #[unsafe(no_mangle)]
            #[allow(clippy::too_many_arguments, reason = "C has no other way to pass them")]
            #vis unsafe extern "C" #signature {
                #[inline(always)]
                #[allow(clippy::too_many_arguments, reason = "C has no other way to pass them")]
                #body
                #first
                #[allow(unused_unsafe, reason = "not every function has parameters whose checks are unsafe")]
                unsafe { #run }
            }
        }
    }
}

impl Parameter {
    fn new(argument: &FnArg) -> Result<Self, Error> {
        let FnArg::Typed(typed) = argument else {
            return Err(Error::new_spanned(argument, "a C function has no receiver"));
        };
        let Pat::Ident(pattern) = &*typed.pat else {
            return Err(Error::new_spanned(&typed.pat, "a parameter of a C function has a plain name"));
        };
        let mut name = pattern.ident.clone();
        name.set_span(Span::call_site());
        let text = name.to_string();
        let one = |ty: Type, read: TokenStream| Ok(Self::one(&name, ty, Some(read)));
        let object = |ty: &Type| is_object(ty).then(|| ty.clone());
        match &*typed.ty {
            Type::Reference(reference) => match (&*reference.elem, reference.mutability) {
                (Type::Slice(slice), None) => {
                    let bytes = is_path(&slice.elem, "u8");
                    let element = if bytes { parse_quote!(::std::ffi::c_void) } else { (*slice.elem).clone() };
                    let size = format_ident!("{name}_size");
                    let read = quote!(crate::border::memory::array(#name.cast(), #size, #text));
                    let c = vec![(name.clone(), parse_quote!(*const #element)), (size, parse_quote!(usize))];
                    Ok(Self { name, c, read: Some(read), takes: false })
                }
                (ty, None) if is_path(ty, "str") => one(c_char(), quote!(crate::border::memory::text(#name, #text))),
                (ty, None) if object(ty).is_some() => {
                    one(parse_quote!(*const #ty), quote!(crate::border::handle::object(#name, #text)))
                }
                (ty, Some(_)) if object(ty).is_some() => {
                    one(parse_quote!(*mut #ty), quote!(crate::border::handle::object_mut(#name, #text)))
                }
                _ => Err(Error::new_spanned(&typed.ty, "this reference has no equivalent in C")),
            },
            ty => {
                if is_path(ty, "Descriptor") {
                    return one(parse_quote!(*const dp_descriptor), quote!(crate::border::guard::descriptor(#name)));
                }
                if is_path(ty, "StaticApi") {
                    return one(parse_quote!(*const PJRT_Api), quote!(crate::border::guard::table(#name, #text)));
                }
                if let Some(inner) = generic(ty, "Option") {
                    if is_path(inner, "ProcessTopology") {
                        return one(parse_quote!(*const dp_topology), quote!(crate::border::guard::topology(#name)));
                    }
                    if let Type::Reference(reference) = inner {
                        let elem = &reference.elem;
                        if is_path(elem, "str") {
                            return one(c_char(), quote!(crate::border::memory::optional_text(#name, #text)));
                        }
                        return one(parse_quote!(*const #elem), quote!(crate::border::handle::optional(#name, #text)));
                    }
                }
                if let Some(inner) = generic(ty, "Owned") {
                    let read = quote!(crate::border::handle::consume(#name, #text));
                    return Ok(Self { takes: true, ..Self::one(&name, parse_quote!(*mut #inner), Some(read)) });
                }
                if let Some(inner) = generic(ty, "Held") {
                    return one(parse_quote!(*const #inner), quote!(crate::border::handle::hold(#name, #text)));
                }
                if let Some(inner) = generic(ty, "Struct") {
                    return one(parse_quote!(*const #inner), quote!(crate::border::memory::structure(#name, #text)));
                }
                if let Some(inner) = generic(ty, "Plain") {
                    return one(parse_quote!(*const #inner), quote!(crate::border::memory::plain(#name, #text)));
                }
                if let Some(inner) = generic(ty, "Out") {
                    let target = place(inner);
                    return one(parse_quote!(*mut #target), quote!(crate::border::guard::Out::new(#name, #text)));
                }
                if let Some(inner) = generic(ty, "Fill") {
                    let element = if is_path(inner, "u8") { parse_quote!(::std::ffi::c_void) } else { place(inner) };
                    let size = format_ident!("{name}_size");
                    let read = quote!(crate::border::memory::fill(#name.cast(), #size, #text));
                    let c = vec![(name.clone(), parse_quote!(*mut #element)), (size, parse_quote!(usize))];
                    return Ok(Self { name, c, read: Some(read), takes: false });
                }
                if is_path(ty, "Lent") || is_path(ty, "Context") {
                    let lent = is_path(ty, "Lent");
                    let (size, release) = (format_ident!("{name}_size"), format_ident!("release"));
                    let context = if lent { format_ident!("release_context") } else { name.clone() };
                    let made = quote!(crate::border::foreign::Context::new(#context, #release));
                    let release = (release, parse_quote!(dp_release_callback));
                    let context = (context, parse_quote!(*mut ::std::ffi::c_void));
                    let (c, read) = if lent {
                        let data = (name.clone(), parse_quote!(*const ::std::ffi::c_void));
                        let read = quote!(crate::border::foreign::Lent::new(#name, #size, #made, #text));
                        (vec![data, (size.clone(), parse_quote!(usize)), release, context], read)
                    } else {
                        (vec![context, release], quote!(Ok::<_, crate::border::failure::Failure>(#made)))
                    };
                    return Ok(Self { name, c, read: Some(read), takes: true });
                }
                if is_path(ty, "UploadOf") {
                    let read = quote!(crate::buffer::upload::read_upload(#name));
                    return Ok(Self { takes: true, ..Self::one(&name, parse_quote!(*const dp_upload), Some(read)) });
                }
                if let Some(inner) = generic(ty, "Tensor") {
                    let read = quote!(crate::buffer::dlpack::take_tensor(#name));
                    return Ok(Self { takes: true, ..Self::one(&name, parse_quote!(*mut #inner), Some(read)) });
                }
                if is_path(ty, "Texts") {
                    let size = format_ident!("{name}_size");
                    let read = quote!(crate::border::memory::texts(#name, #size, #text));
                    let c = vec![
                        (name.clone(), parse_quote!(*const *const ::std::ffi::c_char)),
                        (size, parse_quote!(usize)),
                    ];
                    return Ok(Self { name, c, read: Some(read), takes: false });
                }
                if let Some(inner) = generic(ty, "Handles") {
                    let size = format_ident!("{name}_size");
                    let read = quote!(crate::border::handle::handles(#name, #size, #text));
                    let c = vec![(name.clone(), parse_quote!(*const *const #inner)), (size, parse_quote!(usize))];
                    return Ok(Self { name, c, read: Some(read), takes: false });
                }
                if is_path(ty, "Name") {
                    return one(c_char(), quote!(crate::border::memory::name(#name, #text)));
                }
                if is_path(ty, "PathBuf") {
                    return one(c_char(), quote!(crate::border::memory::path(#name, #text)));
                }
                Ok(Self::one(&name, ty.clone(), None))
            }
        }
    }

    fn one(name: &Ident, ty: Type, read: Option<TokenStream>) -> Self {
        Self { name: name.clone(), c: vec![(name.clone(), ty)], read, takes: false }
    }
}

/// Returns the type of a place in C in which a result is stored.
fn place(ty: &Type) -> Type {
    if let Some(object) = generic(ty, "Owned") {
        return parse_quote!(*mut #object);
    }
    generic(ty, "Struct").unwrap_or(ty).clone()
}

fn c_char() -> Type {
    parse_quote!(*const ::std::ffi::c_char)
}

fn is_object(ty: &Type) -> bool {
    matches!(ty, Type::Path(path) if path.path.segments.last().is_some_and(|it| it.ident.to_string().starts_with("dp_")))
}

fn is_path(ty: &Type, name: &str) -> bool {
    matches!(ty, Type::Path(path) if path.path.segments.last().is_some_and(|it| it.ident == name))
}

/// Returns the argument of a generic type with this name.
fn generic<'a>(ty: &'a Type, name: &str) -> Option<&'a Type> {
    let Type::Path(path) = ty else { return None };
    let last = path.path.segments.last().filter(|it| it.ident == name)?;
    let PathArguments::AngleBracketed(arguments) = &last.arguments else { return None };
    arguments.args.iter().find_map(|it| if let GenericArgument::Type(ty) = it { Some(ty) } else { None })
}

//! The functions in the tables of objects, such as `PJRT_RawBuffer_FunctionTable`.

use std::fmt::Write as _;

use quote::ToTokens;
use syn::{Fields, GenericArgument, ItemStruct, PathArguments, ReturnType, Type, TypeBareFn};

use super::super::slots;
use crate::Error;

/// Object types that begin with a pointer to a function table.
const OBJECTS: &[&str] =
    &["PJRT_Error", "PJRT_Memory", "PJRT_RawBuffer", "PJRT_DeviceEvent", "PJRT_DeviceEventPromise"];

/// Returns whether an object of this type begins with a pointer to a function table.
pub(super) fn has_table(name: &str) -> bool {
    OBJECTS.contains(&name)
}

/// A function in the table of an object. Its parameters are not in a struct.
pub(super) struct ObjectFunction {
    /// Name of the object's type.
    object: String,
    /// Name of the field in the function table.
    field: String,
    /// Names and types of the parameters.
    parameters: Vec<(String, String)>,
    /// Type of the result.
    result: String,
}

/// Returns the functions of all objects, in the order of [`OBJECTS`] and of their tables.
pub(super) fn functions(structs: &[&ItemStruct]) -> Result<Vec<ObjectFunction>, Error> {
    let mut all = Vec::new();
    for object in OBJECTS {
        let name = format!("{object}_FunctionTable");
        let table = slots::find(structs, &name).ok_or_else(|| format!("the headers define no {name}"))?;
        let Fields::Named(named) = &table.fields else { return Err(format!("{name} has no fields").into()) };
        for field in &named.named {
            if let (Some(ident), Some(function)) = (&field.ident, pointer(&field.ty)) {
                all.push(ObjectFunction::new(object, ident.to_string(), function));
            }
        }
    }
    Ok(all)
}

/// Returns the function type in `Option<unsafe extern "C" fn(...) -> ...>`.
fn pointer(ty: &Type) -> Option<&TypeBareFn> {
    let Type::Path(path) = ty else { return None };
    let PathArguments::AngleBracketed(arguments) = &path.path.segments.last()?.arguments else { return None };
    match arguments.args.first() {
        Some(GenericArgument::Type(Type::BareFn(function))) => Some(function),
        _ => None,
    }
}

impl ObjectFunction {
    fn new(object: &str, field: String, function: &TypeBareFn) -> Self {
        let parameter = |(at, input): (usize, &syn::BareFnArg)| {
            let name = input.name.as_ref().map_or_else(|| format!("argument_{at}"), |(name, _)| name.to_string());
            (name, text(&input.ty))
        };
        let result = match &function.output {
            ReturnType::Default => "()".to_owned(),
            ReturnType::Type(_, ty) => text(ty),
        };
        let parameters = function.inputs.iter().enumerate().map(parameter).collect();
        Self { object: object.to_owned(), field, parameters, result }
    }

    /// Returns the name of the struct that contains the parameters and the result.
    fn args(&self) -> String {
        format!("{}_{}_Args", self.object, self.field)
    }

    fn is_fallible(&self) -> bool {
        self.result == "* mut PJRT_Error"
    }

    /// Writes the description of the function.
    pub(super) fn describe(&self, out: &mut String, structs: &[&ItemStruct]) -> Result<(), Error> {
        let args = self.args();
        let mut fields = String::new();
        let parameters = self.parameters.iter().map(|(name, ty)| (name, ty, false));
        let name = "result".to_owned();
        let result = Some((&name, &self.result, true)).filter(|(_, ty, _)| *ty != "()" && !self.is_fallible());
        for (at, (field, ty, output)) in parameters.chain(result).enumerate() {
            // The first argument of an event's function is the second half of a `PJRT_DeviceEvent`. The first half is
            // the table.
            let kind = match ty.as_str() {
                _ if at == 0 => format!("Kind::Handle(\"{}\")", self.object),
                "isize" | ":: core :: ffi :: c_int" => "Kind::Integer".to_owned(),
                // These arguments are not handles, because the caller owns the memory to which they point.
                "* mut PJRT_DeviceEvent" | "* mut PJRT_DeviceEventVector" => "Kind::Pointer".to_owned(),
                _ => super::kind(ty, structs),
            };
            write!(
                fields,
                "Field::new(\"{field}\", offset_of!({args}, {field}), size_of::<{ty}>(), {kind}, {output}),"
            )?;
        }
        let (object, fallible) = (&self.object, self.is_fallible());
        writeln!(out, "Function::of_object::<{args}>(\"{object}\", {fallible}, &[{fields}]),")?;
        Ok(())
    }
}

/// Writes the structs of parameters and the forwarders. `first` is the id of the first forwarder.
pub(super) fn forwarders(out: &mut String, functions: &[ObjectFunction], first: usize) -> Result<(), Error> {
    out.push_str("object_functions! {\n");
    for (at, function) in functions.iter().enumerate() {
        let parameters: String = function.parameters.iter().map(|(name, ty)| format!("{name}: {ty}, ")).collect();
        let ObjectFunction { object, field, result, .. } = function;
        let (args, id) = (function.args(), first + at);
        writeln!(
            out,
            "{id}, \"{object}_FunctionTable.{field}\", {object}, {object}_FunctionTable, {args}: {field}({parameters}) -> {result};"
        )?;
    }
    out.push_str("}\n");
    Ok(())
}

/// Returns a type as Rust source whose paths resolve in `pjrt-layers`.
fn text(ty: &Type) -> String {
    ty.to_token_stream().to_string().replace("crate :: Bool", "Bool")
}

//! The functions and fields that the generated bindings declare.

use std::collections::{BTreeMap, BTreeSet};

use quote::ToTokens;
use syn::{Fields, GenericArgument, Item, PathArguments, Type};

use crate::Error;

/// Fields that each side sets and checks with common code for all structs.
const SHARED: &[&str] = &["struct_size", "extension_start", "priv_", "base", "instance_size"];

/// A function table: the main table, the profiler's table, or the table of an extension.
pub(super) struct Table {
    pub(super) name: String,
    pub(super) functions: Vec<Function>,
}

/// A function of a table.
pub(super) struct Function {
    /// Name of the function's type and of its marker.
    pub(super) name: String,
    /// Name of the field in the table.
    pub(super) field: String,
    /// Argument struct of the function, if it has one.
    pub(super) args: Option<String>,
}

/// A field of a struct.
pub(super) struct Field {
    pub(super) name: String,
    /// The struct that is the field's type, or to which the field points.
    pub(super) target: Option<String>,
}

/// The declarations of the bindings, in the order of the headers.
#[derive(Default)]
pub(super) struct Declarations {
    pub(super) tables: Vec<Table>,
    /// Names of the structs that are neither tables nor opaque, in the order of the headers.
    pub(super) structs: Vec<String>,
    /// The fields of each struct and union, including tables and opaque structs.
    pub(super) fields: BTreeMap<String, Vec<Field>>,
    /// The functions by name, with the argument struct of each.
    pub(super) functions: BTreeMap<String, Option<String>>,
}

impl Declarations {
    pub(super) fn parse(bindings: &str) -> Result<Self, Error> {
        let file = syn::parse_file(bindings)?;
        let mut declarations = Self::default();
        let mut types: BTreeMap<String, Option<String>> = BTreeMap::new();
        let mut aliases: BTreeMap<String, String> = BTreeMap::new();
        let mut names = BTreeSet::new();
        for item in &file.items {
            match item {
                Item::Type(item) => match function_argument(&item.ty) {
                    Some(args) => drop(types.insert(item.ident.to_string(), args)),
                    None => drop(aliases.insert(item.ident.to_string(), item.ty.to_token_stream().to_string())),
                },
                Item::Struct(item) => drop(names.insert(item.ident.to_string())),
                Item::Union(item) => drop(names.insert(item.ident.to_string())),
                _ => {}
            }
        }
        for item in &file.items {
            let (name, named) = match item {
                Item::Struct(syn::ItemStruct { ident, fields: Fields::Named(named), .. }) => (ident.to_string(), named),
                Item::Union(item) => (item.ident.to_string(), &item.fields),
                _ => continue,
            };
            let is_union = matches!(item, Item::Union(_));
            let field = |field: &syn::Field| {
                let ty = field.ty.to_token_stream().to_string();
                let ty = aliases.get(&ty).cloned().unwrap_or(ty);
                let target = ty.split(' ').find(|word| names.contains(*word)).map(str::to_owned);
                Some((Field { name: field.ident.as_ref()?.to_string(), target }, ty))
            };
            let fields: Vec<(Field, String)> = named.named.iter().filter_map(field).collect();
            let is_extension = fields.first().is_some_and(|(_, ty)| ty == "PJRT_Extension_Base");
            if is_extension || name.ends_with("_Api") {
                let functions = fields.iter().filter_map(|(field, ty)| {
                    let args = types.get(ty)?.clone();
                    Some(Function { name: ty.clone(), field: field.name.clone(), args })
                });
                let table = Table { name: name.clone(), functions: functions.collect() };
                for function in &table.functions {
                    declarations.functions.insert(function.name.clone(), function.args.clone());
                }
                declarations.tables.push(table);
            } else if !is_union && fields.iter().any(|(field, _)| field.is_own()) {
                declarations.structs.push(name.clone());
            }
            declarations.fields.insert(name, fields.into_iter().map(|(field, _)| field).collect());
        }
        if declarations.functions.is_empty() {
            return Err("the bindings declare no table of functions".into());
        }
        Ok(declarations)
    }

    /// Returns whether a struct has a field of this name.
    pub(super) fn has(&self, name: &str, field: &str) -> bool {
        self.field(name, field).is_some()
    }

    /// Returns the field of a struct by its name.
    pub(super) fn field(&self, name: &str, field: &str) -> Option<&Field> {
        self.fields.get(name)?.iter().find(|known| known.name == field)
    }

    /// Returns the structs that are not the arguments of a function, in the order of the headers.
    pub(super) fn other_structs(&self) -> impl Iterator<Item = &str> {
        let arguments: BTreeSet<&str> = self.functions.values().flatten().map(String::as_str).collect();
        self.structs.iter().map(String::as_str).filter(move |name| !arguments.contains(name))
    }
}

impl Field {
    /// Returns whether the field is specific to its struct. Returns `false` for the [`SHARED`] fields and for padding.
    pub(super) fn is_own(&self) -> bool {
        !SHARED.contains(&self.name.as_str()) && !self.name.starts_with('_')
    }
}

/// Returns the argument struct of a type `Option<unsafe extern "C" fn(args: *mut X, …) -> …>`. Returns `None` for other
/// types, and `Some(None)` for functions with other parameters.
fn function_argument(ty: &Type) -> Option<Option<String>> {
    let Type::Path(path) = ty else { return None };
    let PathArguments::AngleBracketed(arguments) = &path.path.segments.last()?.arguments else { return None };
    let Some(GenericArgument::Type(Type::BareFn(function))) = arguments.args.first() else { return None };
    let [input] = function.inputs.iter().collect::<Vec<_>>()[..] else { return Some(None) };
    let Type::Ptr(pointer) = &input.ty else { return Some(None) };
    let name = pointer.elem.to_token_stream().to_string();
    Some(name.ends_with("_Args").then_some(name))
}

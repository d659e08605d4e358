//! Reads the functions of a portable artifact.

use std::borrow::Cow;
use std::sync::Arc;

use super::cursor::Cursor;
use super::entries::Tables;
use super::ir_section::{Gathered, Head, Own, Scope, Walk, finished, symbol};
use crate::attributes::type_weight;
use crate::compatible::all_compatible;
use crate::error::{Error, ErrorKind, Result};
use crate::ir::*;
use crate::signature::{declaration, declared_results, keep_visibility};
use crate::types::cloned_types;

/// The attributes of a function. `own` and `named` contain the inherent attributes.
struct FuncAttributes {
    /// Name and attribute index of each attribute in the function's properties.
    own: Own,
    /// Inherent attributes that the file stores by name.
    named: Attributes,
    /// Index of the function's type, if the file stores `function_type` as a type attribute. Otherwise the type is in
    /// `own` or `named`.
    ty: Option<usize>,
    discardable: Attributes,
}

impl FuncAttributes {
    fn find<'t>(&'t self, tables: &'t Tables<'_>, name: &str) -> Option<&'t Attribute> {
        match self.own.iter().find(|(n, _)| *n == name) {
            Some(&(_, index)) => Some(tables.loaded(index)),
            None => self.named.iter().find(|(n, _)| n == name).map(|(_, a)| a),
        }
    }

    fn text(&self, tables: &Tables<'_>, name: &str) -> Result<String> {
        self.find(tables, name)
            .and_then(symbol)
            .map(Cow::into_owned)
            .ok_or_else(|| Error::new(ErrorKind::Attribute, format_args!("attribute `{name}` must be a string")))
    }

    /// Returns the length of the list `name`. Returns 0 if the attribute is absent or is not a list.
    fn length(&self, tables: &Tables<'_>, name: &str) -> usize {
        match self.find(tables, name) {
            Some(Attribute::Array(items)) => items.len(),
            _ => 0,
        }
    }

    /// Returns the `count` dictionaries in the list `name`, one for each argument or result. A shorter or absent list
    /// is padded with empty dictionaries. A longer list is an error.
    fn lists(&self, tables: &Tables<'_>, name: &str, count: usize) -> Result<Vec<Attributes>> {
        let wrong = || {
            Error::new(
                ErrorKind::Attribute,
                format_args!("attribute `{name}` must be a list of at most {count} dictionaries"),
            )
        };
        let items = match self.find(tables, name) {
            None => return Ok(vec![Attributes::new(); count]),
            Some(Attribute::Array(items)) if items.len() <= count => items,
            Some(_) => return Err(wrong()),
        };
        let mut lists = Vec::with_capacity(count);
        for item in items {
            match item {
                Attribute::Dictionary(entries) => lists.push(entries.clone()),
                _ => return Err(wrong()),
            }
        }
        lists.resize(count, Attributes::new());
        Ok(lists)
    }
}

impl<'a> Walk<'a> {
    pub(super) fn func(&mut self, cursor: &mut Cursor<'a>, head: &Head) -> Result<()> {
        let name = self.func_attributes(head).and_then(|f| Ok((f.text(&self.tables, "sym_name")?, f)));
        let (name, f) = name.map_err(|e| e.with_offset(head.offset).with_op("func.func"))?;
        self.named_func(cursor, head, &name, f)
            .map_err(|e| e.with_offset(head.offset).with_op("func.func").with_func(&name))
    }

    fn named_func(&mut self, cursor: &mut Cursor<'a>, head: &Head, name: &str, mut f: FuncAttributes) -> Result<()> {
        let mut scope = Scope::new(self.module.funcs.len() + self.module.symbols.len());
        if head.regions != 1 {
            return Err(Error::new(
                ErrorKind::Structure,
                format_args!("a function must have one body, not {}", head.regions),
            ));
        }
        let body = if self.has_section(head) {
            let mut inner = self.section(cursor)?;
            let body = self.region(&mut inner, &mut scope, 1)?;
            finished(&inner)?;
            body
        } else {
            self.region(cursor, &mut scope, 1)?
        };
        if body.ops.is_empty() {
            // A function without a body is kept as a symbol, because other ops may refer to its name.
            let ty = match (f.ty, f.find(&self.tables, "function_type")) {
                (Some(ty), _) => self.tables.type_at(head.offset, ty, 0)?.into_type(),
                (None, Some(Attribute::Type(ty))) => ty.clone(),
                _ => Type::Token,
            };
            let Type::Other(ty) = ty else {
                return Err(Error::new(ErrorKind::Attribute, "attribute `function_type` must be a function type"));
            };
            // Keep all dictionaries. The verifier checks that there are as many dictionaries as arguments and results.
            let tables = &self.tables;
            let (inputs, results) = (f.length(tables, "arg_attrs"), f.length(tables, "res_attrs"));
            let lists = [f.lists(tables, "arg_attrs", inputs)?, f.lists(tables, "res_attrs", results)?];
            let visibility = f.find(tables, "sym_visibility").and_then(symbol).map(Cow::into_owned);
            let attributes = declaration(name, ty, visibility.as_deref(), lists, f.discardable);
            self.module.symbols.push(("func.func".to_owned(), attributes));
            return Ok(());
        }
        let Some(Op { kind: OpKind::Return, operands, .. }) = body.ops.last() else {
            return Err(Error::new(ErrorKind::Structure, "a function must end in a return"));
        };
        let results = self.declared(head, &f, &scope.values, [&body.args, operands])?;
        let tables = &self.tables;
        let (arg_attributes, result_attributes) =
            (f.lists(tables, "arg_attrs", body.args.len())?, f.lists(tables, "res_attrs", results.len())?);
        let mut attributes = std::mem::take(&mut f.discardable);
        let visibility = f.find(tables, "sym_visibility").and_then(symbol);
        let public = visibility.as_deref().is_none_or(|v| v != "private" && v != "nested");
        keep_visibility(visibility.as_deref(), &mut attributes);
        self.module.funcs.push(Func {
            name: name.to_owned(),
            public,
            arg_attributes,
            result_attributes,
            results,
            attributes,
            body,
            values: scope.values,
            location: head.location,
        });
        Ok(())
    }

    /// Returns the declared result types of a function. A declared extent may be dynamic where the extent in the body
    /// is static. `taken` and `returned` are the values that the body takes and returns.
    fn declared(
        &mut self,
        head: &Head,
        f: &FuncAttributes,
        values: &ValueTypes,
        [taken, returned]: [&[ValueId]; 2],
    ) -> Result<Vec<Type>> {
        // Types that share an allocation are equal, so compare them as shared types.
        let equal = |types: &[Arc<Type>], ids: &[ValueId]| {
            types.iter().map(Some).eq(ids.iter().map(|id| values.shared(id.0 as usize)))
        };
        let copy = |ids: &[ValueId]| ids.iter().map(|&v| values[v].clone()).collect::<Vec<_>>();
        match (f.ty, f.find(&self.tables, "function_type")) {
            (Some(ty), _) => {
                match self.tables.function_type(head.offset, ty)? {
                    Some([takes, declared]) if equal(takes, taken) && equal(declared, returned) => {
                        return Ok(copy(returned));
                    }
                    Some([takes, declared])
                        if equal(takes, taken) && all_compatible(&copy(returned), declared.iter().map(|ty| &**ty)) =>
                    {
                        let weight = declared.iter().map(|ty| type_weight(ty)).sum();
                        let declared = cloned_types(declared);
                        self.tables.charge(head.offset, weight)?;
                        return Ok(declared);
                    }
                    _ => {}
                }
                let declared = self.tables.type_at(head.offset, ty, 0)?.into_type();
                declared_results(&declared, &copy(taken), copy(returned))
            }
            // In artifacts without properties, the function type is a copied attribute, which the IR keeps as text.
            (None, Some(Attribute::Type(declared))) => declared_results(declared, &copy(taken), copy(returned)),
            _ => Err(Error::new(ErrorKind::Attribute, "attribute `function_type` must be a type")),
        }
    }

    fn func_attributes(&mut self, head: &Head) -> Result<FuncAttributes> {
        let mut own = Own::new();
        let Gathered { named, discardable } = self.gather(head, &mut own)?;
        let mut ty = None;
        if let Some(at) = own.iter().position(|(name, _)| *name == "function_type") {
            ty = self.tables.type_of_attribute(own[at].1);
            if ty.is_some() {
                own.remove(at);
            }
        }
        Ok(FuncAttributes { own, named, ty, discardable })
    }
}

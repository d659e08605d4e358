//! Parses the module, its functions and their regions.

use std::sync::Arc;

use super::dense::decode_hex;
use super::ops::GenericOp;
use super::parser::Parser;
use super::scope::Scope;
use crate::error::{Error, ErrorKind, Result};
use crate::ir::{function_text, *};

use crate::signature::{declaration, declared_results, keep_visibility};

impl<'a> Parser<'a> {
    /// Parses the whole program.
    pub(crate) fn program(mut self) -> Result<Module> {
        let mut module = Module::default();
        self.find_resources()?;
        self.top_level(&mut module, true)?;
        if !self.at_end() {
            return Err(self.expected("an op or the end of the program"));
        }
        if module.funcs.is_empty() && module.symbols.is_empty() && module.attributes.is_empty() {
            return Err(Error::new(ErrorKind::Structure, "the program holds no function"));
        }
        module.locations = self.locations.into();
        Ok(module)
    }

    /// Parses functions, other top-level ops and alias definitions, up to a closing brace or the end of the program.
    /// The outermost level may also contain the module itself.
    fn top_level(&mut self, module: &mut Module, outermost: bool) -> Result<()> {
        let mut wrapped = false;
        loop {
            match self.peek() {
                0 if self.at_end() => return Ok(()),
                b'}' => return Ok(()),
                b'#' => self.attribute_definition()?,
                b'!' => self.type_definition()?,
                b'{' if self.looking_at("{-#") => self.skip_resources()?,
                b'"' => self.generic_top_level(module, outermost)?,
                _ => match self.word() {
                    "module" | "builtin.module" if outermost => {
                        if wrapped {
                            return Err(Error::at(
                                ErrorKind::Structure,
                                self.pos,
                                "expected the end of the program after the module",
                            ));
                        }
                        wrapped = true;
                        self.module(module)?;
                    }
                    "func.func" | "func" => self.func(module)?,
                    "sdy.mesh" => self.mesh(module)?,
                    _ => return Err(self.expected("`module`, `func.func` or a definition")),
                },
            }
        }
    }

    fn module(&mut self, module: &mut Module) -> Result<()> {
        self.ident("`module`")?;
        if self.peek() == b'@' {
            module.name = Some(self.symbol()?);
        }
        if self.keyword("attributes") {
            module.attributes = self.dictionary()?;
            for (name, value) in &module.attributes {
                super::canonical::check(value)
                    .map_err(|e| self.error(format_args!("attribute `{name}`: {}", e.message())))?;
            }
            module.name_from_attributes();
        }
        self.expect("{")?;
        self.top_level(module, false)?;
        self.expect("}")?;
        self.optional_location()?;
        Ok(())
    }

    fn mesh(&mut self, module: &mut Module) -> Result<()> {
        self.ident("`sdy.mesh`")?;
        let name = self.symbol()?;
        self.expect("=")?;
        if self.peek() != b'<' {
            return Err(self.expected("`<`"));
        }
        let mesh = format!("#sdy.mesh{}", self.angle_body()?);
        let mut attributes = vec![
            ("mesh".to_owned(), Attribute::Other(mesh)),
            ("sym_name".to_owned(), Attribute::String(name.into_bytes().into())),
        ];
        attributes.extend(self.optional_dictionary()?);
        self.optional_location()?;
        module.symbols.push(("sdy.mesh".to_owned(), attributes));
        Ok(())
    }

    /// Parses `#name = attribute` or `#name = loc(...)`.
    fn attribute_definition(&mut self) -> Result<()> {
        let name = self.sigil(b'#', "an alias")?;
        self.expect("=")?;
        if self.word() != "loc" {
            let attribute = self.attribute()?;
            self.attribute_aliases.insert(name, attribute);
            return Ok(());
        }
        let id = self.location_alias(name)?;
        let definition = self.location()?;
        // The alias may be used before its definition, so it keeps its id, and the placeholder with this id is
        // replaced.
        let defined = if definition == id { Location::Unknown } else { self.locations[definition.0 as usize].clone() };
        let copied = match &defined {
            Location::File { file: text, .. } | Location::Name(text, _) => text.len(),
            Location::Fused(places) => 4 * places.len(),
            _ => 0,
        };
        self.budget.charge(copied).map_err(|e| e.with_offset(self.pos))?;
        self.locations[id.0 as usize] = defined;
        Ok(())
    }

    fn type_definition(&mut self) -> Result<()> {
        let name = self.sigil(b'!', "an alias")?;
        self.expect("=")?;
        let ty = self.ty()?;
        self.type_aliases.insert(name, ty);
        Ok(())
    }

    /// Reads the blobs of the section `{-# ... #-}`, which follows the constants that refer to them.
    fn find_resources(&mut self) -> Result<()> {
        // A string can contain `{-#`, but a string does not span lines, so search only at the beginning of lines.
        let mut end = self.text.len();
        let section = self.text.rsplit('\n').find_map(|line| {
            let start = end - line.len();
            end = start.saturating_sub(1);
            let rest = line.trim_start();
            let rest = rest.strip_prefix('}').map_or(rest, str::trim_start);
            rest.starts_with("{-#").then(|| start + line.len() - rest.len())
        });
        let Some(start) = section else { return Ok(()) };
        let mut inner = Parser::new(self.text);
        inner.pos = start + 3;
        inner.resource_entries(&mut self.resources, 0)
    }

    /// Parses `key: { ... }` or `key: "0x..."`, nested up to four levels deep, up to the closing bracket.
    fn resource_entries(
        &mut self,
        resources: &mut std::collections::HashMap<&'a str, bytes::Bytes>,
        depth: usize,
    ) -> Result<()> {
        while !self.looking_at("#-}") && !self.looking_at("}") {
            let key = self.ident("a resource key")?;
            self.expect(":")?;
            if self.peek() != b'{' {
                let raw = self.raw_string()?;
                // The first four bytes contain the alignment.
                if let Some(bytes) = raw.strip_prefix(b"0x").and_then(decode_hex).filter(|b| b.len() >= 4) {
                    resources.insert(key, bytes.slice(4..));
                }
            } else if depth < 4 {
                self.expect("{")?;
                self.resource_entries(resources, depth + 1)?;
                self.expect("}")?;
            } else {
                return Err(self.error("resources nest too deep"));
            }
            self.eat(",");
        }
        Ok(())
    }

    fn skip_resources(&mut self) -> Result<()> {
        match self.text[self.pos..].find("#-}") {
            Some(length) => {
                self.pos += length + 3;
                Ok(())
            }
            None => Err(self.error("`{-#` is never closed")),
        }
    }

    fn func(&mut self, module: &mut Module) -> Result<()> {
        let start = self.pos;
        self.ident("`func.func`")?;
        let visibility = match self.word() {
            word @ ("public" | "private" | "nested") => {
                self.pos += word.len();
                Some(word)
            }
            _ => None,
        };
        let name = self.symbol()?;
        match self.func_body(start, visibility, &name).map_err(|e| e.with_func(&name))? {
            Ok(func) => module.funcs.push(func),
            // A function without a body is kept as a symbol, because other ops may refer to its name.
            Err(attributes) => module.symbols.push(("func.func".to_owned(), attributes)),
        }
        Ok(())
    }

    /// Parses a function after its name. The inner `Err` holds the attributes of a function without a body.
    fn func_body(&mut self, start: usize, visibility: Option<&str>, name: &str) -> Result<Result<Func, Attributes>> {
        let mut scope = Scope::default();
        let arguments = self.list("(", ")", Self::declared_argument)?;
        let (names, typed): (Vec<_>, Vec<_>) = arguments.into_iter().unzip();
        let (types, arg_attributes): (Vec<_>, Vec<_>) = typed.into_iter().unzip();
        let args = scope.add(types)?;
        for (name, value) in names.iter().zip(&args) {
            scope.define(name, std::slice::from_ref(value)).map_err(|e| e.with_offset(start))?;
        }
        let (results, result_attributes): (Vec<_>, Vec<_>) =
            if self.eat("->") { self.func_results()? } else { Vec::new() }.into_iter().unzip();
        let mut attributes = if self.keyword("attributes") { self.dictionary()? } else { Attributes::new() };
        if self.peek() != b'{' {
            self.optional_location()?;
            let inputs: Vec<Type> = args.iter().map(|&v| scope.ty(v).clone()).collect();
            let ty = function_text(&inputs, &results);
            let lists = [arg_attributes, result_attributes];
            return Ok(Err(declaration(name, ty, visibility, lists, attributes)));
        }
        if names.contains(&"") {
            return Err(Error::at(ErrorKind::Syntax, start, "the arguments of a function with a body must be named"));
        }
        let place = self.place(start);
        self.expect("{")?;
        let ops = self.block(&mut scope)?;
        self.expect("}")?;
        let location = match self.optional_location()? {
            Some(location) => location,
            None => self.add_place(place)?,
        };
        keep_visibility(visibility, &mut attributes);
        Ok(Ok(Func {
            name: name.to_owned(),
            public: visibility.is_none_or(|v| v == "public"),
            arg_attributes,
            results,
            result_attributes,
            attributes,
            body: Region { args: args.to_vec(), ops },
            values: scope.values,
            location,
        }))
    }

    /// Parses an argument, or only its type in a function without a body.
    fn declared_argument(&mut self) -> Result<(&'a str, (Arc<Type>, Attributes))> {
        if self.peek() == b'%' {
            self.func_argument()
        } else {
            Ok(("", (self.value_type()?, self.optional_dictionary()?)))
        }
    }

    fn func_argument(&mut self) -> Result<(&'a str, (Arc<Type>, Attributes))> {
        let name = self.sigil(b'%', "an argument such as `%arg0: tensor<f32>`")?;
        self.expect(":")?;
        let ty = self.value_type()?;
        let attributes = self.optional_dictionary()?;
        self.optional_location()?;
        Ok((name, (ty, attributes)))
    }

    fn func_results(&mut self) -> Result<Vec<(Type, Attributes)>> {
        if self.peek() != b'(' {
            return Ok(vec![(Arc::unwrap_or_clone(self.value_type()?), Attributes::new())]);
        }
        self.list("(", ")", |p| Ok((Arc::unwrap_or_clone(p.value_type()?), p.optional_dictionary()?)))
    }

    /// Parses ops up to the closing brace.
    pub(super) fn block(&mut self, scope: &mut Scope<'a>) -> Result<Vec<Op>> {
        let mut ops = Vec::new();
        loop {
            match self.peek() {
                b'}' => return Ok(ops),
                0 if self.at_end() => return Err(self.expected("`}`")),
                b'^' => return Err(self.error("a region must have one block")),
                _ => self.op(scope, &mut ops)?,
            }
        }
    }

    /// Parses a region `{ ^bb0(%a: T): ops }`. The label is optional.
    pub(super) fn region(&mut self, scope: &mut Scope<'a>) -> Result<Region> {
        let mark = scope.mark();
        self.expect("{")?;
        let args = if self.peek() == b'^' { self.block_label(scope)? } else { Vec::new() };
        self.region_rest(scope, mark, args)
    }

    /// Parses the rest of a region whose arguments are already defined, and ends its scope.
    pub(super) fn region_rest(&mut self, scope: &mut Scope<'a>, mark: usize, args: Vec<ValueId>) -> Result<Region> {
        self.enter()?;
        let ops = self.block(scope)?;
        self.leave();
        self.expect("}")?;
        scope.forget(mark);
        Ok(Region { args, ops })
    }

    fn block_label(&mut self, scope: &mut Scope<'a>) -> Result<Vec<ValueId>> {
        self.sigil(b'^', "a block label")?;
        let mut args = Vec::new();
        if self.peek() == b'(' {
            let named = self.list("(", ")", |p| p.block_argument())?;
            args = self.define_arguments(scope, named)?;
        }
        self.expect(":")?;
        Ok(args)
    }

    /// Parses `%name: type`.
    pub(super) fn block_argument(&mut self) -> Result<(&'a str, Arc<Type>)> {
        let (name, (ty, _)) = self.func_argument()?;
        Ok((name, ty))
    }

    /// Adds a value for each named block argument, and returns the ids of the values.
    pub(super) fn define_arguments(
        &mut self,
        scope: &mut Scope<'a>,
        named: Vec<(&'a str, Arc<Type>)>,
    ) -> Result<Vec<ValueId>> {
        let (names, types): (Vec<_>, Vec<_>) = named.into_iter().unzip();
        let args = scope.add(types)?;
        for (name, value) in names.iter().zip(&args) {
            scope.define(name, std::slice::from_ref(value)).map_err(|e| e.with_offset(self.pos))?;
        }
        Ok(args.to_vec())
    }

    /// Parses a module, a function or another top-level op in generic form, such as
    /// `"func.func"() <{...}> ({...}) : () -> ()`.
    fn generic_top_level(&mut self, module: &mut Module, outermost: bool) -> Result<()> {
        let start = self.pos;
        let name = self.op_name()?.to_owned();
        self.list("(", ")", |p| Err::<(), _>(p.expected("`)`")))?;
        let properties = if self.eat("<") { self.generic_properties()? } else { Attributes::new() };
        match name.as_str() {
            "builtin.module" if outermost => {
                module.name = text(&properties, "sym_name");
                self.expect("(")?;
                self.expect("{")?;
                self.top_level(module, false)?;
                self.expect("}")?;
                self.expect(")")?;
                module.attributes = self.optional_dictionary()?;
                module.name_from_attributes();
            }
            "func.func" => {
                let place = self.place(start);
                let location = self.add_place(place)?;
                let mut scope = Scope::default();
                self.expect("(")?;
                let body = self.region(&mut scope)?;
                self.expect(")")?;
                let rest = self.optional_dictionary()?;
                if body.ops.is_empty() && body.args.is_empty() {
                    // A function without a body is kept as a symbol, as in the pretty form.
                    module.symbols.push((name, properties.into_iter().chain(rest).collect()));
                } else {
                    let func = generic_func(scope, body, properties, rest, location)
                        .map_err(|e| e.with_offset(start).with_op("func.func"))?;
                    module.funcs.push(func);
                }
            }
            _ => {
                let rest = self.optional_dictionary()?;
                module.symbols.push((name, properties.into_iter().chain(rest).collect()));
            }
        }
        self.expect(":")?;
        self.ty()?;
        self.optional_location()?;
        Ok(())
    }

    /// Parses the dictionary in `<{...}>` and the closing bracket.
    pub(super) fn generic_properties(&mut self) -> Result<Attributes> {
        let properties = self.dictionary()?;
        self.expect(">")?;
        Ok(properties)
    }

    /// Parses one op of a function, with its trailing location. Parser methods that need much stack return before the
    /// nested regions are parsed.
    pub(super) fn op(&mut self, scope: &mut Scope<'a>, ops: &mut Vec<Op>) -> Result<()> {
        let mut op = self.spare.pop().unwrap_or_default();
        self.op_start(scope, &mut op)?;
        if self.peek() == b'"' {
            self.generic_op(scope, &mut op)?;
        } else {
            self.pretty_op(scope, &mut op)?;
        }
        self.op_end(scope, &mut op, ops)?;
        op.clear();
        self.spare.push(op);
        Ok(())
    }

    /// Parses the names of the results, and records the position of the op.
    fn op_start(&mut self, scope: &mut Scope<'a>, op: &mut GenericOp<'a>) -> Result<()> {
        self.ws();
        op.start = self.pos;
        if self.here() == b'%' {
            self.result_names(op)?;
            let count = op.named.iter().map(|&(_, count)| count).sum();
            op.reserved = scope.add(std::iter::repeat_n(self.unknown.clone(), count))?;
        }
        // Compute the position before the regions are parsed, because `place` requires ascending positions.
        op.place = self.place(op.start);
        Ok(())
    }

    fn op_end(&mut self, scope: &mut Scope<'a>, op: &mut GenericOp<'a>, ops: &mut Vec<Op>) -> Result<()> {
        let finished = self.finish_op(scope, op)?;
        let mut results = &finished.results[..];
        for &(name, count) in &op.named {
            let (these, rest) = results.split_at(count);
            scope.define(name, these).map_err(|e| e.with_offset(op.start))?;
            results = rest;
        }
        ops.push(finished);
        Ok(())
    }

    /// Parses `%a, %b:2 =`.
    fn result_names(&mut self, op: &mut GenericOp<'a>) -> Result<()> {
        loop {
            let name = self.sigil(b'%', "a result name")?;
            let mut count = 1;
            if self.eat(":") {
                let number = self.integer()?;
                // The type of each result follows in the text, so the length of the remaining text limits the number of
                // results.
                let left = self.text.len() - self.pos;
                count = usize::try_from(number)
                    .ok()
                    .filter(|n| (1..=left).contains(n))
                    .ok_or_else(|| self.error(format_args!("{number} results")))?;
            }
            op.named.push((name, count));
            if !self.eat(",") {
                break;
            }
        }
        self.expect("=")
    }
}

fn text(attributes: &Attributes, name: &str) -> Option<String> {
    attributes.iter().find(|(n, _)| n == name).and_then(|(_, value)| match value {
        Attribute::String(bytes) => Some(String::from_utf8_lossy(bytes).into_owned()),
        Attribute::Symbol(name) => Some(name.clone()),
        _ => None,
    })
}

/// Builds a function that was parsed in generic form.
fn generic_func(
    scope: Scope<'_>,
    body: Region,
    properties: Attributes,
    rest: Attributes,
    location: LocationId,
) -> Result<Func> {
    let types = |ids: &[ValueId]| ids.iter().map(|&v| scope.ty(v).clone()).collect::<Vec<_>>();
    let Some(Op { kind: OpKind::Return, operands, .. }) = body.ops.last() else {
        return Err(Error::new(ErrorKind::Structure, "a function must have a body that ends in a return"));
    };
    let (inputs, results) = (types(&body.args), types(operands));
    let (mut own, mut attributes) = (properties, Attributes::new());
    for (name, value) in rest {
        let known =
            matches!(name.as_str(), "sym_name" | "sym_visibility" | "function_type" | "arg_attrs" | "res_attrs");
        if known { own.push((name, value)) } else { attributes.push((name, value)) }
    }
    let visibility = text(&own, "sym_visibility");
    keep_visibility(visibility.as_deref(), &mut attributes);
    let results = match own.iter().find(|(name, _)| name == "function_type") {
        Some((_, Attribute::Type(declared))) => declared_results(declared, &inputs, results)?,
        _ => return Err(Error::new(ErrorKind::Attribute, "attribute `function_type` must be a type")),
    };
    let lists = |name: &str, count: usize| {
        let mut lists = Vec::with_capacity(count);
        if let Some((_, Attribute::Array(items))) = own.iter().find(|(n, _)| n == name) {
            for item in items.iter().take(count) {
                lists.push(if let Attribute::Dictionary(entries) = item { entries.clone() } else { Attributes::new() });
            }
        }
        lists.resize(count, Attributes::new());
        lists
    };
    Ok(Func {
        name: text(&own, "sym_name")
            .ok_or_else(|| Error::new(ErrorKind::Attribute, "attribute `sym_name` must be a string"))?,
        public: visibility.is_none_or(|v| v != "private" && v != "nested"),
        arg_attributes: lists("arg_attrs", inputs.len()),
        result_attributes: lists("res_attrs", results.len()),
        results,
        attributes,
        body,
        values: scope.values,
        location,
    })
}

//! Prints the module, its symbols and its functions.

use super::names::Names;
use super::printer::Printer;
use crate::ir::{Attribute, Attributes, Func, Type};

/// Attributes of a function that its custom form prints outside of the attribute dictionary.
const OWN: [&str; 5] = ["arg_attrs", "function_type", "res_attrs", "sym_name", "sym_visibility"];

impl Printer<'_> {
    pub(super) fn module(&mut self) {
        let module = self.module;
        if self.options.generic {
            self.push("\"builtin.module\"()");
            if let Some(name) = &module.name {
                self.push(" <{sym_name = ");
                self.string(name.as_bytes());
                self.push("}>");
            }
            self.push(" ({\n");
        } else {
            self.push("module");
            if let Some(name) = &module.name {
                self.push(" ");
                self.symbol(name);
            }
            if !module.attributes.is_empty() {
                self.push(" attributes ");
                self.dictionary(&module.attributes);
            }
            self.push(" {\n");
        }
        self.indent = 2;
        for (name, attributes) in &module.symbols {
            self.top_symbol(name, attributes);
        }
        for func in &module.funcs {
            self.func(func);
        }
        self.indent = 0;
        self.push("}");
        if self.options.generic {
            self.push(")");
            self.dictionary_after_space(&module.attributes);
            self.push(" : () -> ()");
        }
        self.push("\n");
        self.location_definitions();
    }

    /// Prints a top-level op other than a function with a body, such as a mesh or a function declaration.
    fn top_symbol(&mut self, name: &str, attributes: &Attributes) {
        self.line();
        match name {
            "func.func" => self.declaration(attributes),
            "sdy.mesh" if !self.options.generic && find(attributes, "mesh").is_some() => self.mesh(attributes),
            _ => {
                let own: &[&str] = if name == "sdy.mesh" { &["mesh", "sym_name"] } else { &[] };
                let (own, rest): (Attributes, _) =
                    attributes.iter().cloned().partition(|(n, _)| own.contains(&n.as_str()));
                self.string(name.as_bytes());
                self.push("()");
                if !own.is_empty() {
                    self.push(" <");
                    self.dictionary(&own);
                    self.push(">");
                }
                self.dictionary_after_space(&rest);
                self.push(" : () -> ()");
            }
        }
        self.push("\n");
    }

    fn mesh(&mut self, attributes: &Attributes) {
        self.push("sdy.mesh ");
        if let Some(name) = find(attributes, "sym_name").and_then(Attribute::as_str) {
            self.symbol(name);
        }
        self.push(" = ");
        if let Some(mesh) = find(attributes, "mesh") {
            self.body(mesh);
        }
        let rest: Attributes =
            attributes.iter().filter(|(name, _)| name != "mesh" && name != "sym_name").cloned().collect();
        self.dictionary_after_space(&rest);
    }

    /// Prints a function without a body.
    fn declaration(&mut self, attributes: &Attributes) {
        if self.options.generic {
            let (own, rest): (Attributes, _) = attributes.iter().cloned().partition(|(n, _)| OWN.contains(&n.as_str()));
            self.push("\"func.func\"() <");
            self.dictionary(&own);
            self.push("> ({\n");
            self.line();
            self.push("})");
            self.dictionary_after_space(&rest);
            return self.push(" : () -> ()");
        }
        self.push("func.func ");
        if let Some(visibility) =
            find(attributes, "sym_visibility").and_then(Attribute::as_str).filter(|v| !v.is_empty())
        {
            self.push(visibility);
            self.push(" ");
        }
        if let Some(name) = find(attributes, "sym_name").and_then(Attribute::as_str) {
            self.symbol(name);
        }
        let ty = match find(attributes, "function_type") {
            Some(Attribute::Type(Type::Other(text))) => crate::signature::split(text),
            _ => None,
        };
        let types = |texts: Vec<&str>| texts.into_iter().map(|text| Type::Other(text.to_owned())).collect::<Vec<_>>();
        let (inputs, results) = ty.map(|(inputs, results)| (types(inputs), types(results))).unwrap_or_default();
        let each = |name: &str, i: usize| match find(attributes, name) {
            Some(Attribute::Array(items)) => match items.get(i) {
                Some(Attribute::Dictionary(entries)) => Some(entries),
                _ => None,
            },
            _ => None,
        };
        self.push("(");
        self.list(inputs.iter().enumerate(), |p, (i, ty)| {
            p.ty(Some(ty));
            if let Some(entries) = each("arg_attrs", i) {
                p.dictionary_after_space(entries);
            }
        });
        self.push(")");
        self.func_results(&results, |i| each("res_attrs", i));
        self.func_attributes(attributes);
    }

    /// Prints the result types of a function: ` -> T` or ` -> (T {attributes}, T)`.
    fn func_results<'t>(&mut self, results: &[Type], attributes: impl Fn(usize) -> Option<&'t Attributes>) {
        let has = |i: usize| attributes(i).is_some_and(|a| !a.is_empty());
        match results {
            [] => {}
            [one] if !has(0) => {
                self.push(" -> ");
                self.ty(Some(one));
            }
            _ => {
                self.push(" -> (");
                self.list(results.iter().enumerate(), |p, (i, ty)| {
                    p.ty(Some(ty));
                    if let Some(entries) = attributes(i) {
                        p.dictionary_after_space(entries);
                    }
                });
                self.push(")");
            }
        }
    }

    fn func_attributes(&mut self, attributes: &Attributes) {
        let rest: Attributes = attributes.iter().filter(|(n, _)| !OWN.contains(&n.as_str())).cloned().collect();
        if !rest.is_empty() {
            self.push(" attributes ");
            self.dictionary(&rest);
        }
    }

    fn func(&mut self, func: &Func) {
        self.names = Names::of(func, self.options.generic);
        self.terminator = "func.return";
        self.line();
        if self.options.generic {
            return self.generic_func(func);
        }
        self.push("func.func ");
        if let Some(visibility) = visibility(func) {
            self.push(visibility);
            self.push(" ");
        }
        self.symbol(&func.name);
        self.push("(");
        self.list(func.body.args.iter().enumerate(), |p, (i, &arg)| {
            p.value(arg);
            p.push(": ");
            p.ty(super::printer::type_of(func, arg));
            if let Some(entries) = func.arg_attributes.get(i) {
                p.dictionary_after_space(entries);
            }
        });
        self.push(")");
        self.func_results(&func.results, |i| func.result_attributes.get(i));
        self.func_attributes(&func.attributes);
        self.push(" {\n");
        self.block(func, &func.body);
        self.line();
        self.push("}");
        self.location(func.location);
        self.push("\n");
    }

    fn generic_func(&mut self, func: &Func) {
        let dictionaries = |lists: &[Attributes]| {
            let any = lists.iter().any(|l| !l.is_empty());
            any.then(|| Attribute::Array(lists.iter().cloned().map(Attribute::Dictionary).collect()))
        };
        let inputs: Vec<Type> =
            func.body.args.iter().filter_map(|&v| super::printer::type_of(func, v).cloned()).collect();
        let text = crate::ir::function_text(&inputs, &func.results);
        let mut own = vec![
            ("function_type".to_owned(), Attribute::Type(Type::Other(text))),
            ("sym_name".to_owned(), Attribute::String(func.name.clone().into_bytes().into())),
        ];
        own.extend(dictionaries(&func.arg_attributes).map(|a| ("arg_attrs".to_owned(), a)));
        own.extend(dictionaries(&func.result_attributes).map(|a| ("res_attrs".to_owned(), a)));
        if let Some(visibility) = visibility(func) {
            own.push(("sym_visibility".to_owned(), Attribute::String(visibility.as_bytes().to_vec().into())));
        }
        let rest: Attributes = func.attributes.iter().filter(|(n, _)| !OWN.contains(&n.as_str())).cloned().collect();
        self.push("\"func.func\"() <");
        self.dictionary(&own);
        self.push("> (");
        self.generic_region(func, &func.body);
        self.push(")");
        self.dictionary_after_space(&rest);
        self.push(" : () -> ()");
        self.location(func.location);
        self.push("\n");
    }
}

/// Returns the visibility that is printed. Returns `None` for a public function without an explicit visibility.
pub(crate) fn visibility(func: &Func) -> Option<&str> {
    let stated = find(&func.attributes, "sym_visibility").and_then(Attribute::as_str);
    if func.public { stated.filter(|&v| v == "public") } else { Some(stated.unwrap_or("private")) }
}

pub(crate) fn find<'a>(attributes: &'a Attributes, name: &str) -> Option<&'a Attribute> {
    attributes.iter().find(|(n, _)| n == name).map(|(_, value)| value)
}

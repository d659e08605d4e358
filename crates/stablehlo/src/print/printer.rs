//! The printer's state, and the helpers that all of its parts use.

use std::fmt;

use super::generic;
use super::names::Names;
use crate::ir::{Attribute, Attributes, Func, LocationId, Module, Op, Type, ValueId};

/// A string in quotes, with special characters escaped.
pub(crate) fn quoted(bytes: &[u8]) -> String {
    piece(|p| p.string(bytes))
}

/// One attribute.
pub(crate) fn attribute_text(attribute: &Attribute) -> String {
    piece(|p| p.attribute(attribute))
}

fn piece(print: impl FnOnce(&mut Printer<'_>)) -> String {
    let (module, options) = (Module::default(), PrintOptions::default());
    let mut printer = Printer::new(&module, &options);
    print(&mut printer);
    printer.out
}

impl Op {
    /// The op's own attributes by the specification's names, as in MLIR's generic form. Attributes with their default
    /// value are omitted, and dimension numbers are one attribute in MLIR's text. Creates a new list on each call.
    #[must_use]
    pub fn own_attributes(&self) -> Attributes {
        generic::attributes(self).0
    }
}

/// Options for printing a program.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PrintOptions {
    /// Prints every op in the generic form, `"stablehlo.add"(%0, %1) : (...) -> ...`, instead of its own form.
    pub generic: bool,
    /// Prints the source locations of functions and ops, as aliases that are defined at the end.
    pub locations: bool,
    /// Constants with more elements than this are written as `dense_resource<__elided__>`. This form is for people
    /// only. The text contains no values, so readers reject it.
    pub elide_elements_above: Option<usize>,
    /// Constants with more elements than this are printed in hexadecimal. MLIR's own limit is 100.
    pub hex_elements_above: usize,
}

impl Default for PrintOptions {
    fn default() -> Self {
        Self { generic: false, locations: false, elide_elements_above: None, hex_elements_above: 100 }
    }
}

impl Module {
    /// The program as StableHLO text.
    ///
    /// If a module passes [`verify`](crate::verify), StableHLO's parser and this crate read the text as the same
    /// program. The text of other modules may be incomplete.
    #[must_use]
    pub fn print(&self, options: &PrintOptions) -> String {
        let mut printer = Printer::new(self, options);
        printer.module();
        printer.out
    }
}

/// The program as text with the default options; see [`Module::print`].
impl fmt::Display for Module {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.print(&PrintOptions::default()))
    }
}

/// The text written so far, and the state of the printer.
pub(super) struct Printer<'a> {
    pub(super) module: &'a Module,
    pub(super) options: &'a PrintOptions,
    pub(super) out: String,
    pub(super) indent: usize,
    /// The function being printed, and the names of its values.
    pub(super) names: Names,
    /// Terminator of the innermost region.
    pub(super) terminator: &'static str,
    /// Locations referred to so far, by id.
    pub(super) located: Vec<bool>,
}

impl<'a> Printer<'a> {
    pub(super) fn new(module: &'a Module, options: &'a PrintOptions) -> Self {
        Self {
            module,
            options,
            out: String::new(),
            indent: 0,
            names: Names::default(),
            terminator: "func.return",
            located: vec![false; module.locations.len()],
        }
    }

    pub(super) fn push(&mut self, text: &str) {
        self.out.push_str(text);
    }

    /// A number.
    pub(super) fn number(&mut self, value: impl fmt::Display) {
        self.display(&value);
    }

    /// One function for all kinds of numbers, because it formats text.
    fn display(&mut self, value: &dyn fmt::Display) {
        use fmt::Write;
        // Writing to a string cannot fail.
        let _ = write!(self.out, "{value}");
    }

    /// The start of a line.
    pub(super) fn line(&mut self) {
        const BLANKS: &str = "                                ";
        let mut left = self.indent;
        while left > 0 {
            let now = left.min(BLANKS.len());
            self.out.push_str(&BLANKS[..now]);
            left -= now;
        }
    }

    /// Items separated by commas.
    pub(super) fn list<T>(&mut self, items: impl IntoIterator<Item = T>, mut item: impl FnMut(&mut Self, T)) {
        for (i, value) in items.into_iter().enumerate() {
            if i > 0 {
                self.push(", ");
            }
            item(self, value);
        }
    }

    pub(super) fn value(&mut self, value: ValueId) {
        self.names.write(value, &mut self.out);
    }

    pub(super) fn values(&mut self, values: &[ValueId]) {
        self.list(values, |p, &v| p.value(v));
    }

    /// `(T, T) -> T`.
    pub(super) fn signature(&mut self, func: &Func, op: &Op) {
        self.push("(");
        self.list(&op.operands, |p, &v| p.ty(type_of(func, v)));
        self.push(") -> ");
        self.results_type(op.results.iter().map(|&v| type_of(func, v)));
    }

    /// `T` or `(T, T)`.
    pub(super) fn results_type<'t>(&mut self, types: impl ExactSizeIterator<Item = Option<&'t Type>>) {
        let bare = types.len() == 1;
        self.push(if bare { "" } else { "(" });
        self.list(types, |p, ty| p.ty(ty));
        self.push(if bare { "" } else { ")" });
    }

    /// Prints a type. A value without a type, which [`verify`](crate::verify) rejects, prints as text that no reader
    /// accepts.
    pub(super) fn ty(&mut self, ty: Option<&Type>) {
        match ty {
            Some(Type::Tensor(tensor)) => self.tensor_type(tensor),
            Some(ty) => self.number(ty),
            None => self.push("<<no type>>"),
        }
    }

    /// ` loc(#loc3)`, if locations are printed.
    pub(super) fn location(&mut self, id: LocationId) {
        if self.options.locations {
            self.push(" ");
            self.location_reference(id);
        }
    }
}

/// The type of a value, if it has one.
pub(super) fn type_of(func: &Func, value: ValueId) -> Option<&Type> {
    func.values.get(value.0 as usize)
}

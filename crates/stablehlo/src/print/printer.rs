//! State of the printer, and helpers that the other modules use.

use std::fmt;

use super::generic;
use super::names::Names;
use crate::ir::{Attribute, Attributes, Func, LocationId, Module, Op, Type, ValueId};

/// Returns a string in quotes, with special characters escaped.
pub(crate) fn quoted(bytes: &[u8]) -> String {
    piece(|p| p.string(bytes))
}

/// Prints the attribute as MLIR text, such as `array<i64: 0, 1>`.
impl fmt::Display for Attribute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&attribute_text(self))
    }
}

/// Returns an attribute as MLIR text.
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
    /// Returns the op's inherent attributes under the specification's names, as in MLIR's generic form. Omits
    /// attributes that have their default value. Dimension numbers form a single attribute, which contains MLIR text.
    /// Creates a new list on each call.
    #[must_use]
    pub fn own_attributes(&self) -> Attributes {
        generic::attributes(self).0
    }
}

/// Options for printing a program.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PrintOptions {
    /// Prints each op in the generic form, `"stablehlo.add"(%0, %1) : (...) -> ...`, instead of its custom form.
    pub generic: bool,
    /// Prints the source locations of functions and ops as aliases. The aliases are defined at the end of the text.
    pub locations: bool,
    /// Prints constants with more elements than this as `dense_resource<__elided__>`, unless all elements are equal.
    /// Use this option only for text that people read. The text does not contain the elements, so readers reject it.
    pub elide_elements_above: Option<usize>,
    /// Prints constants with more elements than this in hexadecimal, except for booleans and constants whose elements
    /// are all equal. The default is MLIR's limit, which is 100.
    pub hex_elements_above: usize,
}

impl Default for PrintOptions {
    fn default() -> Self {
        Self { generic: false, locations: false, elide_elements_above: None, hex_elements_above: 100 }
    }
}

impl Module {
    /// Returns the program as StableHLO text.
    ///
    /// If a module passes [`verify`](crate::verify), StableHLO's parser and this crate read the text as the same
    /// program. For other modules, the text may be incomplete.
    #[must_use]
    pub fn print(&self, options: &PrintOptions) -> String {
        let mut printer = Printer::new(self, options);
        printer.module();
        printer.out
    }
}

/// Prints the program as StableHLO text with the default options. See [`Module::print`].
impl fmt::Display for Module {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.print(&PrintOptions::default()))
    }
}

/// Text that was printed so far, and the state of the printer.
pub(super) struct Printer<'a> {
    pub(super) module: &'a Module,
    pub(super) options: &'a PrintOptions,
    pub(super) out: String,
    pub(super) indent: usize,
    /// Names of the values in the function that is being printed.
    pub(super) names: Names,
    /// Name of the terminator of the innermost region.
    pub(super) terminator: &'static str,
    /// Whether each location was referred to, by id.
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

    /// Prints a number or another value that implements `Display`.
    pub(super) fn number(&mut self, value: impl fmt::Display) {
        self.display(&value);
    }

    /// Appends a formatted value. This function is not generic, because formatting compiles to much code.
    fn display(&mut self, value: &dyn fmt::Display) {
        use fmt::Write;
        // Writing to a string cannot fail, so ignore the result.
        let _ = write!(self.out, "{value}");
    }

    /// Prints the indentation of a line.
    pub(super) fn line(&mut self) {
        const BLANKS: &str = "                                ";
        let mut left = self.indent;
        while left > 0 {
            let now = left.min(BLANKS.len());
            self.out.push_str(&BLANKS[..now]);
            left -= now;
        }
    }

    /// Calls `item` to print each element, and prints a comma and a space between the elements.
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

    /// Prints the operand and result types, such as `(T, T) -> T`.
    pub(super) fn signature(&mut self, func: &Func, op: &Op) {
        self.push("(");
        self.list(&op.operands, |p, &v| p.ty(type_of(func, v)));
        self.push(") -> ");
        self.results_type(op.results.iter().map(|&v| type_of(func, v)));
    }

    /// Prints result types: `T` or `(T, T)`.
    pub(super) fn results_type<'t>(&mut self, types: impl ExactSizeIterator<Item = Option<&'t Type>>) {
        let bare = types.len() == 1;
        self.push(if bare { "" } else { "(" });
        self.list(types, |p, ty| p.ty(ty));
        self.push(if bare { "" } else { ")" });
    }

    /// Prints a type. For a value without a type, which [`verify`](crate::verify) rejects, prints text that every
    /// reader rejects.
    pub(super) fn ty(&mut self, ty: Option<&Type>) {
        match ty {
            Some(Type::Tensor(tensor)) => self.tensor_type(tensor),
            Some(ty) => self.number(ty),
            None => self.push("<<no type>>"),
        }
    }

    /// Prints a location reference such as ` loc(#loc3)`, if locations are printed.
    pub(super) fn location(&mut self, id: LocationId) {
        if self.options.locations {
            self.push(" ");
            self.location_reference(id);
        }
    }
}

/// Returns the type of a value, or `None` if the value does not exist.
pub(super) fn type_of(func: &Func, value: ValueId) -> Option<&Type> {
    func.values.get(value.0 as usize)
}

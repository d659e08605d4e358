//! Prints regions, and ops whose custom form contains regions.

use super::printer::{Printer, type_of};
use crate::ir::{Attribute, Attributes, Binary, Func, Op, OpKind, Region, TensorType, Type};

impl Printer<'_> {
    /// Prints the ops of a region with one more level of indentation.
    pub(super) fn block(&mut self, func: &Func, region: &Region) {
        self.indent += 2;
        for op in &region.ops {
            self.op(func, op);
        }
        self.indent -= 2;
    }

    /// Prints `{ ^bb0(%arg1: T): ops }`.
    pub(super) fn generic_region(&mut self, func: &Func, region: &Region) {
        self.push("{\n");
        if !region.args.is_empty() {
            self.line();
            self.push("^bb0(");
            self.list(&region.args, |p, &arg| {
                p.value(arg);
                p.push(": ");
                p.ty(type_of(func, arg));
            });
            self.push("):\n");
        }
        self.block(func, region);
        self.line();
        self.push("}");
    }

    /// Prints the regions of an op, ` ({...}, {...})`. Prints nothing if there are no regions.
    pub(super) fn generic_regions(&mut self, func: &Func, op: &Op) {
        if op.regions.is_empty() {
            return;
        }
        let outer = std::mem::replace(&mut self.terminator, terminator(&op.kind));
        self.push(" (");
        self.list(&op.regions, |p, region| p.generic_region(func, region));
        self.push(")");
        self.terminator = outer;
    }

    /// Prints `(%iterArg = %0) : T attributes {...} cond {...} do {...}`. Returns whether this form can represent the
    /// op.
    pub(super) fn while_op(&mut self, func: &Func, op: &Op) -> bool {
        let [cond, body] = &op.regions[..] else { return false };
        // The form gives the arguments of both regions the same names, so their types must also be equal.
        let types = |region: &Region| region.args.iter().map(|&v| type_of(func, v).cloned()).collect::<Vec<_>>();
        let operands: Vec<_> = op.operands.iter().map(|&v| type_of(func, v).cloned()).collect();
        let results: Vec<_> = op.results.iter().map(|&v| type_of(func, v).cloned()).collect();
        if types(cond) != operands || types(body) != operands || results != operands {
            return false;
        }
        self.push("stablehlo.while(");
        self.list(body.args.iter().zip(&op.operands), |p, (&arg, &operand)| {
            p.value(arg);
            p.push(" = ");
            p.value(operand);
        });
        self.push(")");
        if !operands.is_empty() {
            self.push(" : ");
            self.list(&operands, |p, ty| p.ty(ty.as_ref()));
        }
        if !op.attributes.is_empty() {
            self.push(" attributes ");
            self.dictionary(&op.attributes);
        }
        self.push("\n");
        let outer = std::mem::replace(&mut self.terminator, "stablehlo.return");
        for (word, region) in [("cond {\n", cond), ("} do {\n", body)] {
            self.line();
            self.push(word);
            self.block(func, region);
        }
        self.terminator = outer;
        self.line();
        self.push("}");
        true
    }

    /// Prints `(%0 init: %1) applies stablehlo.add across dimensions = [0] : ...`, or the form with an explicit
    /// reducer. Returns whether one of the two forms can represent the op.
    pub(super) fn reduce_op(&mut self, func: &Func, op: &Op, dimensions: &[usize]) -> bool {
        let inputs = op.operands.len() / 2;
        let [region] = &op.regions[..] else { return false };
        if inputs == 0 || op.operands.len() != 2 * inputs || region.args.len() != 2 * inputs {
            return false;
        }
        self.push("stablehlo.reduce");
        self.list(0..inputs, |p, i| {
            p.push("(");
            p.value(op.operands[i]);
            p.push(" init: ");
            p.value(op.operands[inputs + i]);
            p.push(")");
        });
        let applied = self.applied(func, op, region);
        if let Some(binary) = applied {
            self.push(" applies stablehlo.");
            self.push(binary.name());
        }
        self.push(" across dimensions = ");
        self.dims(dimensions);
        self.dictionary_after_space(&op.attributes);
        self.push(" : ");
        self.signature(func, op);
        if applied.is_some() {
            return true;
        }
        self.push("\n");
        self.line();
        self.push(" reducer");
        for i in 0..inputs {
            self.push("(");
            self.list([region.args[i], region.args[inputs + i]], |p, arg| {
                p.value(arg);
                p.push(": ");
                p.ty(type_of(func, arg));
            });
            self.push(") ");
        }
        self.push(" {\n");
        let outer = std::mem::replace(&mut self.terminator, "stablehlo.return");
        self.block(func, region);
        self.terminator = outer;
        self.line();
        self.push("}");
        true
    }

    /// Returns the op of a reducer that only applies one commutative op to its arguments. Returns `None` for any other
    /// reducer, and if the compact form would lose a type or a printed location.
    fn applied(&self, func: &Func, op: &Op, region: &Region) -> Option<Binary> {
        let ([inner, last], [x, y]) = (&region.ops[..], &region.args[..]) else { return None };
        let OpKind::Binary(binary) = inner.kind else { return None };
        use Binary::*;
        let commutes = matches!(binary, Add | And | Maximum | Minimum | Multiply | Or | Xor);
        let plain = inner.attributes.is_empty() && last.attributes.is_empty();
        let wired =
            inner.operands[..] == [*x, *y] && matches!(last.kind, OpKind::Return) && last.operands == inner.results;
        // The compact form omits the types of the region, so they must follow from the type of the initial value.
        let init = *op.operands.get(1)?;
        let scalar = type_of(func, init)?;
        let same = [*x, *y, *inner.results.first()?].iter().all(|&v| type_of(func, v) == Some(scalar));
        let input = type_of(func, op.operands[0]).and_then(Type::as_tensor)?;
        let fits = *scalar == Type::Tensor(TensorType::new([], input.element));
        let placed = !self.options.locations || (inner.location == op.location && last.location == op.location);
        (commutes && plain && wired && same && fits && placed && op.operands.len() == 2).then_some(binary)
    }

    /// Prints `name(%0) in_shardings=[...] out_shardings=[...] manual_axes={...} (%arg1: T) {...} : (T) -> T`, the
    /// custom form of Shardy's op with a region. Returns whether the form can represent the op.
    pub(super) fn shardy_region_op(&mut self, func: &Func, op: &Op, name: &str, attributes: &Attributes) -> bool {
        let find = |name: &str| attributes.iter().find(|(n, _)| n == name).map(|(_, a)| a);
        let inside = |name: &str, prefix: &str| match find(name) {
            Some(Attribute::Other(text)) => {
                text.strip_prefix(prefix)?.strip_suffix('>').filter(|text| is_bracketed(text))
            }
            _ => None,
        };
        let inputs = inside("in_shardings", "#sdy.sharding_per_value<");
        let outputs = inside("out_shardings", "#sdy.sharding_per_value<");
        let axes = inside("manual_axes", "#sdy<manual_axes");
        let ([region], Some(inputs), Some(outputs), Some(axes)) = (&op.regions[..], inputs, outputs, axes) else {
            return false;
        };
        self.push(name);
        self.push("(");
        self.values(&op.operands);
        for (word, text) in [(") in_shardings=", inputs), (" out_shardings=", outputs), (" manual_axes=", axes)] {
            self.push(word);
            self.push(text);
        }
        self.push(" (");
        self.list(&region.args, |p, &arg| {
            p.value(arg);
            p.push(": ");
            p.ty(type_of(func, arg));
        });
        self.push(") {\n");
        let outer = std::mem::replace(&mut self.terminator, "sdy.return");
        self.block(func, region);
        self.terminator = outer;
        self.line();
        self.push("}");
        self.dictionary_after_space(&op.attributes);
        self.push(" : ");
        self.signature(func, op);
        true
    }
}

/// Returns the name of the op that terminates the regions of an op.
fn terminator(kind: &OpKind) -> &'static str {
    match kind {
        OpKind::Other { name, .. } if name.starts_with("sdy.") => "sdy.return",
        _ => "stablehlo.return",
    }
}

/// Returns whether a text is a single pair of brackets with balanced contents, as Shardy's custom forms require.
fn is_bracketed(text: &str) -> bool {
    if !text.starts_with(['[', '{']) {
        return false;
    }
    let (mut depth, mut quoted, mut escaped) = (0usize, false, false);
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            _ if quoted => {}
            b'[' | b'{' | b'<' | b'(' => depth += 1,
            b']' | b'}' | b'>' | b')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth == 0 {
            return at + 1 == text.len();
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::is_bracketed;

    #[test]
    fn balanced_brackets() {
        for text in ["[]", "[<@mesh, [{\"x\"}]>]", "{\"]\", \"\\\"\"}"] {
            assert!(is_bracketed(text), "{text}");
        }
        for text in ["", "x", "[", "[]]", "[] []", "[\"]", "<[]>"] {
            assert!(!is_bracketed(text), "{text}");
        }
    }
}

//! Prints an op in its custom form or in MLIR's generic form.

use super::fields::Shown;
use super::generic::{self, convolution_text};
use super::printer::{Printer, type_of};
use crate::ir::*;
use crate::ops::{Count, counts};

/// Form of the types after the colon.
#[derive(Clone, Copy)]
enum Tail {
    /// Operand and result types, `(T) -> T`.
    Signature,
    /// `T` if all operands and results have this type, and `(T) -> T` otherwise.
    Same,
    /// Type of the result.
    Result,
}

impl Printer<'_> {
    pub(super) fn op(&mut self, func: &Func, op: &Op) {
        self.line();
        self.names.define(&op.results, &mut self.out);
        if self.options.generic || !self.own_form(func, op) {
            self.generic_op(func, op);
        }
        self.location(op.location);
        self.push("\n");
    }

    fn name(&mut self, op: &Op) {
        match &op.kind {
            OpKind::Other { name, .. } => self.push(name),
            OpKind::Return => self.push(self.terminator),
            OpKind::Call { .. } => self.push("func.call"),
            kind => {
                self.push("stablehlo.");
                self.push(kind.base_name());
            }
        }
    }

    /// Prints `"name"(operands) <{properties}> ({regions}) {attributes} : (T) -> T`.
    fn generic_op(&mut self, func: &Func, op: &Op) {
        self.push("\"");
        self.name(op);
        self.push("\"(");
        self.values(&op.operands);
        self.push(")");
        let (own, rest) = generic::attributes(op);
        if !own.is_empty() {
            self.push(" <");
            self.dictionary(&own);
            self.push(">");
        }
        self.generic_regions(func, op);
        self.dictionary_after_space(&rest);
        self.push(" : ");
        self.signature(func, op);
    }

    /// Prints a list of dimension indices, such as `[0, 1]`.
    pub(super) fn dims(&mut self, dimensions: &[usize]) {
        self.push("[");
        self.list(dimensions, |p, &d| p.integer(i64::try_from(d).unwrap_or(i64::MAX)));
        self.push("]");
    }

    pub(super) fn ints(&mut self, values: &[i64]) {
        self.push("[");
        self.list(values, |p, &v| p.integer(v));
        self.push("]");
    }

    /// Prints the start of most forms: `name %0, %1`.
    fn start(&mut self, op: &Op) {
        self.name(op);
        self.push(" ");
        self.values(&op.operands);
    }

    /// Prints `, word = `.
    fn word(&mut self, word: &str) {
        self.push(", ");
        self.push(word);
        self.push(" = ");
    }

    /// Prints the op in its custom form. Prints nothing and returns `false` if the op has no custom form, or if the
    /// custom form cannot represent the op.
    fn own_form(&mut self, func: &Func, op: &Op) -> bool {
        if let Some(printed) = self.table_form(func, op) {
            return printed;
        }
        match &op.kind {
            OpKind::While => self.while_op(func, op),
            OpKind::Reduce { dimensions } => self.reduce_op(func, op, dimensions),
            OpKind::Composite { .. } => self.composite(func, op),
            OpKind::Other { name, attributes } => self.other(func, op, name, attributes),
            _ if !op.regions.is_empty() => false,
            OpKind::Return => self.return_op(func, op),
            OpKind::Call { .. } | OpKind::CustomCall { .. } => self.call_op(func, op),
            OpKind::OptimizationBarrier => self.optimization_barrier(func, op),
            OpKind::Constant(literal) => self.constant(func, op, literal),
            OpKind::Convolution { dimensions, window, .. } => self.convolution(func, op, dimensions, window),
            OpKind::DotGeneral { dimensions, precision } => self.dot_general(func, op, dimensions, precision),
            _ if op.results.len() != 1 => false,
            OpKind::Tuple | OpKind::GetTupleElement { .. } | OpKind::AfterAll => self.tuple_form(func, op),
            OpKind::Slice { .. } => self.slice_op(func, op),
            OpKind::DynamicBroadcastInDim { broadcast_dimensions, .. } => {
                self.dynamic_broadcast(func, op, broadcast_dimensions)
            }
            _ => self.elementwise_form(func, op),
        }
    }

    /// Prints the custom form of an op from its row in `op_table!`: operands, keywords with their fields, and types.
    fn words_form(&mut self, func: &Func, op: &Op, tail: Tail, words: &[(&str, &dyn Shown)]) -> bool {
        let fits = match counts(&op.kind)[1] {
            Count::Exactly(results) => usize::from(results) == op.results.len(),
            Count::AtLeast(_) => true,
        };
        if !op.regions.is_empty() || !fits {
            return false;
        }
        self.name(op);
        let mut separator = " ";
        if !op.operands.is_empty() {
            self.push(separator);
            self.values(&op.operands);
            separator = ", ";
        }
        for (word, value) in words.iter().filter(|(_, value)| value.is_shown()) {
            self.push(separator);
            self.push(word);
            self.push(" = ");
            value.show(self);
            separator = ", ";
        }
        self.end(func, op, tail);
        true
    }

    /// Prints an elementwise op whose custom form is not in `op_table!`. Returns `false` for every other op.
    fn elementwise_form(&mut self, func: &Func, op: &Op) -> bool {
        let tail = match &op.kind {
            OpKind::Binary(Binary::Complex) => {
                let part = type_of(func, op.results[0])
                    .and_then(Type::as_tensor)
                    .and_then(|ty| Some(Type::Tensor(TensorType::new(ty.shape.clone(), ty.element.complex_part()?))));
                self.start(op);
                let inferred = op.operands.iter().all(|&v| type_of(func, v) == part.as_ref());
                if inferred { Tail::Result } else { Tail::Signature }
            }
            OpKind::Unary(_) | OpKind::Binary(_) => {
                self.start(op);
                Tail::Same
            }
            OpKind::Compare { direction, compare_type } if op.operands.len() == 2 => {
                self.push("stablehlo.compare ");
                self.push(direction.word());
                self.push(", ");
                self.values(&op.operands);
                if *compare_type != ComparisonType::NoType {
                    self.push(", ");
                    self.push(compare_type.word());
                }
                Tail::Signature
            }
            OpKind::Select if op.operands.len() == 3 => return self.select(func, op),
            OpKind::ReducePrecision { exponent_bits, mantissa_bits } => {
                self.start(op);
                self.push(&format!(", format = e{exponent_bits}m{mantissa_bits}"));
                Tail::Same
            }
            _ => return false,
        };
        self.end(func, op, tail);
        true
    }

    /// Prints an op on tuples or tokens. Returns `false` for every other op, and for a tuple whose result type is not
    /// the tuple of its operand types.
    fn tuple_form(&mut self, func: &Func, op: &Op) -> bool {
        let tail = match &op.kind {
            OpKind::AfterAll => {
                self.start(op);
                Tail::Same
            }
            OpKind::Tuple => {
                let types: Option<Vec<Type>> = op.operands.iter().map(|&v| type_of(func, v).cloned()).collect();
                if types.map(Type::Tuple).as_ref() != type_of(func, op.results[0]) {
                    return false;
                }
                self.start(op);
                Tail::Result
            }
            OpKind::GetTupleElement { index } => {
                self.start(op);
                self.push("[");
                self.number(index);
                self.push("]");
                Tail::Signature
            }
            _ => return false,
        };
        self.end(func, op, tail);
        true
    }

    /// Prints a slice, such as `%0 [1:3, 0:4:2]`.
    fn slice_op(&mut self, func: &Func, op: &Op) -> bool {
        let OpKind::Slice { start_indices, limit_indices, strides } = &op.kind else { return false };
        self.start(op);
        self.push(" [");
        self.list(start_indices.iter().zip(limit_indices).zip(strides), |p, ((&start, &limit), &stride)| {
            p.integer(start);
            p.push(":");
            p.integer(limit);
            if stride != 1 {
                p.push(":");
                p.integer(stride);
            }
        });
        self.push("]");
        self.end(func, op, Tail::Signature);
        true
    }

    /// Prints a constant. The custom form contains only the literal's type, so the result must have this type. The
    /// literal of a quantized constant has the storage type instead, so such a constant is printed in the generic form.
    fn constant(&mut self, func: &Func, op: &Op, literal: &Literal) -> bool {
        if op.results.first().and_then(|&v| type_of(func, v)?.as_tensor()) != Some(&literal.ty) {
            return false;
        }
        self.push("stablehlo.constant");
        self.dictionary_after_space(&op.attributes);
        self.push(" ");
        self.dense(literal);
        true
    }

    /// Prints `call @name(%0)` or `stablehlo.custom_call @name(%0)`.
    fn call_op(&mut self, func: &Func, op: &Op) -> bool {
        let (word, callee) = match &op.kind {
            // MLIR lets the ops in a function's body omit the dialect `func`, but not the ops in nested regions.
            OpKind::Call { callee } if self.terminator == "func.return" => ("call ", callee),
            OpKind::Call { callee } => ("func.call ", callee),
            OpKind::CustomCall { call_target_name, .. } => ("stablehlo.custom_call ", call_target_name),
            _ => return false,
        };
        self.push(word);
        self.callee(op, callee);
        let mut all = op.attributes.clone();
        all.extend(generic::custom_call(&op.kind).into_iter().map(|(name, value)| (name.to_owned(), value)));
        self.dictionary_after_space(&all);
        self.push(" : ");
        self.signature(func, op);
        true
    }

    /// Prints the end of most forms, which consists of the attribute dictionary and the types in the form `tail`.
    fn end(&mut self, func: &Func, op: &Op, tail: Tail) {
        self.dictionary_after_space(&op.attributes);
        self.push(" : ");
        let result = op.results.first().and_then(|&v| type_of(func, v));
        let same = || op.operands.iter().all(|&v| type_of(func, v) == result);
        match tail {
            Tail::Result => self.ty(result),
            Tail::Same if op.results.len() == 1 && same() => self.ty(result),
            Tail::Same | Tail::Signature => self.signature(func, op),
        }
    }

    /// Prints `@name(%0, %1)`.
    fn callee(&mut self, op: &Op, name: &str) {
        self.symbol(name);
        self.push("(");
        self.values(&op.operands);
        self.push(")");
    }

    fn return_op(&mut self, func: &Func, op: &Op) -> bool {
        self.push(if self.terminator == "func.return" { "return" } else { self.terminator });
        self.dictionary_after_space(&op.attributes);
        if !op.operands.is_empty() {
            self.push(" ");
            self.values(&op.operands);
            self.push(" : ");
            self.list(&op.operands, |p, &v| p.ty(type_of(func, v)));
        }
        true
    }

    /// Prints `%p, %x, %y : P, T` if the branches have the type of the result, and the full signature otherwise.
    fn select(&mut self, func: &Func, op: &Op) -> bool {
        let result = type_of(func, op.results[0]);
        self.start(op);
        self.dictionary_after_space(&op.attributes);
        self.push(" : ");
        if op.operands[1..].iter().all(|&v| type_of(func, v) == result) {
            self.ty(type_of(func, op.operands[0]));
            self.push(", ");
            self.ty(result);
        } else {
            self.signature(func, op);
        }
        true
    }

    fn optimization_barrier(&mut self, func: &Func, op: &Op) -> bool {
        let types = |values: &[ValueId]| values.iter().map(|&v| type_of(func, v).cloned()).collect::<Vec<_>>();
        if op.operands.is_empty() || types(&op.operands) != types(&op.results) {
            return false;
        }
        self.start(op);
        self.dictionary_after_space(&op.attributes);
        self.push(" : ");
        self.list(&op.results, |p, &v| p.ty(type_of(func, v)));
        true
    }

    fn dot_general(&mut self, func: &Func, op: &Op, d: &DotDimensions, precision: &[Precision]) -> bool {
        self.start(op);
        let batched = !d.lhs_batching.is_empty() || !d.rhs_batching.is_empty();
        let batching = batched.then_some(("batching_dims", &d.lhs_batching, &d.rhs_batching));
        let contracting = ("contracting_dims", &d.lhs_contracting, &d.rhs_contracting);
        for (word, lhs, rhs) in batching.into_iter().chain([contracting]) {
            self.word(word);
            self.dims(lhs);
            self.push(" x ");
            self.dims(rhs);
        }
        if precision.iter().any(|&p| p != Precision::Default) {
            self.word("precision");
            self.push("[");
            self.list(precision, |p, &one| p.push(one.word()));
            self.push("]");
        }
        let (own, rest): (Attributes, Attributes) =
            op.attributes.iter().cloned().partition(|(name, _)| name == "algorithm");
        for (_, algorithm) in &own {
            self.word("algorithm");
            self.body(algorithm);
        }
        self.dictionary_after_space(&rest);
        self.push(" : ");
        self.signature(func, op);
        true
    }

    fn convolution(&mut self, func: &Func, op: &Op, dimensions: &ConvDimensions, window: &Window) -> bool {
        self.push("stablehlo.convolution(");
        self.values(&op.operands);
        self.push(") dim_numbers = ");
        self.push(&convolution_text(dimensions));
        self.push(", window = {");
        let mut fields = generic::window(window, true);
        const ORDER: [(&str, &str); 5] = [
            ("window_strides", "stride"),
            ("padding", "pad"),
            ("lhs_dilation", "lhs_dilate"),
            ("rhs_dilation", "rhs_dilate"),
            ("window_reversal", "reverse"),
        ];
        fields.sort_by_key(|(name, _)| ORDER.iter().position(|(n, _)| n == name));
        self.list(&fields, |p, (name, value)| {
            p.push(ORDER.iter().find(|(n, _)| n == name).map_or(*name, |(_, word)| word));
            p.push(" = ");
            match (value, *name) {
                (_, "padding") => {
                    p.push("[");
                    p.list(&window.padding, |p, &(low, high)| p.ints(&[low, high]));
                    p.push("]");
                }
                (_, "window_reversal") => {
                    p.push("[");
                    p.list(&window.reversal, |p, &on| p.push(if on { "true" } else { "false" }));
                    p.push("]");
                }
                (value, _) => p.ints(&value.as_integers().unwrap_or_default()),
            }
        });
        self.push("}");
        let (own, mut rest) = generic::attributes(op);
        let worded = |name: &str| name == "dimension_numbers" || ORDER.iter().any(|(n, _)| *n == name);
        rest.extend(own.into_iter().filter(|(name, _)| !worded(name)));
        self.dictionary_after_space(&rest);
        self.push(" : ");
        self.signature(func, op);
        true
    }

    fn composite(&mut self, func: &Func, op: &Op) -> bool {
        let OpKind::Composite { name, decomposition, composite_attributes } = &op.kind else { return false };
        self.push("stablehlo.composite ");
        self.string(name.as_bytes());
        self.push(if op.operands.is_empty() { "" } else { " " });
        self.values(&op.operands);
        self.generic_regions(func, op);
        let mut all = op.attributes.clone();
        let own = generic::composite(decomposition, composite_attributes);
        all.extend(own.into_iter().map(|(name, value)| (name.to_owned(), value)));
        self.dictionary_after_space(&all);
        self.push(" : ");
        self.signature(func, op);
        true
    }

    fn dynamic_broadcast(&mut self, func: &Func, op: &Op, dimensions: &[usize]) -> bool {
        self.start(op);
        self.word("dims");
        self.dims(dimensions);
        let (mut own, rest) = generic::attributes(op);
        own.retain(|(name, _)| name != "broadcast_dimensions");
        own.extend(rest);
        self.dictionary_after_space(&own);
        self.push(" : ");
        self.signature(func, op);
        true
    }

    /// Prints the custom form of an op of Shardy. Returns `false` if the op has no custom form, or if the custom form
    /// cannot represent it.
    fn other(&mut self, func: &Func, op: &Op, name: &str, attributes: &Attributes) -> bool {
        let find = |name: &str| attributes.iter().find(|(n, _)| n == name).map(|(_, value)| value);
        if op.regions.len() == 1 && name == "sdy.manual_computation" {
            return self.shardy_region_op(func, op, name, attributes);
        }
        if !op.regions.is_empty() || op.results.len() != 1 {
            return false;
        }
        let tail = match name {
            "sdy.sharding_constraint" | "sdy.reshard" => {
                let Some(sharding @ Attribute::Other(text)) = find("sharding") else { return false };
                if !text.starts_with("#sdy.sharding<") {
                    return false;
                }
                self.start(op);
                self.push(" ");
                self.body(sharding);
                Tail::Same
            }
            _ => return false,
        };
        self.end(func, op, tail);
        true
    }
}

/// Expands to a call that prints one of the forms in `op_table!`.
macro_rules! form {
    ($p:ident, $func:ident, $op:ident, own, $words:expr) => {
        None
    };
    ($p:ident, $func:ident, $op:ident, generic, $words:expr) => {
        Some(false)
    };
    ($p:ident, $func:ident, $op:ident, same, $words:expr) => {
        Some($p.words_form($func, $op, Tail::Same, $words))
    };
    ($p:ident, $func:ident, $op:ident, signature, $words:expr) => {
        Some($p.words_form($func, $op, Tail::Signature, $words))
    };
    ($p:ident, $func:ident, $op:ident, result, $words:expr) => {
        Some($p.words_form($func, $op, Tail::Result, $words))
    };
}

macro_rules! table_forms {
    (
        table { $(
            $(#[$doc:meta])*
            $op:ident $name:literal ($($counts:tt)*)
            $({ $($field:ident : $ty:ty as $codec:ident = $attribute:literal),+ $(,)? })?
            $form:ident $([$($word:literal $of:ident),*])?;
        )* }
        own { $($own:tt)* }
    ) => {
        impl Printer<'_> {
            /// Prints an op whose form is in `op_table!`, and returns whether the form can represent the op. Returns
            /// `None` for ops of the form `own`, and for ops without a row.
            #[allow(unused_variables, reason = "a form need not show each field")]
            fn table_form(&mut self, func: &Func, op: &Op) -> Option<bool> {
                match &op.kind {
                    $(OpKind::$op { $($($field),+)? } => {
                        form!(self, func, op, $form, &[$($(($word, $of as &dyn Shown)),*)?])
                    })*
                    _ => None,
                }
            }
        }
    };
}

op_table!(table_forms);

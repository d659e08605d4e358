//! The code of kernels in languages like C, such as OpenCL C, CUDA and Metal.
//!
//! A vendor implements [`Language`], which knows types, memory and scalar operations. [`statements`] writes the rest of
//! a kernel: indices, shape ops, reductions, and the ops that the kernel computes inside.

mod scalar;

use std::collections::HashMap;
use std::fmt::Write as _;

use stablehlo::ir::{ElementType, Func, Op, OpKind, TensorType, Type, ValueId};
use stablehlo::{Error, ErrorKind, Result};

pub use scalar::{CType, scalar_expression};

use crate::index_map::{Coordinate, Source, index_map};
use crate::plan::Kernel;

/// The vendor's part of the code. Expressions are operands of other expressions only as variables.
pub trait Language {
    /// Returns the type of a variable for an element, such as `float`. Returns `None` if kernels do not support the
    /// element type.
    fn type_name(&self, element: ElementType) -> Option<&str>;

    /// Returns an expression of the element at `index` of the value with the index `read` in [`Kernel::reads`].
    fn load(&self, element: ElementType, read: usize, index: &str) -> String;

    /// Returns a statement that stores the element at `index` of the value with the index `write` in
    /// [`Kernel::writes`].
    fn store(&self, element: ElementType, write: usize, index: &str, value: &str) -> String;

    /// Returns an expression of a constant. `bytes` are those of one element, as in
    /// [`Literal`](stablehlo::ir::Literal).
    fn constant(&self, element: ElementType, bytes: &[u8]) -> String;

    /// Returns an expression of an elementwise op. Returns `None` if kernels do not support the op.
    fn expression(&self, kind: &OpKind, from: &[ElementType], to: ElementType, operands: &[String]) -> Option<String>;
}

/// Returns the statements that compute and store one element of the results of a kernel. The op of the kernel is an
/// elementwise op, a shape op or `reduce`. `index_type` is the type of an index, such as `int`, and `element` the
/// variable with the index of the element in row-major order.
///
/// # Errors
///
/// Returns an error with the name of the op and its types if the language does not support the op.
pub fn statements(kernel: &Kernel<'_>, language: &impl Language, index_type: &str, element: &str) -> Result<String> {
    let text = String::new();
    let mut writer = Writer { kernel, language, index_type, text, names: 0, scopes: vec![HashMap::new()] };
    match &kernel.op.kind {
        OpKind::Reduce { dimensions } => writer.reduce(dimensions, element)?,
        _ => {
            let result = kernel.op.results[0];
            let value = writer.op(kernel.op, result, &At::Linear(element.to_owned()))?;
            writer.store(0, element, &value)?;
        }
    }
    Ok(writer.text)
}

/// The index of an element.
enum At {
    Linear(String),
    Coordinates(Vec<String>),
}

/// What a variable holds: an element of a value at a linear index, or an index.
type Key = (Option<ValueId>, String);

struct Writer<'a, L> {
    kernel: &'a Kernel<'a>,
    language: &'a L,
    index_type: &'a str,
    text: String,
    names: usize,
    /// The variables of each open block.
    scopes: Vec<HashMap<Key, String>>,
}

fn unsupported(func: &Func, op: &Op) -> Error {
    let types = |values: &[ValueId]| values.iter().map(|&value| func.ty(value).to_string()).collect::<Vec<_>>();
    let (from, to) = (types(&op.operands).join(", "), types(&op.results).join(", "));
    let message = format_args!("kernels do not support {} of type ({from}) -> {to}", op.kind.name());
    Error::new(ErrorKind::Unsupported, message)
}

fn scalar() -> At {
    At::Linear("0".to_owned())
}

impl<'a, L: Language> Writer<'a, L> {
    fn ty(&self, value: ValueId) -> Result<&'a TensorType> {
        match self.kernel.func.ty(value) {
            Type::Tensor(ty) if ty.is_static() => Ok(ty),
            _ => Err(unsupported(self.kernel.func, self.kernel.op)),
        }
    }

    fn type_name(&self, value: ValueId) -> Result<&'a str> {
        let name = self.language.type_name(self.ty(value)?.element);
        name.ok_or_else(|| unsupported(self.kernel.func, self.kernel.op))
    }

    fn store(&mut self, write: usize, at: &str, value: &str) -> Result<()> {
        let element = self.ty(self.kernel.writes[write])?.element;
        let _ = writeln!(self.text, "{}", self.language.store(element, write, at, value));
        Ok(())
    }

    fn name(&mut self) -> String {
        self.names += 1;
        format!("v{}", self.names)
    }

    fn variable(&mut self, ty: &str, expression: &str) -> String {
        let name = self.name();
        let _ = writeln!(self.text, "{ty} {name} = {expression};");
        name
    }

    fn known(&self, key: &Key) -> Option<String> {
        self.scopes.iter().rev().find_map(|scope| scope.get(key).cloned())
    }

    fn remember(&mut self, key: Key, name: &str) {
        if let Some(scope) = self.scopes.last_mut() {
            scope.insert(key, name.to_owned());
        }
    }

    /// Returns a variable with this index.
    fn index(&mut self, expression: String) -> String {
        let key = (None, expression);
        if let Some(name) = self.known(&key) {
            return name;
        }
        let name = self.variable(self.index_type, &key.1);
        self.remember(key, &name);
        name
    }

    fn linear(&mut self, ty: &TensorType, at: &At) -> String {
        let coordinates = match at {
            At::Linear(at) => return at.clone(),
            At::Coordinates(coordinates) => coordinates,
        };
        let (mut terms, mut stride) = (Vec::new(), 1);
        for (coordinate, &extent) in coordinates.iter().zip(&ty.shape).rev() {
            if coordinate != "0" && extent != 1 {
                terms.push(if stride == 1 { coordinate.clone() } else { format!("{coordinate} * {stride}") });
            }
            stride *= extent;
        }
        match &terms[..] {
            [] => "0".to_owned(),
            [term] if !term.contains(' ') => term.clone(),
            terms => self.index(terms.join(" + ")),
        }
    }

    fn coordinates(&mut self, ty: &TensorType, at: &At) -> Vec<String> {
        let at = match at {
            At::Linear(at) => at,
            At::Coordinates(coordinates) => return coordinates.clone(),
        };
        let total: i64 = ty.shape.iter().product();
        let mut stride = total;
        let each = |&extent: &i64| {
            let outer = stride;
            stride /= extent.max(1);
            match (extent, outer == total, stride) {
                (1, ..) => "0".to_owned(),
                (_, true, 1) => at.clone(),
                (_, true, _) => self.index(format!("{at} / {stride}")),
                (_, _, 1) => self.index(format!("{at} % {extent}")),
                _ => self.index(format!("{at} / {stride} % {extent}")),
            }
        };
        ty.shape.iter().map(each).collect()
    }

    /// Returns a variable with an element of a value.
    fn value(&mut self, value: ValueId, at: &At) -> Result<String> {
        let ty = self.ty(value)?;
        let at = if ty.num_elements() == Some(1) { &scalar() } else { at };
        let key = (Some(value), self.linear(ty, at));
        if let Some(name) = self.known(&key) {
            return Ok(name);
        }
        let name = match (self.kernel.read(value), self.kernel.definition(value)) {
            (Some(read), _) => {
                let name = self.type_name(value)?;
                self.variable(name, &self.language.load(ty.element, read, &key.1))
            }
            (None, Some(op)) => self.op(op, value, at)?,
            (None, None) => return Err(unsupported(self.kernel.func, self.kernel.op)),
        };
        self.remember(key, &name);
        Ok(name)
    }

    /// Returns a variable with an element of an op's result.
    fn op(&mut self, op: &Op, result: ValueId, at: &At) -> Result<String> {
        let (ty, name) = (self.ty(result)?, self.type_name(result)?);
        if let Some(sources) = index_map(op, &self.kernel.func.values) {
            let out = self.coordinates(ty, at);
            return self.sources(op, &sources, &out, name);
        }
        let fail = || unsupported(self.kernel.func, op);
        let language = self.language;
        let expression = match &op.kind {
            // No element of an empty constant is used, but the code for one must compile.
            OpKind::Constant(literal) if literal.data.is_empty() => {
                language.constant(ty.element, &vec![0; ty.element.byte_size()])
            }
            OpKind::Constant(literal) => language.constant(ty.element, &literal.data),
            OpKind::Iota { iota_dimension } => {
                let coordinate = self.coordinates(ty, at).swap_remove(*iota_dimension);
                let from = [ElementType::I32];
                language.expression(&OpKind::Convert, &from, ty.element, &[coordinate]).ok_or_else(fail)?
            }
            OpKind::Reshape | OpKind::OptimizationBarrier => {
                let operand = op.results.iter().position(|&value| value == result).unwrap_or(0);
                let linear = self.linear(ty, at);
                return self.value(op.operands[operand], &At::Linear(linear));
            }
            kind => {
                let types = op.operands.iter().map(|&value| Ok(self.ty(value)?.element)).collect::<Result<Vec<_>>>()?;
                let values = op.operands.iter().map(|&value| self.value(value, at)).collect::<Result<Vec<_>>>()?;
                language.expression(kind, &types, ty.element, &values).ok_or_else(fail)?
            }
        };
        Ok(self.variable(name, &expression))
    }

    /// Returns a variable with the element of the first source that contains it.
    fn sources(&mut self, op: &Op, sources: &[Source], out: &[String], ty: &str) -> Result<String> {
        let Some((source, others)) = sources.split_first() else { return Err(unsupported(self.kernel.func, op)) };
        let (mut conditions, mut coordinates) = (Vec::new(), Vec::new());
        for coordinate in &source.coordinates {
            let name = self.coordinate(op, coordinate, out)?;
            let divisor = coordinate.divisor;
            if let Some(extent) = coordinate.within {
                conditions.push(format!("{name} >= 0 && {name} < {}", extent * divisor));
                if divisor > 1 {
                    conditions.push(format!("{name} % {divisor} == 0"));
                }
            }
            coordinates.push(if divisor == 1 { name } else { self.index(format!("{name} / {divisor}")) });
        }
        let (operand, at) = (op.operands[source.operand], At::Coordinates(coordinates));
        if conditions.is_empty() {
            return self.value(operand, &at);
        }
        let name = self.name();
        let _ = writeln!(self.text, "{ty} {name}; if ({}) {{", conditions.join(" && "));
        self.scopes.push(HashMap::new());
        let value = self.value(operand, &at)?;
        self.scopes.pop();
        let _ = writeln!(self.text, "{name} = {value}; }} else {{");
        self.scopes.push(HashMap::new());
        let value = self.sources(op, others, out, ty)?;
        self.scopes.pop();
        let _ = writeln!(self.text, "{name} = {value}; }}");
        Ok(name)
    }

    /// Returns a coordinate before the division.
    fn coordinate(&mut self, op: &Op, coordinate: &Coordinate, out: &[String]) -> Result<String> {
        let mut text = coordinate.dimension.map_or_else(|| "0".to_owned(), |dimension| out[dimension].clone());
        if coordinate.stride != 1 {
            text = format!("{text} * {}", coordinate.stride);
        }
        if coordinate.offset != 0 {
            text = format!("{text} + {}", coordinate.offset);
        }
        if let Some(start) = &coordinate.start {
            let (value, last) = (self.value(op.operands[start.operand], &scalar())?, start.last);
            let sign = if start.subtracts { "-" } else { "+" };
            let clamped = format!("{value} > {last} ? {last} : {value} > 0 ? {value} : 0");
            text = format!("{text} {sign} ({})({clamped})", self.index_type);
        }
        Ok(if text.contains(' ') { self.index(text) } else { text })
    }

    fn reduce(&mut self, dimensions: &[usize], element: &str) -> Result<()> {
        let op = self.kernel.op;
        let (inputs, inits) = op.operands.split_at(op.results.len());
        let [body] = &op.regions[..] else { return Err(unsupported(self.kernel.func, op)) };
        let (from, to) = (self.ty(inputs[0])?, self.ty(op.results[0])?);
        let mut sums = Vec::new();
        for (&init, &result) in inits.iter().zip(&op.results) {
            let value = self.value(init, &scalar())?;
            let name = self.type_name(result)?;
            sums.push(self.variable(name, &value));
        }
        let mut kept = self.coordinates(to, &At::Linear(element.to_owned())).into_iter();
        let mut coordinates = Vec::new();
        for (d, &extent) in from.shape.iter().enumerate() {
            if dimensions.contains(&d) {
                let _ = writeln!(self.text, "for ({} r{d} = 0; r{d} < {extent}; r{d}++) {{", self.index_type);
                coordinates.push(format!("r{d}"));
            } else {
                coordinates.extend(kept.next());
            }
        }
        self.scopes.push(HashMap::new());
        let at = At::Coordinates(coordinates);
        let mut arguments = sums.clone();
        for &input in inputs {
            arguments.push(self.value(input, &at)?);
        }
        for (&arg, name) in body.args.iter().zip(&arguments) {
            self.remember((Some(arg), "0".to_owned()), name);
        }
        let mut next = Vec::new();
        for &value in body.ops.last().map_or(&[][..], |op| &op.operands) {
            let (name, value) = (self.type_name(value)?, self.value(value, &scalar())?);
            // A copy, because the value may be one of the sums.
            next.push(self.variable(name, &value));
        }
        for (sum, value) in sums.iter().zip(next) {
            let _ = writeln!(self.text, "{sum} = {value};");
        }
        self.scopes.pop();
        let _ = writeln!(self.text, "{}", "}".repeat(dimensions.len()));
        sums.iter().enumerate().try_for_each(|(write, sum)| self.store(write, element, sum))
    }
}

#[cfg(test)]
mod tests {
    use stablehlo::VerifyLevel;
    use stablehlo::ir::Binary;

    use super::*;
    use crate::plan::{Fusion, Plan};

    /// C for floats, in which each value is the memory `m0`, `m1`, ...
    struct C;

    impl Language for C {
        fn type_name(&self, element: ElementType) -> Option<&str> {
            match element {
                ElementType::F32 => Some("float"),
                ElementType::I32 => Some("int"),
                _ => None,
            }
        }

        fn load(&self, _: ElementType, read: usize, index: &str) -> String {
            format!("m{read}[{index}]")
        }

        fn store(&self, _: ElementType, _: usize, index: &str, value: &str) -> String {
            format!("out[{index}] = {value};")
        }

        fn constant(&self, _: ElementType, bytes: &[u8]) -> String {
            f32::from_le_bytes(bytes.try_into().unwrap()).to_string()
        }

        fn expression(&self, kind: &OpKind, _: &[ElementType], _: ElementType, x: &[String]) -> Option<String> {
            match kind {
                OpKind::Binary(Binary::Add) => Some(format!("{} + {}", x[0], x[1])),
                _ => None,
            }
        }
    }

    fn code(lines: &str) -> Result<Vec<String>> {
        let text = format!("func.func @main(%x: tensor<2x3xf32>, %i: tensor<i32>) -> tensor<3xf32> {{\n{lines}\n}}");
        let module = stablehlo::parse(text, VerifyLevel::FULL)?;
        let classify = |op: &Op| match op.kind {
            OpKind::Reduce { .. } => Fusion::Root,
            OpKind::Reshape => Fusion::View,
            _ => Fusion::Fusible,
        };
        let plan = Plan::new(&module.funcs[0], 1, classify, |kernel| statements(kernel, &C, "int", "e"))?;
        let mut codes = Vec::new();
        plan.kernels(|code: &String| codes.push(code.clone()));
        Ok(codes)
    }

    #[test]
    fn empty_constants() {
        let codes = code(
            "%e = stablehlo.constant dense<> : tensor<0xf32>
             %s = stablehlo.slice %x [0:1, 0:3] : (tensor<2x3xf32>) -> tensor<1x3xf32>
             %t = stablehlo.reshape %s : (tensor<1x3xf32>) -> tensor<3xf32>
             %0 = stablehlo.concatenate %e, %t, dim = 0 : (tensor<0xf32>, tensor<3xf32>) -> tensor<3xf32>
             return %0 : tensor<3xf32>",
        );
        assert!(codes.unwrap().iter().any(|code| code.contains("m0[")));
    }

    #[test]
    fn reduction_of_a_sum() {
        let codes = code(
            "%zero = stablehlo.constant dense<0.0> : tensor<f32>
             %0 = stablehlo.add %x, %x : tensor<2x3xf32>
             %1 = stablehlo.reduce(%0 init: %zero) applies stablehlo.add across dimensions = [0]
               : (tensor<2x3xf32>, tensor<f32>) -> tensor<3xf32>
             return %1 : tensor<3xf32>",
        );
        let expected = "float v1 = 0;\nfloat v2 = v1;\nfor (int r0 = 0; r0 < 2; r0++) {\nint v3 = e + r0 * 3;\n\
                        float v4 = m0[v3];\nfloat v5 = v4 + v4;\nfloat v6 = v2 + v5;\nfloat v7 = v6;\nv2 = v7;\n}\n\
                        out[e] = v2;\n";
        assert_eq!(codes.unwrap(), [expected]);
    }

    #[test]
    fn slice_at_a_computed_start() {
        let codes = code(
            "%0 = stablehlo.dynamic_slice %x, %i, %i, sizes = [1, 3]
               : (tensor<2x3xf32>, tensor<i32>, tensor<i32>) -> tensor<1x3xf32>
             %1 = stablehlo.reshape %0 : (tensor<1x3xf32>) -> tensor<3xf32>
             %2 = stablehlo.add %1, %1 : tensor<3xf32>
             return %2 : tensor<3xf32>",
        );
        let expected = "int v1 = m1[0];\nint v2 = 0 + (int)(v1 > 1 ? 1 : v1 > 0 ? v1 : 0);\n\
                        int v3 = e + (int)(v1 > 0 ? 0 : v1 > 0 ? v1 : 0);\nint v4 = v3 + v2 * 3;\n\
                        float v5 = m0[v4];\nfloat v6 = v5 + v5;\nout[e] = v6;\n";
        assert_eq!(codes.unwrap(), [expected]);
    }

    #[test]
    fn unsupported_ops_are_named_with_their_types() {
        let codes = code(
            "%0 = stablehlo.slice %x [0:1, 0:3] : (tensor<2x3xf32>) -> tensor<1x3xf32>
             %1 = stablehlo.reshape %0 : (tensor<1x3xf32>) -> tensor<3xf32>
             %2 = stablehlo.tanh %1 : tensor<3xf32>
             return %2 : tensor<3xf32>",
        );
        let message = "kernels do not support stablehlo.tanh of type (tensor<3xf32>) -> tensor<3xf32>";
        assert_eq!(codes.unwrap_err().message(), message);
    }
}

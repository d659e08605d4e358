//! Kernels in OpenCL C: loops over the elements of a result, and reductions.

use std::collections::HashMap;
use std::fmt::Write as _;

use device_plugin::{Error, Result, stablehlo::unsupported};
use stablehlo::ir::{Func, Module, Op, OpKind, TensorType, Type, ValueId};
use stablehlo_passes::index_map::{Coordinate, Source as From, index_map};
use stablehlo_passes::plan::{Fusion, Kernel};

use crate::scalar::{CType, c_type, expression};

/// The source of a kernel, whose name is `KERNEL`, and its ranges.
pub(crate) struct Source {
    pub(crate) text: String,
    pub(crate) global: [usize; 3],
    pub(crate) local: [usize; 3],
}

/// Maximum number of work-items in a work-group.
const GROUP: usize = 256;

pub(crate) fn tensor(func: &Func, value: ValueId) -> Option<&TensorType> {
    match func.ty(value) {
        Type::Tensor(ty) if ty.is_static() => Some(ty),
        _ => None,
    }
}

fn ctype(func: &Func, value: ValueId) -> Option<CType> {
    c_type(tensor(func, value)?.element)
}

/// Whether kernels of this module, or steps without kernels, implement an op.
pub(crate) fn supports(op: &Op, func: &Func, doubles: bool) -> bool {
    let is_token = |value: &ValueId| *func.ty(*value) == Type::Token;
    if matches!(op.kind, OpKind::While | OpKind::If | OpKind::Case | OpKind::Return) {
        return true;
    }
    if matches!(op.kind, OpKind::AfterAll | OpKind::CreateToken) {
        return op.operands.iter().chain(&op.results).all(is_token);
    }
    let types: Option<Vec<CType>> = op.operands.iter().map(|&value| ctype(func, value)).collect();
    let results: Option<Vec<CType>> = op.results.iter().map(|&value| ctype(func, value)).collect();
    let (Some(from), Some(to)) = (types, results) else { return false };
    if !doubles && from.iter().chain(&to).any(|ty| ty.name == "double") {
        return false;
    }
    match &op.kind {
        OpKind::Constant(_) | OpKind::Iota { .. } | OpKind::Reshape | OpKind::OptimizationBarrier => true,
        OpKind::Reduce { .. } | OpKind::DotGeneral { .. } => true,
        kind if index_map(op, &func.values).is_some() => !matches!(kind, OpKind::DynamicUpdateSlice if op.operands.len() < 2),
        kind => to.len() == 1 && expression(kind, &from, to[0], &vec![String::new(); from.len()]).is_some(),
    }
}

/// How an op takes part in fusion.
pub(crate) fn classify(op: &Op, func: &Func) -> Fusion {
    let scalar = |value: &ValueId| tensor(func, *value).and_then(TensorType::num_elements) == Some(1);
    match &op.kind {
        OpKind::AfterAll | OpKind::CreateToken => Fusion::Nothing,
        OpKind::Reshape | OpKind::OptimizationBarrier => Fusion::View,
        OpKind::Constant(_) | OpKind::Iota { .. } | OpKind::BroadcastInDim { .. } | OpKind::Convert => Fusion::Cheap,
        OpKind::Transpose { .. } | OpKind::Slice { .. } | OpKind::Reverse { .. } => Fusion::Cheap,
        OpKind::Reduce { .. } => Fusion::Root,
        OpKind::DotGeneral { .. } | OpKind::Call { .. } => Fusion::Opaque,
        OpKind::Binary(_) | OpKind::Compare { .. } | OpKind::Select if op.results.iter().all(scalar) => Fusion::Cheap,
        _ => Fusion::Fusible,
    }
}

/// The index of an element.
#[derive(Clone)]
enum At {
    Linear(String),
    Coordinates(Vec<String>),
}

pub(crate) struct Emitter<'a> {
    module: &'a Module,
    kernel: &'a Kernel<'a>,
    text: String,
    names: usize,
    /// Type of an index.
    int: &'static str,
    /// The variables of each open block: values at an index, and indices.
    scopes: Vec<HashMap<(Option<ValueId>, String), String>>,
}

impl<'a> Emitter<'a> {
    pub(crate) fn new(module: &'a Module, kernel: &'a Kernel<'a>) -> Self {
        let types = kernel.func.values.iter();
        let large = |ty: &Type| matches!(ty, Type::Tensor(ty) if ty.num_elements().is_none_or(|n| n >= 1 << 30));
        let int = if types.clone().any(large) { "long" } else { "int" };
        Self { module, kernel, text: String::new(), names: 0, int, scopes: vec![HashMap::new()] }
    }

    /// Returns the kernel of an elementwise op, a shape op or a reduction.
    pub(crate) fn emit(mut self) -> Result<Source> {
        let to = self.ty(self.kernel.writes[0])?;
        let elements = to.num_elements().unwrap_or(0);
        // One dimension for the last extent, so that the other coordinates are equal in a work-group.
        let x = to.shape.last().and_then(|&extent| usize::try_from(extent).ok()).filter(|extent| *extent >= 16);
        let x = x.unwrap_or(elements);
        let y = elements / x.max(1);
        let (local_x, local_y) = (local(x, GROUP), local(y, (GROUP / local(x, GROUP)).max(1)));
        let global = [x.next_multiple_of(local_x), y.next_multiple_of(local_y), 1];
        self.head(&["x", "y"]);
        if global[0] != x || global[1] != y {
            let _ = writeln!(self.text, "  if (x >= {x} || y >= {y}) return;");
        }
        let at = if y == 1 { "x".to_owned() } else { self.index(format!("y * {x} + x")) };
        match &self.kernel.op.kind {
            OpKind::Reduce { dimensions } => self.reduce(dimensions, &at)?,
            _ => {
                let value = self.kernel.writes[0];
                let result = self.op(self.kernel.op, value, &At::Linear(at.clone()))?;
                self.store(0, &at, &result)?;
            }
        }
        self.text.push_str("}\n");
        Ok(Source { text: self.text, global, local: [local_x, local_y, 1] })
    }

    /// Writes the signature and the variables of the pointers and the ids.
    pub(crate) fn head(&mut self, ids: &[&str]) {
        self.text = head(self.kernel, self.int, ids);
    }

    fn ty(&self, value: ValueId) -> Result<&'a TensorType> {
        tensor(self.kernel.func, value).ok_or_else(|| unsupported(self.module, self.kernel.op))
    }

    fn ctype(&self, value: ValueId) -> Result<CType> {
        c_type(self.ty(value)?.element).ok_or_else(|| unsupported(self.module, self.kernel.op))
    }

    fn store(&mut self, write: usize, at: &str, value: &str) -> Result<()> {
        let ty = self.ctype(self.kernel.writes[write])?;
        let pointer = format!("p{}", self.kernel.reads.len() + write);
        let _ = writeln!(self.text, "  {}", ty.store(&pointer, at, value));
        Ok(())
    }

    fn variable(&mut self, ty: &str, expression: &str) -> String {
        self.names += 1;
        let _ = writeln!(self.text, "  {ty} v{} = {expression};", self.names);
        format!("v{}", self.names)
    }

    fn known(&self, key: &(Option<ValueId>, String)) -> Option<String> {
        self.scopes.iter().rev().find_map(|scope| scope.get(key).cloned())
    }

    fn remember(&mut self, key: (Option<ValueId>, String), name: &str) {
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
        let name = self.variable(self.int, &key.1);
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
            match coordinate.as_str() {
                "0" => {}
                _ if extent == 1 => {}
                coordinate if stride == 1 => terms.push(coordinate.to_owned()),
                coordinate => terms.push(format!("{coordinate} * {stride}")),
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
            At::Linear(at) => at.clone(),
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
        let at = if ty.num_elements() == Some(1) { &At::Linear("0".to_owned()) } else { at };
        let linear = self.linear(ty, at);
        let key = (Some(value), linear);
        if let Some(name) = self.known(&key) {
            return Ok(name);
        }
        let name = match (self.kernel.read(value), self.kernel.definition(value)) {
            (Some(read), _) => {
                let ty = self.ctype(value)?;
                self.variable(ty.name, &ty.load(&format!("p{read}"), &key.1))
            }
            (None, Some(op)) => self.op(op, value, at)?,
            (None, None) => return Err(unsupported(self.module, self.kernel.op)),
        };
        self.remember(key, &name);
        Ok(name)
    }

    /// Returns a variable with an element of an op's result.
    fn op(&mut self, op: &Op, result: ValueId, at: &At) -> Result<String> {
        let (ty, to) = (self.ty(result)?, self.ctype(result)?);
        if let Some(sources) = index_map(op, &self.kernel.func.values) {
            let out = self.coordinates(ty, at);
            return self.sources(op, &sources, &out, to);
        }
        let expression = match &op.kind {
            OpKind::Constant(literal) => to.constant(&literal.data),
            OpKind::Iota { iota_dimension } => {
                let coordinate = self.coordinates(ty, at).swap_remove(*iota_dimension);
                let cast = format!("({}){coordinate}", to.name);
                if to.round.is_empty() { cast } else { format!("{}({cast})", to.round) }
            }
            OpKind::Reshape | OpKind::OptimizationBarrier => {
                let operand = op.results.iter().position(|&value| value == result).unwrap_or(0);
                let linear = self.linear(ty, at);
                return self.value(op.operands[operand], &At::Linear(linear));
            }
            kind => {
                let types = op.operands.iter().map(|&value| self.ctype(value)).collect::<Result<Vec<_>>>()?;
                let values = op.operands.iter().map(|&value| self.value(value, at)).collect::<Result<Vec<_>>>()?;
                expression(kind, &types, to, &values).ok_or_else(|| unsupported(self.module, op))?
            }
        };
        Ok(self.variable(to.name, &expression))
    }

    /// Returns a variable with the element of the first source that contains it.
    fn sources(&mut self, op: &Op, sources: &[From], out: &[String], to: CType) -> Result<String> {
        let Some((source, others)) = sources.split_first() else { return Err(Error::internal("no source")) };
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
        self.names += 1;
        let name = format!("v{}", self.names);
        let _ = writeln!(self.text, "  {} {name}; if ({}) {{", to.name, conditions.join(" && "));
        self.scopes.push(HashMap::new());
        let value = self.value(operand, &at)?;
        let _ = writeln!(self.text, "  {name} = {value}; }} else {{");
        self.scopes.pop();
        self.scopes.push(HashMap::new());
        let value = self.sources(op, others, out, to)?;
        let _ = writeln!(self.text, "  {name} = {value}; }}");
        self.scopes.pop();
        Ok(name)
    }

    /// Returns the coordinate before the division.
    fn coordinate(&mut self, op: &Op, coordinate: &Coordinate, out: &[String]) -> Result<String> {
        let mut text = coordinate.dimension.map_or_else(|| "0".to_owned(), |dimension| out[dimension].clone());
        if coordinate.stride != 1 {
            text = format!("{text} * {}", coordinate.stride);
        }
        if coordinate.offset != 0 {
            text = format!("{text} + {}", coordinate.offset);
        }
        if let Some(start) = &coordinate.start {
            let value = self.value(op.operands[start.operand], &At::Linear("0".to_owned()))?;
            let sign = if start.subtracts { "-" } else { "+" };
            text = format!("{text} {sign} ({})clamp((long){value}, 0l, (long){})", self.int, start.last);
        }
        Ok(if text.contains(' ') { self.index(text) } else { text })
    }

    fn reduce(&mut self, dimensions: &[usize], at: &str) -> Result<()> {
        let (op, count) = (self.kernel.op, self.kernel.op.results.len());
        let (inputs, inits) = op.operands.split_at(count);
        let [body] = &op.regions[..] else { return Err(Error::internal("a reduction without a body")) };
        let (from, to) = (self.ty(inputs[0])?, self.ty(op.results[0])?);
        let mut sums = Vec::new();
        for (&init, &result) in inits.iter().zip(&op.results) {
            let value = self.value(init, &At::Linear("0".to_owned()))?;
            let ty = self.ctype(result)?;
            sums.push(self.variable(ty.name, &value));
        }
        let mut kept = self.coordinates(to, &At::Linear(at.to_owned())).into_iter();
        let mut coordinates = Vec::new();
        for (dimension, &extent) in from.shape.iter().enumerate() {
            if dimensions.contains(&dimension) {
                let int = self.int;
                let _ = writeln!(self.text, "  for ({int} r{dimension} = 0; r{dimension} < {extent}; r{dimension}++) {{");
                self.scopes.push(HashMap::new());
                coordinates.push(format!("r{dimension}"));
            } else {
                coordinates.extend(kept.next());
            }
        }
        let element = At::Coordinates(coordinates);
        let mut arguments = sums.clone();
        for &input in inputs {
            arguments.push(self.value(input, &element)?);
        }
        for (&arg, name) in body.args.iter().zip(&arguments) {
            self.remember((Some(arg), "0".to_owned()), name);
        }
        let returned = body.ops.last().map_or(&[][..], |op| &op.operands);
        let mut next = Vec::new();
        for &value in returned {
            let name = self.value(value, &At::Linear("0".to_owned()))?;
            let ty = self.ctype(value)?;
            next.push(self.variable(ty.name, &name));
        }
        for (sum, value) in sums.iter().zip(next) {
            let _ = writeln!(self.text, "  {sum} = {value};");
        }
        for _ in dimensions {
            self.scopes.pop();
            self.text.push_str("  }\n");
        }
        for (write, sum) in sums.iter().enumerate() {
            self.store(write, at, sum)?;
        }
        Ok(())
    }
}

/// Returns the signature of a kernel and the variables of the pointers and the ids.
pub(crate) fn head(kernel: &Kernel<'_>, int: &str, ids: &[&str]) -> String {
    let count = kernel.reads.len() + kernel.writes.len();
    let arguments: Vec<_> = (0..count).map(|at| format!("__global uchar* m{at}, ulong o{at}")).collect();
    let mut text = format!("__kernel void KERNEL({}) {{\n", arguments.join(", "));
    (0..count).for_each(|at| _ = writeln!(text, "  __global uchar* p{at} = m{at} + o{at};"));
    ids.iter().enumerate().for_each(|(at, id)| _ = writeln!(text, "  {int} {id} = get_global_id({at});"));
    text
}

/// Returns the size of work-groups: a divisor of the extent if there is a large one.
fn local(extent: usize, most: usize) -> usize {
    let most = most.min(extent).max(1);
    let divisor = (1..=most).rev().find(|&size| extent.is_multiple_of(size)).unwrap_or(1);
    if divisor * 4 >= most { divisor } else { most }
}

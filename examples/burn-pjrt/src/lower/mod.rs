//! Lowers graphs of Burn's operations to StableHLO.

mod attention;
mod base;
mod convolution;
mod float;
mod indexing;
mod integer;
mod maps;
mod numeric;
mod pooling;
mod random;
mod support;

use std::collections::HashMap;

use burn_ir::{BoolOperationIr, FloatOperationIr, ModuleOperationIr, OperationIr, ScalarIr, TensorId, TensorIr};
use stablehlo::builder::{Argument, DotGeneral, FunctionBuilder, ModuleBuilder, Output, Value};
use stablehlo::ir::{ElementType, Literal, Module, TensorType};

use crate::dtype::{Types, extents};
use crate::error::Error;
use crate::graph::Graph;
use crate::scalars::{self, Scalars};

pub(crate) use random::random_output;
pub(crate) use support::check;

type Result<T> = std::result::Result<T, Error>;

/// Builds the program of a graph. The arguments are the inputs of the graph, a vector of scalars for each element type,
/// and the states of the random number generators.
pub(crate) fn module(graph: &Graph, scalars: &Scalars, types: &Types, autocast: bool) -> Result<Module> {
    let f = FunctionBuilder::new("main");
    f.numpy_broadcasting(true);
    let mut lower = Lower::new(&f, types, autocast);
    for (input, donation) in graph.inputs.iter().zip(&graph.donations) {
        let ty = types.tensor(input)?;
        let order = types.minor_to_major(&ty.shape);
        let argument = Argument::new(ty);
        let argument = match order {
            Some(order) => argument.minor_to_major(&order),
            None => argument,
        };
        let argument = match donation.map(u32::try_from) {
            Some(Ok(output)) => argument.donated_to(output),
            _ => argument,
        };
        lower.values.insert(input.id, f.argument(argument)?);
    }
    for (element, values) in &scalars.vectors {
        let vector = f.argument(TensorType::new([values.len() as i64], *element))?;
        lower.scalars.push(ScalarVector { element: *element, vector, next: 0 });
    }
    let generators = graph.ops.iter().filter_map(random_output).count();
    if generators > 0 {
        lower.generators = Some(f.argument(TensorType::new([generators as i64, 2], ElementType::Ui64))?);
    }
    for op in &graph.ops {
        lower.op(op).map_err(|error| error.in_operation(|| support::name(op)))?;
    }
    let results: Vec<Value> = graph.outputs.iter().map(|output| lower.value(output)).collect::<Result<_>>()?;
    for (index, output) in graph.outputs.iter().enumerate() {
        if let Some(order) = types.minor_to_major(&extents(output)) {
            f.output(index, Output::new().minor_to_major(&order));
        }
    }
    let module = ModuleBuilder::new("burn");
    module.add(f.finish(results)?)?;
    Ok(module.build()?)
}

/// The scalar arguments of one element type. Each operation uses the next scalar.
struct ScalarVector {
    element: ElementType,
    vector: Value,
    next: i64,
}

/// Lowers the operations of one graph.
pub(super) struct Lower<'a> {
    f: &'a FunctionBuilder,
    types: &'a Types,
    autocast: Option<ElementType>,
    values: HashMap<TensorId, Value>,
    scalars: Vec<ScalarVector>,
    generators: Option<Value>,
    next_generator: i64,
}

impl<'a> Lower<'a> {
    fn new(f: &'a FunctionBuilder, types: &'a Types, autocast: bool) -> Self {
        let declared = types.capabilities().autocast.as_ref().filter(|_| autocast);
        let autocast = declared.and_then(|autocast| ElementType::try_from(autocast.default_dtype).ok());
        let (values, scalars) = (HashMap::new(), Vec::new());
        Self { f, types, autocast, values, scalars, generators: None, next_generator: 0 }
    }

    fn op(&mut self, op: &OperationIr) -> Result<()> {
        match op {
            OperationIr::BaseFloat(op) | OperationIr::BaseInt(op) | OperationIr::BaseBool(op) => self.base(op),
            OperationIr::NumericFloat(_, numeric) | OperationIr::NumericInt(_, numeric) => {
                let argument = scalars::argument(op).is_some();
                self.numeric(numeric, argument)
            }
            OperationIr::Bool(op) => self.bool(op),
            OperationIr::Int(op) => self.int(op),
            OperationIr::Float(_, FloatOperationIr::Random(op)) => self.random(&op.out, op.distribution),
            OperationIr::Float(_, op) => self.float(op),
            OperationIr::Module(op) => self.module_op(op),
            OperationIr::Init(_) | OperationIr::Drop(_) => Ok(()),
            #[allow(unreachable_patterns)]
            other => Err(Error::unsupported(&support::name(other), "it is not known")),
        }
    }

    fn bool(&mut self, op: &BoolOperationIr) -> Result<()> {
        match op {
            BoolOperationIr::IntoFloat(op) | BoolOperationIr::IntoInt(op) => self.set(&op.out, self.value(&op.input)?),
            BoolOperationIr::Not(op) => self.set(&op.out, self.f.not(self.value(&op.input)?)?),
            BoolOperationIr::And(op) => self.set(&op.out, self.f.and(self.value(&op.lhs)?, self.value(&op.rhs)?)?),
            BoolOperationIr::Or(op) => self.set(&op.out, self.f.or(self.value(&op.lhs)?, self.value(&op.rhs)?)?),
        }
    }

    fn module_op(&mut self, op: &ModuleOperationIr) -> Result<()> {
        use ModuleOperationIr as M;
        match op {
            M::Embedding(op) => {
                let rows = self.flat(self.value(&op.indices)?)?;
                let taken = self.take(self.value(&op.weights)?, 0, rows)?;
                self.set_reshaped(&op.out, taken)
            }
            M::EmbeddingBackward(op) => {
                let rows = self.flat(self.value(&op.indices)?)?;
                let width = extents(&op.weights)[1];
                let count = self.shape(rows)?[0];
                let grad = self.f.reshape(self.value(&op.out_grad)?, &[count, width])?;
                let zeros = self.zeros(&op.out)?;
                let sum = self.scatter_rows(zeros, 0, rows, grad, burn_backend::tensor::IndexingUpdateOp::Add)?;
                self.set(&op.out, sum)
            }
            M::Linear(op) => {
                let (x, weight) = (self.value(&op.x)?, self.value(&op.weight)?);
                let last = op.x.shape.num_dims() - 1;
                let mut product = self.dot(x, weight, DotGeneral::new().contracting([last], [0]))?;
                if let Some(bias) = &op.bias {
                    product = self.f.add(product, self.value(bias)?)?;
                }
                self.set(&op.out, product)
            }
            M::LinearXBackward(op) => {
                let grad = self.value(&op.output_grad)?;
                let last = op.output_grad.shape.num_dims() - 1;
                let dimensions = DotGeneral::new().contracting([last], [1]);
                let product = self.dot(grad, self.value(&op.weight)?, dimensions)?;
                self.set(&op.out, product)
            }
            M::LinearWeightBackward(op) => {
                let leading: Vec<usize> = (0..op.x.shape.num_dims() - 1).collect();
                let dimensions = DotGeneral::new().contracting(&leading, &leading);
                let product = self.dot(self.value(&op.x)?, self.value(&op.output_grad)?, dimensions)?;
                self.set_reshaped(&op.out, product)
            }
            M::LinearBiasBackward(op) => {
                let leading: Vec<usize> = (0..op.output_grad.shape.num_dims() - 1).collect();
                let sum = self.sum(self.value(&op.output_grad)?, &leading)?;
                self.set_reshaped(&op.out, sum)
            }
            M::Attention(op) => self.attention(op),
            M::AdaptiveAvgPool1d(_)
            | M::AdaptiveAvgPool2d(_)
            | M::AdaptiveAvgPool1dBackward(_)
            | M::AdaptiveAvgPool2dBackward(_)
            | M::Interpolate(_)
            | M::InterpolateBackward(_)
            | M::Rfft(_)
            | M::IRfft(_) => self.map_op(op),
            M::AvgPool1d(_)
            | M::AvgPool2d(_)
            | M::AvgPool1dBackward(_)
            | M::AvgPool2dBackward(_)
            | M::MaxPool1d(_)
            | M::MaxPool2d(_)
            | M::MaxPool1dWithIndices(_)
            | M::MaxPool2dWithIndices(_)
            | M::MaxPool1dWithIndicesBackward(_)
            | M::MaxPool2dWithIndicesBackward(_) => self.pool_op(op),
            _ => self.convolution_op(op),
        }
    }
}

/// Access to values, and helpers that create common ops.
impl Lower<'_> {
    fn value(&self, tensor: &TensorIr) -> Result<Value> {
        self.values.get(&tensor.id).copied().ok_or(Error::Missing(tensor.id.value()))
    }

    /// Sets the value of a result tensor, converted to the element type of the tensor.
    fn set(&mut self, out: &TensorIr, value: Value) -> Result<()> {
        let expected = self.types.tensor(out)?;
        let ty = self.f.tensor_type(value)?;
        if ty.shape != expected.shape {
            let message = format!("the result has the shape {:?} instead of {:?}", ty.shape, expected.shape);
            return Err(Error::Lowering { operation: String::new(), message });
        }
        let value = self.converted(value, expected.element)?;
        self.values.insert(out.id, value);
        Ok(())
    }

    /// Sets the value of a result tensor, reshaped to its shape.
    fn set_reshaped(&mut self, out: &TensorIr, value: Value) -> Result<()> {
        let value = self.f.reshape(value, &extents(out))?;
        self.set(out, value)
    }

    fn converted(&self, value: Value, element: ElementType) -> Result<Value> {
        Ok(if self.element(value)? == element { value } else { self.f.convert(value, element)? })
    }

    fn element(&self, value: Value) -> Result<ElementType> {
        Ok(self.f.tensor_type(value)?.element)
    }

    fn shape(&self, value: Value) -> Result<Vec<i64>> {
        Ok(self.f.tensor_type(value)?.shape)
    }

    fn rank(&self, value: Value) -> Result<usize> {
        Ok(self.f.tensor_type(value)?.rank())
    }

    /// Creates a constant scalar.
    fn number(&self, value: f64, element: ElementType) -> Result<Value> {
        Ok(self.f.full(value, TensorType::new([], element))?)
    }

    /// Creates a constant scalar with the element type of `like`.
    fn number_like(&self, value: f64, like: Value) -> Result<Value> {
        self.number(value, self.element(like)?)
    }

    fn zeros(&self, tensor: &TensorIr) -> Result<Value> {
        Ok(self.f.full(0.0, self.types.tensor(tensor)?)?)
    }

    /// Returns a scalar of an operation as a constant.
    fn constant(&self, scalar: ScalarIr, element: ElementType) -> Result<Value> {
        let literal = match element {
            ElementType::I64 => Literal::scalar(scalar.elem::<i64>()),
            ElementType::Ui64 => Literal::scalar(scalar.elem::<u64>()),
            ElementType::Bool => Literal::scalar(scalar.elem::<bool>()),
            element if element.is_float() => return self.number(scalars::number(scalar), element),
            // An integer that is out of range wraps, as with `as` in Rust.
            element => return self.converted(self.f.constant(scalar.elem::<i64>())?, element),
        };
        Ok(self.f.constant(literal)?)
    }

    /// Returns a scalar of an operation. If `argument` is `true` and the program has a [`ScalarVector`] of this element
    /// type, returns the next scalar of this vector. Otherwise returns a constant.
    fn scalar(&mut self, scalar: ScalarIr, element: ElementType, argument: bool) -> Result<Value> {
        let vector = self.scalars.iter_mut().find(|vector| argument && vector.element == element);
        let Some(vector) = vector else { return self.constant(scalar, element) };
        let at = vector.next;
        vector.next += 1;
        let one = self.f.slice(vector.vector, &[at], &[at + 1], &[1])?;
        Ok(self.f.reshape(one, &[])?)
    }

    /// Reshapes a tensor to one dimension.
    fn flat(&self, value: Value) -> Result<Value> {
        let count = self.shape(value)?.iter().product();
        Ok(self.f.reshape(value, &[count])?)
    }

    /// Returns a tensor of this shape. The value of each element is its index along `dimension`.
    fn positions(&self, shape: &[i64], dimension: usize, element: ElementType) -> Result<Value> {
        Ok(self.f.iota(TensorType::new(shape, element), dimension)?)
    }

    /// Converts a value to the type in which a reduction or a function is computed. Types `f16` and `bf16` become
    /// `f32`, and other types stay the same.
    fn wide(&self, value: Value) -> Result<Value> {
        match self.element(value)? {
            ElementType::F16 | ElementType::Bf16 => self.converted(value, ElementType::F32),
            _ => Ok(value),
        }
    }

    /// Sums over `dimensions`. The result does not have these dimensions.
    fn sum(&self, x: Value, dimensions: &[usize]) -> Result<Value> {
        let (element, wide) = (self.element(x)?, self.wide(x)?);
        let zero = self.number_like(0.0, wide)?;
        let sum = self.f.reduce(wide, zero, dimensions, |a, b| self.f.add(a, b))?;
        self.converted(sum, element)
    }

    /// Multiplies tensors with `dot_general`. If autocast is on, the operands are converted to the autocast type.
    fn dot(&self, x: Value, y: Value, options: DotGeneral) -> Result<Value> {
        let element = self.element(x)?;
        let (x, y) = (self.cast_down(x)?, self.cast_down(y)?);
        let product = self.f.dot_general(x, y, options)?;
        self.converted(product, element)
    }

    /// If autocast is on, converts an `f32` operand to the autocast type.
    fn cast_down(&self, x: Value) -> Result<Value> {
        match self.autocast {
            Some(element) if self.element(x)? == ElementType::F32 => self.converted(x, element),
            _ => Ok(x),
        }
    }
}

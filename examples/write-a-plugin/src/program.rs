//! Programs: conversion from StableHLO to steps, and execution of the steps.

use std::sync::Arc;

use device_plugin::stablehlo::ir::{Binary, Func, Module, Op, OpKind, ValueId};
use device_plugin::{ElementType, Error, Result, Shape, stablehlo};

use super::memory::Buffer;

// ANCHOR: executable
/// A compiled program: steps that fill a table of values.
pub struct Executable {
    values: usize,
    arguments: Vec<usize>,
    steps: Vec<Step>,
    outputs: Vec<usize>,
}

/// One operation, its operands, and the position of its result in the table.
struct Step {
    to: usize,
    work: Work,
    operands: Vec<usize>,
}

/// The operation of a step.
enum Work {
    Constant(Arc<Vec<f32>>),
    /// A function of each pair of elements, and the number of elements.
    Elementwise(fn(f32, f32) -> f32, usize),
    /// The index of the operand's element for each element of the result.
    Gather(Vec<usize>),
}
// ANCHOR_END: executable

// ANCHOR: lower
impl Executable {
    /// Compiles a module.
    pub fn of(module: &Module) -> Result<Self> {
        let main = stablehlo::entry(module)?;
        for argument in main.args() {
            shape(main, argument)?;
        }
        let mut executable = Self {
            values: main.values.len(),
            arguments: main.args().iter().map(index).collect(),
            steps: Vec::new(),
            outputs: Vec::new(),
        };
        for op in &main.body.ops {
            let operands: Vec<usize> = op.operands.iter().map(index).collect();
            match (work(main, op)?, op.results.as_slice()) {
                (Some(work), [to]) => executable.steps.push(Step { to: index(to), work, operands }),
                (None, []) if matches!(op.kind, OpKind::Return) => executable.outputs = operands,
                _ => return Err(stablehlo::unsupported(module, op)),
            }
        }
        Ok(executable)
    }
}

/// Returns the operation of a step, or `None` if the device does not support the op.
fn work(main: &Func, op: &Op) -> Result<Option<Work>> {
    let result = || op.results.first().map_or_else(|| Err(Error::internal("no result")), |to| shape(main, to));
    Ok(Some(match &op.kind {
        OpKind::Constant(literal) => {
            let elements = elements(&result()?)?;
            let values = literal.data.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]]));
            let values: Vec<f32> = values.collect();
            Work::Constant(Arc::new(if literal.splat { vec![values[0]; elements] } else { values }))
        }
        OpKind::Binary(binary) => {
            let function: fn(f32, f32) -> f32 = match binary {
                Binary::Add => |a, b| a + b,
                Binary::Subtract => |a, b| a - b,
                Binary::Multiply => |a, b| a * b,
                Binary::Divide => |a, b| a / b,
                _ => return Ok(None),
            };
            Work::Elementwise(function, elements(&result()?)?)
        }
        OpKind::BroadcastInDim { broadcast_dimensions } => {
            Work::Gather(sources(&shape(main, &op.operands[0])?, &result()?, broadcast_dimensions)?)
        }
        // `launch.outputs` has the memory of each result. Within a program this device uses one memory.
        OpKind::CustomCall { call_target_name, .. } if call_target_name == "annotate_device_placement" => {
            Work::Gather((0..elements(&result()?)?).collect())
        }
        _ => return Ok(None),
    }))
}
// ANCHOR_END: lower

/// Returns the index of the operand's element for each element of a broadcast result, in row-major order.
fn sources(from: &Shape, to: &Shape, dimensions: &[usize]) -> Result<Vec<usize>> {
    let extents = to.dimensions.iter().map(|extent| usize::try_from(*extent).unwrap_or(0)).collect::<Vec<_>>();
    // The change of the operand's index with each step along a dimension of the result. It is 0 if the operand's
    // element is repeated along the dimension.
    let mut strides = vec![0; extents.len()];
    let mut stride = 1;
    for (extent, dimension) in from.dimensions.iter().zip(dimensions).rev() {
        if *extent != 1 {
            strides[*dimension] = stride;
        }
        stride *= usize::try_from(*extent).unwrap_or(0);
    }
    let source = |mut element: usize| {
        let mut source = 0;
        for (extent, stride) in extents.iter().zip(&strides).rev() {
            source += element % extent * stride;
            element /= extent;
        }
        source
    };
    Ok((0..elements(to)?).map(source).collect())
}

// ANCHOR: elements
/// Returns the number of elements of an array of 32-bit floats, at most as many as fit into a memory.
pub fn elements(shape: &Shape) -> Result<usize> {
    if shape.element_type != ElementType::F32 {
        return Err(Error::unimplemented(format!("{shape}: this device supports only arrays of f32")));
    }
    let fitting = shape.num_elements().filter(|elements| *elements <= 1 << 28);
    fitting.ok_or_else(|| Error::resource_exhausted(format!("{shape}: larger than the memories of this device")))
}
// ANCHOR_END: elements

fn shape(main: &Func, value: &ValueId) -> Result<Shape> {
    let shape = stablehlo::shape(main.ty(*value))?;
    elements(&shape).map(|_| shape)
}

fn index(value: &ValueId) -> usize {
    value.0 as usize
}

// ANCHOR: run
impl Executable {
    /// Runs the program on the values of `inputs` and fills `outputs`, on the device's thread.
    pub fn run(&self, inputs: Vec<Buffer>, outputs: &[Buffer], nan_check: bool) -> Result<()> {
        let mut values: Vec<Arc<Vec<f32>>> = vec![Arc::default(); self.values];
        for (argument, input) in self.arguments.iter().zip(inputs) {
            values[*argument] = input.into_values()?;
        }
        for (position, step) in self.steps.iter().enumerate() {
            values[step.to] = match &step.work {
                Work::Constant(data) => Arc::clone(data),
                Work::Gather(elements) => {
                    let from = &values[step.operands[0]];
                    Arc::new(elements.iter().map(|element| from[*element]).collect())
                }
                Work::Elementwise(function, _) => {
                    let (a, b) = (step.operands[0], step.operands[1]);
                    let right = Arc::clone(&values[b]);
                    // The last use takes the value out of the table.
                    let mut left = match self.is_last_use(position, a) {
                        true => std::mem::take(&mut values[a]),
                        false => Arc::clone(&values[a]),
                    };
                    // A value without other references is updated in place, so a donated input becomes the output.
                    Arc::make_mut(&mut left).iter_mut().zip(right.iter()).for_each(|(a, b)| *a = function(*a, *b));
                    left
                }
            };
        }
        for (value, output) in self.outputs.iter().zip(outputs) {
            if nan_check && values[*value].iter().any(|value| value.is_nan()) {
                return Err(Error::internal("the program computed a NaN, and the option nan_check is set"));
            }
            output.fill(Arc::clone(&values[*value]))?;
        }
        Ok(())
    }

    fn is_last_use(&self, position: usize, value: usize) -> bool {
        let later = self.steps[position + 1..].iter().flat_map(|step| &step.operands);
        !later.chain(&self.outputs).any(|used| *used == value)
    }
}
// ANCHOR_END: run

// ANCHOR: flops
impl Executable {
    /// Returns the number of floating-point operations of a run.
    pub fn flops(&self) -> usize {
        let elementwise = self.steps.iter().map(|step| match step.work {
            Work::Elementwise(_, elements) => elements,
            _ => 0,
        });
        elementwise.sum()
    }
}
// ANCHOR_END: flops

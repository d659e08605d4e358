//! Eager tensors, whose operations run as soon as they are called.

use std::sync::Arc;

use pjrt::Buffer;
use stablehlo::builder::{self, DotGeneral, FunctionBuilder};
use stablehlo::ir::TensorType;

use crate::{Result, Runtime};

// ANCHOR: tensor
/// A tensor of `f32` on a device. Clones share its memory, which is never modified.
#[derive(Clone)]
pub struct Tensor {
    runtime: Runtime,
    buffer: Arc<Buffer>,
    ty: TensorType,
}

impl Tensor {
    /// Copies values in row-major order to the device.
    pub fn new(runtime: &Runtime, values: &[f32], shape: &[i64]) -> Result<Self> {
        let buffer = runtime.client().buffer_from_host(values, shape)?;
        Self::from_buffer(runtime, buffer)
    }

    /// Waits until the values are computed.
    pub fn wait(&self) -> Result<()> {
        Ok(self.buffer.wait()?)
    }

    /// Waits until the values are computed, and copies them to the host.
    pub fn to_vec(&self) -> Result<Vec<f32>> {
        Ok(self.buffer.to_host()?)
    }
}
// ANCHOR_END: tensor

impl Tensor {
    pub(crate) fn from_buffer(runtime: &Runtime, buffer: Buffer) -> Result<Self> {
        let ty = TensorType::try_from(buffer.shape()?)?;
        Ok(Self { runtime: runtime.clone(), buffer: Arc::new(buffer), ty })
    }

    /// Returns the buffer, for an execution that reads it.
    pub(crate) fn buffer(&self) -> &Buffer {
        &self.buffer
    }

    /// Returns the buffer, for an execution that consumes it.
    pub(crate) fn into_buffer(self) -> Result<Buffer> {
        Arc::into_inner(self.buffer).ok_or_else(|| "a donated tensor has clones, which would lose their values".into())
    }

    /// Returns the element type and the extents.
    pub fn ty(&self) -> &TensorType {
        &self.ty
    }
}

// ANCHOR: operations
impl Tensor {
    /// Adds two tensors. Shapes are broadcast as in NumPy.
    pub fn add(&self, other: &Self) -> Result<Self> {
        self.apply("add", &[other], |f, x| f.numpy_broadcasting(true).add(x[0], x[1]))
    }

    /// Multiplies two tensors element by element. Shapes are broadcast as in NumPy.
    pub fn multiply(&self, other: &Self) -> Result<Self> {
        self.apply("multiply", &[other], |f, x| f.numpy_broadcasting(true).multiply(x[0], x[1]))
    }

    /// Multiplies two matrices.
    pub fn matmul(&self, other: &Self) -> Result<Self> {
        self.apply("matmul", &[other], |f, x| f.dot_general(x[0], x[1], DotGeneral::new().contracting([1], [0])))
    }

    /// Computes the hyperbolic tangent of each element.
    pub fn tanh(&self) -> Result<Self> {
        self.apply("tanh", &[], |f, x| f.tanh(x[0]))
    }

    /// Computes the sum of all elements.
    pub fn sum(&self) -> Result<Self> {
        let dimensions: Vec<usize> = (0..self.ty.rank()).collect();
        self.apply("sum", &[], |f, x| f.reduce(x[0], f.constant(0f32)?, &dimensions, |a, b| f.add(a, b)))
    }

    /// Runs an operation on this tensor and the other operands.
    fn apply(
        &self,
        name: &'static str,
        others: &[&Self],
        build: impl FnOnce(&FunctionBuilder, &[builder::Value]) -> stablehlo::Result<builder::Value>,
    ) -> Result<Self> {
        let operands: Vec<&Self> = std::iter::once(self).chain(others.iter().copied()).collect();
        let types = operands.iter().map(|operand| operand.ty.clone()).collect();
        let executable = self.runtime.operation(name, types, build)?;
        let buffers: Vec<&Buffer> = operands.iter().map(|operand| &*operand.buffer).collect();
        Self::from_buffer(&self.runtime, executable.execute(&buffers)?.remove(0))
    }
}
// ANCHOR_END: operations

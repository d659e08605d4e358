//! Ops whose operands specify shapes. They can be lowered if these operands are constants or the result type is static.

use stablehlo::ir::{ConvDimensions, DYNAMIC, GatherDimensions, Type, Window};

use super::{LoweringContext, Result, TypedValue, dtype_of, type_of};
use crate::engine::dtype::TensorType;
use crate::engine::graph::{Constant, ValueIndex};
use crate::engine::kernels::shape::ReadIndex;
use crate::engine::pool::Buffer;
use crate::error::CompileError;
use crate::op_names::op_name;

impl LoweringContext<'_, '_> {
    /// Returns the bytes of all elements of a value that is known at compile time. Returns `None` for other values.
    pub(super) fn known(&self, v: ValueIndex) -> Option<Vec<u8>> {
        let value = &self.graph.values[v as usize];
        match value.constant.as_ref()? {
            Constant::Splat(bytes) => Some(bytes[..usize::from(value.size)].repeat(value.n)),
            Constant::Dense(buffer) => Some(Buffer::bytes(buffer).to_vec()),
        }
    }

    /// Returns the elements of an integer tensor that is known at compile time. Returns `None` for other values.
    pub(super) fn known_ints(&self, x: &TypedValue) -> Option<Vec<i64>> {
        let bytes = self.known(x.value)?;
        let read = ReadIndex::new(x.ty.dtype.computed())?;
        // Copy the bytes to memory that is aligned for every integer type.
        let mut aligned = vec![0u64; bytes.len().div_ceil(8)];
        let aligned: &mut [u8] = &mut bytemuck::cast_slice_mut(&mut aligned)[..bytes.len()];
        aligned.copy_from_slice(&bytes);
        Some((0..x.ty.elements()).map(|i| read.get(aligned, i)).collect())
    }

    /// Returns the integers of an operand that must be constant. `what` is a noun for the integers in the error
    /// message.
    fn needed_ints(&self, x: &TypedValue, what: &str) -> Result<Vec<i64>> {
        self.known_ints(x).ok_or_else(|| {
            CompileError::unsupported(format!(
                "{} whose {what} are computed at run time; refine the program's shapes first",
                op_name(&self.op.kind)
            ))
        })
    }

    /// Returns the declared extents of the result. If an extent is dynamic, returns the extents that the operand
    /// `shape` contains.
    fn result_dims(&self, shape: &TypedValue) -> Result<Vec<usize>> {
        let id = self.op.results.first().ok_or_else(|| self.invalid("must have a result"))?;
        let Type::Tensor(declared) = type_of(self.frame.func, *id)? else {
            return Err(self.invalid("the result must be a tensor"));
        };
        let rank = declared.shape.len();
        if !declared.shape.contains(&DYNAMIC) {
            return self.sizes(&declared.shape, rank, "extents");
        }
        let shape = self.needed_ints(shape, "extents")?;
        self.sizes(&shape, rank, "extents")
    }

    pub(super) fn dynamic_reshape(&mut self) -> Result<()> {
        let [x, shape] = self.take()?;
        let dims = self.result_dims(&shape)?;
        let ty = self.typed(x.ty.dtype, &dims)?;
        self.ensure(ty.elements() == x.ty.elements(), || format!("{} to {ty}", x.ty))?;
        self.finish_one(x.value, ty)
    }

    pub(super) fn dynamic_broadcast_in_dim(&mut self, dimensions: &[usize]) -> Result<()> {
        let [x, shape] = self.take()?;
        let dims = self.result_dims(&shape)?;
        let ty = self.typed(x.ty.dtype, &dims)?;
        let y = self.broadcast(&x, ty, dimensions)?;
        self.finish(vec![y])
    }

    pub(super) fn dynamic_iota(&mut self, dimension: usize) -> Result<()> {
        let [shape] = self.take()?;
        let dims = self.result_dims(&shape)?;
        let ty = self.typed(self.result_dtype(0)?, &dims)?;
        let y = self.counted(ty, dimension)?;
        self.finish(vec![y])
    }

    pub(super) fn dynamic_pad(&mut self) -> Result<()> {
        let [x, element, low, high, interior] = self.take()?;
        let low = self.needed_ints(&low, "paddings")?;
        let high = self.needed_ints(&high, "paddings")?;
        let interior = self.needed_ints(&interior, "paddings")?;
        let y = self.padded_with(&x, &element, &low, &high, &interior)?;
        self.finish(vec![y])
    }

    pub(super) fn dynamic_gather(&mut self, dimensions: &GatherDimensions) -> Result<()> {
        let [x, indices, sizes] = self.take()?;
        let sizes = self.needed_ints(&sizes, "slice sizes")?;
        self.gather_from(x, indices, dimensions, &sizes)
    }

    pub(super) fn dynamic_conv(
        &mut self,
        dimensions: &ConvDimensions,
        window: &Window,
        groups: i64,
        batch_groups: i64,
    ) -> Result<()> {
        let [x, kernel, padding] = self.take()?;
        let flat = self.needed_ints(&padding, "paddings")?;
        let padding = flat.as_chunks::<2>().0.iter().map(|&[low, high]| (low, high)).collect();
        let window = Window { padding, ..window.clone() };
        self.convolution_of(x, kernel, dimensions, &window, groups, batch_groups)
    }

    pub(super) fn real_dynamic_slice(&mut self) -> Result<()> {
        let [x, starts, limits, steps] = self.take()?;
        let steps = self.needed_ints(&steps, "strides")?;
        if let (Some(starts), Some(limits)) = (self.known_ints(&starts), self.known_ints(&limits)) {
            let y = self.sliced(&x, &starts, &limits, &steps)?;
            return self.finish(vec![y]);
        }
        // Otherwise, the slice has the size of the result type and a dynamic start.
        let ty = self.result_type(0)?;
        if steps.iter().any(|&s| s != 1) {
            return Err(self.unsupported());
        }
        let mut operands = vec![x];
        for d in 0..ty.rank() {
            let at = i64::try_from(d).unwrap_or(i64::MAX);
            let one = self.sliced(&starts, &[at], &[at + 1], &[1])?;
            operands.push(TypedValue { value: one.value, ty: TensorType { dtype: one.ty.dtype, dims: [].into() } });
        }
        let sizes: Vec<i64> = ty.dims.iter().map(|&d| i64::try_from(d).unwrap_or(i64::MAX)).collect();
        self.dynamic_slice_of(&operands, &sizes)
    }

    /// Lowers `set_dimension_size` if the size is the one that the dimension already has. With another size, the result
    /// would not have a static shape.
    pub(super) fn set_dimension_size(&mut self, dimension: usize) -> Result<()> {
        let [x, size] = self.take()?;
        self.ensure(dimension < x.ty.rank(), || format!("dimension {dimension} of {}", x.ty))?;
        let size = self.needed_ints(&size, "sizes")?;
        let full = i64::try_from(x.ty.dims[dimension]).unwrap_or(i64::MAX);
        if size[..] != [full] {
            return Err(CompileError::unsupported(format!(
                "set_dimension_size to {size:?} of {}; dimensions have one size here, that of the type",
                x.ty
            )));
        }
        self.finish(vec![x])
    }

    /// Checks an assertion about extents at compile time. Programs with dynamic shapes contain such assertions.
    pub(super) fn shape_assertion(&mut self) -> Result<()> {
        let holds = self.operands()?.first().and_then(|x| self.known(x.value));
        match holds.as_deref() {
            Some([1]) => Ok(()),
            Some(_) => Err(self.invalid("an assertion about the program's shapes does not hold")),
            None => Err(self.unsupported()),
        }
    }

    /// Checks the number of results, and checks that the engine supports their element types.
    pub(super) fn has_results(&self, count: usize) -> Result<()> {
        for &id in &self.op.results {
            dtype_of(type_of(self.frame.func, id)?)?;
        }
        self.ensure(self.op.results.len() == count, || format!("{} results", self.op.results.len()))
    }
}

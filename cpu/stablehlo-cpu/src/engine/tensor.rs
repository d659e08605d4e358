//! A dense tensor in the memory of a [`Pool`] or of another library.

use std::fmt;
use std::sync::Arc;

use bytemuck::Pod;

use super::dtype::{DType, TensorType};
use super::pool::{Buffer, Pool};
use crate::error::RunError;

/// A dense row-major tensor. Clones share the elements. A program may overwrite the elements of an unshared tensor.
///
/// A tensor may have dynamic dimensions. In this case, its type contains the bounds of these dimensions, and its buffer
/// has room for an array of the maximum shape. The buffer begins with the densely packed elements of the actual array.
/// The remaining bytes have no meaning.
#[derive(Clone)]
pub struct Tensor {
    ty: TensorType,
    buffer: Buffer,
    /// The dynamic dimensions with their extents. `None` for most tensors.
    dynamic: Option<Arc<[(usize, usize)]>>,
}

impl Tensor {
    /// Allocates a tensor with a copy of `bytes`. The bytes contain the elements in row-major order and in the
    /// machine's byte order.
    pub fn from_bytes(pool: &Pool, dtype: DType, dims: &[usize], bytes: &[u8]) -> Result<Self, RunError> {
        let ty = checked(dtype, dims, bytes.len())?;
        Ok(Tensor { ty, buffer: Buffer::copy_of(pool, bytes)?, dynamic: None })
    }

    /// Wraps the memory of `owner` without a copy. The memory must neither move nor change while `owner` lives.
    /// Programs never write to this memory. Returns `None` if the memory is empty or not aligned to 64 bytes. In that
    /// case, the bytes must be copied.
    ///
    /// # Errors
    ///
    /// Returns an error if the number of bytes differs from the size of the type.
    pub fn foreign(
        dtype: DType,
        dims: &[usize],
        owner: impl AsRef<[u8]> + Send + Sync + 'static,
    ) -> Result<Option<Self>, RunError> {
        let ty = checked(dtype, dims, owner.as_ref().len())?;
        Ok(Buffer::foreign(owner).map(|buffer| Tensor { ty, buffer, dynamic: None }))
    }

    /// Returns whether [`Tensor::foreign`] accepts this memory.
    pub fn is_aligned(bytes: &[u8]) -> bool {
        Buffer::is_aligned(bytes)
    }

    /// Allocates a tensor with arbitrary contents. Fill it through [`Tensor::bytes_mut`].
    pub fn uninit(pool: &Pool, dtype: DType, dims: &[usize]) -> Result<Self, RunError> {
        let ty = TensorType::new(dtype, dims).map_err(|e| RunError::Input(e.message().into()))?;
        let buffer = pool.alloc(ty.bytes())?;
        Ok(Tensor { ty, buffer, dynamic: None })
    }

    /// Allocates a tensor with a copy of typed elements in the process's [`Pool::global`].
    pub fn from_slice<T: Pod>(dtype: DType, dims: &[usize], elements: &[T]) -> Result<Self, RunError> {
        if size_of::<T>() != dtype.size() {
            let (got, want) = (size_of::<T>(), dtype.size());
            return Err(RunError::Input(format!(
                "elements of {got} bytes given for {}, which has {want}",
                dtype.name()
            )));
        }
        Self::from_bytes(Pool::global(), dtype, dims, bytemuck::cast_slice(elements))
    }

    pub(crate) fn from_parts(ty: TensorType, buffer: Buffer) -> Self {
        Tensor { ty, buffer, dynamic: None }
    }

    pub(crate) fn into_buffer(self) -> Buffer {
        self.buffer
    }

    /// Declares dynamic dimensions. `dynamic` contains each of them with its extent. The buffer must begin with the
    /// elements of an array of these extents.
    pub(crate) fn with_dynamic_dimensions(self, dynamic: impl Into<Arc<[(usize, usize)]>>) -> Self {
        Tensor { dynamic: Some(dynamic.into()), ..self }
    }

    /// Returns whether the tensor has dynamic dimensions.
    #[inline]
    pub fn is_dynamic(&self) -> bool {
        self.dynamic.is_some()
    }

    /// Returns each dynamic dimension with its actual extent. This extent is at most the extent in the type. Most
    /// tensors have no dynamic dimensions.
    pub fn dynamic_dimensions(&self) -> &[(usize, usize)] {
        self.dynamic.as_deref().unwrap_or_default()
    }

    /// Returns the extents of the array. In dynamic dimensions, they may differ from the extents of the type.
    pub(crate) fn extents(&self) -> Vec<usize> {
        let mut extents = self.ty.dims.to_vec();
        for &(dimension, extent) in self.dynamic_dimensions() {
            extents[dimension] = extent;
        }
        extents
    }

    /// Returns the element type and the extents.
    pub fn ty(&self) -> &TensorType {
        &self.ty
    }

    /// Returns the element type.
    pub fn dtype(&self) -> DType {
        self.ty.dtype
    }

    /// Returns the extents of the type. For a dynamic dimension, the extent is the bound.
    pub fn dims(&self) -> &[usize] {
        &self.ty.dims
    }

    /// Returns the elements in row-major order and in the machine's byte order.
    pub fn bytes(&self) -> &[u8] {
        self.buffer.bytes()
    }

    /// Returns the elements for writing, or `None` while they are [shared](Tensor::is_shared).
    pub fn bytes_mut(&mut self) -> Option<&mut [u8]> {
        self.buffer.bytes_mut()
    }

    /// Returns the elements as `T`, or `None` if the size of `T` differs from the size of the element type.
    pub fn as_slice<T: Pod>(&self) -> Option<&[T]> {
        if size_of::<T>() != self.ty.dtype.size() {
            return None;
        }
        bytemuck::try_cast_slice(self.bytes()).ok()
    }

    /// Copies the elements to memory of `pool`.
    ///
    /// # Errors
    ///
    /// Returns an error if there is not enough memory.
    pub fn copy_to(&self, pool: &Pool) -> Result<Self, RunError> {
        let buffer = Buffer::copy_of(pool, self.bytes())?;
        Ok(Tensor { ty: self.ty.clone(), buffer, dynamic: self.dynamic.clone() })
    }

    /// Returns whether the elements are in memory of `pool`.
    pub fn is_of(&self, pool: &Pool) -> bool {
        self.buffer.is_of(pool)
    }

    /// Returns whether another tensor, a program's constants or another library shares the elements.
    #[inline]
    pub fn is_shared(&self) -> bool {
        self.buffer.is_shared()
    }

    /// Returns the same elements with other extents.
    ///
    /// # Errors
    ///
    /// Returns an error if the number of elements differs, or if the tensor has dynamic dimensions.
    pub fn reshaped(&self, dims: &[usize]) -> Result<Self, RunError> {
        self.expect_one_size()?;
        let ty = checked(self.ty.dtype, dims, self.bytes().len())?;
        Ok(Tensor { ty, buffer: self.buffer.clone(), dynamic: None })
    }

    /// Returns the same bytes as elements of another type.
    ///
    /// # Errors
    ///
    /// Returns an error if the new type has a different size, or if the tensor has dynamic dimensions.
    pub fn bitcast(&self, dtype: DType, dims: &[usize]) -> Result<Self, RunError> {
        self.expect_one_size()?;
        let ty = checked(dtype, dims, self.bytes().len())?;
        Ok(Tensor { ty, buffer: self.buffer.clone(), dynamic: None })
    }

    /// Returns an error if the tensor has dynamic dimensions.
    fn expect_one_size(&self) -> Result<(), RunError> {
        if self.is_dynamic() {
            let (ty, extents) = (&self.ty, self.extents());
            return Err(RunError::Input(format!(
                "a {ty} with dynamic dimensions, whose extents are now {extents:?}, cannot be given another type; copy \
                 it to the host first"
            )));
        }
        Ok(())
    }

    /// Returns whether both tensors share their elements.
    pub fn shares_elements_with(&self, other: &Tensor) -> bool {
        std::ptr::eq(self.bytes(), other.bytes())
    }
}

fn checked(dtype: DType, dims: &[usize], bytes: usize) -> Result<TensorType, RunError> {
    let ty = TensorType { dtype, dims: Arc::from(dims) };
    let want = TensorType::new(dtype, dims).map_err(|e| RunError::Input(e.message().into()))?.bytes();
    if bytes == want {
        return Ok(ty);
    }
    Err(RunError::Input(format!("{ty} has {want} bytes, not {bytes}")))
}

impl fmt::Debug for Tensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Tensor({})", self.ty)
    }
}

//! A dense tensor in the device's memory.

use std::fmt;
use std::sync::Arc;

use bytemuck::Pod;

use super::dtype::{DType, TensorType};
use super::error::RunError;
use super::pool::{Buffer, Pool};

/// A dense row-major tensor. Clones share the elements; a program may overwrite elements nobody else shares.
#[derive(Clone)]
pub struct Tensor {
    ty: TensorType,
    buffer: Buffer,
}

impl Tensor {
    /// A tensor with a copy of `bytes`, row-major, in the machine's byte order.
    pub fn from_bytes(pool: &Pool, dtype: DType, dims: &[usize], bytes: &[u8]) -> Result<Self, RunError> {
        let ty = checked(dtype, dims, bytes.len())?;
        Ok(Tensor { ty, buffer: Buffer::copy_of(pool, bytes)? })
    }

    /// A tensor in memory of somebody else, who neither moves nor changes it while the owner lives; programs never
    /// write it. None unless the memory is aligned to 64 bytes, or if there is none: then the bytes must be copied.
    ///
    /// # Errors
    ///
    /// Other bytes than those of the type.
    pub fn foreign(
        dtype: DType,
        dims: &[usize],
        owner: impl AsRef<[u8]> + Send + Sync + 'static,
    ) -> Result<Option<Self>, RunError> {
        let ty = checked(dtype, dims, owner.as_ref().len())?;
        Ok(Buffer::foreign(owner).map(|buffer| Tensor { ty, buffer }))
    }

    /// Whether [`Tensor::foreign`] takes that memory.
    pub fn is_aligned(bytes: &[u8]) -> bool {
        Buffer::is_aligned(bytes)
    }

    /// A tensor of arbitrary contents, to be filled through [`Tensor::bytes_mut`].
    pub fn uninit(pool: &Pool, dtype: DType, dims: &[usize]) -> Result<Self, RunError> {
        let ty = TensorType::new(dtype, dims).map_err(|e| RunError::Input(e.message().into()))?;
        let buffer = pool.alloc(ty.bytes())?;
        Ok(Tensor { ty, buffer })
    }

    /// A tensor with a copy of typed elements in the process's [`Pool::global`].
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
        Tensor { ty, buffer }
    }

    pub(crate) fn into_buffer(self) -> Buffer {
        self.buffer
    }

    /// Element type and extents.
    pub fn ty(&self) -> &TensorType {
        &self.ty
    }

    /// Element type.
    pub fn dtype(&self) -> DType {
        self.ty.dtype
    }

    /// Extents.
    pub fn dims(&self) -> &[usize] {
        &self.ty.dims
    }

    /// Elements, row-major, in the machine's byte order.
    pub fn bytes(&self) -> &[u8] {
        self.buffer.bytes()
    }

    /// Elements for writing; `None` while another tensor shares them.
    pub fn bytes_mut(&mut self) -> Option<&mut [u8]> {
        self.buffer.bytes_mut()
    }

    /// Elements as `T`; `None` where `T` has another size than the element type.
    pub fn as_slice<T: Pod>(&self) -> Option<&[T]> {
        if size_of::<T>() != self.ty.dtype.size() {
            return None;
        }
        bytemuck::try_cast_slice(self.bytes()).ok()
    }

    /// A copy of the elements in memory of `pool`.
    ///
    /// # Errors
    ///
    /// Not enough memory.
    pub fn copy_to(&self, pool: &Pool) -> Result<Self, RunError> {
        Ok(Tensor { ty: self.ty.clone(), buffer: Buffer::copy_of(pool, self.bytes())? })
    }

    /// Whether the elements lie in memory of `pool`.
    pub fn is_of(&self, pool: &Pool) -> bool {
        self.buffer.is_of(pool)
    }

    /// Whether another tensor, a program's constants or another library holds the elements too.
    #[inline]
    pub(crate) fn is_shared(&self) -> bool {
        self.buffer.is_shared()
    }

    /// The same elements under other extents.
    pub fn reshaped(&self, dims: &[usize]) -> Result<Self, RunError> {
        let ty = checked(self.ty.dtype, dims, self.bytes().len())?;
        Ok(Tensor { ty, buffer: self.buffer.clone() })
    }

    /// The same bytes as elements of another type.
    ///
    /// # Errors
    ///
    /// A type of another size.
    pub fn bitcast(&self, dtype: DType, dims: &[usize]) -> Result<Self, RunError> {
        let ty = checked(dtype, dims, self.bytes().len())?;
        Ok(Tensor { ty, buffer: self.buffer.clone() })
    }

    /// Both tensors share their elements.
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
    Err(RunError::Input(format!("{ty} has {want} bytes, {bytes} were given")))
}

impl fmt::Debug for Tensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Tensor({})", self.ty)
    }
}

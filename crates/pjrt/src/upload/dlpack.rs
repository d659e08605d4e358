//! DLPack: exchanges tensors with other libraries without copies.

use std::ops::Deref;
use std::sync::Arc;

use dlpark::ffi::{DLDataType, DLDevice, DLDeviceType};
use dlpark::metadata::Dynamic;
use dlpark::{DlpackFlags, Managed, ManagedTensorBase};
use pjrt_types::{ElementType, Shape};

use crate::element;
use crate::error::Error;
use crate::objects::buffer::Buffer;
use crate::objects::external_reference::Reference;
use crate::objects::references::Holder;
use crate::upload::builder::Upload;

/// Element types of at least 8 bits that PJRT and DLPack both support.
const TYPES: [(ElementType, DLDataType); 23] = [
    (ElementType::Pred, DLDataType::BOOL),
    (ElementType::S8, DLDataType::I8),
    (ElementType::S16, DLDataType::I16),
    (ElementType::S32, DLDataType::I32),
    (ElementType::S64, DLDataType::I64),
    (ElementType::U8, DLDataType::U8),
    (ElementType::U16, DLDataType::U16),
    (ElementType::U32, DLDataType::U32),
    (ElementType::U64, DLDataType::U64),
    (ElementType::F16, DLDataType::F16),
    (ElementType::Bf16, DLDataType::BF16),
    (ElementType::F32, DLDataType::F32),
    (ElementType::F64, DLDataType::F64),
    (ElementType::C64, DLDataType::C64),
    (ElementType::C128, DLDataType::C128),
    (ElementType::F8E3M4, DLDataType::F8E3M4),
    (ElementType::F8E4M3, DLDataType::F8E4M3),
    (ElementType::F8E4M3B11FNUZ, DLDataType::F8E4M3B11FNUZ),
    (ElementType::F8E4M3FN, DLDataType::F8E4M3FN),
    (ElementType::F8E4M3FNUZ, DLDataType::F8E4M3FNUZ),
    (ElementType::F8E5M2, DLDataType::F8E5M2),
    (ElementType::F8E5M2FNUZ, DLDataType::F8E5M2FNUZ),
    (ElementType::F8E8M0FNU, DLDataType::F8E8M0FNU),
];

/// DLPack devices whose memory the host's processor can read.
const HOST: [DLDeviceType; 3] = [DLDeviceType::CPU, DLDeviceType::CUDAHOST, DLDeviceType::ROCMHOST];

/// Exports to DLPack, with the feature `dlpack`. The type parameter `M` is the C struct of the tensor:
/// `dlpark::ffi::DLManagedTensorVersioned`, or `dlpark::ffi::DLManagedTensor` for libraries that only support versions
/// before DLPack 1.0.
impl Buffer {
    /// Waits for the contents and exports them as a DLPack tensor, without a copy. The buffer must be row-major and in
    /// memory that the host's processor can read, as on CPU devices.
    ///
    /// While the tensor exists, the buffer can be used and read, but neither donated nor deleted. The tensor is marked
    /// as read-only. `DLManagedTensor` has no read-only flag, but other libraries must not write to the elements of
    /// such a tensor either.
    ///
    /// ```
    /// use std::sync::Arc;
    ///
    /// use dlpark::versioned::Dlpack;
    /// # let client = plugin_registry::open("cpu")?.client(&pjrt::ClientOptions::new())?;
    ///
    /// let buffer = Arc::new(client.buffer_from_host(&[1.0f32, 2.0, 3.0, 4.0], &[2, 2])?);
    /// let tensor: Dlpack = buffer.to_dlpack()?;
    /// assert_eq!(tensor.validate()?.shape(), [2, 2]);
    /// // `tensor.into_raw()` is the pointer for a Python capsule.
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns an error if the host's processor cannot read the buffer's memory, if the layout is not row-major, if
    /// DLPack does not support the element type, if the element type has fewer than 8 bits, or if the operation that
    /// computes the contents failed.
    #[doc(alias = "PJRT_Buffer_OpaqueDeviceMemoryDataPointer")]
    pub fn to_dlpack<M: ManagedTensorBase>(self: &Arc<Self>) -> Result<Managed<M>, Error> {
        if !self.is_on_cpu()? {
            return Err(Error::unsupported(format!(
                "the buffer, {}, is not in memory that the host can read; name its DLPack device with to_dlpack_on",
                self.shape()?
            )));
        }
        // SAFETY: P4 (exported tensors): the plugin reports that the buffer is in host memory.
        unsafe { self.to_dlpack_on(DLDevice::CPU) }
    }

    /// Exports the buffer like [`Self::to_dlpack`], as a tensor on `device`, such as `DLDevice::cuda(0)`.
    ///
    /// # Errors
    ///
    /// The errors of [`Self::to_dlpack`] apply, except that the buffer may be in any memory.
    ///
    /// # Safety
    ///
    /// [Contract](crate::contracts) P4: the buffer's memory belongs to the DLPack device `device`.
    pub unsafe fn to_dlpack_on<M: ManagedTensorBase>(self: &Arc<Self>, device: DLDevice) -> Result<Managed<M>, Error> {
        // SAFETY: P4 (exported tensors): this function's contract.
        unsafe { export(Arc::clone(self), device) }
    }
}

/// Exports the buffer to which `buffer` dereferences, like [`Buffer::to_dlpack_on`]. The tensor keeps `buffer`.
///
/// # Errors
///
/// The errors of [`Buffer::to_dlpack_on`] apply.
///
/// # Safety
///
/// [Contract](crate::contracts) P4: the buffer's memory belongs to the DLPack device `device`. `buffer` always
/// dereferences to the same buffer.
pub unsafe fn export<M, B>(buffer: B, device: DLDevice) -> Result<Managed<M>, Error>
where
    M: ManagedTensorBase,
    B: Deref<Target = Buffer> + Send + Sync + 'static,
{
    let shape = buffer.shape()?.clone();
    let dtype = TYPES.iter().find(|(ty, _)| *ty == shape.element_type).map(|(_, dtype)| *dtype);
    let dtype = dtype.ok_or_else(|| {
        Error::unsupported(format!("DLPack has no tensors of element type {}; copy it", shape.element_type))
    })?;
    let elements = buffer.row_major_elements(&shape)?;
    buffer.wait_once()?;
    let reference = Reference::new(buffer, Holder::Caller)?;
    // DLPack requires a null address for a tensor without elements.
    let address = if elements == 0 { std::ptr::null_mut() } else { reference.address()? };
    let tensor = Dynamic::compact(&shape.dimensions[..]).initialize_as::<M>(Box::new(reference));
    let mut tensor = tensor.map_err(|error| Error::invalid(format!("{shape} as a DLPack tensor: {error}")))?;
    tensor.set_data(address).set_dtype(dtype).set_device(device);
    // SAFETY: the flags do not declare the data to be a copy.
    unsafe { tensor.set_flags_unchecked(DlpackFlags::READ_ONLY) };
    // SAFETY: P4 (exported tensors), C3 (objects): row-major elements of this shape and type are at the address
    // while the reference exists, and the plugin does not write them.
    Ok(unsafe { tensor.finish() })
}

/// Imports from DLPack, with the feature `dlpack`.
impl Upload<'_> {
    /// A DLPack tensor in host memory. The elements are not copied if the device can use host memory in place and the
    /// tensor is aligned as the device requires. The tensor is dropped when the plugin no longer uses it. A thread of
    /// the plugin may drop the tensor, and the drop may happen as late as the destruction of the buffer.
    ///
    /// # Errors
    ///
    /// Returns an error if the tensor is invalid or not in host memory, if PJRT does not support the element type, if
    /// the element type has fewer than 8 bits or several lanes, or if the address is not aligned for the elements.
    ///
    /// # Safety
    ///
    /// [Contract](crate::contracts) P5: the tensor's elements are readable until the tensor is dropped, and no code
    /// writes them before then. Other references can write to a NumPy array or a PyTorch tensor. Pass a copy, or make
    /// sure that no code writes to the original.
    pub unsafe fn dlpack<M: ManagedTensorBase + 'static>(tensor: Managed<M>) -> Result<Self, Error> {
        let (data, shape, byte_strides) = layout(&tensor)?;
        let size = element::host_size(&shape)?;
        if byte_strides.is_empty() {
            // SAFETY: P5 (imported tensors): the elements are readable and unchanged until the tensor is dropped.
            let upload = unsafe { Self::foreign(data, size, shape.element_type, tensor) };
            return Ok(upload.fixed(shape, None));
        }
        // Elements with negative strides are at lower addresses than the first element.
        let (mut low, mut high) = (0, 0);
        for (extent, stride) in shape.dimensions.iter().zip(&byte_strides) {
            let reach = i128::from(extent - 1) * i128::from(*stride);
            low -= reach.min(0);
            high += reach.max(0);
        }
        let far = |_| Error::invalid(format!("the strides of the DLPack tensor, {shape}, exceed the address space"));
        let offset = usize::try_from(low).map_err(far)?;
        let len = usize::try_from(low + high).map_err(far)?.saturating_add(shape.element_type.host_size());
        let start = data.wrapping_sub(offset);
        // SAFETY: P5 (imported tensors): the elements are readable and unchanged until the tensor is dropped.
        let upload = unsafe { Self::foreign(start, len, shape.element_type, tensor) };
        Ok(upload.fixed(shape, Some((offset, byte_strides))))
    }
}

/// Returns the address of the first element, the shape, and the strides in bytes. The list of strides is empty if the
/// tensor is row-major or has no elements.
fn layout<M: ManagedTensorBase>(tensor: &Managed<M>) -> Result<(*const u8, Shape, Vec<i64>), Error> {
    let invalid = |error: &dyn std::fmt::Display| Error::invalid(format!("an invalid DLPack tensor: {error}"));
    let view = tensor.validate().map_err(|error| invalid(&error))?;
    let (device, dtype) = (view.device(), view.dtype());
    if !HOST.contains(&device.device_type) {
        let (number, id) = (device.device_type.0, device.device_id);
        return Err(Error::unsupported(format!(
            "the DLPack tensor is on device {id} of type {number}, whose memory the host cannot read; copy it to the CPU"
        )));
    }
    let ty = TYPES.iter().find(|(_, other)| other.matches(dtype)).map(|(ty, _)| *ty).ok_or_else(|| {
        let (code, bits, lanes) = (dtype.code.0, dtype.bits, dtype.lanes);
        Error::unsupported(format!(
            "PJRT has no element type for DLPack's type code {code} of {bits} bits and {lanes} lanes, or it is packed"
        ))
    })?;
    let shape = Shape::new(ty, view.shape());
    element::count(&shape)?;
    let size = ty.host_size();
    let strides = match view.is_compact() {
        Ok(true) => Vec::new(),
        _ => view.strides().unwrap_or_default().to_vec(),
    };
    let strides = strides.into_iter().map(|stride| stride.checked_mul(i64::try_from(size).ok()?));
    let strides = strides.collect::<Option<Vec<_>>>();
    let strides = strides.ok_or_else(|| invalid(&"its strides exceed the address space"))?;
    if view.num_elements() == 0 {
        return Ok((std::ptr::NonNull::<u128>::dangling().as_ptr().cast(), shape, Vec::new()));
    }
    let offset = usize::try_from(view.byte_offset()).map_err(|_| invalid(&"its offset exceeds the address space"))?;
    let data = view.data_ptr().cast::<u8>().wrapping_add(offset);
    // A complex number has the alignment of its real part.
    let alignment = if matches!(ty, ElementType::C64 | ElementType::C128) { size / 2 } else { size };
    if view.data_ptr().is_null() || data.addr() % alignment != 0 {
        let address = data.addr();
        return Err(Error::invalid(format!(
            "the elements of the DLPack tensor, {shape}, are at {address:#x}, which is not a multiple of {alignment}; \
             copy it"
        )));
    }
    Ok((data, shape, strides))
}

//! `dp_upload`: transfers of arrays from the host to a device.

use std::ffi::{c_char, c_void};

use pjrt::{HostBufferSemantics, Shape, Upload};
use pjrt_c_macros::c_function;

use crate::border::error::{dp_code, dp_error};
use crate::border::failure::{Failure, Outcome};
use crate::border::foreign::{Context, Lent, dp_release_callback};
use crate::border::handle::Owned;
use crate::border::memory;
use crate::border::memory::Struct;
use crate::border::sized::struct_sizes;
use crate::buffer::buffer::dp_buffer;
use crate::buffer::shape::{dp_element_type, dp_shape, layout};
use crate::client::objects::placement;
use crate::client::{dp_client, dp_device, dp_memory};

/// How long the plugin may use the data of an upload. The values are those of `PJRT_HostBufferSemantics`.
pub type dp_host_buffer_semantics = u32;

/// The plugin uses the data only during the call. This is the only choice without `release`.
pub const DP_IMMUTABLE_ONLY_DURING_CALL: dp_host_buffer_semantics = 0;
/// The plugin reads the data until the transfer has ended.
pub const DP_IMMUTABLE_UNTIL_TRANSFER_COMPLETES: dp_host_buffer_semantics = 1;
/// The plugin may use the data as the buffer's memory, and does not write it.
pub const DP_IMMUTABLE_ZERO_COPY: dp_host_buffer_semantics = 2;
/// The plugin may use the data as the buffer's memory, and may write it.
pub const DP_MUTABLE_ZERO_COPY: dp_host_buffer_semantics = 3;

/// An array on the host, and how to transfer it to a device. Set the struct to zero, then `struct_size`, `data`,
/// `size`, `element_type` and the dimensions.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct dp_upload {
    /// `sizeof(dp_upload)`, set by the caller.
    pub struct_size: usize,
    /// The elements, in the byte order of this machine. Elements with fewer than 8 bits have one byte each.
    pub data: *const c_void,
    /// Size of the data in bytes. Without `byte_strides`, this is the size of the array.
    pub size: usize,
    /// Type of the elements.
    pub element_type: dp_element_type,
    /// One of `DP_IMMUTABLE_*` and `DP_MUTABLE_ZERO_COPY`. 0 with `release` means `DP_IMMUTABLE_ZERO_COPY`.
    pub semantics: dp_host_buffer_semantics,
    /// The extents, from the outermost dimension to the innermost. NULL for a scalar.
    pub dimensions: *const i64,
    /// The number of dimensions.
    pub dimensions_size: usize,
    /// The distance between neighbours in each dimension, in bytes: `dimensions_size` numbers, which may be zero or
    /// negative. NULL if the array is row-major without gaps.
    pub byte_strides: *const i64,
    /// Position of the first element in the data, in bytes. Must be 0 without `byte_strides`.
    pub offset: usize,
    /// The device that gets the array. NULL for the first addressable device.
    pub device: *const dp_device,
    /// The memory that gets the array. NULL for the default memory of the device.
    pub memory: *const dp_memory,
    /// Layout in the device's memory as in HLO, such as `{0,1}`. NULL for the plugin's default layout. A layout that is
    /// not row-major needs API 0.115.
    pub layout: *const c_char,
    /// Called once when the data is no longer used, also if the upload fails. NULL if the data may only be used during
    /// the call, so that it is copied.
    pub release: dp_release_callback,
    /// The argument of `release`.
    pub release_context: *mut c_void,
}

struct_sizes!(dp_upload);

/// An upload whose data is given back when this value is dropped.
pub(crate) struct UploadOf {
    given: dp_upload,
    data: Lent,
}

/// Reads an upload of the caller.
///
/// # Safety
///
/// The caller must keep the contracts K3 (lent memory) and K4 (structs have the size they declare).
pub(crate) unsafe fn read_upload(upload: *const dp_upload) -> Outcome<UploadOf> {
    // SAFETY: K4 (structs have the size they declare).
    let Struct(given) = unsafe { memory::structure(upload, "upload") }?;
    let context = Context::new(given.release_context, given.release);
    // SAFETY: K3 (lent memory): the caller lends it until `release` is called.
    let data = unsafe { Lent::new(given.data, given.size, context, "upload->data") }?;
    Ok(UploadOf { given, data })
}

/// Transfers an array to a device. The buffer may not be ready when the function returns; functions that use its
/// contents wait. Mirrors `PJRT_Client_BufferFromHostBuffer`.
#[c_function]
pub fn dp_client_upload(client: &dp_client, upload: UploadOf) -> Outcome<Owned<dp_buffer>> {
    let UploadOf { given, data } = upload;
    let shape = dp_shape {
        element_type: given.element_type,
        dimensions: given.dimensions,
        dimensions_size: given.dimensions_size,
    };
    // SAFETY: K3 (arrays are readable).
    let shape: Shape = unsafe { shape.read() }?;
    // SAFETY: K3 (arrays are readable).
    let strides = unsafe {
        memory::array(
            given.byte_strides,
            given.dimensions_size * usize::from(!given.byte_strides.is_null()),
            "byte_strides",
        )
    }?;
    if given.byte_strides.is_null() && given.offset != 0 {
        return Err(Failure::argument(
            "`upload->offset` needs `upload->byte_strides`; add it to `upload->data` instead",
        ));
    }
    // SAFETY: K3 (strings end in NUL).
    let layout = unsafe { memory::optional_text(given.layout, "upload->layout") }?.map(layout).transpose()?;
    // SAFETY: K2 (exclusive use).
    let placement = unsafe { placement(given.device, given.memory) }?;
    let semantics = semantics(given.semantics)?;
    if given.release.is_none() && given.semantics != DP_IMMUTABLE_ONLY_DURING_CALL {
        let message = "`upload->semantics` lets the plugin use the data after the call; set `upload->release`";
        return Err(Failure::argument(message));
    }
    let bytes;
    let mut upload = if given.release.is_none() {
        bytes = data;
        Upload::of::<u8>(bytes.as_ref()).semantics(semantics)
    } else if semantics == HostBufferSemantics::MutableZeroCopy {
        Upload::owned_mut::<u8, _>(data)
    } else {
        let lent = Upload::owned::<u8, _>(data);
        if given.semantics == DP_IMMUTABLE_ONLY_DURING_CALL { lent } else { lent.semantics(semantics) }
    };
    upload = upload.shape(&shape).to(placement);
    if !given.byte_strides.is_null() {
        upload = upload.byte_strides(given.offset, strides);
    }
    if let Some(layout) = &layout {
        upload = upload.layout(layout);
    }
    Ok(Owned(dp_buffer::new(client.inner.upload(upload)?)))
}

fn semantics(raw: dp_host_buffer_semantics) -> Outcome<HostBufferSemantics> {
    HostBufferSemantics::from_raw(raw)
        .ok_or_else(|| Failure::argument(format!("`upload->semantics` is {raw}; it must be one of the four constants")))
}

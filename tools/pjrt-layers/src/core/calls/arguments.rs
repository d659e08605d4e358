//! Copies of the data to which the arguments of a call point.

use std::ptr;

use pjrt_sys::{PJRT_ShapeSpec, slot};
use pjrt_types::NamedValue;

use super::call::Call;
use crate::core::memory;
use crate::core::memory::decode::{BufferLayout, elements, layout_at, named_values, raw_named_values, struct_at};

/// The memory that the plugin fills during a download.
#[derive(Debug)]
pub(crate) struct Destination {
    address: usize,
    pub(crate) size: usize,
}

impl Destination {
    /// Copies the downloaded data. Call this only in the call or callback that informs the framework that the download
    /// has ended.
    pub(crate) fn read(&self) -> Vec<u8> {
        // SAFETY: L11 (downloads): the framework learns that the event is ready only when the current call returns, so
        // the memory is still valid, and the plugin has written it.
        unsafe { memory::bytes(ptr::with_exposed_provenance(self.address), self.size) }
    }
}

/// An array on the host that the framework copies to a device.
#[derive(Debug)]
pub(crate) struct HostData {
    pub(crate) element_type: u32,
    pub(crate) dimensions: Vec<i64>,
    pub(crate) byte_strides: Vec<i64>,
    /// The elements in row-major order without gaps. `None` if the element type is unknown, the dimensions are invalid,
    /// or the pointer to the elements is null.
    pub(crate) elements: Option<Vec<u8>>,
}

/// The element types and shapes of new buffers, and their requested layouts.
pub(crate) type TransferShapes = (Vec<(u32, Vec<i64>)>, Vec<Option<BufferLayout>>);

impl Call {
    /// Returns the serialized executable and the compile options that replace the options in this executable, if this
    /// is a call of `PJRT_Executable_DeserializeAndLoad`.
    pub(crate) fn serialized_executable(&self) -> Option<(Vec<u8>, Vec<u8>)> {
        let args = self.args::<slot::PJRT_Executable_DeserializeAndLoad>()?;
        // SAFETY: L2 (arguments): the executable is readable for its length.
        let code = unsafe { memory::bytes(args.serialized_executable.cast(), args.serialized_executable_size) };
        let options = args.overridden_serialized_compile_options.cast();
        // SAFETY: L2 (arguments): the options are readable for their length.
        let options = unsafe { memory::bytes(options, args.overridden_serialized_compile_options_size) };
        Some((code, options))
    }

    /// Returns the options of a call of `PJRT_Client_Create`. The result is empty for calls of other functions.
    pub(crate) fn create_options(&self) -> Vec<NamedValue> {
        let Some(args) = self.args::<slot::PJRT_Client_Create>() else { return Vec::new() };
        // SAFETY: L2 (arguments): the array has this length.
        unsafe { named_values(args.create_options, args.num_options) }
    }

    /// Removes options of a call of `PJRT_Client_Create` for the next layers and the plugin.
    pub(crate) fn remove_create_options(&mut self, remove: impl Fn(&NamedValue) -> bool) {
        let (Some(at), Some(count)) = (self.function.field("create_options"), self.function.field("num_options"))
        else {
            return;
        };
        let (from, all) = (ptr::with_exposed_provenance(self.address(at)), self.address(count));
        // SAFETY: L2 (arguments): the array has this length.
        let options = unsafe { raw_named_values(from, all) };
        let kept: Vec<_> = options.iter().filter(|(_, option)| !option.as_ref().is_some_and(&remove)).collect();
        if kept.len() < options.len() {
            let (words, length) = (kept.iter().flat_map(|(words, _)| words).copied().collect(), kept.len());
            let announced = self.announced();
            let copy = self.frame_of(announced).keep_words(words);
            self.replace(at, copy);
            self.replace(count, length);
        }
    }

    /// Returns the data of a call of `PJRT_Client_BufferFromHostBuffer`, or `None` for calls of other functions.
    pub(crate) fn host_data(&self) -> Option<HostData> {
        let args = self.args::<slot::PJRT_Client_BufferFromHostBuffer>()?;
        // SAFETY: L2 (arguments): the array has this length.
        let dimensions = unsafe { memory::numbers(args.dims, args.num_dims) };
        // SAFETY: L2 (arguments): the array has this length.
        let byte_strides = unsafe { memory::numbers(args.byte_strides, args.num_byte_strides) };
        // SAFETY: L2 (arguments): the elements are readable at these strides.
        let elements = unsafe { elements(args.data.cast(), args.type_.0, &dimensions, &byte_strides) };
        Some(HostData { element_type: args.type_.0, dimensions, byte_strides, elements })
    }

    /// Returns the data of a call of `PJRT_AsyncHostToDeviceTransferManager_TransferData`.
    pub(crate) fn transferred_data(&self) -> Option<Vec<u8>> {
        let args = self.args::<slot::PJRT_AsyncHostToDeviceTransferManager_TransferData>()?;
        let size = usize::try_from(args.transfer_size).unwrap_or(0);
        // SAFETY: L2 (arguments): the data are readable for their size.
        Some(unsafe { memory::bytes(args.data.cast(), size) })
    }

    /// Returns the data of a call of `PJRT_AsyncHostToDeviceTransferManager_TransferLiteral`.
    pub(crate) fn literal(&self) -> Option<HostData> {
        let args = self.args::<slot::PJRT_AsyncHostToDeviceTransferManager_TransferLiteral>()?;
        // SAFETY: L2 (arguments): the array has this length.
        let dimensions = unsafe { memory::numbers(args.shape_dims, args.shape_num_dims) };
        let element_type = args.shape_element_type.0;
        // SAFETY: L2 (arguments): the elements are readable.
        let elements = unsafe { elements(args.data.cast(), element_type, &dimensions, &[]) };
        Some(HostData { element_type, dimensions, byte_strides: Vec::new(), elements })
    }

    /// Returns the element types and shapes of a call of `PJRT_Client_CreateBuffersForAsyncHostToDevice`, and the
    /// layouts that the framework requested.
    pub(crate) fn transfer_shapes(&self) -> Option<TransferShapes> {
        let args = self.args::<slot::PJRT_Client_CreateBuffersForAsyncHostToDevice>()?;
        let mut shapes = Vec::new();
        let mut next = args.shape_specs.cast_const().cast::<u8>();
        for _ in 0..args.num_shape_specs {
            // SAFETY: L2 (arguments): the array has this length.
            let spec = unsafe { struct_at::<PJRT_ShapeSpec>(next) }?;
            // SAFETY: L2 (arguments): the array has this length.
            shapes.push((spec.element_type.0, unsafe { memory::numbers(spec.dims, spec.num_dims) }));
            next = next.wrapping_add(size_of::<PJRT_ShapeSpec>());
        }
        // SAFETY: L2 (arguments): the array has this length.
        let layouts = unsafe { memory::pointers(args.device_layouts.cast_const().cast(), args.num_device_layouts) };
        // SAFETY: L2 (arguments): the layouts are null or valid.
        let layouts = layouts.into_iter().map(|at| unsafe { layout_at(ptr::with_exposed_provenance(at)) });
        Some((shapes, layouts.collect()))
    }

    /// Returns the element type and the shape in the fields `shape_...` of a call, if it has these fields.
    pub(crate) fn new_shape(&self) -> Option<(u32, Vec<i64>)> {
        let field = |name: &str| self.function().field(name);
        let dims = ptr::with_exposed_provenance(self.address(field("shape_dims")?));
        let count = self.address(field("shape_num_dims")?);
        let element_type = u32::try_from(self.word(field("shape_element_type")?)).ok()?;
        // SAFETY: L2 (arguments): the array has this length.
        Some((element_type, unsafe { memory::numbers(dims, count) }))
    }

    /// Returns the layout to which the field with this name points. Returns `None` if the pointer is null or the type
    /// of the layout is unknown.
    pub(crate) fn layout(&self, field: &str) -> Option<BufferLayout> {
        let at = ptr::with_exposed_provenance(self.address_of(field));
        // SAFETY: L2 (arguments): the layout is null or valid.
        unsafe { layout_at(at) }
    }

    /// Returns the memory that a call of `PJRT_Buffer_ToHostBuffer` or `PJRT_Buffer_CopyRawToHost` fills. Returns
    /// `None` if the call only queries the size.
    pub(crate) fn destination(&self) -> Option<Destination> {
        let size = self.function().field("dst_size").or_else(|| self.function().field("transfer_size"))?;
        let destination = Destination { address: self.address_of("dst"), size: self.address(size) };
        (destination.address != 0).then_some(destination)
    }
}

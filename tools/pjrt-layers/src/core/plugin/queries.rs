//! Queries about live objects, which layers send to the plugin.
//!
//! The methods of `Plugin` in this file take handles as integers. The handles must be live. This is true if the
//! framework passed them to the current call, or receives them from the current call.

use std::ptr::with_exposed_provenance_mut as handle;
use std::time::{Duration, Instant};

use pjrt_sys::{
    AbiStruct, PJRT_Buffer_MemoryLayout, PJRT_Buffer_MemoryLayout__bindgen_ty_1, PJRT_Buffer_MemoryLayout_Tiled,
    PJRT_Buffer_MemoryLayout_Type, PJRT_Program,
};
use pjrt_types::{ErrorCode, hlo};

use super::forwarded::Plugin;
use super::query::ask;
use crate::core::memory;
use crate::core::memory::decode::{BufferLayout, layout_of};
use crate::layer_error::LayerError;

/// A client, as the plugin describes it.
#[derive(Debug, Default)]
pub(crate) struct ClientInfo {
    pub(crate) platform_name: String,
    pub(crate) platform_version: String,
    pub(crate) process_index: i32,
    pub(crate) devices: Vec<DeviceInfo>,
    pub(crate) memories: Vec<MemoryInfo>,
}

/// A device of a client.
#[derive(Debug)]
pub(crate) struct DeviceInfo {
    pub(crate) handle: usize,
    pub(crate) id: i32,
    pub(crate) kind: String,
    pub(crate) process_index: i32,
    pub(crate) addressable: bool,
}

/// A memory of a client.
#[derive(Debug)]
pub(crate) struct MemoryInfo {
    pub(crate) handle: usize,
    pub(crate) id: i32,
    pub(crate) kind: String,
    pub(crate) devices: Vec<usize>,
}

/// A buffer, as the plugin describes it.
#[derive(Debug)]
pub(crate) struct BufferInfo {
    pub(crate) element_type: u32,
    pub(crate) dimensions: Vec<i64>,
    pub(crate) layout: Option<BufferLayout>,
    /// The handle of the device, or 0.
    pub(crate) device: usize,
    /// The handle of the memory, or 0.
    pub(crate) memory: usize,
}

/// An executable, as the plugin describes it.
#[derive(Debug, Default)]
pub(crate) struct ExecutableInfo {
    pub(crate) name: String,
    /// Element types and extents of the outputs.
    pub(crate) outputs: Vec<(u32, Vec<i64>)>,
}

/// Copies a string that the plugin returned. The string is empty if the query failed.
macro_rules! text {
    ($args:expr, $start:ident, $size:ident) => {
        // SAFETY: L10 (queries): the string is readable for its length while its object lives.
        $args.map(|args| unsafe { memory::text(args.$start.cast(), args.$size) }).unwrap_or_default()
    };
}

impl Plugin {
    /// Returns the name and the outputs of a loaded executable.
    pub(crate) fn executable_info(&self, loaded: usize) -> ExecutableInfo {
        self.with_executable(loaded, |executable| {
            let name = ask!(&self.tables, PJRT_Executable_Name { executable: handle(executable) });
            ExecutableInfo {
                name: text!(name, executable_name, executable_name_size),
                outputs: self.output_shapes(executable).unwrap_or_default(),
            }
        })
        .unwrap_or_default()
    }

    /// Returns the number of outputs of a loaded executable.
    pub(crate) fn output_count(&self, loaded: usize) -> Option<usize> {
        let count = |executable| {
            ask!(&self.tables, PJRT_Executable_NumOutputs { executable: handle(executable) })
                .map(|args| args.num_outputs)
        };
        self.with_executable(loaded, count)?.ok()
    }

    /// Returns the addressable devices of a loaded executable.
    pub(crate) fn executable_devices(&self, loaded: usize) -> Option<Vec<usize>> {
        let args = ask!(&self.tables, PJRT_LoadedExecutable_AddressableDevices { executable: handle(loaded) }).ok()?;
        // SAFETY: L10 (queries): the array has this length.
        Some(unsafe { memory::pointers(args.addressable_devices.cast(), args.num_addressable_devices) })
    }

    /// Returns the parameters of a loaded executable, if the plugin returns the optimized program in a format that this
    /// crate can read.
    pub(crate) fn parameters(&self, loaded: usize) -> Option<hlo::HloParameters> {
        self.with_executable(loaded, |executable| {
            let mut program = PJRT_Program::new();
            // Without memory for the code, the plugin only returns the program's format and size.
            self.optimized_program(executable, &mut program)?;
            // SAFETY: L10 (queries): the format is readable for its length while the executable lives.
            let format = unsafe { memory::text(program.format.cast(), program.format_size) };
            if !hlo::is_readable(&format) {
                return None;
            }
            let mut code = vec![0_u8; program.code_size];
            program.code = code.as_mut_ptr().cast();
            self.optimized_program(executable, &mut program)?;
            hlo::parameters(&format, code.get(..program.code_size)?)
        })
        .flatten()
    }

    /// Calls `PJRT_Executable_OptimizedProgram`, which writes to `program`. Returns `None` if the call fails.
    fn optimized_program(&self, executable: usize, program: &mut PJRT_Program) -> Option<()> {
        let program = &raw mut *program;
        ask!(&self.tables, PJRT_Executable_OptimizedProgram { executable: handle(executable), program: program })
            .ok()
            .map(drop)
    }

    fn output_shapes(&self, executable: usize) -> Option<Vec<(u32, Vec<i64>)>> {
        let types = ask!(&self.tables, PJRT_Executable_OutputElementTypes { executable: handle(executable) }).ok()?;
        let shapes = ask!(&self.tables, PJRT_Executable_OutputDimensions { executable: handle(executable) }).ok()?;
        let count = types.num_output_types.min(shapes.num_outputs);
        // SAFETY: L10 (queries): the array has one size for each output.
        let sizes = unsafe { memory::pointers(shapes.dim_sizes.cast(), count) };
        let mut dims = shapes.dims;
        let mut outputs = Vec::new();
        for (at, size) in sizes.into_iter().enumerate() {
            let place = types.output_types.wrapping_add(at);
            // SAFETY: L10 (queries): the array has one type for each output.
            let element_type = unsafe { memory::read::<u32>(place.cast_const().cast()) };
            // SAFETY: L10 (queries): the extents of all outputs are in one array.
            outputs.push((element_type, unsafe { memory::numbers(dims, size) }));
            dims = dims.wrapping_add(size);
        }
        Some(outputs)
    }

    /// Runs a closure with the `PJRT_Executable` of a loaded executable. Returns `None` if the plugin does not return
    /// this object.
    fn with_executable<T>(&self, loaded: usize, run: impl FnOnce(usize) -> T) -> Option<T> {
        let args =
            ask!(&self.tables, PJRT_LoadedExecutable_GetExecutable { loaded_executable: handle(loaded) }).ok()?;
        let result = run(args.executable.expose_provenance());
        // Ignore an error of the destroy function, because no caller can handle it.
        let _ = ask!(&self.tables, PJRT_Executable_Destroy { executable: args.executable });
        Some(result)
    }

    /// Describes a client with its devices and memories.
    pub(crate) fn client_info(&self, client: usize) -> ClientInfo {
        let name = ask!(&self.tables, PJRT_Client_PlatformName { client: handle(client) });
        let version = ask!(&self.tables, PJRT_Client_PlatformVersion { client: handle(client) });
        let index = ask!(&self.tables, PJRT_Client_ProcessIndex { client: handle(client) });
        let devices = ask!(&self.tables, PJRT_Client_Devices { client: handle(client) })
            // SAFETY: L10 (queries): the array has this length.
            .map(|args| unsafe { memory::pointers(args.devices.cast(), args.num_devices) });
        let memories = ask!(&self.tables, PJRT_Client_AddressableMemories { client: handle(client) })
            // SAFETY: L10 (queries): the array has this length.
            .map(|args| unsafe { memory::pointers(args.addressable_memories.cast(), args.num_addressable_memories) });
        ClientInfo {
            platform_name: text!(name, platform_name, platform_name_size),
            platform_version: text!(version, platform_version, platform_version_size),
            process_index: index.map_or(0, |args| args.process_index),
            devices: devices.unwrap_or_default().into_iter().filter_map(|device| self.device_info(device)).collect(),
            memories: memories.unwrap_or_default().into_iter().filter_map(|memory| self.memory_info(memory)).collect(),
        }
    }

    /// Returns the name of a client's platform.
    pub(crate) fn platform_name(&self, client: usize) -> Option<String> {
        let args = ask!(&self.tables, PJRT_Client_PlatformName { client: handle(client) }).ok()?;
        // SAFETY: L10 (queries): the name is readable for its length while the client lives.
        Some(unsafe { memory::text(args.platform_name.cast(), args.platform_name_size) })
    }

    /// Returns the addressable devices of a client.
    pub(crate) fn addressable_devices(&self, client: usize) -> Option<Vec<usize>> {
        let args = ask!(&self.tables, PJRT_Client_AddressableDevices { client: handle(client) }).ok()?;
        // SAFETY: L10 (queries): the array has this length.
        Some(unsafe { memory::pointers(args.addressable_devices.cast(), args.num_addressable_devices) })
    }

    fn device_info(&self, device: usize) -> Option<DeviceInfo> {
        let description =
            ask!(&self.tables, PJRT_Device_GetDescription { device: handle(device) }).ok()?.device_description;
        let kind = ask!(&self.tables, PJRT_DeviceDescription_Kind { device_description: description });
        let process = ask!(&self.tables, PJRT_DeviceDescription_ProcessIndex { device_description: description });
        let addressable = ask!(&self.tables, PJRT_Device_IsAddressable { device: handle(device) });
        Some(DeviceInfo {
            handle: device,
            id: ask!(&self.tables, PJRT_DeviceDescription_Id { device_description: description }).ok()?.id,
            kind: text!(kind, device_kind, device_kind_size),
            process_index: process.map_or(0, |args| args.process_index),
            addressable: addressable.is_ok_and(|args| args.is_addressable.get()),
        })
    }

    fn memory_info(&self, memory: usize) -> Option<MemoryInfo> {
        let kind = ask!(&self.tables, PJRT_Memory_Kind { memory: handle(memory) });
        let devices = ask!(&self.tables, PJRT_Memory_AddressableByDevices { memory: handle(memory) })
            // SAFETY: L10 (queries): the array has this length.
            .map(|args| unsafe { memory::pointers(args.devices.cast(), args.num_devices) });
        Some(MemoryInfo {
            handle: memory,
            id: ask!(&self.tables, PJRT_Memory_Id { memory: handle(memory) }).ok()?.id,
            kind: text!(kind, kind, kind_size),
            devices: devices.unwrap_or_default(),
        })
    }

    /// Returns the element type and the dimensions of a buffer.
    pub(crate) fn buffer_shape(&self, buffer: usize) -> Result<(u32, Vec<i64>), LayerError> {
        let dimensions = ask!(&self.tables, PJRT_Buffer_Dimensions { buffer: handle(buffer) })?;
        let element_type = ask!(&self.tables, PJRT_Buffer_ElementType { buffer: handle(buffer) })?.type_.0;
        // SAFETY: L10 (queries): the array has this length.
        Ok((element_type, unsafe { memory::numbers(dimensions.dims, dimensions.num_dims) }))
    }

    /// Returns the element type, the dimensions, the layout, the device and the memory of a buffer.
    pub(crate) fn buffer_info(&self, buffer: usize) -> Result<BufferInfo, LayerError> {
        let (element_type, dimensions) = self.buffer_shape(buffer)?;
        let device = ask!(&self.tables, PJRT_Buffer_Device { buffer: handle(buffer) });
        let memory = ask!(&self.tables, PJRT_Buffer_Memory { buffer: handle(buffer) });
        Ok(BufferInfo {
            element_type,
            dimensions,
            layout: self.buffer_layout(buffer),
            device: device.map_or(0, |args| args.device.expose_provenance()),
            memory: memory.map_or(0, |args| args.memory.expose_provenance()),
        })
    }

    /// Returns the layout of a buffer in the memory of its device, if the plugin returns one.
    pub(crate) fn buffer_layout(&self, buffer: usize) -> Option<BufferLayout> {
        let args = ask!(&self.tables, PJRT_Buffer_GetMemoryLayout { buffer: handle(buffer) }).ok()?;
        // SAFETY: L10 (queries): the layout is valid while the buffer lives.
        unsafe { layout_of(&args.layout) }
    }

    /// Returns whether a buffer is deleted, or `false` if the query fails.
    pub(crate) fn is_deleted(&self, buffer: usize) -> bool {
        ask!(&self.tables, PJRT_Buffer_IsDeleted { buffer: handle(buffer) }).is_ok_and(|args| args.is_deleted.get())
    }

    /// Returns whether the contents of a buffer are available or the buffer has an error. Returns `false` if the query
    /// fails.
    pub(crate) fn is_buffer_ready(&self, buffer: usize) -> bool {
        let Ok(args) = ask!(&self.tables, PJRT_Buffer_ReadyEvent { buffer: handle(buffer) }) else { return false };
        let is_ready = self.is_ready(args.event.expose_provenance());
        // Ignore an error of the destroy function, because no caller can handle it.
        let _ = ask!(&self.tables, PJRT_Event_Destroy { event: args.event });
        is_ready == Some(true)
    }

    /// Returns whether an event is ready, or `None` if the query fails.
    pub(crate) fn is_ready(&self, event: usize) -> Option<bool> {
        ask!(&self.tables, PJRT_Event_IsReady { event: handle(event) }).ok().map(|args| args.is_ready.get())
    }

    /// Returns the error of an event that is ready, or `None` if the event succeeded.
    pub(crate) fn event_failure(&self, event: usize) -> Option<LayerError> {
        ask!(&self.tables, PJRT_Event_Error { event: handle(event) }).err()
    }

    /// Copies the contents of a buffer to the host, in the dimension order `minor_to_major`. Waits until the copy has
    /// finished.
    ///
    /// # Errors
    ///
    /// Returns the plugin's error, or `DEADLINE_EXCEEDED` if the contents are not ready within `limit`.
    pub(crate) fn read_buffer(
        &self,
        buffer: usize,
        minor_to_major: &[i64],
        limit: Duration,
    ) -> Result<Vec<u8>, LayerError> {
        let tiled = PJRT_Buffer_MemoryLayout_Tiled {
            minor_to_major: minor_to_major.as_ptr(),
            minor_to_major_size: minor_to_major.len(),
            ..PJRT_Buffer_MemoryLayout_Tiled::new()
        };
        let mut layout = PJRT_Buffer_MemoryLayout::new();
        layout.type_ = PJRT_Buffer_MemoryLayout_Type::PJRT_Buffer_MemoryLayout_Type_Tiled;
        layout.__bindgen_anon_1 = PJRT_Buffer_MemoryLayout__bindgen_ty_1 { tiled };
        let size = ask!(&self.tables, PJRT_Buffer_ToHostBuffer { src: handle(buffer), host_layout: &raw mut layout })?
            .dst_size;
        let mut data = vec![0_u8; size];
        let args = ask!(
            &self.tables,
            PJRT_Buffer_ToHostBuffer {
                src: handle(buffer),
                host_layout: &raw mut layout,
                dst: data.as_mut_ptr().cast(),
                dst_size: size,
            }
        )?;
        let event = args.event.expose_provenance();
        if event == 0 {
            return Ok(data);
        }
        let deadline = Instant::now() + limit;
        let mut pause = Duration::from_micros(10);
        // Until the event is ready, the plugin may write to the memory. After an error, the memory therefore stays
        // valid.
        let mut data = std::mem::ManuallyDrop::new(data);
        while !ask!(&self.tables, PJRT_Event_IsReady { event: handle(event) })?.is_ready.get() {
            if Instant::now() > deadline {
                let message = format!("the contents are not ready after {} s", limit.as_secs());
                return Err(LayerError::new(ErrorCode::DEADLINE_EXCEEDED, message));
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(10));
        }
        let data = std::mem::take(&mut *data);
        let failure = self.event_failure(event);
        // Ignore an error of the destroy function, because no caller can handle it.
        let _ = ask!(&self.tables, PJRT_Event_Destroy { event: handle(event) });
        failure.map_or(Ok(data), Err)
    }
}

//! Calls the functions of a backend's features, or the SDK's defaults for features that the backend lacks.

use std::sync::Arc;

use crate::backend::Features;
use crate::program::total_size;
use crate::{
    Backend, CompileOptionSchema, CompileOptions, Compiled, CompiledMemoryStats, Error, Event, ExecutableInfo,
    ForeignMemory, HostDestination, Launch, Layout, MemoryStats, NamedValue, Placement, ProcessInfo, Program, Result,
    Shape, TopologyInfo,
};

/// Copies through host memory, for backends without [`DeviceCopies`](crate::features::DeviceCopies).
pub(crate) mod through_host {
    use crate::abi::lend::host_array::zeroed;
    use crate::{Backend, Error, HostArray, Placement, Result, Shape};

    /// Returns the size of an array on the host in bytes.
    ///
    /// # Errors
    ///
    /// Returns `INVALID_ARGUMENT` if the size exceeds the address space.
    pub fn host_size(shape: &Shape) -> Result<usize> {
        shape.host_size().ok_or_else(|| Error::invalid_argument(format!("{shape} exceeds the address space")))
    }

    pub(crate) fn uninitialized<B: Backend>(backend: &B, shape: &Shape, to: Placement) -> Result<B::Buffer> {
        backend.buffer_from_host(HostArray::new(shape, zeroed(host_size(shape)?)?)?, to)
    }

    pub(crate) fn copy<B: Backend>(
        backend: &B,
        buffer: &B::Buffer,
        from: &Shape,
        to: &Shape,
        placement: Placement,
    ) -> Result<B::Buffer> {
        let mut bytes = zeroed(host_size(from)?)?;
        backend.read(buffer, &mut bytes)?;
        backend.buffer_from_host(HostArray::new(to, bytes)?, placement)
    }
}

/// Returns the error for a device that keeps no memory statistics.
pub(crate) fn no_memory_stats(device: usize) -> Error {
    Error::unimplemented(format!("device {device} does not report memory statistics"))
}

/// Estimates the memory that an execution needs, from the sizes of the program's code, parameters and outputs.
pub fn signature_memory_stats(info: &ExecutableInfo) -> CompiledMemoryStats {
    let (argument_size, output_size) = (total_size(&info.parameters), total_size(&info.outputs));
    let mut stats = CompiledMemoryStats::default();
    stats.generated_code_size = info.size_of_generated_code.max(0);
    stats.argument_size = argument_size;
    stats.output_size = output_size;
    stats.peak_memory = argument_size.saturating_add(output_size);
    stats
}

fn no_dma() -> Error {
    Error::unimplemented("this device does not support direct access to host memory")
}

/// Calls the functions of a backend's features. For a feature that the backend does not list, each function uses the
/// SDK's default or returns `UNIMPLEMENTED`. The list of features is a constant, so the compiler resolves each call at
/// compile time.
pub(crate) trait FeatureCalls: Backend {
    /// The backend's list of features, as a static reference.
    const LISTED: &'static Features<Self> = &Self::FEATURES;

    fn platform_name(&self) -> Option<String> {
        Self::LISTED.platform.as_ref().and_then(|feature| (feature.platform_name)(self))
    }

    fn platform_version(&self) -> String {
        Self::LISTED.platform.as_ref().map_or_else(String::new, |feature| (feature.platform_version)(self))
    }

    fn topology_attributes(&self) -> Vec<NamedValue> {
        Self::LISTED.platform.as_ref().map_or_else(Vec::new, |feature| (feature.topology_attributes)(self))
    }

    fn process_index(&self) -> i32 {
        Self::LISTED.distributed.as_ref().map_or(0, |feature| (feature.process_index)(self))
    }

    fn update_global_process_info(&self, processes: &[ProcessInfo]) -> Result<()> {
        Self::LISTED
            .distributed
            .as_ref()
            .map_or(Ok(()), |feature| (feature.update_global_process_info)(self, processes))
    }

    fn at_exit(&self) -> Option<Box<dyn FnOnce() + Send>> {
        Self::LISTED.at_exit.as_ref().and_then(|feature| (feature.at_exit)(self))
    }

    fn default_layout(topology: &TopologyInfo, shape: &Shape) -> Option<Layout> {
        Self::LISTED.storage_layouts.as_ref().and_then(|feature| (feature.default_layout)(topology, shape))
    }

    fn memory_stats(&self, device: usize) -> Result<MemoryStats> {
        match &Self::LISTED.memory_statistics {
            Some(feature) => (feature.memory_stats)(self, device),
            None => Err(no_memory_stats(device)),
        }
    }

    fn clear_memory_stats(&self, device: usize) -> Result<()> {
        match &Self::LISTED.memory_statistics {
            Some(feature) => (feature.clear_memory_stats)(self, device),
            None => Err(no_memory_stats(device)),
        }
    }

    #[inline]
    fn host_bytes<'a>(&self, buffer: &'a Self::Buffer) -> Option<&'a [u8]> {
        Self::LISTED.buffer_addresses.as_ref().and_then(|feature| (feature.host_bytes)(self, buffer))
    }

    fn device_pointer(&self, buffer: &Self::Buffer) -> Option<usize> {
        Self::LISTED.buffer_addresses.as_ref().and_then(|feature| (feature.device_pointer)(self, buffer))
    }

    #[inline]
    fn on_device_size(&self, buffer: &Self::Buffer) -> Option<usize> {
        Self::LISTED.buffer_addresses.as_ref().and_then(|feature| (feature.on_device_size)(self, buffer))
    }

    fn create_uninitialized_buffer(&self, shape: &Shape, to: Placement) -> Result<Self::Buffer> {
        match &Self::LISTED.device_copies {
            Some(feature) => (feature.create_uninitialized_buffer)(self, shape, to),
            None => through_host::uninitialized(self, shape, to),
        }
    }

    fn bitcast(&self, buffer: &Self::Buffer, from: &Shape, to: &Shape, placement: Placement) -> Result<Self::Buffer> {
        match &Self::LISTED.device_copies {
            Some(feature) => (feature.bitcast)(self, buffer, from, to, placement),
            None => through_host::copy(self, buffer, from, to, placement),
        }
    }

    fn copy(&self, buffer: &Self::Buffer, shape: &Shape, to: Placement) -> Result<Self::Buffer> {
        match &Self::LISTED.device_copies {
            Some(feature) => (feature.copy)(self, buffer, shape, to),
            None => through_host::copy(self, buffer, shape, shape, to),
        }
    }

    fn transfer_data(&self, buffer: &Self::Buffer, offset: usize, bytes: &[u8]) -> Result<()> {
        match &Self::LISTED.piecewise_uploads {
            Some(feature) => (feature.transfer_data)(self, buffer, offset, bytes),
            None => Err(Error::unimplemented(format!(
                "this device does not support uploads in pieces (a piece at byte {offset})"
            ))),
        }
    }

    fn is_dynamic_output(&self, executable: &Self::Executable, output: usize) -> bool {
        let feature = Self::LISTED.dynamic_shapes.as_ref();
        feature.is_some_and(|feature| (feature.is_dynamic_output)(self, executable, output))
    }

    fn dynamic_dimensions(&self, buffer: &Self::Buffer, shape: &Shape) -> Vec<(usize, i64)> {
        let feature = Self::LISTED.dynamic_shapes.as_ref();
        feature.map_or_else(Vec::new, |feature| (feature.dynamic_dimensions)(self, buffer, shape))
    }

    fn begin_read(&self, buffer: &Self::Buffer, mut to: HostDestination) -> Result<Event> {
        if let Some(feature) = &Self::LISTED.async_reads {
            return (feature.begin_read)(self, buffer, to);
        }
        self.read(buffer, to.bytes())?;
        Ok(Event::ready())
    }

    fn create_view_of_device_buffer(
        &self,
        memory: ForeignMemory,
        shape: &Shape,
        at: Placement,
    ) -> Result<Self::Buffer> {
        match &Self::LISTED.foreign_views {
            Some(feature) => (feature.create_view_of_device_buffer)(self, memory, shape, at),
            None => Err(Error::unimplemented(format!(
                "this device cannot use the memory of another library (a buffer of {shape})"
            ))),
        }
    }

    fn dma_map(&self, address: usize, size: usize) -> Result<()> {
        Self::LISTED
            .dma_mappings
            .as_ref()
            .map_or_else(|| Err(no_dma()), |feature| (feature.dma_map)(self, address, size))
    }

    fn dma_unmap(&self, address: usize) -> Result<()> {
        Self::LISTED.dma_mappings.as_ref().map_or_else(|| Err(no_dma()), |feature| (feature.dma_unmap)(self, address))
    }

    fn compile_options() -> Option<CompileOptionSchema> {
        Self::LISTED.named_options.as_ref().map(|feature| (feature.compile_options)())
    }

    fn topology(name: &str, options: &[NamedValue]) -> Result<TopologyInfo> {
        match &Self::LISTED.ahead_of_time {
            Some(feature) => (feature.topology)(name, options),
            None => Err(Error::unimplemented(format!(
                "unknown topology {name:?}; this plugin describes only devices that are present"
            ))),
        }
    }

    fn compile_for(
        topology: &TopologyInfo,
        program: &Program,
        options: &CompileOptions,
    ) -> Result<Compiled<Self::Executable>> {
        match &Self::LISTED.ahead_of_time {
            Some(feature) => (feature.compile_for)(topology, program, options),
            None => Err(Error::unimplemented("this plugin compiles only for devices that are present")),
        }
    }

    fn load_executable(&self, executable: &Arc<Self::Executable>) -> Result<Arc<Self::Executable>> {
        match &Self::LISTED.ahead_of_time {
            Some(feature) => (feature.load_executable)(self, executable),
            None => Ok(Arc::clone(executable)),
        }
    }

    fn serialize(executable: &Self::Executable) -> Result<Option<Vec<u8>>> {
        Self::LISTED.serialization.as_ref().map_or(Ok(None), |feature| (feature.serialize)(executable))
    }

    fn deserialize_and_load(&self, data: &[u8], options: &CompileOptions) -> Result<Compiled<Self::Executable>> {
        match &Self::LISTED.serialization {
            Some(feature) => (feature.deserialize_and_load)(self, data, options),
            None => Err(Error::unimplemented("this backend does not serialize compiled programs")),
        }
    }

    fn cost_analysis(executable: &Self::Executable) -> Result<Vec<NamedValue>> {
        match &Self::LISTED.cost_analysis {
            Some(feature) => (feature.cost_analysis)(executable),
            None => Err(Error::unimplemented("this plugin does not analyze the cost of programs")),
        }
    }

    fn compiled_memory_stats(executable: &Self::Executable, info: &ExecutableInfo) -> Result<CompiledMemoryStats> {
        match &Self::LISTED.cost_analysis {
            Some(feature) => (feature.compiled_memory_stats)(executable, info),
            None => Ok(signature_memory_stats(info)),
        }
    }

    fn execute_all(&self, executable: &Arc<Self::Executable>, launches: &mut [Launch<'_, Self>]) -> Result<Vec<Event>> {
        match &Self::LISTED.multi_device {
            Some(feature) => (feature.execute_all)(self, executable, launches),
            None => Err(Error::unimplemented(format!(
                "this plugin does not run a program on several devices at once ({} devices)",
                launches.len()
            ))),
        }
    }

    fn poison_execution(&self, device: usize, launch_id: i32, error: Error) -> Result<bool> {
        match &Self::LISTED.poisoning {
            Some(feature) => (feature.poison_execution)(self, device, launch_id, error),
            None => Err(Error::unimplemented(format!(
                "this plugin does not support poisoned executions (on device {device})"
            ))),
        }
    }

    fn track(&self, device: usize, description: &str) -> Box<dyn Send + Sync> {
        match &Self::LISTED.tracking {
            Some(feature) => (feature.track)(self, device, description),
            None => Box::new(()),
        }
    }
}

impl<B: Backend> FeatureCalls for B {}

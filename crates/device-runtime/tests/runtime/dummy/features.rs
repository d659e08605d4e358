//! The optional features of the driver.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use device_plugin::features::{Features, HostAllocation, Stream};
use device_plugin::{
    CompileOptionSchema, CompileOptionType, CompileOptions, Compiled, DeviceInfo, DevicePlugin, Error, NamedValue,
    Program, Result, TopologyInfo, device_plugin,
};
use device_runtime::features::{
    AheadOfTime, BufferAddresses, CostAnalysis, HostMemoryAllocator, NamedOptions, PartialCopies, Platform, Poisoning,
    Serialization, Streams,
};
use device_runtime::{HostSource, HostTarget, QueueId, Runtime};

use crate::dummy::control::Control;
use crate::dummy::driver::{Done, Dummy, FeatureSet, Memory, compiled};
use crate::dummy::program::Kernel;

/// Version of the platform.
pub(crate) const VERSION: &str = "dummy 1.2";

/// The name of the only topology.
pub(crate) const TOPOLOGY: &str = "pair";

/// The plugin over a driver with features.
pub(crate) struct Featured;

#[device_plugin]
impl DevicePlugin for Featured {
    const NAME: &'static str = "featured";
    type Backend = Runtime<Dummy<All>>;
}

/// All features.
pub(crate) struct All;

impl FeatureSet for All {
    const FEATURES: Features<Runtime<Dummy<Self>>> = Features::none()
        .platform()
        .named_options()
        .ahead_of_time()
        .serialization()
        .cost_analysis()
        .host_memory_allocator()
        .poisoning()
        .buffer_addresses()
        .streams()
        .piecewise_uploads()
        .raw_buffers()
        .queued_transfers()
        .ffi()
        // The runtime lists this feature, too.
        .queued();
}

impl Platform for Dummy<All> {
    fn platform_name(&self) -> Option<String> {
        Some("dummy platform".to_owned())
    }

    fn platform_version(&self) -> String {
        VERSION.to_owned()
    }

    fn topology_attributes(&self) -> Vec<NamedValue> {
        vec![NamedValue::new("links", 3)]
    }
}

impl NamedOptions for Dummy<All> {
    fn compile_options() -> CompileOptionSchema {
        CompileOptionSchema::only([("dummy_level", CompileOptionType::Int64)])
    }
}

impl AheadOfTime for Dummy<All> {
    fn topology(name: &str, _: &[NamedValue]) -> Result<TopologyInfo> {
        if name != TOPOLOGY {
            return Err(Error::invalid_argument(format!("unknown topology {name:?}")));
        }
        let mut topology = TopologyInfo::new([0, 1].map(|id| DeviceInfo::new(id, "dummy")));
        topology.platform_name = "dummy platform".to_owned();
        topology.platform_version = VERSION.to_owned();
        Ok(topology)
    }

    fn compile_for(_: &TopologyInfo, program: &Program, _: &CompileOptions) -> Result<Compiled<Kernel>> {
        Ok(compiled(Kernel::parse(program)?))
    }

    fn load_executable(&self, executable: &Arc<Kernel>) -> Result<Arc<Kernel>> {
        self.control.state().loaded += 1;
        Ok(Arc::clone(executable))
    }
}

impl Serialization for Dummy<All> {
    fn serialize(kernel: &Kernel) -> Result<Option<Vec<u8>>> {
        Ok(Some(kernel.text.clone().into_bytes()))
    }

    fn deserialize_and_load(&self, data: &[u8], _: &CompileOptions) -> Result<Compiled<Kernel>> {
        self.control.state().loaded += 1;
        let kernel = Kernel::read(&String::from_utf8_lossy(data));
        kernel.map(compiled).ok_or_else(|| Error::invalid_argument("not a kernel"))
    }
}

impl CostAnalysis for Dummy<All> {
    fn cost_analysis(kernel: &Kernel) -> Result<Vec<NamedValue>> {
        Ok(vec![NamedValue::new("additions", i64::try_from(kernel.size).unwrap())])
    }
}

impl HostMemoryAllocator for Dummy<All> {
    fn allocate_host(&self, size: usize, numa_node: Option<usize>) -> Result<HostAllocation> {
        if numa_node.is_some_and(|node| node > 1) {
            return Err(Error::invalid_argument("the dummy has two nodes"));
        }
        let mut bytes = vec![0; size];
        self.control.state().pinned.push((bytes.as_mut_ptr().addr(), size));
        Ok(Box::new(Pinned(bytes, Arc::clone(&self.control))))
    }
}

struct Pinned(Vec<u8>, Arc<Control>);

impl AsMut<[u8]> for Pinned {
    fn as_mut(&mut self) -> &mut [u8] {
        &mut self.0
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        let address = self.0.as_ptr().addr();
        self.1.change(|state| state.pinned.retain(|(start, _)| *start != address));
    }
}

impl Poisoning for Dummy<All> {
    fn poison_execution(&self, device: usize, launch_id: i32, error: Error) -> Result<bool> {
        let launches = self.launches.lock().unwrap();
        let mut launches = launches.iter().filter(|launch| (launch.device, launch.id) == (device, launch_id));
        let found = launches.find(|launch| !launch.claimed.swap(true, Ordering::AcqRel));
        Ok(found.is_some_and(|launch| self.control.change(|_| launch.result.set(Err(error)).is_ok())))
    }
}

impl BufferAddresses for Dummy<All> {
    fn device_pointer(&self, memory: &Memory) -> Option<usize> {
        Some(memory.address())
    }
}

impl PartialCopies for Dummy<All> {
    fn copy_part_from_host(
        &self,
        queue: QueueId,
        from: &HostSource,
        to: (&Arc<Memory>, usize),
        after: &[Arc<Done>],
    ) -> Result<Done> {
        self.copy_in(queue, from, to, after)
    }

    fn copy_part_to_host(
        &self,
        queue: QueueId,
        from: (&Arc<Memory>, usize),
        to: &HostTarget,
        after: &[Arc<Done>],
    ) -> Result<Done> {
        self.copy_out(queue, from, to, after)
    }
}

impl Streams for Dummy<All> {
    fn stream_for_external_ready_events(&self, device: usize) -> Result<Stream> {
        Ok(Stream(isize::try_from(device).unwrap() + 100))
    }

    fn wait_on_stream(&self, stream: Stream, after: &[Arc<Done>]) -> Result<()> {
        self.control.state().stream_waits.push((stream.0, after.len()));
        Ok(())
    }
}

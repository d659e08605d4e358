//! The PJRT plugin `board`: a board of devices, each with memory and a queue. The book's chapters "Write a plugin",
//! "Compile and run programs" and "Complete your plugin" develop it step by step from `examples/minimal-plugin`. They
//! show the lines between `ANCHOR` and `ANCHOR_END`.
#![forbid(unsafe_code)]

mod memory;
mod program;
mod queue;

use std::collections::BTreeSet;
use std::sync::Arc;

use device_plugin::capabilities::{MemoryKinds, ProgramFormat, ProgramFormats};
use device_plugin::features::{CostAnalysis, Features, MemoryStatistics, MultiDevice};
use device_plugin::{
    Backend, Capabilities, ClientOptions, CompileOptions, Compiled, DeviceInfo, DevicePlugin, ElementType, Error,
    Event, HostArray, Launch, MemoryInfo, MemoryStats, NamedValue, OptionSchema, OptionSpec, OptionType, Placement,
    Program, Result, StablehloVersions, device_plugin, stablehlo,
};

use memory::{Buffer, Memory};
use program::Executable;
use queue::Queue;

/// The plugin.
pub struct Plugin;

#[device_plugin(export)]
impl DevicePlugin for Plugin {
    const NAME: &'static str = "board";
    type Backend = Board;

    // ANCHOR: capabilities
    fn capabilities() -> Capabilities {
        Capabilities {
            program_formats: ProgramFormats::preferring(ProgramFormat::Mlir),
            supported_dtypes: Some(BTreeSet::from([ElementType::F32])),
            donation: true,
            memory_kinds: MemoryKinds::new([DEVICE, PINNED]),
            ..Capabilities::default()
        }
    }
    // ANCHOR_END: capabilities

    // ANCHOR: schema
    fn options() -> OptionSchema {
        let option = OptionSpec::new;
        OptionSchema::only([
            option("devices", OptionType::Int64, "number of devices").with_default(2i64),
            option("memory", OptionType::Int64, "bytes of each device's memory").with_default(1i64 << 20),
            option("nan_check", OptionType::Int64, "1 fails programs that compute a NaN").with_default(0i64),
        ])
    }
    // ANCHOR_END: schema

    fn stablehlo_versions() -> Option<StablehloVersions> {
        Some(stablehlo::VERSIONS)
    }
}

/// Names of the memory kinds.
const DEVICE: &str = "device";
const PINNED: &str = "pinned_host";

// ANCHOR: board
/// A board of devices. Each device has its own memory and work queue.
pub struct Board {
    devices: Vec<(Arc<Memory>, Queue)>,
    host: Arc<Memory>,
    nan_check: bool,
}
// ANCHOR_END: board

impl Backend for Board {
    type Buffer = Buffer;
    type Executable = Executable;

    // ANCHOR: features
    const FEATURES: Features<Self> = Features::none().memory_statistics().cost_analysis().multi_device();
    // ANCHOR_END: features

    // ANCHOR: create
    fn create(options: &ClientOptions) -> Result<Self> {
        options.expect_only(&["devices", "memory", "nan_check"])?;
        let within = |name: &str, default: i64, limit: i64| match options.int(name)?.unwrap_or(default) {
            value if (0..=limit).contains(&value) => Ok(usize::try_from(value).unwrap_or_default()),
            value => {
                Err(Error::invalid_argument(format!("option {name} is {value}; set it to a number from 0 to {limit}")))
            }
        };
        let (count, memory) = (within("devices", 2, 64)?.max(1), within("memory", 1 << 20, 1 << 30)?);
        let devices = (0..count).map(|index| Ok((Memory::new(memory), Queue::start(index)?)));
        let devices = devices.collect::<Result<_>>()?;
        Ok(Self { devices, host: Memory::new(1 << 30), nan_check: within("nan_check", 0, 1)? == 1 })
    }
    // ANCHOR_END: create

    // ANCHOR: devices
    fn devices(&self) -> Vec<DeviceInfo> {
        let describe = |id| {
            let mut device = DeviceInfo::new(id, "Board v1");
            device.attributes = vec![NamedValue::new("slot", i64::from(id))];
            device
        };
        (0..self.count()).map(describe).collect()
    }
    // ANCHOR_END: devices

    // ANCHOR: memories
    fn memories(&self) -> Vec<MemoryInfo> {
        // The first memory that lists a device is its default.
        let own = (0..self.count()).map(|id| MemoryInfo::new(DEVICE, 0, [id]));
        let pinned = MemoryInfo::new(PINNED, 1, (0..self.count()).collect::<Vec<_>>());
        own.chain([pinned]).collect()
    }
    // ANCHOR_END: memories

    // ANCHOR: transfers
    fn buffer_from_host(&self, host: HostArray<'_>, to: Placement) -> Result<Buffer> {
        let elements = program::elements(host.shape())?;
        let buffer = Buffer::reserve(self.memory(to), elements)?;
        let values = host.bytes().chunks_exact(4).map(|b| f32::from_ne_bytes([b[0], b[1], b[2], b[3]]));
        buffer.fill(Arc::new(values.collect()))?;
        Ok(buffer)
    }

    fn read(&self, buffer: &Buffer, to: &mut [u8]) -> Result<()> {
        for (to, value) in to.chunks_exact_mut(4).zip(buffer.values()?.iter()) {
            to.copy_from_slice(&value.to_ne_bytes());
        }
        Ok(())
    }
    // ANCHOR_END: transfers

    // ANCHOR: compile
    fn compile(&self, program: &Program, options: &CompileOptions) -> Result<Compiled<Executable>> {
        if options.num_partitions != 1 {
            let message = format!("{} partitions; this device supports one", options.num_partitions);
            return Err(Error::unimplemented(message));
        }
        let module = stablehlo::inline(&stablehlo::parse(program, stablehlo::VerifyLevel::FULL)?, &[])?;
        let info = stablehlo::info(&module)?;
        Ok(Compiled::new(Executable::of(&module)?, info))
    }
    // ANCHOR_END: compile

    // ANCHOR: execute
    fn execute(&self, executable: &Arc<Executable>, launch: &mut Launch<'_, Self>) -> Result<Event> {
        let (memory, queue) = &self.devices[launch.device];
        // The work owns donated buffers, so that it can reuse their memory. It holds clones of the others.
        let count = launch.inputs.len();
        let inputs: Vec<Buffer> =
            (0..count).map(|i| launch.inputs.take(i).unwrap_or_else(|| launch.inputs[i].clone())).collect();
        let mut outputs = Vec::with_capacity(launch.outputs.len());
        for (index, shape) in launch.outputs.shapes().iter().enumerate() {
            let memory = launch.outputs.placement(index).map_or(memory, |to| self.memory(to));
            let output = Buffer::reserve(memory, program::elements(shape)?)?;
            launch.outputs.push(output.clone())?;
            outputs.push(output);
        }
        let (event, completer) = Event::pending();
        let (executable, nan_check) = (Arc::clone(executable), self.nan_check);
        queue.submit(move || completer.run(move || executable.run(inputs, &outputs, nan_check)))?;
        Ok(event)
    }
    // ANCHOR_END: execute
}

// ANCHOR: stats
impl MemoryStatistics for Board {
    fn memory_stats(&self, device: usize) -> Result<MemoryStats> {
        Ok(self.devices[device].0.stats())
    }
}
// ANCHOR_END: stats

// ANCHOR: cost
impl CostAnalysis for Board {
    fn cost_analysis(executable: &Executable) -> Result<Vec<NamedValue>> {
        Ok(vec![NamedValue::new("flops", executable.flops() as f32)])
    }
}
// ANCHOR_END: cost

// ANCHOR: execute_all
impl MultiDevice for Board {
    fn execute_all(&self, executable: &Arc<Executable>, launches: &mut [Launch<'_, Self>]) -> Result<Vec<Event>> {
        launches.iter_mut().map(|launch| self.execute(executable, launch)).collect()
    }
}
// ANCHOR_END: execute_all

impl Board {
    fn count(&self) -> i32 {
        i32::try_from(self.devices.len()).unwrap_or(i32::MAX)
    }

    // ANCHOR: placement
    /// Returns the memory of a placement, which contains an index into the list of `memories`.
    fn memory(&self, to: Placement) -> &Arc<Memory> {
        self.devices.get(to.memory).map_or(&self.host, |(memory, _)| memory)
    }
    // ANCHOR_END: placement
}

//! The toy device. Its programs are strings with one `key=value` per line:
//!
//! - `op`: `echo`, `add_one` (32-bit integers), `later` (echo, when its gate opens), `later_fail`, `fail`, `few`,
//!   `many`, `hold` (waits for its gate within the call, then copies its arguments), `endless` (until poisoned) or
//!   `all`.
//! - `in`: the parameters, as in `s32[2,3]`.
//! - `out`: the outputs, if they differ from the parameters.
//! - `donate`: the donated parameters.
//! - `gate`: the name of the gate of `later` and similar operations.
//! - `kind`: the memory kind of the outputs.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock};

use device_plugin::features::{
    AheadOfTime, BufferAddresses, CostAnalysis, Distributed, DmaMappings, Features, ForeignViews, MemoryStatistics,
    MultiDevice, Platform, Poisoning, Serialization, Tracking,
};
use device_plugin::{
    Backend, ClientOptions, CompileOptions, Compiled, Completer, DeviceInfo, DevicePlugin, Error, ErrorCode, Event,
    ExecutableInfo, ForeignMemory, HostAlias, HostArray, HostChannels, Launch, MemoryInfo, MemoryStats, NamedValue,
    Placement, ProcessInfo, Program, Result, Shape, StablehloVersions, TopologyInfo, Value, device_plugin,
};

pub struct Toy;

#[device_plugin]
impl DevicePlugin for Toy {
    const NAME: &'static str = "toy";
    type Backend = ToyDevice;

    fn stablehlo_versions() -> Option<StablehloVersions> {
        Some(StablehloVersions { minimum: [0, 9, 0], current: [1, 9, 0] })
    }
}

/// Two devices with one memory each, and a host memory that is addressable from both devices.
pub struct ToyDevice {
    panic_in: String,
    node: Option<String>,
    name: Option<String>,
}

impl Drop for ToyDevice {
    fn drop(&mut self) {
        if let Some(name) = &self.name {
            note(format!("{name} is closed"));
        }
    }
}

pub enum Memory {
    Own(Vec<u8>),
    Lent(HostAlias),
    Foreign(ForeignMemory),
}

/// A buffer. Its cell is set before the buffer becomes ready.
#[derive(Clone)]
pub struct ToyBuffer(Arc<OnceLock<Memory>>);

impl ToyBuffer {
    fn new(memory: Memory) -> Self {
        Self(Arc::new(OnceLock::from(memory)))
    }

    fn bytes(&self) -> &[u8] {
        match self.0.get().expect("used before it was ready") {
            Memory::Own(bytes) => bytes,
            Memory::Lent(alias) => alias,
            Memory::Foreign(memory) => memory.bytes().expect("memory the host reads"),
        }
    }
}

/// Calls of the framework that the toy device only records.
pub static NOTES: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Returns the notes that start with a prefix.
pub fn notes(start: &str) -> Vec<String> {
    NOTES.lock().unwrap().iter().filter(|note| note.starts_with(start)).cloned().collect()
}

fn note(text: String) {
    NOTES.lock().unwrap().push(text);
}

/// A tracking event, which records its drop.
struct Tracked(String);

impl Drop for Tracked {
    fn drop(&mut self) {
        note(format!("{} ends", self.0));
    }
}

/// Executions that end only when they are poisoned or when a test calls [`give_up`].
static ENDLESS: Mutex<Vec<(usize, i32, Completer)>> = Mutex::new(Vec::new());

/// Fails the execution of the program `endless` that has this launch id.
pub fn give_up(launch_id: i32) {
    let mut running = ENDLESS.lock().unwrap();
    let at = running.iter().position(|run| run.1 == launch_id).expect("no such execution");
    let run = running.remove(at);
    drop(running);
    run.2.complete_inline(Err(Error::new(ErrorCode::CANCELLED, "the toy gives up")));
}

/// Channels of executions that may have ended, with the names of their gates.
pub static CHANNELS: Mutex<Vec<(String, HostChannels)>> = Mutex::new(Vec::new());

/// Foreign memory that a failed view has kept.
pub static FOREIGN: Mutex<Vec<ForeignMemory>> = Mutex::new(Vec::new());

pub struct ToyProgram {
    op: String,
    gate: String,
    panic_in: String,
}

/// Aliases that a failed transfer has kept.
pub static KEPT: Mutex<Vec<HostAlias>> = Mutex::new(Vec::new());

/// Gates by name. A gate is an event that programs await and that a test completes.
#[derive(Default)]
struct Gates(HashMap<String, (Event, Option<Completer>)>);
static GATES: Mutex<Option<Gates>> = Mutex::new(None);

fn with_gate<T>(name: &str, then: impl FnOnce(&mut (Event, Option<Completer>)) -> T) -> T {
    let mut gates = GATES.lock().unwrap();
    let gate = gates.get_or_insert_default().0.entry(name.to_owned()).or_insert_with(|| {
        let (event, completer) = Event::pending();
        (event, Some(completer))
    });
    then(gate)
}

/// Opens a gate, so that the programs that wait at it continue.
pub fn open_gate(name: &str) {
    let completer = with_gate(name, |gate| gate.1.take());
    completer.expect("the gate is open").complete_inline(Ok(()));
}

/// Waits until a gate is open.
pub fn pass_gate(name: &str) {
    with_gate(name, |gate| gate.0.clone()).wait().unwrap();
}

/// Fails the programs that wait at a gate.
pub fn abandon_gate(name: &str) {
    drop(with_gate(name, |gate| gate.1.take()).expect("the gate is open"));
}

fn parse_shape(text: &str) -> Result<Shape> {
    let fault = || Error::invalid_argument(format!("{text:?} is not a shape"));
    let (ty, dims) = text.trim_end_matches(']').split_once('[').ok_or_else(fault)?;
    let dims = dims.split(',').filter(|dim| !dim.is_empty()).map(|dim| dim.parse::<i64>().map_err(|_| fault()));
    Ok(Shape::new(ty.parse().map_err(|_| fault())?, dims.collect::<Result<Vec<_>>>()?))
}

fn devices() -> Vec<DeviceInfo> {
    (0..2)
        .map(|id| {
            let mut info = DeviceInfo::new(10 + id, "Toy v1");
            info.local_hardware_id = id;
            info.attributes = vec![
                NamedValue::new("coords", [i64::from(id), 0]),
                NamedValue::new("name", "toy"),
                NamedValue::new("cores", 2i64),
                NamedValue::new("fast", true),
                NamedValue::new("ghz", 1.5f32),
            ];
            info
        })
        .collect()
}

fn memories() -> Vec<MemoryInfo> {
    vec![
        MemoryInfo::new("device", 0, [10]),
        MemoryInfo::new("device", 0, [11]),
        MemoryInfo::new("pinned_host", 1, [10, 11]).on_host(),
    ]
}

fn compile(program: &Program, options: &CompileOptions, panic_in: &str) -> Result<Compiled<ToyProgram>> {
    let code = std::str::from_utf8(program.code()).map_err(|_| Error::invalid_argument("no text"))?;
    // The code of an HLO module is its name field, whose content follows a tag and a length.
    let code = if program.format() == "hlo" { code[2..].trim_end_matches(|c| c != ']') } else { code };
    let fields: HashMap<&str, &str> = code.lines().filter_map(|line| line.split_once('=')).collect();
    let list = |key: &str| fields.get(key).into_iter().flat_map(|list| list.split(';'));
    let shapes = |key: &str| list(key).filter(|s| !s.is_empty()).map(parse_shape).collect::<Result<Vec<_>>>();
    let op = *fields.get("op").ok_or_else(|| Error::invalid_argument("the program has no op"))?;
    let inputs = shapes("in")?;
    let outputs = if fields.contains_key("out") { shapes("out")? } else { inputs.clone() };
    let mut info = ExecutableInfo::new(op, inputs, outputs).donating(list("donate").map(|i| i.parse().unwrap()));
    info.size_of_generated_code = 42;
    if let Some(kind) = fields.get("kind") {
        info.output_memory_kinds = vec![(*kind).to_owned(); info.outputs.len()];
    }
    if op == "all" {
        info.output_shardings = Some(vec![b"sharding".to_vec(); info.outputs.len()]);
    }
    assert!(options.num_replicas >= 1);
    let gate = fields.get("gate").map_or(String::new(), ToString::to_string);
    let executable = ToyProgram { op: op.to_owned(), gate, panic_in: panic_in.to_owned() };
    Ok(Compiled::new(executable, info))
}

impl ToyDevice {
    fn check(&self, method: &str) {
        assert!(self.panic_in != method, "asked to panic in {method}");
    }
}

impl Backend for ToyDevice {
    type Buffer = ToyBuffer;
    type Executable = ToyProgram;

    const FEATURES: Features<Self> = Features::none()
        .platform()
        .memory_statistics()
        .distributed()
        .foreign_views()
        .dma_mappings()
        .poisoning()
        .tracking()
        .buffer_addresses()
        .ahead_of_time()
        .serialization()
        .multi_device()
        .cost_analysis();

    fn create(options: &ClientOptions) -> Result<Self> {
        options.expect_only(&["panic_in", "name", "fail", "node_id", "num_nodes", "list", "float", "flag"])?;
        if let Some(Value::String(message)) = options.get("fail") {
            return Err(Error::new(ErrorCode::UNAVAILABLE, message).with_payload("toy", *b"payload"));
        }
        let panic_in = options.get("panic_in").map_or(String::new(), ToString::to_string);
        assert!(panic_in != "create", "asked to panic in create");
        let node = match options.key_value_store() {
            None => None,
            Some(store) => {
                store.put("greeting", b"hello")?;
                assert_eq!(store.try_get("absent")?, None);
                let got = store.get("greeting", std::time::Duration::from_millis(5))?;
                Some(String::from_utf8(got).unwrap())
            }
        };
        let name = options.get("name").map(ToString::to_string);
        Ok(Self { panic_in, node, name })
    }

    fn devices(&self) -> Vec<DeviceInfo> {
        self.check("devices");
        devices()
    }

    fn memories(&self) -> Vec<MemoryInfo> {
        self.check("memories");
        memories()
    }

    fn buffer_from_host(&self, host: HostArray<'_>, to: Placement) -> Result<ToyBuffer> {
        self.check("buffer_from_host");
        if self.panic_in == "after lending" {
            KEPT.lock().unwrap().extend(host.alias());
            return Err(Error::internal("kept the alias"));
        }
        match host.alias().filter(|_| to.memory == 2) {
            Some(alias) => Ok(ToyBuffer::new(Memory::Lent(alias))),
            None => Ok(ToyBuffer::new(Memory::Own(host.into_bytes()))),
        }
    }

    fn read(&self, buffer: &ToyBuffer, to: &mut [u8]) -> Result<()> {
        self.check("read");
        to.copy_from_slice(buffer.bytes());
        Ok(())
    }

    fn compile(&self, program: &Program, options: &CompileOptions) -> Result<Compiled<ToyProgram>> {
        self.check("compile");
        compile(program, options, &self.panic_in)
    }

    fn execute(&self, program: &Arc<ToyProgram>, launch: &mut Launch<'_, Self>) -> Result<Event> {
        assert!(program.panic_in != "execute", "asked to panic in execute");
        let Launch { inputs, outputs, .. } = launch;
        match program.op.as_str() {
            "echo" | "all" => {
                for i in 0..inputs.len() {
                    outputs.push(inputs[i].clone())?;
                }
            }
            "add_one" => {
                for i in 0..inputs.len() {
                    let mut buffer = inputs.take(i).unwrap_or_else(|| inputs[i].clone());
                    let in_place = Arc::get_mut(&mut buffer.0).and_then(OnceLock::get_mut);
                    let mut bytes = match in_place {
                        Some(Memory::Own(bytes)) => std::mem::take(bytes),
                        _ => buffer.bytes().to_vec(),
                    };
                    for element in bytes.as_chunks_mut::<4>().0 {
                        *element = (i32::from_le_bytes(*element) + 1).to_le_bytes();
                    }
                    outputs.push(ToyBuffer::new(Memory::Own(bytes)))?;
                }
            }
            "later" | "later_fail" => {
                let buffers: Vec<_> = (0..inputs.len()).map(|i| inputs[i].clone()).collect();
                let made: Vec<_> = buffers.iter().map(|_| ToyBuffer(Arc::default())).collect();
                for made in &made {
                    outputs.push(made.clone())?;
                }
                let (event, completer) = Event::pending();
                let gate = with_gate(&program.gate, |gate| gate.0.clone());
                let fails = program.op == "later_fail";
                std::thread::spawn(move || {
                    if gate.wait().is_err() {
                        return drop(completer);
                    }
                    if fails {
                        return completer.complete(Err(Error::new(ErrorCode::DATA_LOSS, "lost on the way")));
                    }
                    for (made, buffer) in made.iter().zip(&buffers) {
                        let _ = made.0.set(Memory::Own(buffer.bytes().to_vec()));
                    }
                    completer.complete(Ok(()));
                });
                return Ok(event);
            }
            "talk" | "talk_later" | "talk_badly" => {
                CHANNELS.lock().unwrap().push((program.gate.clone(), launch.channels.clone()));
                let channels = launch.channels.clone();
                let talk = move || {
                    let mut data = channels.recv(1, 8, 4)?.collect()?;
                    data.iter_mut().for_each(|byte| *byte += 1);
                    let (first, second) = data.split_at(3);
                    channels.send(2, first.to_vec(), data.len(), false)?;
                    channels.send(2, second.to_vec(), data.len(), true)
                };
                if program.op == "talk" {
                    talk()?;
                } else {
                    let (event, completer) = Event::pending();
                    let gate = with_gate(&program.gate, |gate| gate.0.clone());
                    let fails = program.op == "talk_badly";
                    std::thread::spawn(move || {
                        gate.wait().unwrap();
                        completer.complete(talk());
                    });
                    return if fails { Err(Error::internal("talked badly")) } else { Ok(event) };
                }
            }
            "hold" => {
                // The program signals its start, waits within the call, and only then reads its arguments.
                open_gate(&format!("{}-begun", program.gate));
                with_gate(&program.gate, |gate| gate.0.clone()).wait()?;
                for i in 0..inputs.len() {
                    outputs.push(ToyBuffer::new(Memory::Own(inputs[i].bytes().to_vec())))?;
                }
            }
            "endless" => {
                for _ in 0..outputs.len() {
                    outputs.push(ToyBuffer(Arc::default()))?;
                }
                let (event, completer) = Event::pending();
                ENDLESS.lock().unwrap().push((launch.device, launch.options.launch_id, completer));
                return Ok(event);
            }
            "few" => {
                for i in 1..inputs.len() {
                    outputs.push(inputs[i].clone())?;
                }
            }
            "many" => {
                for _ in 0..=inputs.len() {
                    outputs.push(inputs[0].clone())?;
                }
            }
            "fail" => {
                for i in 0..inputs.len() {
                    outputs.push(inputs[i].clone())?;
                }
                return Err(Error::resource_exhausted("the toy is tired"));
            }
            op => return Err(Error::unimplemented(format!("op {op}"))),
        }
        Ok(Event::ready())
    }
}

impl Platform for ToyDevice {
    fn platform_version(&self) -> String {
        self.node.as_ref().map_or("toy 1".to_owned(), |node| format!("toy 1 {node}"))
    }
}

impl MemoryStatistics for ToyDevice {
    fn memory_stats(&self, device: usize) -> Result<MemoryStats> {
        self.check("memory_stats");
        let mut stats = MemoryStats::new(7 + device as i64);
        stats.num_allocs = Some(3);
        Ok(stats)
    }

    fn clear_memory_stats(&self, device: usize) -> Result<()> {
        self.check("clear_memory_stats");
        if device == 0 { Ok(()) } else { Err(Error::unimplemented("only device 0 counts")) }
    }
}

impl Distributed for ToyDevice {
    fn process_index(&self) -> i32 {
        0
    }

    fn update_global_process_info(&self, processes: &[ProcessInfo]) -> Result<()> {
        self.check("update_global_process_info");
        for process in processes {
            note(format!("process {} {} {:?}", process.process_index, process.incarnation, process.state));
        }
        Ok(())
    }
}

impl ForeignViews for ToyDevice {
    fn create_view_of_device_buffer(&self, memory: ForeignMemory, shape: &Shape, at: Placement) -> Result<ToyBuffer> {
        self.check("create_view_of_device_buffer");
        if self.panic_in == "after keeping" {
            FOREIGN.lock().unwrap().push(memory);
            return Err(Error::internal("kept the memory"));
        }
        if self.panic_in == "viewing anywhere" {
            return Ok(ToyBuffer::new(Memory::Foreign(memory)));
        }
        if memory.bytes().is_none() || at.memory != 2 {
            return Err(Error::unimplemented(format!("{shape} in foreign memory {}", at.memory)));
        }
        Ok(ToyBuffer::new(Memory::Foreign(memory)))
    }
}

impl DmaMappings for ToyDevice {
    fn dma_map(&self, address: usize, size: usize) -> Result<()> {
        self.check("dma_map");
        if size == 13 {
            return Err(Error::resource_exhausted("13 bytes are too many"));
        }
        note(format!("map {address} {size}"));
        Ok(())
    }

    fn dma_unmap(&self, address: usize) -> Result<()> {
        note(format!("unmap {address}"));
        let name = self.name.as_deref().unwrap_or_default();
        if name.starts_with("slow to unmap") {
            pass_gate(name);
        }
        if name == "slow to unmap, and fails" && notes(&format!("unmap {address}")).len() == 1 {
            return Err(Error::internal("the memory is stuck"));
        }
        Ok(())
    }
}

impl Poisoning for ToyDevice {
    fn poison_execution(&self, device: usize, launch_id: i32, error: Error) -> Result<bool> {
        self.check("poison_execution");
        let mut running = ENDLESS.lock().unwrap();
        let Some(at) = running.iter().position(|run| (run.0, run.1) == (device, launch_id)) else { return Ok(false) };
        let (.., completer) = running.remove(at);
        drop(running);
        completer.complete_inline(Err(error));
        Ok(true)
    }
}

impl Tracking for ToyDevice {
    fn track(&self, device: usize, description: &str) -> Box<dyn Send + Sync> {
        self.check("track");
        let text = format!("{description} on {device}");
        note(format!("{text} begins"));
        Box::new(Tracked(text))
    }
}

impl BufferAddresses for ToyDevice {
    fn host_bytes<'a>(&self, buffer: &'a ToyBuffer) -> Option<&'a [u8]> {
        self.check("host_bytes");
        Some(buffer.bytes())
    }
}

impl AheadOfTime for ToyDevice {
    fn compile_for(
        topology: &TopologyInfo,
        program: &Program,
        options: &CompileOptions,
    ) -> Result<Compiled<ToyProgram>> {
        let mut compiled = compile(program, options, "")?;
        compiled.info.name = format!("{} for {} devices", compiled.info.name, topology.devices.len());
        Ok(compiled)
    }

    fn load_executable(&self, program: &Arc<ToyProgram>) -> Result<Arc<ToyProgram>> {
        self.check("load_executable");
        match program.op.as_str() {
            "unloadable" => Err(Error::invalid_argument("this program is for other devices")),
            _ => Ok(Arc::clone(program)),
        }
    }

    fn topology(name: &str, _: &[NamedValue]) -> Result<TopologyInfo> {
        match name {
            "panic" => panic!("asked to panic in topology"),
            "pair" => {
                let mut info = TopologyInfo::new([DeviceInfo::new(0, "Toy v1"), DeviceInfo::new(1, "Toy v1")]);
                info.attributes = vec![NamedValue::new("shape", [2i64])];
                Ok(info)
            }
            // These topologies have the devices and memories of a client. The platform version of `here, older` is
            // older.
            "here" | "here, older" => {
                let mut info = TopologyInfo::new(devices());
                info.memories = memories();
                info.platform_version = if name == "here" { "toy 1".to_owned() } else { "toy 0".to_owned() };
                Ok(info)
            }
            "there" => {
                let mut info = TopologyInfo::new(devices());
                info.platform_name = "another".to_owned();
                Ok(info)
            }
            _ => Err(Error::invalid_argument(format!("no topology {name}"))),
        }
    }
}

impl Serialization for ToyDevice {
    fn serialize(program: &ToyProgram) -> Result<Option<Vec<u8>>> {
        Ok((program.op == "native").then(|| b"native code".to_vec()))
    }

    fn deserialize_and_load(&self, data: &[u8], _: &CompileOptions) -> Result<Compiled<ToyProgram>> {
        self.check("deserialize_and_load");
        if data != b"native code" {
            return Err(Error::invalid_argument("no native code"));
        }
        let executable = ToyProgram { op: "echo".to_owned(), gate: String::new(), panic_in: String::new() };
        let shape = Shape::new(device_plugin::ElementType::S32, [1]);
        Ok(Compiled::new(executable, ExecutableInfo::new("from native code", [shape.clone()], [shape])))
    }
}

impl MultiDevice for ToyDevice {
    fn execute_all(&self, program: &Arc<ToyProgram>, launches: &mut [Launch<'_, Self>]) -> Result<Vec<Event>> {
        self.check("execute_all");
        if program.op != "all" {
            return Err(Error::unimplemented(format!("{} on several devices", program.op)));
        }
        launches.iter_mut().map(|launch| self.execute(program, launch)).collect()
    }
}

impl CostAnalysis for ToyDevice {
    fn cost_analysis(program: &ToyProgram) -> Result<Vec<NamedValue>> {
        assert!(program.panic_in != "cost_analysis", "asked to panic in cost_analysis");
        Ok(vec![NamedValue::new("flops", 2.5f32), NamedValue::new("bytes accessed", 8i64)])
    }
}

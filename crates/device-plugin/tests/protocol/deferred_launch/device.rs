//! A device whose arrays are pairs of integers. It records on which threads its programs ran. A program is one line:
//! its operation, its number of inputs, and further words. For example, `add 2` adds its two inputs. The word `donate`
//! donates all inputs.

use std::ptr::null_mut;
use std::sync::{Arc, Condvar, Mutex, OnceLock};
use std::thread::ThreadId;

use device_plugin::features::{Features, MultiDevice};
use device_plugin::*;
use pjrt_sys::*;

use crate::framework::{Answer, Buffer, Client, Event as RawEvent, Framework, Loaded, execute_options, garbage, pair};

/// A plugin whose device orders its work itself (`Features::queued`) if `QUEUED` is `true`.
pub struct Patient<const QUEUED: bool>;

impl<const QUEUED: bool> DevicePlugin for Patient<QUEUED> {
    const NAME: &'static str = "patient";
    type Backend = Device<QUEUED>;
}

/// Observations of the backend about the client of one test.
#[derive(Default)]
pub struct Log {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
pub struct State {
    /// Number of existing values on the device.
    pub values: usize,
    /// Whether the backend has been dropped.
    pub closed: bool,
    /// Programs that have started, with the threads on which they ran.
    pub begun: Vec<(String, ThreadId)>,
    /// Number of donated inputs that had no other owner.
    pub in_place: usize,
    /// Launches of the program `hold` wait within `execute` until this is `true`.
    pub released: bool,
    /// Completers of asynchronous programs.
    pub running: Vec<Completer>,
}

impl Log {
    fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let result = change(&mut self.state.lock().unwrap());
        self.changed.notify_all();
        result
    }

    pub fn look<T>(&self, look: impl FnOnce(&State) -> T) -> T {
        look(&self.state.lock().unwrap())
    }

    /// Waits until `is_so` returns `true` for the state.
    pub fn wait(&self, is_so: impl Fn(&State) -> bool) {
        drop(self.changed.wait_while(self.state.lock().unwrap(), |state| !is_so(state)).unwrap());
    }

    pub fn release(&self) {
        self.change(|state| state.released = true);
    }

    /// Completes the asynchronous programs that have started, with `result`.
    pub fn finish(&self, result: Result<()>) {
        let running = self.change(|state| std::mem::take(&mut state.running));
        running.into_iter().for_each(|run| run.complete(result.clone()));
    }
}

static LOGS: Mutex<Vec<(String, Arc<Log>)>> = Mutex::new(Vec::new());

pub struct Value {
    numbers: Vec<i32>,
    log: Arc<Log>,
}

impl Drop for Value {
    fn drop(&mut self) {
        self.log.change(|state| state.values -= 1);
    }
}

/// The cell of a value. It is set when the value has been computed.
pub type Cell = Arc<OnceLock<Value>>;

pub struct Device<const QUEUED: bool> {
    log: Arc<Log>,
}

impl<const QUEUED: bool> Drop for Device<QUEUED> {
    fn drop(&mut self) {
        self.log.change(|state| state.closed = true);
    }
}

pub struct Program {
    words: Vec<String>,
}

impl Program {
    fn has(&self, word: &str) -> bool {
        self.words.iter().any(|known| known == word)
    }
}

fn numbers(cell: &Cell) -> &[i32] {
    &cell.get().expect("used before it was there").numbers
}

impl<const QUEUED: bool> Device<QUEUED> {
    fn value(&self, numbers: Vec<i32>) -> Value {
        self.log.change(|state| state.values += 1);
        Value { numbers, log: Arc::clone(&self.log) }
    }

    fn cell(&self, numbers: Vec<i32>) -> Cell {
        Arc::new(OnceLock::from(self.value(numbers)))
    }
}

impl<const Q: bool> Backend for Device<Q> {
    type Buffer = Cell;
    type Executable = Program;

    const FEATURES: Features<Self> =
        if Q { Features::none().multi_device().queued() } else { Features::none().multi_device() };

    device_plugin_testing::several_devices!(2, "Patient");

    fn create(options: &ClientOptions) -> Result<Self> {
        let name = options.get("test").map(ToString::to_string).unwrap_or_default();
        let log = Arc::new(Log::default());
        LOGS.lock().unwrap().push((name, Arc::clone(&log)));
        Ok(Self { log })
    }

    fn buffer_from_host(&self, host: HostArray<'_>, _: Placement) -> Result<Cell> {
        Ok(self.cell(host.bytes().as_chunks().0.iter().map(|four| i32::from_le_bytes(*four)).collect()))
    }

    fn read(&self, buffer: &Cell, to: &mut [u8]) -> Result<()> {
        to.copy_from_slice(&numbers(buffer).iter().flat_map(|number| number.to_le_bytes()).collect::<Vec<_>>());
        Ok(())
    }

    fn compile(&self, program: &device_plugin::Program, _: &CompileOptions) -> Result<Compiled<Program>> {
        let words: Vec<_> =
            std::str::from_utf8(program.code()).unwrap().split_whitespace().map(str::to_owned).collect();
        let inputs: usize = words[1].parse().unwrap();
        let outputs = if words[0] == "none" { 0 } else { 1 };
        let program = Program { words };
        let donated = if program.has("donate") { 0..inputs } else { 0..0 };
        let info = ExecutableInfo::new("patient", vec![pair(); inputs], vec![pair(); outputs]).donating(donated);
        Ok(Compiled::new(program, info))
    }

    fn execute(&self, program: &Arc<Program>, launch: &mut Launch<'_, Self>) -> Result<Event> {
        let name = format!("{} {}", program.words[0], launch.options.launch_id);
        self.log.change(|state| state.begun.push((name, std::thread::current().id())));
        let mut inputs = Vec::new();
        for index in 0..launch.inputs.len() {
            let mut input = launch.inputs.take(index).unwrap_or_else(|| launch.inputs[index].clone());
            if launch.inputs.is_donated(index) && Arc::get_mut(&mut input).is_some() {
                self.log.change(|state| state.in_place += 1);
            }
            inputs.push(input);
        }
        match program.words[0].as_str() {
            "fail" => return Err(Error::resource_exhausted("the device is tired")),
            "panic" => panic!("a kernel panics"),
            "few" => return Ok(Event::ready()),
            "none" => return Ok(Event::ready()),
            "hold" => self.log.wait(|state| state.released),
            "send" => launch.channels.send(2, vec![1, 2], 2, true)?,
            "async" => {
                let made = Cell::default();
                launch.outputs.push(Arc::clone(&made))?;
                let (event, completer) = Event::pending();
                let (computed, on_the_way) = Event::pending();
                let value = self.value(vec![7, 7]);
                computed.on_ready(move |result| {
                    if result.is_ok() {
                        let _ = made.set(value);
                    }
                    completer.complete_inline(result.clone());
                });
                self.log.change(|state| state.running.push(on_the_way));
                return Ok(event);
            }
            _ => {}
        }
        let mut sum = vec![0, 0];
        for input in &inputs {
            sum.iter_mut().zip(numbers(input)).for_each(|(sum, number)| *sum += number);
        }
        launch.outputs.push(self.cell(sum))?;
        Ok(Event::ready())
    }
}

impl<const Q: bool> MultiDevice for Device<Q> {
    /// Pushes the elementwise sum of the inputs of all devices as the output of each device.
    fn execute_all(&self, program: &Arc<Program>, launches: &mut [Launch<'_, Self>]) -> Result<Vec<Event>> {
        self.log.change(|state| state.begun.push((program.words[0].clone(), std::thread::current().id())));
        let mut sum = vec![0, 0];
        for launch in launches.iter() {
            for index in 0..launch.inputs.len() {
                sum.iter_mut().zip(numbers(&launch.inputs[index])).for_each(|(sum, number)| *sum += number);
            }
        }
        for launch in launches.iter_mut() {
            launch.outputs.push(self.cell(sum.clone()))?;
        }
        Ok(vec![Event::ready(); launches.len()])
    }
}

pub type Manager = *mut PJRT_AsyncHostToDeviceTransferManager;

/// A client, the framework that calls it, and the log of its backend.
pub struct Fixture {
    pub framework: Framework,
    pub client: Client,
    pub log: Arc<Log>,
}

impl Fixture {
    /// Creates a client for one test. Its device orders its work itself (`Features::queued`) if `QUEUED` is `true`.
    pub fn new<const QUEUED: bool>(test: &str) -> Self {
        let framework = Framework(raw::api::<Patient<QUEUED>>());
        let name = format!("{test} {QUEUED}");
        let client = framework.client(&[NamedValue::new("test", name.as_str())]).unwrap();
        let logs = LOGS.lock().unwrap();
        let log = Arc::clone(&logs.iter().find(|(known, _)| *known == name).expect("a log").1);
        Self { framework, client, log }
    }

    pub fn compile(&self, program: &str) -> Loaded {
        self.framework.compile(self.client, program).unwrap()
    }

    pub fn compile_for_both(&self, program: &str) -> Loaded {
        let options = CompileOptions::default().with_num_replicas(2);
        self.framework.compile_with(self.client, program, &options.encode()).unwrap()
    }

    /// Creates a buffer in the memory with the given index. Its data arrives later, through the returned manager.
    pub fn arriving(&self, memory: usize) -> (Manager, Buffer) {
        let shape = pair();
        let mut spec = garbage::<PJRT_ShapeSpec>();
        (spec.dims, spec.num_dims) = (shape.dimensions.as_ptr(), 1);
        spec.element_type = PJRT_Buffer_Type(shape.element_type.as_raw());
        let memory = self.framework.memories(self.client)[memory];
        let made = self.framework.ask::<slot::PJRT_Client_CreateBuffersForAsyncHostToDevice>(|args| {
            (args.client, args.memory, args.num_device_layouts) = (self.client, memory, 0);
            (args.shape_specs, args.num_shape_specs) = (&raw mut spec, 1);
        });
        let manager = made.unwrap().transfer_manager;
        let retrieve = self.framework.ask::<slot::PJRT_AsyncHostToDeviceTransferManager_RetrieveBuffer>(|args| {
            (args.transfer_manager, args.buffer_index) = (manager, 0);
        });
        (manager, retrieve.unwrap().buffer_out)
    }

    pub fn send(&self, manager: Manager, numbers: [i32; 2]) {
        let done = self.framework.ask::<slot::PJRT_AsyncHostToDeviceTransferManager_TransferData>(|args| {
            (args.transfer_manager, args.buffer_index, args.data) = (manager, 0, numbers.as_ptr().cast());
            (args.offset, args.transfer_size, args.is_last_transfer) = (0, 8, true.into());
        });
        self.framework.wait(done.unwrap().done_with_h2d_transfer).unwrap();
    }

    pub fn fail(&self, manager: Manager) {
        let fail = self.framework.ask::<slot::PJRT_AsyncHostToDeviceTransferManager_SetBufferError>(|args| {
            (args.transfer_manager, args.buffer_index, args.error_code) = (manager, 0, PJRT_Error_Code(15));
            (args.error_message, args.error_message_size) = (c"the disk is lost".as_ptr(), 16);
        });
        fail.map(drop).unwrap();
    }

    pub fn destroy_manager(&self, manager: Manager) {
        let destroy = |args: &mut PJRT_AsyncHostToDeviceTransferManager_Destroy_Args| args.transfer_manager = manager;
        self.framework.ask::<slot::PJRT_AsyncHostToDeviceTransferManager_Destroy>(destroy).unwrap();
    }

    pub fn run(&self, program: Loaded, arguments: &[Buffer]) -> (Buffer, RawEvent) {
        let (outputs, event) = self.framework.execute(program, arguments, 1).unwrap();
        (outputs[0], event)
    }

    /// Executes a program on both devices, with one argument for each device.
    pub fn run_on_both(&self, program: Loaded, arguments: [Buffer; 2]) -> Answer<([Buffer; 2], [RawEvent; 2])> {
        let mut options = execute_options(&[]);
        let (mut out, mut events) = ([null_mut(); 2], [null_mut(); 2]);
        let lists = [&raw const arguments[0], &raw const arguments[1]];
        let (first, second) = out.split_at_mut(1);
        let outputs = [first.as_mut_ptr(), second.as_mut_ptr()];
        self.framework.ask::<slot::PJRT_LoadedExecutable_Execute>(|args| {
            (args.executable, args.options, args.execute_device) = (program, &raw mut options, null_mut());
            (args.argument_lists, args.num_devices, args.num_args) = (lists.as_ptr(), 2, 1);
            (args.output_lists, args.device_complete_events) = (outputs.as_ptr(), events.as_mut_ptr());
        })?;
        Ok((out, events))
    }

    pub fn is_ready(&self, buffer: Buffer) -> bool {
        let event = self.framework.ready_event(buffer);
        let ready = self.framework.is_ready(event);
        self.framework.destroy_event(event);
        ready
    }

    /// Destroys the client after all other objects, and waits until the backend and all values are dropped.
    pub fn end(self) {
        self.framework.destroy_client(self.client);
        self.log.wait(|state| state.closed && state.values == 0);
    }
}

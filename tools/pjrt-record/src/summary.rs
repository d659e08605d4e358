//! Statistics of a recording.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io::{Read, Seek};
use std::sync::Arc;

use crate::error::ReadError;
use crate::message::{Arguments, ArrayType, Call, ClientDescription, Outcome, Process};
use crate::reader::{Block, Body, Reader, State};

/// The calls, runs and data sizes of a recording. A run is one execution of a program.
///
/// The size of a summary is in proportion to the size of the file. The summary leaves out lists and names that would
/// make it larger, which happens only in files that no recorder writes.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct Summary {
    /// Description of the recorded process and its plugin.
    pub process: Process,
    /// Descriptions of the clients.
    pub clients: Vec<ClientDescription>,
    /// Number of calls and number of failed calls of each function.
    pub functions: BTreeMap<String, (u64, u64)>,
    /// The runs, in the order of their calls.
    pub runs: Vec<Run>,
    /// Number of calls that a replay skips. The key is the name of the function, or a description of the argument that
    /// the file does not contain.
    pub not_replayable: BTreeMap<String, u64>,
    /// Number of calls that a replay makes without an argument. The key is a description of this argument.
    pub left_out: BTreeMap<String, u64>,
    /// Number of buffer contents that a replay compares.
    pub compared: u64,
    /// Total size of all data to which the blocks refer, in bytes. Repeated data count each time.
    pub data: u64,
    /// Total size of the distinct pieces of data, in bytes, before compression.
    pub distinct: u64,
    /// Total size of the blocks with data in the file, in bytes.
    pub stored: u64,
    /// Number of threads that made calls.
    pub threads: usize,
    /// How far the file could be read.
    pub state: Option<State>,
    /// The error of the first damaged block. The summary does not include this block or any later block.
    pub damage: Option<String>,
    /// Number of lists and names that the summary leaves out, because they are too large for the size of the file.
    pub omitted: u64,
}

/// A run: one execution of a program.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Run {
    /// Number of the call.
    pub call: u64,
    /// Name of the program.
    pub program: String,
    /// Element types and shapes of the arguments on the first device. An element is `None` if the file does not contain
    /// the type and shape.
    pub arguments: Vec<Option<Arc<ArrayType>>>,
    /// Element types and shapes of the outputs.
    pub outputs: Arc<[Arc<ArrayType>]>,
    /// Whether the summary leaves out the name, the arguments and the outputs, because they are too large for the size
    /// of the file.
    pub is_omitted: bool,
    /// Number of devices.
    pub devices: usize,
    /// Number of donated arguments.
    pub donated: usize,
    /// Whether the run failed. `None` if its outcome is not in the file.
    pub failed: Option<bool>,
}

impl Summary {
    /// Reads a whole recording.
    ///
    /// # Errors
    ///
    /// Returns an error if the file cannot be read. A damaged block ends the summary, and is not an error.
    pub fn of<R: Read + Seek>(reader: &mut Reader<R>) -> Result<Self, ReadError> {
        let mut builder = Builder::default();
        loop {
            match reader.read() {
                Ok(Some(block)) => builder.add(block),
                Ok(None) => break,
                Err(error @ ReadError::Io(_)) => return Err(error),
                Err(error) => {
                    builder.summary.damage = Some(error.to_string());
                    break;
                }
            }
        }
        Ok(builder.finish(reader.state()))
    }
}

/// Number of bytes of printed text that a summary may contain for a file of any size.
const FREE_TEXT: u64 = 1 << 20;
/// Number of bytes of printed text that each byte of the file allows.
const TEXT_PER_BYTE: u64 = 32;
/// Number of bytes of printed text for an item of a list, without names and numbers.
const ITEM: usize = 24;

/// The size of the printed summary so far. Blocks refer to shapes and names of other blocks, so the printed text may
/// be much larger than the file.
#[derive(Default)]
struct Text {
    file: u64,
    used: u64,
}

impl Text {
    /// Adds text. Returns `false`, and adds nothing, if the text is too large for the file.
    fn add(&mut self, size: usize) -> bool {
        let used = self.used.saturating_add(size as u64);
        let fits = used <= self.file.saturating_mul(TEXT_PER_BYTE).saturating_add(FREE_TEXT);
        if fits {
            self.used = used;
        }
        fits
    }
}

/// A call without an outcome so far.
struct Pending {
    /// Index of the function in [`Builder::functions`].
    function: usize,
    /// Element type and shape of the buffer that the call creates.
    array: Option<Arc<ArrayType>>,
}

/// A compiled program.
#[derive(Clone, Default)]
struct Executable {
    name: Arc<str>,
    outputs: Arc<[Arc<ArrayType>]>,
    /// Approximate size of the printed name and outputs.
    text: usize,
}

/// The summary of the blocks so far, and the objects that they define.
#[derive(Default)]
struct Builder {
    summary: Summary,
    text: Text,
    threads: HashSet<u64>,
    /// Names of the functions, with the numbers of calls and of failed calls.
    functions: Vec<(String, (u64, u64))>,
    /// Indices in `functions` by the name.
    names: HashMap<String, usize>,
    pending: HashMap<u64, Pending>,
    /// Indices in [`Summary::runs`] of the runs without an outcome so far, by the numbers of their calls.
    running: HashMap<u64, usize>,
    arrays: HashMap<u64, Arc<ArrayType>>,
    executables: HashMap<u64, Executable>,
}

impl Builder {
    fn finish(mut self, state: State) -> Summary {
        self.summary.functions = self.functions.into_iter().collect();
        self.summary.threads = self.threads.len();
        self.summary.state = Some(state);
        self.summary
    }

    fn add(&mut self, block: Block) {
        let call = block.stamp.call;
        self.text.file = block.offset.saturating_add(block.size);
        if block.stamp.thread != 0 {
            self.threads.insert(block.stamp.thread);
        }
        match block.body {
            Body::Process(process) => self.summary.process = process,
            Body::Data { size, .. } => {
                self.summary.distinct = self.summary.distinct.saturating_add(size as u64);
                self.summary.stored = self.summary.stored.saturating_add(block.size);
            }
            Body::Call(message) => self.call(call, message),
            Body::Outcome(outcome) => self.outcome(call, outcome),
            Body::Contents(contents) => {
                self.summary.compared += 1;
                self.data(contents.data.as_ref());
            }
            Body::Snapshot(snapshot) => {
                self.data(snapshot.data.as_ref());
                if let Some(array) = snapshot.array {
                    self.arrays.insert(snapshot.buffer, Arc::new(array));
                }
                if let Some(failure) = &snapshot.failure {
                    self.gap(Gap::Skipped, format!("an argument could not be read: {}", failure.message));
                }
            }
            Body::End(_) | Body::Unknown(_) => {}
        }
    }

    fn data(&mut self, content: Option<&crate::content::Content>) {
        self.summary.data = self.summary.data.saturating_add(content.map_or(0, |content| content.size));
    }

    /// Counts a call that a replay skips or makes without an argument.
    fn gap(&mut self, gap: Gap, what: String) {
        let gaps = match gap {
            Gap::Skipped => &mut self.summary.not_replayable,
            Gap::LeftOut => &mut self.summary.left_out,
        };
        if let Some(count) = gaps.get_mut(&what) {
            *count += 1;
        } else if self.text.add(what.len() + ITEM) {
            gaps.insert(what, 1);
        } else {
            self.summary.omitted += 1;
        }
    }

    /// Counts a call of a function. Returns the index of the function in [`Self::functions`].
    fn function(&mut self, name: &str) -> usize {
        let at = match self.names.get(name) {
            Some(at) => *at,
            None => {
                self.names.insert(name.to_owned(), self.functions.len());
                self.functions.push((name.to_owned(), (0, 0)));
                self.functions.len() - 1
            }
        };
        self.functions[at].1.0 += 1;
        at
    }

    fn call(&mut self, number: u64, call: Call) {
        let function = self.function(&call.function);
        let array = match call.arguments {
            None => {
                self.gap(Gap::Skipped, call.function);
                None
            }
            Some(Arguments::ClientCreate(create)) => {
                if create.key_value_store {
                    let what = "key-value store of PJRT_Client_Create, which only programs of several processes need";
                    self.gap(Gap::LeftOut, what.to_owned());
                }
                None
            }
            Some(Arguments::Execute(execute)) => {
                for part in execute.unsupported {
                    self.gap(Gap::Skipped, format!("PJRT_LoadedExecutable_Execute with {part}"));
                }
                for part in execute.left_out {
                    self.gap(Gap::LeftOut, format!("{part} of PJRT_LoadedExecutable_Execute"));
                }
                let devices = execute.arguments.len();
                let first = execute.arguments.into_iter().next().unwrap_or_default().buffers;
                self.run(number, execute.executable, &first, devices);
                None
            }
            Some(Arguments::Compile(compile)) => {
                self.data(compile.code.as_ref());
                self.data(compile.options.as_ref());
                None
            }
            Some(Arguments::Deserialize(load)) => {
                self.data(load.executable.as_ref());
                self.data(load.options.as_ref());
                None
            }
            Some(Arguments::Upload(upload)) => {
                self.data(upload.data.as_ref());
                upload.array.map(Arc::new)
            }
            Some(Arguments::Transfer(transfer)) => {
                self.data(transfer.data.as_ref());
                None
            }
            Some(Arguments::CreateBuffer(create) | Arguments::CreateAlias(create)) => create.array.map(Arc::new),
            Some(Arguments::Copy(copy)) => self.arrays.get(&copy.buffer).cloned(),
            // The numbers of objects are unique within a file, so no later call uses this object.
            Some(Arguments::Destroy(object)) => {
                self.arrays.remove(&object.object);
                self.executables.remove(&object.object);
                None
            }
            Some(_) => None,
        };
        self.pending.insert(number, Pending { function, array });
    }

    fn run(&mut self, call: u64, executable: u64, arguments: &[u64], devices: usize) {
        let known = self.executables.get(&executable).cloned().unwrap_or_default();
        let mut run = Run { call, devices, ..Run::default() };
        let arrays = || arguments.iter().map(|buffer| self.arrays.get(buffer));
        let size: usize = arrays().map(|array| array.map_or(ITEM, |array| size_of(array))).sum();
        if self.text.add(ITEM + known.text + size) {
            run.arguments = arrays().map(|array| array.cloned()).collect();
            (run.program, run.outputs) = (known.name.to_string(), known.outputs);
        } else {
            run.is_omitted = true;
            self.summary.omitted += 1;
        }
        self.running.insert(call, self.summary.runs.len());
        self.summary.runs.push(run);
    }

    fn outcome(&mut self, number: u64, outcome: Outcome) {
        let Some(Pending { function, array }) = self.pending.remove(&number) else { return };
        let failed = outcome.failure.is_some();
        self.functions[function].1.1 += u64::from(failed);
        if let Some(client) = outcome.client {
            if self.text.add(size_of_client(&client)) {
                self.summary.clients.push(client);
            } else {
                self.summary.omitted += 1;
            }
        }
        let object = outcome.objects.first().copied();
        if let (Some(executable), Some(object)) = (outcome.executable, object) {
            let text = executable.name.len() + executable.outputs.iter().map(size_of).sum::<usize>();
            let outputs = executable.outputs.into_iter().map(Arc::new).collect();
            self.executables.insert(object, Executable { name: executable.name.into(), outputs, text });
        }
        if let (Some(array), Some(object)) = (array, object) {
            self.arrays.insert(object, array);
        }
        let Some(run) = self.running.remove(&number).and_then(|at| self.summary.runs.get_mut(at)) else { return };
        run.failed = Some(failed);
        run.donated = outcome.deleted.len();
        for list in &outcome.outputs {
            for (buffer, array) in list.buffers.iter().zip(run.outputs.iter()) {
                self.arrays.insert(*buffer, array.clone());
            }
        }
    }
}

/// Why a replay does not repeat a part of the recording.
#[derive(Clone, Copy)]
enum Gap {
    /// The replay skips a call.
    Skipped,
    /// The replay makes a call without an argument.
    LeftOut,
}

/// Returns the approximate size of a printed element type and shape.
fn size_of(array: &ArrayType) -> usize {
    ITEM.saturating_add(array.dimensions.len().saturating_mul(8))
}

/// Returns the approximate size of a printed client.
fn size_of_client(client: &ClientDescription) -> usize {
    let devices = client.devices.iter().map(|device| 4 * ITEM + device.kind.len());
    let memories = client.memories.iter().map(|memory| 4 * ITEM + memory.kind.len() + ITEM * memory.devices.len());
    devices.chain(memories).sum::<usize>() + client.platform_name.len() + client.platform_version.len()
}

//! Statistics of a recording.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io::{Read, Seek};

use crate::error::ReadError;
use crate::message::{
    Arguments, ArrayType, BufferList, Call, ClientDescription, ExecutableDescription, Outcome, Process,
};
use crate::reader::{Block, Body, Reader, State};

/// The calls, runs and data sizes of a recording. A run is one execution of a program.
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
    pub arguments: Vec<Option<ArrayType>>,
    /// Element types and shapes of the outputs.
    pub outputs: Vec<ArrayType>,
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
                Ok(Some(block)) => builder.add(&block),
                Ok(None) => break,
                Err(error @ ReadError::Io(_)) => return Err(error),
                Err(error) => {
                    builder.summary.damage = Some(error.to_string());
                    break;
                }
            }
        }
        let mut summary = builder.summary;
        summary.threads = builder.threads.len();
        summary.state = Some(reader.state());
        Ok(summary)
    }
}

/// The summary of the blocks so far, and the objects that they define.
#[derive(Default)]
struct Builder {
    summary: Summary,
    threads: HashSet<u64>,
    /// Calls without an outcome so far, by their numbers.
    pending: HashMap<u64, Call>,
    /// Indices in [`Summary::runs`] of the runs without an outcome so far, by the numbers of their calls.
    running: HashMap<u64, usize>,
    arrays: HashMap<u64, ArrayType>,
    executables: HashMap<u64, ExecutableDescription>,
}

impl Builder {
    fn add(&mut self, block: &Block) {
        let call = block.stamp.call;
        if block.stamp.thread != 0 {
            self.threads.insert(block.stamp.thread);
        }
        match &block.body {
            Body::Process(process) => self.summary.process = process.clone(),
            Body::Data { size, .. } => {
                self.summary.distinct += *size as u64;
                self.summary.stored += block.size;
            }
            Body::Call(message) => self.call(call, message),
            Body::Outcome(outcome) => self.outcome(call, outcome),
            Body::Contents(contents) => {
                self.summary.compared += 1;
                self.summary.data += contents.data.as_ref().map_or(0, |data| data.size);
            }
            Body::Snapshot(snapshot) => {
                self.summary.data += snapshot.data.as_ref().map_or(0, |data| data.size);
                if let Some(array) = &snapshot.array {
                    self.arrays.insert(snapshot.buffer, array.clone());
                }
                if let Some(failure) = &snapshot.failure {
                    let what = format!("an argument could not be read: {}", failure.message);
                    *self.summary.not_replayable.entry(what).or_default() += 1;
                }
            }
            Body::End(_) | Body::Unknown(_) => {}
        }
    }

    fn call(&mut self, number: u64, call: &Call) {
        self.summary.functions.entry(call.function.clone()).or_default().0 += 1;
        let mut skip = |what: String| *self.summary.not_replayable.entry(what).or_default() += 1;
        let size = match &call.arguments {
            None => {
                skip(call.function.clone());
                0
            }
            Some(Arguments::ClientCreate(create)) if create.key_value_store => {
                let what = "key-value store of PJRT_Client_Create, which only programs of several processes need";
                *self.summary.left_out.entry(what.to_owned()).or_default() += 1;
                0
            }
            Some(Arguments::Execute(execute)) => {
                for part in &execute.unsupported {
                    skip(format!("{} with {part}", call.function));
                }
                for part in &execute.left_out {
                    *self.summary.left_out.entry(format!("{part} of {}", call.function)).or_default() += 1;
                }
                let first: &[u64] = execute.arguments.first().map_or(&[], |list| &list.buffers);
                let known = self.executables.get(&execute.executable).cloned().unwrap_or_default();
                self.running.insert(number, self.summary.runs.len());
                self.summary.runs.push(Run {
                    call: number,
                    program: known.name,
                    arguments: first.iter().map(|buffer| self.arrays.get(buffer).cloned()).collect(),
                    outputs: known.outputs,
                    devices: execute.arguments.len(),
                    ..Run::default()
                });
                0
            }
            Some(Arguments::Compile(compile)) => size(compile.code.as_ref()) + size(compile.options.as_ref()),
            Some(Arguments::Deserialize(load)) => size(load.executable.as_ref()),
            Some(Arguments::Upload(upload)) => size(upload.data.as_ref()),
            Some(Arguments::Transfer(transfer)) => size(transfer.data.as_ref()),
            Some(_) => 0,
        };
        self.summary.data += size;
        self.pending.insert(number, call.clone());
    }

    fn outcome(&mut self, number: u64, outcome: &Outcome) {
        let Some(call) = self.pending.remove(&number) else { return };
        let failed = outcome.failure.is_some();
        self.summary.functions.entry(call.function.clone()).or_default().1 += u64::from(failed);
        self.summary.clients.extend(outcome.client.clone());
        if let (Some(executable), Some(object)) = (&outcome.executable, outcome.objects.first()) {
            self.executables.insert(*object, executable.clone());
        }
        let array = match call.arguments {
            Some(Arguments::Upload(upload)) => upload.array,
            Some(Arguments::CreateBuffer(create) | Arguments::CreateAlias(create)) => create.array,
            Some(Arguments::Copy(copy)) => self.arrays.get(&copy.buffer).cloned(),
            _ => None,
        };
        if let (Some(array), Some(object)) = (array, outcome.objects.first()) {
            self.arrays.insert(*object, array);
        }
        let Some(run) = self.running.remove(&number).and_then(|at| self.summary.runs.get_mut(at)) else { return };
        run.failed = Some(failed);
        run.donated = outcome.deleted.len();
        for BufferList { buffers } in &outcome.outputs {
            for (buffer, array) in buffers.iter().zip(&run.outputs) {
                self.arrays.insert(*buffer, array.clone());
            }
        }
    }
}

fn size(content: Option<&crate::content::Content>) -> u64 {
    content.map_or(0, |content| content.size)
}

//! The contents of a recording in numbers.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io::{Read, Seek};

use crate::error::ReadError;
use crate::message::{
    Arguments, ArrayType, BufferList, Call, ClientDescription, ExecutableDescription, Outcome, Process,
};
use crate::reader::{Block, Body, Reader, State};

/// The calls, runs and sizes of a recording.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct Summary {
    /// The process and its plugin.
    pub process: Process,
    /// The clients.
    pub clients: Vec<ClientDescription>,
    /// Calls and failed calls of each function.
    pub functions: BTreeMap<String, (u64, u64)>,
    /// The runs, in order.
    pub runs: Vec<Run>,
    /// Calls that a replay skips, by the function or by the part of its arguments that the file does not contain.
    pub not_replayable: BTreeMap<String, u64>,
    /// Parts of the arguments of calls that a replay makes without these parts.
    pub left_out: BTreeMap<String, u64>,
    /// The number of contents that a replay compares.
    pub compared: u64,
    /// Bytes of data as the framework passed them.
    pub data: u64,
    /// Bytes of the pieces of data in the file, before compression.
    pub distinct: u64,
    /// Bytes of the blocks with data in the file.
    pub stored: u64,
    /// The number of threads.
    pub threads: usize,
    /// Whether the file is complete.
    pub state: Option<State>,
    /// The error that ends the usable part of the file.
    pub damage: Option<String>,
}

/// A run.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Run {
    /// The number of the call.
    pub call: u64,
    /// The name of the program.
    pub program: String,
    /// The types and shapes of the arguments on the first device. `None` if the file does not contain them.
    pub arguments: Vec<Option<ArrayType>>,
    /// The types and shapes of the outputs.
    pub outputs: Vec<ArrayType>,
    /// The number of devices.
    pub devices: usize,
    /// The number of donated arguments.
    pub donated: usize,
    /// Whether the run failed. `None` if its outcome is not in the file.
    pub failed: Option<bool>,
}

impl Summary {
    /// Reads a whole recording.
    ///
    /// # Errors
    ///
    /// If the file cannot be read. Damage ends the summary, and is not an error.
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
    /// Functions of the calls without an outcome so far.
    pending: HashMap<u64, Call>,
    /// Positions of the runs without an outcome so far.
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

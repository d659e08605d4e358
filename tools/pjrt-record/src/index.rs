//! The blocks of a recording and the references between their objects, without the messages.

use std::collections::HashMap;
use std::io::{Read, Seek};

use crate::error::ReadError;
use crate::message::{Arguments, Contents, Outcome};
use crate::reader::{Block, Body, Reader};
use crate::selection::Selection;

/// A block of a recording.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) offset: u64,
    /// Number of the call, or 0.
    pub(crate) call: u64,
    pub(crate) kind: Kind,
}

/// The kind of a block, with the objects to which the block refers.
#[derive(Debug)]
pub(crate) enum Kind {
    Process,
    /// A call without recorded arguments.
    Opaque,
    /// A call that executes a program.
    Execute(Box<Run>),
    /// A call that copies a buffer to the host.
    Download {
        buffer: u64,
        is_raw: bool,
    },
    /// Another call, with the objects that it uses.
    Call {
        inputs: Box<[u64]>,
    },
    Outcome,
    Contents {
        buffer: u64,
    },
    Snapshot {
        client: u64,
    },
}

/// A call that executes a program.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) executable: u64,
    /// The executable and the arguments.
    pub(crate) inputs: Box<[u64]>,
    pub(crate) launch: i32,
    pub(crate) device: Option<i32>,
}

/// The outcome of a call, and the blocks of the call.
#[derive(Debug, Default)]
pub(crate) struct Call {
    /// Index of the first block of the call.
    pub(crate) first: usize,
    /// Indices of the outcomes of the call.
    pub(crate) outcomes: Vec<usize>,
    /// The objects that the call created, except the outputs of a run.
    pub(crate) objects: Box<[u64]>,
    pub(crate) outputs: Box<[u64]>,
    /// Whether the call compiled a program that the selection names.
    is_selected: bool,
    /// Whether the call created a client with exactly one addressable device.
    has_one_device: bool,
}

/// The indices of blocks that refer to objects, sorted by object. A list needs 16 bytes for each reference, much less
/// than a map.
#[derive(Debug, Default)]
pub(crate) struct References(Vec<(u64, usize)>);

impl References {
    /// Adds a reference. Call [`Self::sort`] before reading.
    fn add(&mut self, object: u64, at: usize) {
        self.0.push((object, at));
    }

    fn sort(&mut self) {
        self.0.sort_unstable();
        self.0.dedup();
    }

    /// Returns the indices of the blocks that refer to an object, in order.
    pub(crate) fn of(&self, object: u64) -> impl DoubleEndedIterator<Item = usize> {
        let start = self.0.partition_point(|(other, _)| *other < object);
        let end = self.0.partition_point(|(other, _)| *other <= object);
        self.0[start..end].iter().map(|(_, at)| *at)
    }

    /// Returns the index of the last block that refers to an object.
    pub(crate) fn last(&self, object: u64) -> Option<usize> {
        self.of(object).next_back()
    }
}

/// The blocks of a recording, without the blocks of data. An index needs 8 to 16 bytes for each number of an object in
/// the messages, which takes 1 to 10 bytes there, and a few hundred bytes for each call.
#[derive(Debug, Default)]
pub(crate) struct Index {
    pub(crate) entries: Vec<Entry>,
    pub(crate) calls: HashMap<u64, Call>,
    /// Index of the call or the snapshot that creates each object.
    pub(crate) creators: References,
    /// Indices of the calls that provide contents to each object.
    pub(crate) fillers: References,
    /// Indices of the calls that delete each object.
    pub(crate) deleters: References,
    /// Index of the first block with the whole contents of each buffer.
    whole: HashMap<u64, usize>,
}

/// Returns the objects that a call uses.
fn inputs(arguments: &Arguments) -> Vec<u64> {
    match arguments {
        Arguments::ClientCreate(_) => Vec::new(),
        Arguments::Destroy(object) | Arguments::Delete(object) => vec![object.object],
        Arguments::Compile(compile) => vec![compile.client],
        Arguments::Deserialize(load) => vec![load.client],
        Arguments::Upload(upload) => vec![upload.client],
        Arguments::CreateBuffer(create) | Arguments::CreateAlias(create) => vec![create.client],
        Arguments::CreateManager(create) => vec![create.client],
        Arguments::Fulfill(fulfill) => vec![fulfill.fulfillment, fulfill.buffer],
        Arguments::Transfer(transfer) => vec![transfer.manager],
        Arguments::Retrieve(retrieve) => vec![retrieve.manager],
        Arguments::SetError(set) => vec![set.manager],
        Arguments::Copy(copy) => vec![copy.buffer],
        Arguments::Execute(execute) => {
            let buffers = execute.arguments.iter().flat_map(|list| list.buffers.iter().copied());
            std::iter::once(execute.executable).chain(buffers).collect()
        }
        Arguments::Download(download) | Arguments::RawDownload(download) => vec![download.buffer],
    }
}

/// Returns the object to which a call provides contents, although the call does not create the object.
fn filled(arguments: &Arguments) -> Option<u64> {
    match arguments {
        Arguments::Transfer(transfer) => Some(transfer.manager),
        Arguments::SetError(set) => Some(set.manager),
        Arguments::Fulfill(fulfill) => Some(fulfill.fulfillment),
        _ => None,
    }
}

/// Returns whether a block is part of an index.
pub(crate) fn is_indexed(body: &Body) -> bool {
    !matches!(body, Body::Data { .. } | Body::End(_) | Body::Unknown(_))
}

impl Index {
    /// Reads a recording. `selection` is the selection for [`Self::find`].
    pub(crate) fn read<R: Read + Seek>(reader: &mut Reader<R>, selection: &Selection) -> Result<Self, ReadError> {
        let mut this = Self::default();
        let mut contents = Vec::new();
        reader.rewind();
        while let Some(block) = reader.read()? {
            if !is_indexed(&block.body) {
                continue;
            }
            if let Body::Contents(found) = &block.body
                && is_whole(found)
            {
                contents.push((found.buffer, this.entries.len()));
            }
            this.add(block, selection);
        }
        for references in [&mut this.creators, &mut this.fillers, &mut this.deleters] {
            references.sort();
        }
        for (buffer, at) in contents {
            let call = this.entries.get(at).and_then(|entry| this.first(entry.call));
            if !matches!(call, Some(Kind::Download { is_raw: true, .. })) {
                this.whole.entry(buffer).or_insert(at);
            }
        }
        Ok(this)
    }

    fn add(&mut self, block: Block, selection: &Selection) {
        let (at, number) = (self.entries.len(), block.stamp.call);
        let mut is_part_of_call = true;
        let kind = match block.body {
            Body::Call(call) => match call.arguments {
                None => Kind::Opaque,
                Some(Arguments::Execute(execute)) => {
                    let (executable, launch, device) = (execute.executable, execute.launch_id, execute.device);
                    let inputs = inputs(&Arguments::Execute(execute)).into();
                    Kind::Execute(Box::new(Run { executable, inputs, launch, device }))
                }
                Some(Arguments::Download(download)) => Kind::Download { buffer: download.buffer, is_raw: false },
                Some(Arguments::RawDownload(download)) => Kind::Download { buffer: download.buffer, is_raw: true },
                Some(arguments) => {
                    if let Some(object) = filled(&arguments) {
                        self.fillers.add(object, at);
                    }
                    if let Arguments::Delete(object) = &arguments {
                        self.deleters.add(object.object, at);
                    }
                    Kind::Call { inputs: inputs(&arguments).into() }
                }
            },
            Body::Outcome(outcome) => {
                self.outcome(at, number, outcome, selection);
                Kind::Outcome
            }
            Body::Contents(contents) => Kind::Contents { buffer: contents.buffer },
            Body::Snapshot(snapshot) => {
                self.creators.add(snapshot.buffer, at);
                is_part_of_call = false;
                Kind::Snapshot { client: snapshot.client }
            }
            Body::Process(_) | Body::Data { .. } | Body::End(_) | Body::Unknown(_) => {
                is_part_of_call = false;
                Kind::Process
            }
        };
        if is_part_of_call {
            self.calls.entry(number).or_insert_with(|| Call { first: at, ..Call::default() });
        }
        self.entries.push(Entry { offset: block.offset, call: number, kind });
    }

    fn outcome(&mut self, at: usize, number: u64, outcome: Outcome, selection: &Selection) {
        let call = self.calls.entry(number).or_insert_with(|| Call { first: at, ..Call::default() });
        let outputs: Vec<u64> = outcome.outputs.into_iter().flat_map(|list| list.buffers).collect();
        for object in outcome.objects.iter().chain(&outputs) {
            self.creators.add(*object, call.first);
        }
        for object in outcome.deleted {
            self.deleters.add(object, call.first);
        }
        call.outcomes.push(at);
        (call.objects, call.outputs) = (outcome.objects.into(), outputs.into());
        call.is_selected = outcome.executable.is_some_and(|found| Some(found.name) == selection.program);
        call.has_one_device =
            outcome.client.is_some_and(|client| client.devices.iter().filter(|device| device.addressable).count() == 1);
    }

    /// Returns the kind of the first block of a call.
    fn first(&self, call: u64) -> Option<&Kind> {
        self.entries.get(self.calls.get(&call)?.first).map(|entry| &entry.kind)
    }

    /// Returns the call that created an object.
    pub(crate) fn creator(&self, object: u64) -> Option<&Call> {
        let entry = self.entries.get(self.creators.last(object)?)?;
        self.calls.get(&entry.call)
    }

    /// Returns the run at an index.
    pub(crate) fn run(&self, at: usize) -> Option<&Run> {
        match &self.entries.get(at)?.kind {
            Kind::Execute(run) => Some(run),
            _ => None,
        }
    }

    /// Returns the index of the selected run, or the number of runs that match except for their number.
    pub(crate) fn find(&self, selection: &Selection) -> Result<usize, u64> {
        let mut runs = 0;
        for at in 0..self.entries.len() {
            let Some(run) = self.run(at) else { continue };
            if selection.program.is_some() && !self.creator(run.executable).is_some_and(|call| call.is_selected) {
                continue;
            }
            runs += 1;
            if runs == selection.number {
                return Ok(at);
            }
        }
        Err(runs)
    }

    /// Returns the block with the contents of an output, and the number of the client. Returns `None` if the recording
    /// does not contain them, or if the device of the output is unknown. `creator` is the index of the run that created
    /// the output.
    pub(crate) fn contents_of(&self, buffer: u64, creator: usize) -> Option<(usize, u64)> {
        let run = self.run(creator)?;
        let compile = self.entries.get(self.creators.last(run.executable)?)?;
        let Kind::Call { inputs } = &compile.kind else { return None };
        let client = *inputs.first()?;
        let has_one_device = self.creator(client)?.has_one_device;
        if run.device.is_none() && !has_one_device {
            return None;
        }
        Some((*self.whole.get(&buffer)?, client))
    }
}

/// Returns whether a block has the contents of a buffer, unless the call copied only a part of the buffer.
fn is_whole(contents: &Contents) -> bool {
    contents.failure.is_none() && contents.array.is_some() && contents.data.is_some()
}

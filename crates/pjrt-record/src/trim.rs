//! Extracts the recording of one run from the recording of a whole program. A run is one execution of a compiled
//! program.

use std::collections::{HashMap, HashSet};
use std::io::{self, Read, Seek, Write};

use crate::content::Content;
use crate::error::ReadError;
use crate::message::{Arguments, BufferList, Contents, End, Outcome, Process, Snapshot};
use crate::reader::{Block, Body, Reader};
use crate::selection::Selection;
use crate::writer::{Writer, encode_piece};

/// The reason why a recording cannot be trimmed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TrimError {
    /// The recording cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The new recording cannot be written.
    #[error("cannot write the file: {0}")]
    Write(io::Error),
    /// The recording does not contain the run.
    #[error("the recording has no run {selection}, only {runs} runs that match: `pjrt record info` lists its runs")]
    NoRun {
        /// The selection, which matches no run.
        selection: Selection,
        /// Number of runs of the selected program, or of all programs if the selection contains no program.
        runs: u64,
    },
}

/// Statistics of a trimmed recording.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Trimmed {
    /// Number of calls.
    pub calls: u64,
    /// Number of runs other than the selected run. They compute its arguments or belong to the same launch.
    pub other_runs: u64,
}

/// Writes a recording of one run with its inputs and its results. The recording also contains the calls that the run
/// needs: the creation of the client, the compilation of the program, and uploads. If another run computed an argument,
/// and the original recording contains the argument's contents, the new recording contains these contents. Otherwise,
/// it contains the other run. If the original recording is incomplete, it is read up to its last complete block.
///
/// # Errors
///
/// Returns an error if the recording does not contain the run, or if a recording cannot be read or written.
pub fn trim<R: Read + Seek, W: Write>(
    reader: &mut Reader<R>,
    selection: &Selection,
    out: W,
) -> Result<Trimmed, TrimError> {
    let recording = Recording::read(reader)?;
    let kept = recording.keep(recording.find(selection)?);
    let mut writer = Writer::new(out).map_err(TrimError::Write)?;
    for (at, block) in recording.blocks.iter().enumerate() {
        let mut block = block.clone();
        if let Some(snapshots) = kept.snapshots.get(&at) {
            for snapshot in snapshots {
                block.body = Body::Snapshot(snapshot.clone());
                write(reader, &mut writer, &block)?;
            }
            continue;
        }
        if let Body::Process(process) = &mut block.body {
            *process = Process { only_run: selection.to_string(), ..std::mem::take(process) };
        } else if !kept.blocks.contains(&at) {
            continue;
        }
        write(reader, &mut writer, &block)?;
    }
    let stamp = recording.blocks.last().map(|block| block.stamp).unwrap_or_default();
    writer.write(stamp, &Body::End(End { calls: kept.trimmed.calls })).map_err(TrimError::Write)?;
    Ok(kept.trimmed)
}

/// Writes a block, after the data to which the block refers.
fn write<R: Read + Seek, W: Write>(
    reader: &mut Reader<R>,
    writer: &mut Writer<W>,
    block: &Block,
) -> Result<(), TrimError> {
    for hash in contents(&block.body).into_iter().flatten().flat_map(Content::pieces) {
        if !writer.has(&hash) {
            let encoded = encode_piece(hash, &reader.piece(&hash)?).map_err(TrimError::Write)?;
            writer.write_piece(hash, &encoded).map_err(TrimError::Write)?;
        }
    }
    writer.write(block.stamp, &block.body).map_err(TrimError::Write)
}

/// Returns the data to which a block refers.
fn contents(body: &Body) -> [Option<&Content>; 2] {
    match body {
        Body::Call(call) => match &call.arguments {
            Some(Arguments::Compile(compile)) => [compile.code.as_ref(), compile.options.as_ref()],
            Some(Arguments::Deserialize(load)) => [load.executable.as_ref(), load.options.as_ref()],
            Some(Arguments::Upload(upload)) => [upload.data.as_ref(), None],
            Some(Arguments::Transfer(transfer)) => [transfer.data.as_ref(), None],
            _ => [None, None],
        },
        Body::Contents(contents) => [contents.data.as_ref(), None],
        Body::Snapshot(snapshot) => [snapshot.data.as_ref(), None],
        _ => [None, None],
    }
}

/// Returns the numbers of the objects that a call uses.
fn inputs(arguments: &Arguments) -> Vec<u64> {
    match arguments {
        Arguments::ClientCreate(_) => Vec::new(),
        Arguments::Destroy(object) | Arguments::Delete(object) => vec![object.object],
        Arguments::Compile(compile) => vec![compile.client],
        Arguments::Deserialize(load) => vec![load.client],
        Arguments::Upload(upload) => vec![upload.client],
        Arguments::CreateBuffer(create) | Arguments::CreateAlias(create) => vec![create.client],
        Arguments::Fulfill(fulfill) => vec![fulfill.fulfillment, fulfill.buffer],
        Arguments::CreateManager(create) => vec![create.client],
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

/// The blocks of a recording, without the blocks of data.
#[derive(Default)]
struct Recording {
    blocks: Vec<Block>,
    /// Indices in `blocks` of the blocks of each call.
    calls: HashMap<u64, Vec<usize>>,
    outcomes: HashMap<u64, Outcome>,
    /// Index in `blocks` of the call or the snapshot that creates each object.
    creators: HashMap<u64, usize>,
}

impl Recording {
    fn read<R: Read + Seek>(reader: &mut Reader<R>) -> Result<Self, ReadError> {
        let mut this = Self::default();
        reader.rewind();
        while let Some(block) = reader.read()? {
            if !matches!(block.body, Body::Data { .. } | Body::End(_) | Body::Unknown(_)) {
                this.add(block);
            }
        }
        Ok(this)
    }

    fn add(&mut self, block: Block) {
        let (at, number) = (self.blocks.len(), block.stamp.call);
        match &block.body {
            Body::Snapshot(snapshot) => {
                self.creators.insert(snapshot.buffer, at);
            }
            Body::Outcome(outcome) => {
                let call = self.calls.get(&number).and_then(|blocks| blocks.first()).copied().unwrap_or(at);
                let outputs = outcome.outputs.iter().flat_map(|list| list.buffers.iter());
                for object in outcome.objects.iter().chain(outputs) {
                    self.creators.insert(*object, call);
                }
                self.outcomes.insert(number, outcome.clone());
            }
            _ => {}
        }
        if !matches!(block.body, Body::Process(_) | Body::Snapshot(_)) {
            self.calls.entry(number).or_default().push(at);
        }
        self.blocks.push(block);
    }

    fn arguments(&self, at: usize) -> Option<&Arguments> {
        match &self.blocks[at].body {
            Body::Call(call) => call.arguments.as_ref(),
            _ => None,
        }
    }

    /// Returns the index in `blocks` of the call that starts the selected run.
    fn find(&self, selection: &Selection) -> Result<usize, TrimError> {
        let mut runs = 0;
        for at in 0..self.blocks.len() {
            let Some(Arguments::Execute(execute)) = self.arguments(at) else { continue };
            if selection.program.is_some() && selection.program != self.program(execute.executable) {
                continue;
            }
            runs += 1;
            if runs == selection.number {
                return Ok(at);
            }
        }
        Err(TrimError::NoRun { selection: selection.clone(), runs })
    }

    /// Returns the program name of an executable.
    fn program(&self, executable: u64) -> Option<String> {
        let creator = self.blocks.get(*self.creators.get(&executable)?)?;
        let outcome = self.outcomes.get(&creator.stamp.call)?;
        outcome.executable.as_ref().map(|executable| executable.name.clone())
    }

    /// Returns the blocks that a run needs, and the blocks with its results.
    fn keep(&self, run: usize) -> Kept {
        let mut needs = Needs { recording: self, run, kept: Kept::default(), objects: HashSet::new() };
        // A framework may launch a program on several devices with one call for each device. Keep all calls of such a
        // launch.
        let is_member = |at: usize| match (self.arguments(at), self.arguments(run)) {
            _ if at == run => true,
            (Some(Arguments::Execute(one)), Some(Arguments::Execute(other))) => {
                let is_launch = one.launch_id != 0 && one.launch_id == other.launch_id;
                is_launch
                    && one.executable == other.executable
                    && one.device.zip(other.device).is_some_and(|(a, b)| a != b)
            }
            _ => false,
        };
        let members: Vec<usize> = (0..self.blocks.len()).filter(|at| is_member(*at)).collect();
        for member in &members {
            needs.call(*member);
        }
        needs.complete();
        for member in members {
            needs.results(member);
        }
        needs.finish()
    }

    /// Returns a snapshot with the contents of a run's output, if the recording contains them and the device is known.
    fn snapshot_of(&self, buffer: u64, creator: usize) -> Option<Snapshot> {
        let Some(Arguments::Execute(execute)) = self.arguments(creator) else { return None };
        let client = *inputs(self.arguments(*self.creators.get(&execute.executable)?)?).first()?;
        let created = self.blocks.get(*self.creators.get(&client)?)?.stamp.call;
        let description = self.outcomes.get(&created)?.client.as_ref()?;
        let has_one_device = description.devices.iter().filter(|device| device.addressable).count() == 1;
        if execute.device.is_none() && !has_one_device {
            return None;
        }
        let found = self.blocks.iter().find_map(|block| match &block.body {
            Body::Contents(contents) if contents.buffer == buffer && self.is_whole(block, contents) => Some(contents),
            _ => None,
        })?;
        Some(Snapshot {
            client,
            buffer,
            array: found.array.clone(),
            layout: found.layout.clone(),
            data: found.data.clone(),
            device: execute.device,
            ..Snapshot::default()
        })
    }

    /// Returns whether the contents are those of a whole buffer.
    fn is_whole(&self, block: &Block, contents: &Contents) -> bool {
        let call = self.calls.get(&block.stamp.call).and_then(|blocks| blocks.first());
        let is_raw = call.is_some_and(|at| matches!(self.arguments(*at), Some(Arguments::RawDownload(_))));
        !is_raw && contents.failure.is_none() && contents.array.is_some() && contents.data.is_some()
    }
}

/// The blocks of a trimmed recording.
#[derive(Default)]
struct Kept {
    blocks: HashSet<usize>,
    /// Snapshots of outputs, by the index of the run that computes them. The snapshots replace this run.
    snapshots: HashMap<usize, Vec<Snapshot>>,
    trimmed: Trimmed,
}

/// The objects and calls that a run needs. They are collected step by step.
struct Needs<'a> {
    recording: &'a Recording,
    /// Index of the block of the run.
    run: usize,
    kept: Kept,
    objects: HashSet<u64>,
}

impl Needs<'_> {
    /// Keeps a call with its outcome, and the calls and snapshots that create the objects that the call uses.
    fn call(&mut self, at: usize) {
        if !self.kept.blocks.insert(at) {
            return;
        }
        let number = self.recording.blocks[at].stamp.call;
        let blocks = self.recording.calls.get(&number).map_or(&[][..], Vec::as_slice);
        let is_outcome = |at: &&usize| matches!(self.recording.blocks[**at].body, Body::Outcome(_));
        self.kept.blocks.extend(blocks.iter().filter(is_outcome).copied().collect::<Vec<_>>());
        // A call may create several objects, such as an alias buffer and the fulfillment that provides its contents.
        self.objects.extend(self.recording.outcomes.get(&number).iter().flat_map(|outcome| &outcome.objects));
        for object in self.recording.arguments(at).map(inputs).unwrap_or_default() {
            self.object(object);
        }
    }

    /// Keeps the call or the snapshot that creates an object.
    fn object(&mut self, object: u64) {
        if object == 0 || !self.objects.insert(object) {
            return;
        }
        let Some(creator) = self.recording.creators.get(&object).copied() else { return };
        if let Body::Snapshot(snapshot) = &self.recording.blocks[creator].body {
            self.kept.blocks.insert(creator);
            self.object(snapshot.client);
            return;
        }
        let is_kept = self.kept.blocks.contains(&creator);
        if let Some(snapshot) = self.recording.snapshot_of(object, creator).filter(|_| !is_kept) {
            self.object(snapshot.client);
            self.kept.snapshots.entry(creator).or_default().push(snapshot);
        } else {
            self.call(creator);
        }
    }

    /// Keeps the calls that fill the collected objects, and the calls before the run that delete them. Repeats this
    /// until no further calls or objects are found.
    fn complete(&mut self) {
        let recording = self.recording;
        loop {
            let before = (self.kept.blocks.len(), self.objects.len());
            for (at, block) in recording.blocks.iter().enumerate() {
                let Some(arguments) = recording.arguments(at) else { continue };
                let deleted = recording.outcomes.get(&block.stamp.call).map_or(&[][..], |outcome| &outcome.deleted);
                let is_deleted = |object: &u64| self.objects.contains(object);
                let deletes = match arguments {
                    Arguments::Delete(object) => is_deleted(&object.object),
                    _ => deleted.iter().any(is_deleted),
                };
                let fills = filled(arguments).is_some_and(|object| self.objects.contains(&object));
                if fills || deletes && at < self.run {
                    self.call(at);
                }
            }
            if before == (self.kept.blocks.len(), self.objects.len()) {
                return;
            }
        }
    }

    /// Keeps the blocks with the contents of the run's outputs, and the calls that downloaded these outputs. Also keeps
    /// all earlier calls without recorded arguments.
    fn results(&mut self, run: usize) {
        let recording = self.recording;
        let number = recording.blocks[run].stamp.call;
        let outputs: HashSet<u64> = recording.outcomes.get(&number).map_or_else(HashSet::new, |outcome| {
            outcome.outputs.iter().flat_map(|BufferList { buffers }| buffers.iter().copied()).collect()
        });
        for (at, block) in recording.blocks.iter().enumerate() {
            match &block.body {
                Body::Contents(contents) if outputs.contains(&contents.buffer) => {
                    self.kept.blocks.insert(at);
                }
                Body::Call(call) => match &call.arguments {
                    Some(Arguments::Download(download) | Arguments::RawDownload(download))
                        if outputs.contains(&download.buffer) =>
                    {
                        self.call(at);
                    }
                    // Keep calls without recorded arguments, such as the registration of custom calls. A replay reports
                    // them as skipped.
                    None if at < self.run => {
                        self.kept.blocks.insert(at);
                    }
                    _ => {}
                },
                _ => {}
            }
        }
    }

    fn finish(mut self) -> Kept {
        let recording = self.recording;
        // A run that is kept creates all its outputs, so the snapshots of these outputs are not needed.
        let kept = &self.kept.blocks;
        self.kept.snapshots.retain(|at, _| !kept.contains(at));
        let calls = kept.iter().filter(|at| matches!(recording.blocks[**at].body, Body::Call(_)));
        let runs = kept.iter().filter(|at| matches!(recording.arguments(**at), Some(Arguments::Execute(_))));
        self.kept.trimmed =
            Trimmed { calls: calls.count() as u64, other_runs: (runs.count() as u64).saturating_sub(1) };
        self.kept
    }
}

//! Extracts the recording of one run from the recording of a whole program. A run is one execution of a compiled
//! program.

use std::collections::{HashMap, HashSet};
use std::io::{self, Read, Seek, Write};

use crate::block::Stamp;
use crate::content::Content;
use crate::error::ReadError;
use crate::index::{Entry, Index, Kind, is_indexed};
use crate::message::{Arguments, End, Process, Snapshot};
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
    let index = Index::read(reader, selection)?;
    let run = index.find(selection).map_err(|runs| TrimError::NoRun { selection: selection.clone(), runs })?;
    let kept = Kept::of(&index, run);
    let mut writer = Writer::new(out).map_err(TrimError::Write)?;
    let (mut at, mut last) = (0, Stamp::default());
    reader.rewind();
    while at < index.entries.len()
        && let Some(mut block) = reader.read()?
    {
        if !is_indexed(&block.body) {
            continue;
        }
        last = block.stamp;
        if let Some(outputs) = kept.outputs.get(&at) {
            for output in outputs {
                let body = output.snapshot(reader, &index)?;
                write(reader, &mut writer, &Block { body: Body::Snapshot(body), ..block.clone() })?;
            }
        } else if let Body::Process(process) = &mut block.body {
            *process = Process { only_run: selection.to_string(), ..std::mem::take(process) };
            write(reader, &mut writer, &block)?;
        } else if kept.blocks.contains(&at) {
            write(reader, &mut writer, &block)?;
        }
        at += 1;
    }
    writer.write(last, &Body::End(End { calls: kept.trimmed.calls })).map_err(TrimError::Write)?;
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

/// The blocks of a trimmed recording.
#[derive(Default)]
struct Kept {
    /// Indices of the blocks.
    blocks: HashSet<usize>,
    /// Outputs whose contents the recording has, by the index of the run that computes them. Snapshots of these outputs
    /// replace the run.
    outputs: HashMap<usize, Vec<Output>>,
    trimmed: Trimmed,
}

/// An output of a run that a snapshot replaces.
struct Output {
    client: u64,
    buffer: u64,
    device: Option<i32>,
    /// Index of the block with the contents.
    contents: usize,
}

impl Output {
    fn snapshot<R: Read + Seek>(&self, reader: &mut Reader<R>, index: &Index) -> Result<Snapshot, ReadError> {
        let offset = index.entries.get(self.contents).map_or(0, |entry| entry.offset);
        let Body::Contents(contents) = reader.read_again(offset)?.body else {
            return Err(ReadError::Damaged { offset, reason: "the file changed while it was read".to_owned() });
        };
        Ok(Snapshot {
            client: self.client,
            buffer: self.buffer,
            array: contents.array,
            layout: contents.layout,
            data: contents.data,
            device: self.device,
            ..Snapshot::default()
        })
    }
}

impl Kept {
    /// Returns the blocks that a run needs, and the blocks with its results.
    fn of(index: &Index, run: usize) -> Self {
        let mut needs = Needs { index, run, kept: Self::default(), objects: HashSet::new(), calls: Vec::new() };
        let members = members(index, run);
        let mut outputs = HashSet::new();
        for member in members {
            needs.call(member);
            let call = index.entries.get(member).and_then(|entry| index.calls.get(&entry.call));
            outputs.extend(call.iter().flat_map(|call| &call.outputs));
        }
        needs.complete();
        needs.results(&outputs);
        needs.complete();
        needs.finish()
    }
}

/// Returns the indices of the runs that belong to the same launch as a run. A framework may launch a program on several
/// devices with one call for each device.
fn members(index: &Index, at: usize) -> Vec<usize> {
    let Some(run) = index.run(at).filter(|run| run.launch != 0) else { return vec![at] };
    let is_member = |other: usize| {
        index.run(other).is_some_and(|other| {
            (other.launch, other.executable) == (run.launch, run.executable)
                && other.device.zip(run.device).is_some_and(|(a, b)| a != b)
        })
    };
    (0..index.entries.len()).filter(|other| *other == at || is_member(*other)).collect()
}

/// The objects and calls that a run needs. [`Self::complete`] visits them from a list, because a run may depend on a
/// chain of a million other runs.
struct Needs<'a> {
    index: &'a Index,
    /// Index of the block of the run.
    run: usize,
    kept: Kept,
    objects: HashSet<u64>,
    /// Indices of the kept calls that were not visited yet.
    calls: Vec<usize>,
}

impl Needs<'_> {
    /// Keeps a call.
    fn call(&mut self, at: usize) {
        if self.kept.blocks.insert(at) {
            self.calls.push(at);
        }
    }

    /// Keeps the outcomes of the calls in the list, and the calls and snapshots that create the objects that these
    /// calls use. Repeats this for the calls that it adds to the list.
    fn complete(&mut self) {
        let index = self.index;
        while let Some(at) = self.calls.pop() {
            let Some(Entry { call, kind, .. }) = index.entries.get(at) else { continue };
            if let Some(call) = index.calls.get(call) {
                self.kept.blocks.extend(&call.outcomes);
                // A call may create several objects, such as an alias buffer and the fulfillment that provides its
                // contents.
                for object in &call.objects {
                    if self.objects.insert(*object) {
                        self.changes(*object);
                    }
                }
            }
            match kind {
                Kind::Execute(run) => run.inputs.iter().for_each(|object| self.object(*object)),
                Kind::Call { inputs } => inputs.iter().for_each(|object| self.object(*object)),
                Kind::Download { buffer, .. } => self.object(*buffer),
                _ => {}
            }
        }
    }

    /// Keeps the call or the snapshot that creates an object.
    fn object(&mut self, object: u64) {
        if object == 0 || !self.objects.insert(object) {
            return;
        }
        self.changes(object);
        let index = self.index;
        let Some(creator) = index.creators.last(object) else { return };
        if let Some(Kind::Snapshot { client }) = index.entries.get(creator).map(|entry| &entry.kind) {
            self.kept.blocks.insert(creator);
            self.client(*client);
            return;
        }
        let is_kept = self.kept.blocks.contains(&creator);
        if let Some((contents, client)) = index.contents_of(object, creator).filter(|_| !is_kept) {
            let device = index.run(creator).and_then(|run| run.device);
            self.client(client);
            self.kept.outputs.entry(creator).or_default().push(Output { client, buffer: object, device, contents });
        } else {
            self.call(creator);
        }
    }

    /// Keeps the call that creates a client.
    fn client(&mut self, client: u64) {
        if client != 0
            && self.objects.insert(client)
            && let Some(creator) = self.index.creators.last(client)
        {
            self.call(creator);
        }
    }

    /// Keeps the calls that provide contents to an object, and the calls before the run that delete the object.
    fn changes(&mut self, object: u64) {
        let index = self.index;
        let deleters = index.deleters.of(object).take_while(|at| *at < self.run);
        let calls: Vec<usize> = index.fillers.of(object).chain(deleters).collect();
        calls.into_iter().for_each(|at| self.call(at));
    }

    /// Keeps the blocks with the contents of the outputs, and the calls that downloaded these outputs. Also keeps all
    /// earlier calls without recorded arguments.
    fn results(&mut self, outputs: &HashSet<u64>) {
        for (at, entry) in self.index.entries.iter().enumerate() {
            match &entry.kind {
                Kind::Contents { buffer } if outputs.contains(buffer) => {
                    self.kept.blocks.insert(at);
                }
                Kind::Download { buffer, .. } if outputs.contains(buffer) => self.call(at),
                // Keep calls without recorded arguments, such as the registration of custom calls. A replay reports
                // them as skipped.
                Kind::Opaque if at < self.run => {
                    self.kept.blocks.insert(at);
                }
                _ => {}
            }
        }
    }

    fn finish(mut self) -> Kept {
        let kept = &self.kept.blocks;
        // A run that is kept creates all its outputs, so the snapshots of these outputs are not needed.
        self.kept.outputs.retain(|at, _| !kept.contains(at));
        let kinds = || kept.iter().filter_map(|at| self.index.entries.get(*at)).map(|entry| &entry.kind);
        let is_call =
            |kind: &&Kind| matches!(kind, Kind::Opaque | Kind::Execute(_) | Kind::Download { .. } | Kind::Call { .. });
        let runs = kinds().filter(|kind| matches!(kind, Kind::Execute(_))).count() as u64;
        self.kept.trimmed =
            Trimmed { calls: kinds().filter(is_call).count() as u64, other_runs: runs.saturating_sub(1) };
        self.kept
    }
}

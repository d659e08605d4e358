//! Repeats the calls of a recording.

use std::collections::HashMap;
use std::ffi::CString;
use std::io::{Read, Seek};
use std::rc::Rc;

use pjrt::{AsyncHostToDeviceTransferManager, Buffer, Client, ExecuteOptions, Input, NamedValue, Program};
use pjrt_types::ErrorCode;

use super::budget::{Budget, DEVICE};
use super::compare::compare;
use super::objects::{Known, Made, Manager, Objects, Pending, Produced, Waiting};
use super::options::Options;
use super::order::row_major;
use super::places::Places;
use super::readiness::Node;
use super::recorded_values::{option, shape, strided, tiled};
use super::report::{Comparison, Problem, Report, Verdict};
use super::source::{Source, data_limit};
use super::trust;
use crate::error::ReadError;
use crate::message::{
    Arguments, Call, ClientDescription, Compile, Contents, CreateBuffer, CreateManager, Download, Execute, Failure,
    Fulfill, Outcome, Snapshot, Transfer, Upload,
};
use crate::reader::{Block, Body, Reader};

/// A function that creates a client with the recorded options.
pub type MakeClient<'a> = &'a mut dyn FnMut(&[NamedValue]) -> Result<Client, String>;

/// Replays a recording from its first block. `make_client` creates the clients.
///
/// # Errors
///
/// Returns an error if the file cannot be read or is damaged. An incomplete file is not an error. It is replayed up to
/// its last complete block.
pub fn replay<R: Read + Seek>(
    reader: &mut Reader<R>,
    make_client: MakeClient<'_>,
    options: &Options,
) -> Result<Report, ReadError> {
    let limit = data_limit(reader, options.limit)?;
    let (mut ends, mut contents) = (HashMap::new(), HashMap::new());
    reader.rewind();
    while let Some(block) = reader.read()? {
        options.progress.enter(block.stamp.call, "the first pass over the file");
        match block.body {
            Body::Outcome(outcome) if outcome.failure.is_some() || !outcome.deleted.is_empty() => {
                ends.insert(block.stamp.call, End { deleted: outcome.deleted, failed: outcome.failure.is_some() });
            }
            Body::Contents(found) if !found.is_output => {
                contents.entry(block.stamp.call).or_insert(block.offset);
            }
            _ => {}
        }
    }
    reader.rewind();
    let (state, report) = (Objects::default(), Report::default());
    let budget = Budget::new(limit);
    let mut machine = Machine { make_client, options, limit, budget, ends, contents, state, report };
    while let Some(block) = reader.read()? {
        machine.step(reader, block);
    }
    machine.finish();
    Ok(machine.report)
}

/// Maximum size in bytes of serialized compile options.
const MOST_OPTIONS: u64 = 1 << 20;

/// How a call ended in the recording.
#[derive(Debug)]
struct End {
    /// Numbers of the arguments that the call deleted.
    deleted: Vec<u64>,
    failed: bool,
}

struct Machine<'a> {
    make_client: MakeClient<'a>,
    options: &'a Options,
    /// Maximum size in bytes of the data in a block.
    limit: u64,
    /// The sizes of the objects that calls created.
    budget: Budget,
    /// How calls ended in the recording, by the number of the call. Contains only calls that failed or donated
    /// arguments.
    ends: HashMap<u64, End>,
    /// Offset of the block with the data of each download.
    contents: HashMap<u64, u64>,
    state: Objects,
    report: Report,
}

fn text(error: pjrt::Error) -> String {
    error.to_string()
}

impl Machine<'_> {
    fn step<R: Read + Seek>(&mut self, reader: &mut Reader<R>, block: Block) {
        let number = block.stamp.call;
        let mut reader = Source { reader, limit: self.limit };
        match block.body {
            Body::Call(Call { function, arguments: None }) => {
                *self.report.skipped.entry(function).or_default() += 1;
            }
            Body::Call(Call { function, arguments: Some(arguments) }) => {
                self.options.progress.enter(number, &function);
                let result = self.call(&mut reader, number, &function, &arguments);
                let is_download = matches!(arguments, Arguments::Download(_) | Arguments::RawDownload(_));
                let failed = self.ends.get(&number).is_some_and(|end| end.failed);
                let has_outcome = creates(&arguments);
                if result.is_err() || failed || is_download || has_outcome {
                    let client = client_of(&arguments).unwrap_or_else(|| self.client_of_arguments(&arguments));
                    let program = match &arguments {
                        Arguments::Execute(execute) => self.state.programs.get(&execute.executable).cloned(),
                        _ => None,
                    };
                    self.state.calls.insert(number, Waiting { function, has_outcome, client, program, result });
                }
            }
            Body::Outcome(outcome) => self.outcome(number, outcome),
            Body::Snapshot(snapshot) => {
                self.options.progress.enter(number, "the upload of an argument");
                match self.snapshot(&mut reader, &snapshot) {
                    Ok(buffer) => {
                        self.state.clients.insert(snapshot.buffer, snapshot.client);
                        self.state.buffers.insert(snapshot.buffer, buffer);
                    }
                    Err(reason) => self.problem(number, "an argument that was read from the device", reason),
                }
            }
            Body::Contents(contents) => {
                self.options.progress.enter(number, "the comparison of a buffer");
                self.contents(&mut reader, number, &contents);
            }
            _ => {}
        }
    }

    fn problem(&mut self, call: u64, function: &str, what: String) {
        self.report.problems.push(Problem { call, function: function.to_owned(), what });
    }

    /// Repeats a recorded call of `function`, and returns the objects that the call created. `number` is the number of
    /// the call in the recording.
    fn call<R: Read + Seek>(
        &mut self,
        reader: &mut Source<'_, R>,
        number: u64,
        function: &str,
        arguments: &Arguments,
    ) -> Result<Produced, String> {
        let mut produced = Produced::default();
        match arguments {
            Arguments::ClientCreate(create) => {
                let mut options: Vec<NamedValue> = create.options.iter().filter_map(option).collect();
                if !self.options.trusts_options {
                    options = trust::client_options(options, &mut self.report.dropped_options);
                }
                // Only the plugin knows the number of devices before the client exists.
                drop(self.budget.add(self.state.client_bytes)?);
                let client = (self.make_client)(&options)?;
                let devices = client.devices().map_err(text)?.len();
                let bytes = DEVICE.saturating_mul(devices.try_into().unwrap_or(u64::MAX));
                self.state.client_bytes = bytes.max(self.state.client_bytes);
                let share = self.budget.add(bytes)?;
                produced.objects.push(Made::Client(client, share));
            }
            Arguments::Destroy(object) => self.destroy(object.object),
            Arguments::Delete(object) => self.delete(reader, function, object.object)?,
            Arguments::Compile(compile) => produced.objects.push(self.compile(reader, compile)?),
            Arguments::Deserialize(_) => {
                return Err("only the plugin that wrote a serialized executable can load it: switch the framework's \
                            cache of compiled programs off, and record again"
                    .to_owned());
            }
            Arguments::Upload(upload) => produced.objects.push(self.upload(reader, upload)?),
            Arguments::CreateBuffer(create) => produced.objects.push(self.create_buffer(create)?),
            Arguments::CreateAlias(create) => {
                let places = self.places(create.client)?;
                let memory = places.any_memory(create.device, create.memory)?;
                let shape = shape(create.array.as_ref())?;
                let share = self.budget.add_array(&shape)?;
                let layout = tiled(create.layout.as_ref());
                let (buffer, fulfillment) = memory.buffer(&shape).layout(layout.as_ref()).alias().map_err(text)?;
                let node = self.state.readiness.open();
                produced
                    .objects
                    .extend([Made::buffer(buffer, Some(node), share), Made::Fulfillment(fulfillment, node)]);
            }
            Arguments::Fulfill(fulfill) => self.fulfill(fulfill)?,
            Arguments::CreateManager(create) => produced.objects.push(self.create_manager(create)?),
            Arguments::Transfer(transfer) => self.transfer(reader, transfer)?,
            Arguments::Retrieve(retrieve) => {
                let manager = self.manager(retrieve.manager)?;
                let index = index(retrieve.index)?;
                let buffer = manager.raw.retrieve_buffer(index).map_err(text)?;
                let share = manager.shares.get(index).cloned().ok_or_else(|| format!("there is no buffer {index}"))?;
                produced.objects.push(Made::buffer(buffer, manager.nodes.get(index).copied(), share));
            }
            Arguments::SetError(set) => {
                let (code, message) = failure(set.failure.as_ref());
                let (manager, index) = (self.manager(set.manager)?, index(set.index)?);
                manager.raw.set_buffer_error(index, code, message).map_err(text)?;
                let node = manager.nodes.get(index).copied();
                node.into_iter().for_each(|node| self.state.readiness.settle(node));
            }
            Arguments::Copy(copy) => {
                let places = self.places(self.client_of(copy.buffer))?;
                let Known { buffer, waits, .. } = self.buffer(copy.buffer)?;
                let (buffer, waits) = (buffer, *waits);
                let share = self.budget.add_array(buffer.shape().map_err(text)?)?;
                let copied = match (copy.memory, copy.device) {
                    (Some(memory), _) => buffer.copy_to(places.memory(memory)?),
                    (None, Some(device)) => buffer.copy_to(places.device(device)?),
                    (None, None) => return Err("the recording does not have the destination".to_owned()),
                };
                let copied = copied.map_err(text)?;
                let waits = self.state.readiness.derive([waits], false);
                produced.objects.push(Made::buffer(copied, waits, share));
            }
            Arguments::Execute(execute) => produced.outputs = self.execute(reader, number, execute)?,
            Arguments::Download(download) => self.download(number, download, false)?,
            Arguments::RawDownload(download) => self.download(number, download, true)?,
        }
        Ok(produced)
    }

    fn compile<R: Read + Seek>(&mut self, reader: &mut Source<'_, R>, compile: &Compile) -> Result<Made, String> {
        let mut options = reader.content_within(compile.options.as_ref(), MOST_OPTIONS)?;
        if !self.options.trusts_options {
            trust::check_format(&compile.format)?;
            options = trust::compile_options(&options, &mut self.report.dropped_options)?;
        }
        let places = self.places(compile.client)?;
        let share = self.budget.add(compile.code.as_ref().map_or(0, |code| code.size))?;
        let program = Program::new(compile.format.clone(), reader.content(compile.code.as_ref())?);
        let options = places.compile_options(options)?;
        let executable = places.client.compile_with_raw_options(&program, &options).map_err(text)?;
        Ok(Made::Executable(executable, share))
    }

    fn upload<R: Read + Seek>(&self, reader: &mut Source<'_, R>, upload: &Upload) -> Result<Made, String> {
        let places = self.places(upload.client)?;
        let shape = shape(upload.array.as_ref())?;
        let (data, share) = reader.elements(&shape, upload.data.as_ref(), &self.budget)?;
        let placement = places.placement(upload.device, upload.memory)?;
        let buffer = match strided(&data, &shape, &upload.byte_strides) {
            Some((data, offset)) => places
                .client
                .upload(pjrt::Upload::of(&data).shape(&shape).byte_strides(offset, &upload.byte_strides).to(placement)),
            None => places.client.upload(pjrt::Upload::of(&data).shape(&shape).to(placement)),
        };
        buffer.map(|buffer| Made::buffer(buffer, None, share)).map_err(text)
    }

    fn snapshot<R: Read + Seek>(&self, reader: &mut Source<'_, R>, snapshot: &Snapshot) -> Result<Known, String> {
        if let Some(failure) = &snapshot.failure {
            return Err(format!("the recorder could not read it: {}", failure.message));
        }
        let places = self.places(snapshot.client)?;
        let shape = shape(snapshot.array.as_ref())?;
        let (data, share) = reader.elements(&shape, snapshot.data.as_ref(), &self.budget)?;
        let data = row_major(data, &shape, snapshot.layout.as_ref())
            .ok_or("the data have a layout that cannot be replayed")?;
        let placement = places.placement(snapshot.device, snapshot.memory)?;
        let buffer = places.client.upload(pjrt::Upload::of(&data).shape(&shape).to(placement)).map_err(text)?;
        Ok(Known { buffer: Rc::new(buffer), waits: None, share: Some(Rc::new(share)) })
    }

    fn create_buffer(&self, create: &CreateBuffer) -> Result<Made, String> {
        let places = self.places(create.client)?;
        let memory = places.any_memory(create.device, create.memory)?;
        let shape = shape(create.array.as_ref())?;
        let share = self.budget.add_array(&shape)?;
        let layout = tiled(create.layout.as_ref());
        let buffer = match &create.failure {
            None => memory.buffer(&shape).layout(layout.as_ref()).uninitialized(),
            Some(error) => memory.buffer(&shape).error(ErrorCode::from_raw(error.code), &error.message),
        };
        buffer.map(|buffer| Made::buffer(buffer, None, share)).map_err(text)
    }

    fn fulfill(&mut self, fulfill: &Fulfill) -> Result<(), String> {
        let (fulfillment, node) =
            self.state.fulfillments.remove(&fulfill.fulfillment).ok_or_else(|| missing(fulfill.fulfillment))?;
        if fulfill.failure.is_some() {
            let (code, message) = failure(fulfill.failure.as_ref());
            self.state.readiness.settle(node);
            return fulfillment.fail(code, message).map_err(text);
        }
        let known = self.buffer(fulfill.buffer).map(|known| (known.buffer.clone(), known.waits));
        let linked = known.and_then(|(buffer, waits)| {
            self.state.readiness.fulfill(node, waits)?;
            fulfillment.fulfill(&buffer).map_err(text)
        });
        // A fulfillment that was not used gives the buffer an error when it is dropped.
        linked.inspect_err(|_| self.state.readiness.settle(node))
    }

    fn create_manager(&mut self, create: &CreateManager) -> Result<Made, String> {
        let places = self.places(create.client)?;
        let memory = places.any_memory(None, create.memory)?;
        let arrays = create.arrays.iter().map(|array| {
            let shape = shape(Some(array))?;
            Ok((Rc::new(self.budget.add_array(&shape)?), shape))
        });
        let (shares, shapes): (Vec<_>, Vec<_>) = arrays.collect::<Result<Vec<_>, String>>()?.into_iter().unzip();
        let raw = AsyncHostToDeviceTransferManager::new(&memory, &shapes).map_err(text)?;
        let nodes = shapes.iter().map(|_| self.state.readiness.open()).collect();
        Ok(Made::Manager(Manager { raw, nodes, shares }))
    }

    fn transfer<R: Read + Seek>(&mut self, reader: &mut Source<'_, R>, transfer: &Transfer) -> Result<(), String> {
        let manager = self.manager(transfer.manager)?;
        let data = reader.content(transfer.data.as_ref())?;
        let (index, offset) = (index(transfer.index)?, usize::try_from(transfer.offset).unwrap_or(usize::MAX));
        let event = if transfer.last {
            manager.raw.transfer_last_data(index, offset, data)
        } else {
            manager.raw.transfer_data(index, offset, data)
        };
        event.map(drop).map_err(text)?;
        if transfer.last {
            let node = manager.nodes.get(index).copied();
            node.into_iter().for_each(|node| self.state.readiness.settle(node));
        }
        Ok(())
    }

    fn execute<R: Read + Seek>(
        &mut self,
        reader: &mut Source<'_, R>,
        number: u64,
        execute: &Execute,
    ) -> Result<Vec<Vec<Known>>, String> {
        self.report.runs += 1;
        if let Some(part) = execute.unsupported.first() {
            let what = format!("PJRT_LoadedExecutable_Execute with {part}");
            *self.report.skipped.entry(what.clone()).or_default() += 1;
            return Err(format!("a run with {part} cannot be replayed"));
        }
        for part in &execute.left_out {
            *self.report.left_out.entry(format!("{part} of PJRT_LoadedExecutable_Execute")).or_default() += 1;
        }
        let buffers = || execute.arguments.iter().flat_map(|list| &list.buffers);
        let waits = buffers().map(|buffer| self.state.buffers.get(buffer).and_then(|known| known.waits));
        let waits: Vec<Option<Node>> = waits.collect();
        self.state.readiness.check_run(&waits)?;
        // Each call has at most one outcome, so the list is not needed again.
        let deleted = self.ends.get_mut(&number).map(|end| std::mem::take(&mut end.deleted)).unwrap_or_default();
        for buffer in &deleted {
            self.read_now(reader, *buffer);
        }
        let mut options = ExecuteOptions::new().with_launch_id(execute.launch_id);
        options.custom_options = execute.options.iter().filter_map(option).collect();
        if !self.options.trusts_options {
            trust::run_options(&options.custom_options, &mut self.report.dropped_options);
            options.custom_options.clear();
        }
        options.call_location = Some(&execute.call_location)
            .filter(|place| !place.is_empty())
            .and_then(|place| CString::new(place.as_str()).ok());
        if let Some(device) = execute.device {
            options.device = Some(self.places(self.client_of(execute.executable))?.device(device)?.clone());
        }
        // A donation takes ownership of the buffer, so remove donated buffers from the map. The run only borrows all
        // other buffers.
        let mut donated: HashMap<u64, Buffer> = HashMap::new();
        for buffer in deleted {
            if let Some(Known { buffer: owned, waits, share }) = self.state.buffers.remove(&buffer) {
                match Rc::try_unwrap(owned) {
                    Ok(owned) => drop(donated.insert(buffer, owned)),
                    Err(shared) => drop(self.state.buffers.insert(buffer, Known { buffer: shared, waits, share })),
                }
            }
        }
        let mut lists = Vec::new();
        for list in &execute.arguments {
            let mut inputs = Vec::new();
            for buffer in &list.buffers {
                inputs.push(match donated.remove(buffer) {
                    Some(owned) => Input::Donate(owned),
                    None => Input::Borrow(&self.buffer(*buffer)?.buffer),
                });
            }
            lists.push(inputs);
        }
        let (executable, _) =
            self.state.executables.get(&execute.executable).ok_or_else(|| missing(execute.executable))?;
        let outputs = match (lists.pop(), lists.is_empty()) {
            (Some(inputs), true) => vec![executable.execute_with(inputs, &options).map_err(text)?.outputs],
            (Some(inputs), false) => {
                lists.push(inputs);
                executable.execute_sharded(lists, &options).map_err(text)?.outputs
            }
            (None, _) => Vec::new(),
        };
        let waits = self.state.readiness.derive(waits, true);
        let known = |buffer| Known { buffer: Rc::new(buffer), waits, share: None };
        Ok(outputs.into_iter().map(|list| list.into_iter().map(known).collect()).collect())
    }

    fn download(&mut self, number: u64, download: &Download, is_raw: bool) -> Result<(), String> {
        let known = self.buffer(download.buffer)?.clone();
        let range = || Some((usize::try_from(download.offset).ok()?, usize::try_from(download.size).ok()?));
        let raw = if is_raw { Some(range().ok_or("the range of the download is too large")?) } else { None };
        self.state.downloads.insert(number, Pending { known, number: download.buffer, raw });
        self.state.readers.entry(download.buffer).or_default().push(number);
        Ok(())
    }

    /// Finishes the downloads of a buffer that is about to be deleted or donated. A pending download shares the buffer,
    /// which prevents a donation. Compares the data now, so that the replay need not keep them.
    fn read_now<R: Read + Seek>(&mut self, reader: &mut Source<'_, R>, buffer: u64) {
        for call in self.state.readers.remove(&buffer).unwrap_or_default() {
            let Some(pending) = self.state.downloads.get(&call).filter(|pending| pending.number == buffer) else {
                continue;
            };
            // Data that the recording does not contain need not be read.
            if let Some(offset) = self.contents.get(&call).copied() {
                let block = reader.reader.read_again(offset).map_err(|error| error.to_string());
                let verdict = block.and_then(|block| match block.body {
                    Body::Contents(contents) => self.verdict(reader, &contents, Ok(pending)),
                    _ => Err("the file changed while it was read".to_owned()),
                });
                self.state.done.insert(call, verdict);
            }
            self.state.downloads.remove(&call);
        }
    }

    fn destroy(&mut self, object: u64) {
        let state = &mut self.state;
        state.executables.remove(&object);
        state.buffers.remove(&object);
        if let Some(manager) = state.managers.remove(&object) {
            // The buffers that have not received all data get an error.
            manager.nodes.into_iter().for_each(|node| state.readiness.settle(node));
        }
        state.places.remove(&object);
    }

    fn delete<R: Read + Seek>(
        &mut self,
        reader: &mut Source<'_, R>,
        function: &str,
        object: u64,
    ) -> Result<(), String> {
        if function == "PJRT_LoadedExecutable_Delete" {
            return self.state.executables.get_mut(&object).map_or(Ok(()), |(known, _)| known.delete().map_err(text));
        }
        self.read_now(reader, object);
        // A buffer that is not in the map was donated, so it is already deleted.
        self.state.buffers.get(&object).map_or(Ok(()), |known| known.buffer.delete().map_err(text))
    }

    /// Compares the outcome of a call with the recorded outcome, and assigns the recorded numbers to the new objects.
    fn outcome(&mut self, number: u64, outcome: Outcome) {
        let Some(Waiting { function, client, program, result, .. }) = self.state.calls.remove(&number) else { return };
        let function = function.as_str();
        match (result, outcome.failure) {
            (Err(reason), None) => self.problem(number, function, format!("succeeded, and fails here: {reason}")),
            (Ok(_), Some(error)) => {
                self.problem(number, function, format!("failed ({}), and succeeds here", describe(&error)));
            }
            (Err(_), Some(_)) => {}
            (Ok(produced), None) => {
                for (object, made) in outcome.objects.iter().zip(produced.objects) {
                    self.state.clients.insert(*object, client);
                    if let Err(reason) = self.keep(*object, made, outcome.client.as_ref()) {
                        self.problem(number, function, reason);
                    }
                }
                if let (Some(executable), Some(object)) = (outcome.executable, outcome.objects.first()) {
                    self.state.programs.insert(*object, executable.name.into());
                }
                let program = program.unwrap_or_default();
                for (numbers, buffers) in outcome.outputs.iter().zip(produced.outputs) {
                    for (at, (object, buffer)) in numbers.buffers.iter().zip(buffers).enumerate() {
                        self.state.clients.insert(*object, client);
                        self.state.buffers.insert(*object, buffer);
                        self.state.runs.insert(*object, (number, program.clone(), at));
                    }
                }
            }
        }
    }

    fn keep(&mut self, object: u64, made: Made, client: Option<&ClientDescription>) -> Result<(), String> {
        let state = &mut self.state;
        match made {
            Made::Client(made, share) => {
                let recorded = client.ok_or("the recording does not describe the client")?;
                state.places.insert(object, (Places::new(made, recorded).map_err(text)?, share));
            }
            Made::Executable(made, share) => drop(state.executables.insert(object, (made, share))),
            Made::Buffer(made) => drop(state.buffers.insert(object, made)),
            Made::Manager(made) => drop(state.managers.insert(object, made)),
            Made::Fulfillment(made, node) => drop(state.fulfillments.insert(object, (made, node))),
        }
        Ok(())
    }

    /// Compares the contents of a buffer with the recorded contents.
    fn contents<R: Read + Seek>(&mut self, reader: &mut Source<'_, R>, number: u64, contents: &Contents) {
        let verdict = if contents.is_output {
            let known = self.buffer(contents.buffer).cloned();
            let output = known.map(|known| Pending { known, number: contents.buffer, raw: None });
            self.verdict(reader, contents, output.as_ref().map_err(String::clone))
        } else if let Some(verdict) = self.state.done.remove(&number) {
            self.state.calls.remove(&number);
            verdict
        } else {
            let failed = self.state.calls.remove(&number).and_then(|call| call.result.err());
            let pending = self.state.downloads.remove(&number);
            let missing = || failed.unwrap_or_else(|| "the recording does not have the download".to_owned());
            self.verdict(reader, contents, pending.as_ref().ok_or_else(missing))
        };
        let shape = shape(contents.array.as_ref());
        match verdict.and_then(|verdict| Ok((verdict, shape?))) {
            Ok((verdict, shape)) => {
                let run = self.state.runs.get(&contents.buffer).cloned();
                self.report.comparisons.push(Comparison { call: number, run, shape, verdict });
            }
            Err(reason) => self.problem(number, "the contents of a buffer", reason),
        }
    }

    /// Reads a buffer and compares the data with recorded contents. `from` is the buffer, or the reason why it cannot
    /// be read. Returns an error if the recording does not describe the contents.
    fn verdict<R: Read + Seek>(
        &self,
        reader: &mut Source<'_, R>,
        contents: &Contents,
        from: Result<&Pending, String>,
    ) -> Result<Verdict, String> {
        let shape = shape(contents.array.as_ref())?;
        // Compare the sizes before reading the buffer and the data, because both sizes may be any numbers.
        let other_size = |here: u64| {
            let recorded = contents.data.as_ref().map(|data| data.size).filter(|recorded| *recorded != here)?;
            Some(Verdict::NotCompared(format!("the recording has {recorded} bytes, and this plugin returns {here}")))
        };
        let got = from.and_then(|from| Ok((from, from.size(&self.state.readiness)?)));
        if let Ok((_, size)) = got {
            if contents.failure.is_none()
                && let Some(verdict) = other_size(size)
            {
                return Ok(verdict);
            }
            if let Err(error) = reader.check(size) {
                return Ok(Verdict::NotCompared(error));
            }
        }
        let got = match (got.and_then(|(from, _)| from.read()), &contents.failure) {
            (Ok(got), None) => got,
            (Err(_), Some(_)) => return Ok(Verdict::Equal),
            (got, expected) => {
                return Ok(Verdict::Failed { expected: expected.as_ref().map(describe), got: got.err() });
            }
        };
        if let Some(verdict) = other_size(got.len() as u64) {
            return Ok(verdict);
        }
        let expected = match reader.content(contents.data.as_ref()) {
            Ok(expected) => expected,
            Err(reason) => return Ok(Verdict::NotCompared(reason)),
        };
        let Some(expected) = row_major(expected, &shape, contents.layout.as_ref()) else {
            return Ok(Verdict::NotCompared("the recorded data have a layout that cannot be compared".to_owned()));
        };
        let difference = compare(&shape, &expected, &got, &self.options.tolerance);
        Ok(difference.map_or(Verdict::Equal, Verdict::Different))
    }

    /// Handles the calls whose outcome is not in the recording. Reports each call that failed in the replay. Also
    /// reports each call that did not return in the recording, although it returned in the replay.
    fn finish(&mut self) {
        let mut rest: Vec<_> = self.state.calls.drain().collect();
        rest.sort_by_key(|(number, _)| *number);
        for (number, Waiting { function, has_outcome, result, .. }) in rest {
            match result {
                Err(reason) => self.problem(number, &function, format!("fails here: {reason}")),
                Ok(_) if has_outcome => self.problem(number, &function, "did not return, and returns here".to_owned()),
                Ok(_) => {}
            }
        }
    }

    fn places(&self, client: u64) -> Result<&Places, String> {
        self.state.places.get(&client).map(|(places, _)| places).ok_or_else(|| missing(client))
    }

    fn buffer(&self, buffer: u64) -> Result<&Known, String> {
        self.state.buffers.get(&buffer).ok_or_else(|| missing(buffer))
    }

    fn manager(&self, manager: u64) -> Result<&Manager, String> {
        self.state.managers.get(&manager).ok_or_else(|| missing(manager))
    }

    fn client_of(&self, object: u64) -> u64 {
        self.state.clients.get(&object).copied().unwrap_or(0)
    }

    /// Returns the number of the client to which the object in a call's arguments belongs.
    fn client_of_arguments(&self, arguments: &Arguments) -> u64 {
        self.client_of(match arguments {
            Arguments::Execute(execute) => execute.executable,
            Arguments::Copy(copy) => copy.buffer,
            Arguments::Retrieve(retrieve) => retrieve.manager,
            _ => 0,
        })
    }
}

fn missing(object: u64) -> String {
    format!("the object {object} does not exist here, because no call that was replayed created it")
}

/// Returns the number of the client in the arguments of a call, or `None` if the arguments do not contain a client.
fn client_of(arguments: &Arguments) -> Option<u64> {
    Some(match arguments {
        Arguments::Compile(compile) => compile.client,
        Arguments::Deserialize(load) => load.client,
        Arguments::Upload(upload) => upload.client,
        Arguments::CreateBuffer(create) | Arguments::CreateAlias(create) => create.client,
        Arguments::CreateManager(create) => create.client,
        _ => return None,
    })
}

/// Returns whether a call with these arguments has an outcome in the file if it succeeds.
fn creates(arguments: &Arguments) -> bool {
    client_of(arguments).is_some()
        || matches!(
            arguments,
            Arguments::ClientCreate(_) | Arguments::Copy(_) | Arguments::Retrieve(_) | Arguments::Execute(_)
        )
}

fn describe(failure: &Failure) -> String {
    format!("{}: {}", ErrorCode::from_raw(failure.code), failure.message)
}

fn failure(failure: Option<&Failure>) -> (ErrorCode, &str) {
    failure.map_or((ErrorCode::UNKNOWN, ""), |failure| (ErrorCode::from_raw(failure.code), failure.message.as_str()))
}

fn index(index: i32) -> Result<usize, String> {
    usize::try_from(index).map_err(|_| format!("the index {index} is negative"))
}

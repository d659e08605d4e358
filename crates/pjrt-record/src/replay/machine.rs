//! Repeats the calls of a recording.

use std::collections::HashMap;
use std::ffi::CString;
use std::io::{Read, Seek};
use std::rc::Rc;

use pjrt::{
    AliasFulfillment, AsyncHostToDeviceTransferManager, Buffer, Client, ExecuteOptions, Input, LoadedExecutable,
    NamedValue, Program,
};
use pjrt_types::{ErrorCode, Shape};

use super::compare::{Tolerance, compare};
use super::order::row_major;
use super::places::Places;
use super::recorded_values::{option, shape, strided, tiled};
use super::report::{Comparison, Problem, Report, Verdict};
use crate::content::Content;
use crate::error::ReadError;
use crate::message::{
    Arguments, Call, ClientDescription, Compile, Contents, CreateBuffer, CreateManager, Download, Execute, Failure,
    Fulfill, Outcome, Snapshot, Transfer, Upload,
};
use crate::reader::{Block, Body, Reader};

/// Options of a replay.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Options {
    /// How much the elements of the compared buffers may differ.
    pub tolerance: Tolerance,
    /// Maximum size in bytes of the data that the replay reads at once. The limit is necessary because a damaged file
    /// may contain any size.
    pub limit: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self { tolerance: Tolerance::default(), limit: 1 << 36 }
    }
}

impl Options {
    /// Sets how much the elements of the compared buffers may differ.
    #[must_use]
    pub fn with_tolerance(mut self, tolerance: Tolerance) -> Self {
        self.tolerance = tolerance;
        self
    }
}

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
    let mut ends = HashMap::new();
    reader.rewind();
    while let Some(block) = reader.read()? {
        if let Body::Outcome(outcome) = block.body
            && (outcome.failure.is_some() || !outcome.deleted.is_empty())
        {
            ends.insert(block.stamp.call, End { deleted: outcome.deleted, failed: outcome.failure.is_some() });
        }
    }
    reader.rewind();
    let mut machine = Machine { make_client, options, ends, state: Objects::default(), report: Report::default() };
    while let Some(block) = reader.read()? {
        machine.step(reader, block)?;
    }
    machine.finish();
    Ok(machine.report)
}

/// How a call ended in the recording.
#[derive(Debug)]
struct End {
    /// Numbers of the arguments that the call deleted.
    deleted: Vec<u64>,
    failed: bool,
}

/// An object that the replay created.
#[derive(Debug)]
enum Made {
    Client(Client),
    Executable(LoadedExecutable),
    Buffer(Rc<Buffer>),
    Manager(AsyncHostToDeviceTransferManager),
    Fulfillment(AliasFulfillment),
}

/// The objects that a call created.
#[derive(Debug, Default)]
struct Produced {
    objects: Vec<Made>,
    outputs: Vec<Vec<Rc<Buffer>>>,
}

/// A download whose data have not been compared yet.
#[derive(Debug)]
struct Pending {
    buffer: Rc<Buffer>,
    number: u64,
    /// Offset and size in bytes, if the download is a call of `PJRT_Buffer_CopyRawToHost`.
    raw: Option<(usize, usize)>,
}

impl Pending {
    fn read(&self) -> Result<Vec<u8>, String> {
        match self.raw {
            None => self.buffer.to_host_bytes(),
            Some((offset, size)) => self.buffer.copy_raw_to_host(offset, size).and_then(pjrt::HostRead::wait),
        }
        .map_err(|error| error.to_string())
    }
}

/// The objects of a replay, by their numbers in the recording.
#[derive(Debug, Default)]
struct Objects {
    places: HashMap<u64, Places>,
    executables: HashMap<u64, LoadedExecutable>,
    buffers: HashMap<u64, Rc<Buffer>>,
    managers: HashMap<u64, AsyncHostToDeviceTransferManager>,
    fulfillments: HashMap<u64, AliasFulfillment>,
    /// Program names of the executables.
    programs: HashMap<u64, String>,
    /// Number of the client of each object that belongs to a client.
    clients: HashMap<u64, u64>,
    /// The run that computed each buffer: the number of the call, the name of the program, and the index of the output.
    runs: HashMap<u64, (u64, String, usize)>,
    downloads: HashMap<u64, Pending>,
    /// The data of downloads whose buffer was deleted or donated before the data were compared.
    done: HashMap<u64, Result<Vec<u8>, String>>,
    /// The calls whose recorded outcome has not been read yet, by their numbers. Each call has its result in the
    /// replay.
    calls: HashMap<u64, (Call, Result<Produced, String>)>,
}

struct Machine<'a> {
    make_client: MakeClient<'a>,
    options: &'a Options,
    /// How calls ended in the recording, by the number of the call. Contains only calls that failed or donated
    /// arguments.
    ends: HashMap<u64, End>,
    state: Objects,
    report: Report,
}

fn text(error: pjrt::Error) -> String {
    error.to_string()
}

impl Machine<'_> {
    fn step<R: Read + Seek>(&mut self, reader: &mut Reader<R>, block: Block) -> Result<(), ReadError> {
        let number = block.stamp.call;
        match block.body {
            Body::Call(call) => {
                let mut reader = Source { reader, limit: self.options.limit };
                let result = match &call.arguments {
                    None => {
                        *self.report.skipped.entry(call.function.clone()).or_default() += 1;
                        return Ok(());
                    }
                    Some(arguments) => self.call(&mut reader, number, &call.function, arguments),
                };
                let is_download = matches!(call.arguments, Some(Arguments::Download(_) | Arguments::RawDownload(_)));
                let failed = self.ends.get(&number).is_some_and(|end| end.failed);
                if result.is_err() || failed || is_download || call.arguments.as_ref().is_some_and(creates) {
                    self.state.calls.insert(number, (call, result));
                }
            }
            Body::Outcome(outcome) => self.outcome(number, outcome),
            Body::Snapshot(snapshot) => {
                let mut reader = Source { reader, limit: self.options.limit };
                match self.snapshot(&mut reader, &snapshot) {
                    Ok(buffer) => {
                        self.state.clients.insert(snapshot.buffer, snapshot.client);
                        self.state.buffers.insert(snapshot.buffer, Rc::new(buffer));
                    }
                    Err(reason) => self.problem(number, "an argument that was read from the device", reason),
                }
            }
            Body::Contents(contents) => {
                let mut reader = Source { reader, limit: self.options.limit };
                self.compare(&mut reader, number, &contents);
            }
            _ => {}
        }
        Ok(())
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
                let options: Vec<NamedValue> = create.options.iter().filter_map(option).collect();
                produced.objects.push(Made::Client((self.make_client)(&options)?));
            }
            Arguments::Destroy(object) => self.destroy(object.object),
            Arguments::Delete(object) => self.delete(function, object.object)?,
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
                let layout = tiled(create.layout.as_ref());
                let (buffer, fulfillment) =
                    places.client.create_alias_buffer(&shape, layout.as_ref(), &memory).map_err(text)?;
                produced.objects.extend([Made::Buffer(Rc::new(buffer)), Made::Fulfillment(fulfillment)]);
            }
            Arguments::Fulfill(fulfill) => self.fulfill(fulfill)?,
            Arguments::CreateManager(create) => produced.objects.push(self.create_manager(create)?),
            Arguments::Transfer(transfer) => self.transfer(reader, transfer)?,
            Arguments::Retrieve(retrieve) => {
                let manager = self.manager(retrieve.manager)?;
                let buffer = manager.retrieve_buffer(index(retrieve.index)?).map_err(text)?;
                produced.objects.push(Made::Buffer(Rc::new(buffer)));
            }
            Arguments::SetError(set) => {
                let (code, message) = failure(set.failure.as_ref());
                let manager = self.manager(set.manager)?;
                manager.set_buffer_error(index(set.index)?, code, message).map_err(text)?;
            }
            Arguments::Copy(copy) => {
                let places = self.places(self.client_of(copy.buffer))?;
                let buffer = self.buffer(copy.buffer)?;
                let copied = match (copy.memory, copy.device) {
                    (Some(memory), _) => buffer.copy_to_memory(places.memory(memory)?),
                    (None, Some(device)) => buffer.copy_to_device(places.device(device)?),
                    (None, None) => return Err("the recording does not have the destination".to_owned()),
                };
                produced.objects.push(Made::Buffer(Rc::new(copied.map_err(text)?)));
            }
            Arguments::Execute(execute) => produced.outputs = self.execute(number, execute)?,
            Arguments::Download(download) => self.download(number, download, false)?,
            Arguments::RawDownload(download) => self.download(number, download, true)?,
        }
        Ok(produced)
    }

    fn compile<R: Read + Seek>(&self, reader: &mut Source<'_, R>, compile: &Compile) -> Result<Made, String> {
        let places = self.places(compile.client)?;
        let program = Program::new(compile.format.clone(), reader.content(compile.code.as_ref())?);
        let options = places.compile_options(reader.content(compile.options.as_ref())?)?;
        let executable = places.client.compile_with_raw_options(&program, &options).map_err(text)?;
        Ok(Made::Executable(executable))
    }

    fn upload<R: Read + Seek>(&self, reader: &mut Source<'_, R>, upload: &Upload) -> Result<Made, String> {
        let places = self.places(upload.client)?;
        let shape = shape(upload.array.as_ref())?;
        let data = reader.content(upload.data.as_ref())?;
        let placement = places.placement(upload.device, upload.memory)?;
        let buffer = match strided(&data, &shape, &upload.byte_strides, self.options.limit) {
            Some((data, offset)) => {
                places.client.buffer_from_strided_bytes(&data, offset, &shape, &upload.byte_strides, placement)
            }
            None => places.client.buffer_from_bytes(&data, &shape, placement),
        };
        buffer.map(|buffer| Made::Buffer(Rc::new(buffer))).map_err(text)
    }

    fn snapshot<R: Read + Seek>(&self, reader: &mut Source<'_, R>, snapshot: &Snapshot) -> Result<Buffer, String> {
        if let Some(failure) = &snapshot.failure {
            return Err(format!("the recorder could not read it: {}", failure.message));
        }
        let places = self.places(snapshot.client)?;
        let shape = shape(snapshot.array.as_ref())?;
        let data = reader.content(snapshot.data.as_ref())?;
        let data = row_major(data, &shape.dimensions, snapshot.layout.as_ref())
            .ok_or("the data have a layout that cannot be replayed")?;
        let placement = places.placement(snapshot.device, snapshot.memory)?;
        places.client.buffer_from_bytes(&data, &shape, placement).map_err(text)
    }

    fn create_buffer(&self, create: &CreateBuffer) -> Result<Made, String> {
        let places = self.places(create.client)?;
        let memory = places.any_memory(create.device, create.memory)?;
        let shape = shape(create.array.as_ref())?;
        let layout = tiled(create.layout.as_ref());
        let buffer = match &create.failure {
            None => places.client.create_uninitialized_buffer(&shape, layout.as_ref(), &memory),
            Some(error) => {
                places.client.create_error_buffer(ErrorCode::from_raw(error.code), &error.message, &shape, &memory)
            }
        };
        buffer.map(|buffer| Made::Buffer(Rc::new(buffer))).map_err(text)
    }

    fn fulfill(&mut self, fulfill: &Fulfill) -> Result<(), String> {
        let fulfillment =
            self.state.fulfillments.remove(&fulfill.fulfillment).ok_or_else(|| missing(fulfill.fulfillment))?;
        match &fulfill.failure {
            None => fulfillment.fulfill(self.buffer(fulfill.buffer)?).map_err(text),
            Some(_) => {
                let (code, message) = failure(fulfill.failure.as_ref());
                fulfillment.fail(code, message).map_err(text)
            }
        }
    }

    fn create_manager(&self, create: &CreateManager) -> Result<Made, String> {
        let places = self.places(create.client)?;
        let memory = places.any_memory(None, create.memory)?;
        let shapes = create.arrays.iter().map(|array| shape(Some(array))).collect::<Result<Vec<_>, _>>()?;
        let manager = places.client.create_buffers_for_async_host_to_device(&shapes, &memory);
        manager.map(Made::Manager).map_err(text)
    }

    fn transfer<R: Read + Seek>(&self, reader: &mut Source<'_, R>, transfer: &Transfer) -> Result<(), String> {
        let manager = self.manager(transfer.manager)?;
        let data = reader.content(transfer.data.as_ref())?;
        let (index, offset) = (index(transfer.index)?, usize::try_from(transfer.offset).unwrap_or(usize::MAX));
        let event = if transfer.last {
            manager.transfer_last_data(index, offset, data)
        } else {
            manager.transfer_data(index, offset, data)
        };
        event.map(drop).map_err(text)
    }

    fn execute(&mut self, number: u64, execute: &Execute) -> Result<Vec<Vec<Rc<Buffer>>>, String> {
        self.report.runs += 1;
        if let Some(part) = execute.unsupported.first() {
            let what = format!("PJRT_LoadedExecutable_Execute with {part}");
            *self.report.skipped.entry(what.clone()).or_default() += 1;
            return Err(format!("a run with {part} cannot be replayed"));
        }
        for part in &execute.left_out {
            *self.report.left_out.entry(format!("{part} of PJRT_LoadedExecutable_Execute")).or_default() += 1;
        }
        let deleted = self.ends.get(&number).map(|end| end.deleted.clone()).unwrap_or_default();
        for buffer in &deleted {
            self.read_now(*buffer);
        }
        let mut options = ExecuteOptions::new().with_launch_id(execute.launch_id);
        options.custom_options = execute.options.iter().filter_map(option).collect();
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
            if let Some(owned) = self.state.buffers.remove(&buffer) {
                match Rc::try_unwrap(owned) {
                    Ok(owned) => drop(donated.insert(buffer, owned)),
                    Err(shared) => drop(self.state.buffers.insert(buffer, shared)),
                }
            }
        }
        let mut lists = Vec::new();
        for list in &execute.arguments {
            let mut inputs = Vec::new();
            for buffer in &list.buffers {
                inputs.push(match donated.remove(buffer) {
                    Some(owned) => Input::Donate(owned),
                    None => Input::Borrow(self.buffer(*buffer)?),
                });
            }
            lists.push(inputs);
        }
        let executable = self.state.executables.get(&execute.executable).ok_or_else(|| missing(execute.executable))?;
        let outputs = match (lists.pop(), lists.is_empty()) {
            (Some(inputs), true) => vec![executable.execute_with(inputs, &options).map_err(text)?.outputs],
            (Some(inputs), false) => {
                lists.push(inputs);
                executable.execute_sharded(lists, &options).map_err(text)?.outputs
            }
            (None, _) => Vec::new(),
        };
        Ok(outputs.into_iter().map(|list| list.into_iter().map(Rc::new).collect()).collect())
    }

    fn download(&mut self, number: u64, download: &Download, is_raw: bool) -> Result<(), String> {
        let buffer = self.state.buffers.get(&download.buffer).map(Rc::clone).ok_or_else(|| missing(download.buffer))?;
        let range = || Some((usize::try_from(download.offset).ok()?, usize::try_from(download.size).ok()?));
        let raw = if is_raw { Some(range().ok_or("the range of the download is too large")?) } else { None };
        self.state.downloads.insert(number, Pending { buffer, number: download.buffer, raw });
        Ok(())
    }

    /// Finishes the downloads of a buffer that is about to be deleted or donated.
    fn read_now(&mut self, buffer: u64) {
        let of_buffer = |(call, pending): (&u64, &Pending)| (pending.number == buffer).then_some(*call);
        // A pending download shares the buffer, which prevents a donation. A finished download does not share it.
        let calls: Vec<u64> = self.state.downloads.iter().filter_map(of_buffer).collect();
        for call in calls {
            if let Some(pending) = self.state.downloads.remove(&call) {
                self.state.done.insert(call, pending.read());
            }
        }
    }

    fn destroy(&mut self, object: u64) {
        let state = &mut self.state;
        state.executables.remove(&object);
        state.buffers.remove(&object);
        state.managers.remove(&object);
        state.places.remove(&object);
    }

    fn delete(&mut self, function: &str, object: u64) -> Result<(), String> {
        if function == "PJRT_LoadedExecutable_Delete" {
            return self.state.executables.get_mut(&object).map_or(Ok(()), |known| known.delete().map_err(text));
        }
        self.read_now(object);
        // A buffer that is not in the map was donated, so it is already deleted.
        self.state.buffers.get(&object).map_or(Ok(()), |buffer| buffer.delete().map_err(text))
    }

    /// Compares the outcome of a call with the recorded outcome, and assigns the recorded numbers to the new objects.
    fn outcome(&mut self, number: u64, outcome: Outcome) {
        let Some((call, result)) = self.state.calls.remove(&number) else { return };
        let function = call.function.as_str();
        match (result, outcome.failure) {
            (Err(reason), None) => self.problem(number, function, format!("succeeded, and fails here: {reason}")),
            (Ok(_), Some(error)) => {
                self.problem(number, function, format!("failed ({}), and succeeds here", describe(&error)));
            }
            (Err(_), Some(_)) => {}
            (Ok(produced), None) => {
                let client = client_of(&call).unwrap_or_else(|| self.client_of_arguments(&call));
                for (object, made) in outcome.objects.iter().zip(produced.objects) {
                    self.state.clients.insert(*object, client);
                    if let Err(reason) = self.keep(*object, made, outcome.client.as_ref()) {
                        self.problem(number, function, reason);
                    }
                }
                if let (Some(executable), Some(object)) = (outcome.executable, outcome.objects.first()) {
                    self.state.programs.insert(*object, executable.name);
                }
                let program = match &call.arguments {
                    Some(Arguments::Execute(execute)) => self.state.programs.get(&execute.executable).cloned(),
                    _ => None,
                };
                for (numbers, buffers) in outcome.outputs.iter().zip(produced.outputs) {
                    for (at, (object, buffer)) in numbers.buffers.iter().zip(buffers).enumerate() {
                        self.state.clients.insert(*object, client);
                        self.state.buffers.insert(*object, buffer);
                        self.state.runs.insert(*object, (number, program.clone().unwrap_or_default(), at));
                    }
                }
            }
        }
    }

    fn keep(&mut self, object: u64, made: Made, client: Option<&ClientDescription>) -> Result<(), String> {
        let state = &mut self.state;
        match made {
            Made::Client(made) => {
                let recorded = client.ok_or("the recording does not describe the client")?;
                state.places.insert(object, Places::new(made, recorded).map_err(text)?);
            }
            Made::Executable(made) => drop(state.executables.insert(object, made)),
            Made::Buffer(made) => drop(state.buffers.insert(object, made)),
            Made::Manager(made) => drop(state.managers.insert(object, made)),
            Made::Fulfillment(made) => drop(state.fulfillments.insert(object, made)),
        }
        Ok(())
    }

    /// Compares the contents of a buffer with the recorded contents.
    fn compare<R: Read + Seek>(&mut self, reader: &mut Source<'_, R>, number: u64, contents: &Contents) {
        let got = if contents.is_output {
            self.buffer(contents.buffer).and_then(|buffer| buffer.to_host_bytes().map_err(text))
        } else if let Some(read) = self.state.done.remove(&number) {
            self.state.calls.remove(&number);
            read
        } else {
            let failed = self.state.calls.remove(&number).and_then(|(_, result)| result.err());
            match (self.state.downloads.remove(&number), failed) {
                (Some(pending), _) => pending.read(),
                (None, Some(reason)) => Err(reason),
                (None, None) => Err("the recording does not have the download".to_owned()),
            }
        };
        let shape = match shape(contents.array.as_ref()) {
            Ok(shape) => shape,
            Err(reason) => return self.problem(number, "the contents of a buffer", reason),
        };
        let verdict = self.verdict(reader, contents, &shape, got);
        let run = self.state.runs.get(&contents.buffer).cloned();
        self.report.comparisons.push(Comparison { call: number, run, shape, verdict });
    }

    fn verdict<R: Read + Seek>(
        &self,
        reader: &mut Source<'_, R>,
        contents: &Contents,
        shape: &Shape,
        got: Result<Vec<u8>, String>,
    ) -> Verdict {
        let got = match (got, &contents.failure) {
            (Ok(got), None) => got,
            (Err(_), Some(_)) => return Verdict::Equal,
            (got, expected) => {
                return Verdict::Failed { expected: expected.as_ref().map(describe), got: got.err() };
            }
        };
        let expected = match reader.content(contents.data.as_ref()) {
            Ok(expected) => expected,
            Err(reason) => return Verdict::NotCompared(reason),
        };
        let Some(expected) = row_major(expected, &shape.dimensions, contents.layout.as_ref()) else {
            return Verdict::NotCompared("the recorded data have a layout with tiles".to_owned());
        };
        if expected.len() != got.len() {
            let (recorded, here) = (expected.len(), got.len());
            return Verdict::NotCompared(format!("the recording has {recorded} bytes, and this plugin returns {here}"));
        }
        compare(shape, &expected, &got, &self.options.tolerance).map_or(Verdict::Equal, Verdict::Different)
    }

    /// Handles the calls whose outcome is not in the recording. Reports each call that failed in the replay. Also
    /// reports each call that did not return in the recording, although it returned in the replay.
    fn finish(&mut self) {
        let mut rest: Vec<_> = self.state.calls.drain().collect();
        rest.sort_by_key(|(number, _)| *number);
        for (number, (call, result)) in rest {
            let has_outcome = call.arguments.as_ref().is_some_and(creates);
            match result {
                Err(reason) => self.problem(number, &call.function, format!("fails here: {reason}")),
                Ok(_) if has_outcome => {
                    self.problem(number, &call.function, "did not return, and returns here".to_owned());
                }
                Ok(_) => {}
            }
        }
    }

    fn places(&self, client: u64) -> Result<&Places, String> {
        self.state.places.get(&client).ok_or_else(|| missing(client))
    }

    fn buffer(&self, buffer: u64) -> Result<&Buffer, String> {
        self.state.buffers.get(&buffer).map(|buffer| &**buffer).ok_or_else(|| missing(buffer))
    }

    fn manager(&self, manager: u64) -> Result<&AsyncHostToDeviceTransferManager, String> {
        self.state.managers.get(&manager).ok_or_else(|| missing(manager))
    }

    fn client_of(&self, object: u64) -> u64 {
        self.state.clients.get(&object).copied().unwrap_or(0)
    }

    /// Returns the number of the client to which the object in a call's arguments belongs.
    fn client_of_arguments(&self, call: &Call) -> u64 {
        self.client_of(match &call.arguments {
            Some(Arguments::Execute(execute)) => execute.executable,
            Some(Arguments::Copy(copy)) => copy.buffer,
            Some(Arguments::Retrieve(retrieve)) => retrieve.manager,
            _ => 0,
        })
    }
}

/// Reads the data to which the calls of a recording refer. Rejects data that are larger than `limit` bytes.
struct Source<'a, R> {
    reader: &'a mut Reader<R>,
    limit: u64,
}

impl<R: Read + Seek> Source<'_, R> {
    fn content(&mut self, content: Option<&Content>) -> Result<Vec<u8>, String> {
        let content = content.ok_or("the recording does not have the data")?;
        self.reader.content(content, self.limit).map_err(|error| error.to_string())
    }
}

fn missing(object: u64) -> String {
    format!("the object {object} does not exist here, because no call that was replayed created it")
}

/// Returns the number of the client in the arguments of a call, or `None` if the arguments do not contain a client.
fn client_of(call: &Call) -> Option<u64> {
    Some(match call.arguments.as_ref()? {
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
    client_of(&Call { arguments: Some(arguments.clone()), ..Call::default() }).is_some()
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

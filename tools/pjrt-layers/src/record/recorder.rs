//! The layer `record`.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use pjrt_record::{Arguments, Body, Call as Message, Contents, Download, Failure, Outcome as Result, Snapshot, Stamp};
use pjrt_sys::slot;

use super::calls::Converter;
use super::downloads::{Downloads, Pending, contents};
use super::functions::Action;
use super::objects::Objects;
use super::sink::{Sink, Target};
use super::{outcomes, snapshots};
use crate::core::Call;
use crate::function::Function;
use crate::generated::FUNCTIONS;
use crate::layer::{Layer, Outcome, Step};

/// The layer `record`, which writes calls and their data to the file of a [`Target`].
///
/// ```
/// use pjrt_layers::record::{Record, Target};
///
/// let target = Target { folder: Some("calls".into()), ..Target::default() };
/// let layer = Record::new(target);
/// ```
pub struct Record {
    sink: Sink,
    actions: Vec<Option<Action>>,
    objects: Mutex<Objects>,
    downloads: Downloads,
    calls: AtomicU64,
    /// Whether the recording is limited to a run that has not started yet.
    is_waiting: AtomicBool,
    waiting: Mutex<Waiting>,
}

impl fmt::Debug for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Record").field("sink", &self.sink).finish_non_exhaustive()
    }
}

/// State of a recording that is limited to one run, before this run starts.
#[derive(Debug, Default)]
struct Waiting {
    /// Calls that create a client or an executable and have not returned yet. The key is the number of the call.
    pending: HashMap<u64, Definition>,
    /// Calls that created a client or an executable. The key is the number of this object.
    definitions: HashMap<u64, Definition>,
    /// Number of runs so far. If the selection names a program, only the runs of this program count.
    runs: u64,
}

/// A call that creates a client or an executable, with its data.
#[derive(Debug)]
struct Definition {
    stamp: Stamp,
    call: Message,
    outcome: Result,
    data: Vec<Vec<u8>>,
}

/// The token of calls that wait for an event, query it, or register a callback.
const EVENT: u64 = 1 << 63;
/// The token of calls that return the address of a buffer's contents.
const VIEW: u64 = 1 << 60;
/// Flag in the token of a call that creates a client or an executable before the run to which the recording is limited.
/// The layer keeps the blocks of this call in memory until the run starts.
const KEPT: u64 = 1 << 62;
/// Flag in the token of the run to which the recording is limited.
const SELECTED: u64 = 1 << 61;

impl Record {
    /// Creates the layer. The layer creates the file when it records the first call.
    pub fn new(target: Target) -> Self {
        let is_waiting = AtomicBool::new(target.only.is_some());
        Self {
            sink: Sink::new(target),
            actions: FUNCTIONS.iter().map(Action::of).collect(),
            objects: Mutex::default(),
            downloads: Downloads::default(),
            calls: AtomicU64::new(0),
            is_waiting,
            waiting: Mutex::default(),
        }
    }

    fn objects(&self) -> MutexGuard<'_, Objects> {
        self.objects.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn next_call(&self) -> u64 {
        self.calls.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Writes snapshots of the buffers that the recording does not contain yet, and then the call. Returns the call's
    /// number. Returns 0 without writing the call if a download only queries the size, or if the plugin does not
    /// describe the downloaded buffer.
    fn record(&self, call: &Call, action: Action) -> u64 {
        self.take_snapshots(call, action);
        let mut store = |data: &[u8]| self.sink.store(data);
        let arguments = Converter { call, objects: &self.objects, store: &mut store }.arguments(action);
        if arguments.is_none() && matches!(action, Action::Download | Action::RawDownload) {
            // The call only queries the size, or the plugin does not describe the buffer.
            return 0;
        }
        let number = self.next_call();
        let message = Message { function: call.function().name.to_owned(), arguments };
        self.sink.write(self.sink.stamp(number), &Body::Call(message));
        number
    }

    /// Writes a snapshot of each buffer that the call uses and that no earlier block of the file creates.
    fn take_snapshots(&self, call: &Call, action: Action) {
        let (buffers, executable) = match action {
            Action::Copy | Action::RawDownload => (vec![call.address_of("buffer")], 0),
            Action::Download => (vec![call.address_of("src")], 0),
            Action::Execute => match call.execution() {
                Some(run) => (run.arguments(), run.executable()),
                None => return,
            },
            _ => return,
        };
        let mut unknown: Vec<usize> = {
            let objects = self.objects();
            buffers.into_iter().filter(|buffer| *buffer != 0 && objects.number(*buffer) == 0).collect()
        };
        let mut seen = HashSet::new();
        unknown.retain(|buffer| seen.insert(*buffer));
        for buffer in unknown {
            self.take_snapshot(call, buffer, executable);
        }
    }

    fn take_snapshot(&self, call: &Call, buffer: usize, executable: usize) {
        let read = snapshots::read(call.plugin(), buffer);
        let mut snapshot = Snapshot::default();
        {
            let mut objects = self.objects();
            snapshot.buffer = objects.add(buffer);
            let executable = objects.number(executable);
            snapshot.client = objects.executable(executable).map_or(0, |(client, _)| client);
            if let Ok(contents) = &read {
                snapshot.device = objects.device(contents.device);
                snapshot.memory = objects.memory(contents.memory);
            }
        }
        match read {
            Ok(contents) => {
                snapshot.array = Some(contents.array);
                snapshot.device_layout = contents.device_layout;
                match contents.data {
                    Ok((data, layout)) => {
                        snapshot.data = Some(self.sink.store(&data));
                        snapshot.layout = Some(layout);
                    }
                    Err(failure) => snapshot.failure = Some(failure),
                }
            }
            Err(failure) => snapshot.failure = Some(failure),
        }
        self.sink.write(self.sink.stamp(0), &Body::Snapshot(snapshot));
    }

    /// Handles a call while the recording waits for the run to which it is limited. Returns the token for `after`.
    fn wait(&self, call: &Call, action: Action) -> u64 {
        match action {
            Action::CreateClient | Action::Compile | Action::Deserialize => {
                let mut data = Vec::new();
                let mut store = |bytes: &[u8]| {
                    data.push(bytes.to_vec());
                    pjrt_record::Content::of(bytes)
                };
                let arguments = Converter { call, objects: &self.objects, store: &mut store }.arguments(action);
                let number = self.next_call();
                let message = Message { function: call.function().name.to_owned(), arguments };
                let definition =
                    Definition { stamp: self.sink.stamp(number), call: message, outcome: Result::default(), data };
                self.waiting().pending.insert(number, definition);
                number | KEPT
            }
            Action::Destroy => {
                let handle = call.function().subject().map_or(0, |field| call.address(field));
                let number = self.objects().remove(handle);
                if number != 0 {
                    self.waiting().definitions.remove(&number);
                }
                0
            }
            Action::Execute if self.is_selected(call) => {
                self.write_definitions(call);
                self.record(call, action) | SELECTED
            }
            _ => 0,
        }
    }

    /// Counts a run, unless the selection names another program. Returns whether the recording is limited to this run.
    /// In this case, also ends the wait for the run.
    fn is_selected(&self, call: &Call) -> bool {
        let (Some(only), Some(run)) = (self.sink.only(), call.execution()) else { return false };
        if let Some(program) = &only.program {
            let executable = self.objects().number(run.executable());
            let waiting = self.waiting();
            let known = waiting.definitions.get(&executable).and_then(|known| known.outcome.executable.as_ref());
            if known.is_none_or(|known| known.name != *program) {
                return false;
            }
        }
        let mut waiting = self.waiting();
        waiting.runs += 1;
        waiting.runs == only.number && self.is_waiting.swap(false, Ordering::AcqRel)
    }

    /// Writes the two calls that created the client and the executable of a run, and drops all other calls in
    /// `waiting`.
    fn write_definitions(&self, call: &Call) {
        let Some(run) = call.execution() else { return };
        let (executable, client) = {
            let objects = self.objects();
            let executable = objects.number(run.executable());
            (executable, objects.executable(executable).map_or(0, |(client, _)| client))
        };
        let kept = std::mem::take(&mut *self.waiting());
        for number in [client, executable] {
            let Some(definition) = kept.definitions.get(&number) else { continue };
            for data in &definition.data {
                self.sink.store(data);
            }
            self.sink.write(definition.stamp, &Body::Call(definition.call.clone()));
            self.sink.write(definition.stamp, &Body::Outcome(definition.outcome.clone()));
        }
    }

    /// Keeps the outcome of a call that created a client or an executable, so that [`Self::write_definitions`] can
    /// write it. Drops the call if it failed.
    fn keep(&self, call: &Call, action: Action, number: u64, failed: bool) {
        let outcome = if failed { None } else { outcomes::outcome(call, action, &self.objects) };
        let mut waiting = self.waiting();
        let definition = waiting.pending.remove(&number);
        if let (Some(outcome), Some(mut definition)) = (outcome, definition)
            && let Some(object) = outcome.objects.first().copied()
        {
            definition.outcome = outcome;
            waiting.definitions.insert(object, definition);
        }
    }

    /// Writes the error of a failed call, or the outcome of a successful call that creates objects.
    fn write_outcome(&self, call: &Call, action: Action, number: u64, outcome: Outcome) {
        let message = if let Some(error) = outcome.error() {
            Some(Result { failure: Some(snapshots::failure(error)), ..Result::default() })
        } else {
            outcomes::outcome(call, action, &self.objects)
        };
        if let Some(message) = message {
            self.sink.write(self.sink.stamp(number), &Body::Outcome(message));
        }
    }

    /// Registers a download. The layer writes the downloaded data when the event of the download becomes ready, or now
    /// if the call returned no event.
    fn expect_download(&self, call: &Call, action: Action, number: u64) {
        let mut store = |_: &[u8]| pjrt_record::Content::default();
        let arguments = Converter { call, objects: &self.objects, store: &mut store }.arguments(action);
        let (Some(destination), Some(arguments)) = (call.destination(), arguments) else { return };
        let (Arguments::Download(download) | Arguments::RawDownload(download)) = arguments else {
            return;
        };
        let pending = Pending { call: number, is_raw: action == Action::RawDownload, download, destination };
        match call.address_of("event") {
            0 => self.write_download(pending, None),
            event => self.downloads.add(event, pending),
        }
    }

    fn write_download(&self, pending: Pending, failure: Option<Failure>) {
        let mut message = contents(&pending);
        match failure {
            Some(_) => message.failure = failure,
            None => message.data = Some(self.sink.store(&pending.destination.read())),
        }
        self.sink.write(self.sink.stamp(pending.call), &Body::Contents(message));
    }

    /// Writes the contents of the buffer in a call that returns the address of these contents. The file stores them
    /// like the contents of a download. Skips a buffer that is not in the recording, cannot be read, or is not ready.
    /// Waiting for the buffer could deadlock, because its contents may depend on a later call of the framework.
    fn write_view(&self, call: &Call) {
        let handle = call.address_of("buffer");
        let buffer = self.objects().number(handle);
        if buffer == 0 || !call.plugin().is_buffer_ready(handle) {
            return;
        }
        let Ok(snapshots::Contents { array, data: Ok((data, layout)), .. }) = snapshots::read(call.plugin(), handle)
        else {
            return;
        };
        let download = Download {
            buffer,
            array: Some(array.clone()),
            layout: Some(layout.clone()),
            size: data.len() as u64,
            ..Download::default()
        };
        let arguments = Some(Arguments::Download(download));
        let number = self.next_call();
        let message = Message { function: call.function().name.to_owned(), arguments };
        self.sink.write(self.sink.stamp(number), &Body::Call(message));
        let data = Some(self.sink.store(&data));
        let message = Contents { buffer, array: Some(array), layout: Some(layout), data, ..Contents::default() };
        self.sink.write(self.sink.stamp(number), &Body::Contents(message));
    }

    /// Handles the return of a call with an event argument. If the event belongs to a pending download and is ready,
    /// writes the downloaded data or the error.
    fn event(&self, call: &Call, outcome: Outcome) {
        let event = call.address_of("event");
        if !self.downloads.has(event) {
            return;
        }
        let error = if let Some(args) = call.args::<slot::PJRT_Event_IsReady>() {
            if outcome.failed() || !args.is_ready.get() {
                return;
            }
            call.plugin().event_failure(event)
        } else if call.is::<slot::PJRT_Event_OnReady>() {
            // The layer's `ready` handles the event when the callback runs.
            return;
        } else {
            outcome.error()
        };
        self.downloads.finish(event, |pending| self.write_download(pending, error.map(snapshots::failure)));
    }

    /// Writes the contents of the outputs of the run to which the recording is limited. `number` is the number of the
    /// call.
    fn write_outputs(&self, call: &Call, number: u64) {
        let Some(run) = call.execution() else { return };
        let count = {
            let objects = self.objects();
            objects.executable(objects.number(run.executable())).map(|(_, outputs)| outputs)
        };
        let count = count.or_else(|| call.plugin().output_count(run.executable())).unwrap_or(0);
        for buffer in run.outputs(count) {
            let mut message =
                Contents { buffer: self.objects().number(buffer), is_output: true, ..Contents::default() };
            match snapshots::read(call.plugin(), buffer) {
                Ok(read) => {
                    message.array = Some(read.array);
                    match read.data {
                        Ok((data, layout)) => {
                            message.data = Some(self.sink.store(&data));
                            message.layout = Some(layout);
                        }
                        Err(failure) => message.failure = Some(failure),
                    }
                }
                Err(failure) => message.failure = Some(failure),
            }
            self.sink.write(self.sink.stamp(number), &Body::Contents(message));
        }
    }
}

impl Layer for Record {
    fn name(&self) -> &'static str {
        "record"
    }

    fn wants(&self, function: &Function) -> bool {
        Action::of(function).is_some()
    }

    fn before(&self, call: &mut Call) -> Step {
        let Some(action) = self.actions[call.id()] else { return Step::Continue(0) };
        self.sink.plugin.get_or_init(|| call.plugin());
        Step::Continue(match action {
            Action::Event => EVENT,
            Action::DestroyEvent => {
                self.downloads.forget(call.address_of("event"));
                0
            }
            _ if !self.sink.is_ours() => 0,
            _ if self.is_waiting.load(Ordering::Acquire) => self.wait(call, action),
            _ if self.sink.only().is_some() => 0,
            Action::View => VIEW,
            _ => self.record(call, action),
        })
    }

    fn after(&self, call: &mut Call, token: u64, outcome: Outcome) {
        let Some(action) = self.actions[call.id()].filter(|_| token != 0) else { return };
        if token == EVENT {
            return self.event(call, outcome);
        }
        if token == VIEW {
            if !outcome.failed() {
                self.write_view(call);
            }
            return;
        }
        let number = token & !(KEPT | SELECTED);
        if token & KEPT != 0 {
            return self.keep(call, action, number, outcome.failed());
        }
        self.write_outcome(call, action, number, outcome);
        if !outcome.failed() {
            match action {
                Action::Download | Action::RawDownload => self.expect_download(call, action, number),
                Action::Execute if token & SELECTED != 0 => self.write_outputs(call, number),
                _ => {}
            }
        }
        if token & SELECTED != 0 {
            self.sink.close(self.calls.load(Ordering::Relaxed));
        } else if call.is::<slot::PJRT_Client_Destroy>() {
            self.sink.end(self.calls.load(Ordering::Relaxed));
        }
    }

    fn watches_events(&self) -> bool {
        true
    }

    fn ready(&self, event: usize, failed: bool) {
        let failure = failed.then(|| Failure { code: 2, message: "the download failed".to_owned() });
        self.downloads.finish(event, |pending| self.write_download(pending, failure));
    }

    fn exit(&self) {
        if self.is_waiting.load(Ordering::Acquire)
            && self.sink.is_ours()
            && let Some(only) = self.sink.only()
        {
            let runs = self.waiting().runs;
            let of = only.program.as_ref().map(|program| format!(" of {program}")).unwrap_or_default();
            // No caller receives this message, so it is written to the standard error.
            let _ = writeln!(
                io::stderr(),
                "pjrt-layers: nothing was recorded: the run {only} did not happen, and the process made {runs} runs{of}"
            );
        }
        self.sink.end(self.calls.load(Ordering::Relaxed));
    }
}

//! The connection of one client.

use std::io::{self, Write as _};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use pjrt::{Buffer, ErrorCode, Event, InFlightLimiter, InFlightPermit, Memory, NamedValue, Program, Shape, Upload};

use crate::net::outbox::Outbox;
use crate::net::stream::{Receiving, Stream};
use crate::server::access::Access;
use crate::server::describe;
use crate::server::execution::execute;
use crate::server::failure::{Outcome, exhausted, fail, invalid, no_memory};
use crate::server::launches::Launches;
use crate::server::limits::{PAYLOAD, PROGRAM, STALLED};
use crate::server::reader::{Reader, SMALL};
use crate::server::replies::{Batch, Replies};
use crate::server::served::Served;
use crate::server::sessions::Opened;
use crate::server::table::{Loaded, Object, Table, host_bytes};
use crate::server::token::Token;
use crate::shared::arriving::Arriving;
use crate::shared::memory::Readable;
use crate::wire::convert;
use crate::wire::frame::{self, Broken, Incoming, Payload};
use crate::wire::messages as wire;
use crate::wire::messages::{Failure, RequestKind};

/// Time in which a client must send its first message.
const HANDSHAKE: Duration = Duration::from_secs(5);
/// Number of bytes of a client's uploads that the plugin may still read. A larger upload waits until it is alone.
const UPLOADING: u64 = 64 << 20;

/// The state of a connection after the first messages.
struct Session {
    served: Arc<Served>,
    incoming: Incoming<Receiving>,
    /// Receives the arrays of uploads.
    arriving: Arriving,
    table: Table,
    replies: Arc<Replies>,
    batch: Batch,
    reader: Reader,
    /// The bytes of uploads that have not ended.
    uploading: InFlightLimiter,
    launches: Launches,
}

/// What the plugin may do with the memory in which data arrived, instead of copying it.
enum Lending {
    ToWrite(InFlightPermit),
    /// For large arrays, which take long to copy.
    ToRead(InFlightPermit),
    None,
}

/// Serves a client until it closes the connection or breaks the protocol. Then frees everything that it held.
pub(crate) fn serve(served: Arc<Served>, stream: Stream, access: &Access, opened: &Opened) {
    let session = match Session::begin(served, stream, access, opened) {
        Ok(session) => session,
        // The other side asked for the clients, or has gone.
        Err(Broken::Closed) => return,
        Err(error) => return tracing::info!(%error, "a client was rejected"),
    };
    let replies = Arc::clone(&session.replies);
    match session.run() {
        Broken::Closed => tracing::debug!("a client closed its connection"),
        Broken::Protocol(message) => {
            tracing::info!(message, "the connection to a client is closed");
            replies.close(Failure::of(ErrorCode::INVALID_ARGUMENT, &message));
        }
        error => tracing::info!(%error, "the connection to a client failed"),
    }
    replies.outbox.join();
}

impl Session {
    fn begin(served: Arc<Served>, mut stream: Stream, access: &Access, opened: &Opened) -> Result<Self, Broken> {
        #[cfg(feature = "tls")]
        if let Some(identity) = &access.identity {
            stream = stream.encrypt(identity, HANDSHAKE)?;
        }
        let receiving = Receiving::within(stream.try_clone()?, HANDSHAKE);
        let mut incoming = Incoming::new(receiving, frame::MAX_HELLO, Arc::clone(&served.spare));
        let accepted = match incoming.next::<wire::Hello>() {
            Ok(hello) => match check(&hello, access.token.as_ref()) {
                Ok(version) if hello.is_status => {
                    let clients = opened.clients();
                    answer(&mut stream, &wire::Welcome { version, clients, ..wire::Welcome::default() })?;
                    return Err(Broken::Closed);
                }
                Ok(version) => {
                    let shares_memory = hello.shares_memory && has_probe(&mut incoming);
                    opened.admit(&hello).map(|held| {
                        tracing::info!(program = hello.program, process = hello.process, "a client is connected");
                        (version, shares_memory, held)
                    })
                }
                Err(failure) => Err(failure),
            },
            Err(Broken::Protocol(message)) => Err(invalid(&message)),
            Err(broken) => return Err(broken),
        };
        let (version, shares_memory, held) = match accepted {
            Ok(accepted) => accepted,
            Err(failure) => {
                refuse(&mut stream, &failure)?;
                return Err(Broken::Protocol(failure.message.clone()));
            }
        };
        incoming.after_first(frame::MAX_REQUEST).wait_forever()?;
        // Written at once, so that it also reaches a client that then sends nothing.
        answer(&mut stream, &wire::Welcome { version, shares_memory, ..served.welcome.clone() })?;
        stream.set_write_timeout(Some(STALLED))?;
        let replies = Arc::new(Replies::new(Outbox::new(stream, Arc::clone(&opened.closer))?));
        let reader = Reader::start(Arc::clone(&replies), shares_memory)?;
        Ok(Self {
            table: Table::new(served.limits.memory, held),
            batch: Batch::new(Arc::clone(&replies)),
            reader,
            uploading: InFlightLimiter::bytes(UPLOADING),
            arriving: Arriving::default(),
            launches: Launches::default(),
            served,
            incoming,
            replies,
        })
    }

    /// Handles requests until no further one can be read. Returns the reason.
    fn run(mut self) -> Broken {
        loop {
            if !self.incoming.has_message() {
                self.batch.flush();
            }
            if self.incoming.is_empty() {
                // They came with messages that announced none.
                self.incoming.source().close_descriptors();
            }
            // Each request adds few replies, so this bounds the queue if the client does not read them.
            self.replies.outbox.wait_for_space();
            let handled = match self.incoming.next::<wire::Request>() {
                Ok(request) => self.handle(request),
                Err(error) => return error,
            };
            if let Err(error) = handled {
                return error;
            }
        }
    }

    fn handle(&mut self, request: wire::Request) -> Result<(), Broken> {
        for handle in &request.released {
            self.table.remove(*handle);
        }
        let Some(kind) = request.kind else {
            if !request.released.is_empty() {
                return Ok(());
            }
            return Err(Broken::Protocol(format!(
                "unknown request; this server speaks the versions {} to {} of the protocol",
                wire::OLDEST,
                wire::NEWEST
            )));
        };
        match kind {
            RequestKind::Upload(request) => self.upload(request),
            RequestKind::Allocate(request) => self.allocate(request),
            RequestKind::Read(request) => self.read(&request),
            RequestKind::Derive(request) => self.derive(request),
            RequestKind::Compile(request) => self.compile(request),
            RequestKind::Execute(request) => {
                let launch_id = self.launches.begin(request.launch_id, &self.served.launch_ids);
                execute(&request, launch_id, &self.served, &mut self.table, &mut self.batch, &self.replies)
            }
            RequestKind::DeviceQuery(request) => self.device_query(&request),
            RequestKind::ExecutableQuery(request) => self.executable_query(&request),
            RequestKind::Poison(request) => self.poison(request),
        }
    }

    /// Adds a new buffer to the table, and answers when it is ready.
    fn add(&mut self, ticket: u64, handle: u64, buffer: Outcome<(Buffer, Event)>) -> Result<(), Broken> {
        match buffer {
            Ok((buffer, ready)) => {
                let bytes = buffer.shape().map_or(0, host_bytes);
                let buffer = self.table.buffer_object(buffer, bytes);
                self.table.insert(handle, buffer)?;
                self.batch.when_ready(ticket, &ready);
            }
            Err(failure) => {
                self.replies.fail(ticket, &failure);
                self.table.insert(handle, Object::Failed(failure))?;
            }
        }
        Ok(())
    }

    fn upload(&mut self, mut request: wire::Upload) -> Result<(), Broken> {
        self.replies.begin()?;
        let shape = shape(request.shape.take())?;
        if shape.host_size().map(|size| size as u64) != Some(request.bytes) {
            let message = format!("an upload of {} bytes is not the size of {shape}", request.bytes);
            return Err(Broken::Protocol(message));
        }
        if request.new_ring {
            self.arriving.open(&mut self.incoming, self.replies.outbox.closer())?;
        }
        let buffer = match self.check_payload(request.bytes) {
            Ok(()) => self.receive(&request, &shape)?,
            Err(failure) => {
                self.arriving.skip(&mut self.incoming, request.in_ring, request.bytes)?;
                Err(failure)
            }
        };
        self.add(request.ticket, request.handle, buffer)
    }

    /// Waits until the plugin has taken enough of the data before, and returns a permit for more.
    fn permit(&mut self, bytes: u64) -> Result<InFlightPermit, Broken> {
        let permit = self.uploading.try_acquire(bytes).or_else(|| {
            // Send the answers that are complete, because the wait takes long.
            self.batch.flush();
            self.uploading.acquire(bytes).wait().ok()
        });
        permit.ok_or_else(|| Broken::Protocol("the server cannot wait for earlier uploads".to_owned()))
    }

    /// Receives the data of an upload and passes it to the plugin.
    fn receive(&mut self, request: &wire::Upload, shape: &Shape) -> Result<Outcome<(Buffer, Event)>, Broken> {
        let lending = match (request.zero_copy, request.in_ring) {
            (true, _) => Lending::ToWrite(self.permit(request.bytes)?),
            (false, true) => Lending::ToRead(self.permit(request.bytes)?),
            (false, false) => Lending::None,
        };
        let Some(mut payload) = self.served.spare.memory(request.bytes) else {
            self.arriving.skip(&mut self.incoming, request.in_ring, request.bytes)?;
            return Ok(Err(no_memory(request.bytes)));
        };
        self.arriving.receive(&mut self.incoming, request.in_ring, payload.as_mut())?;
        let memory = self.served.memory(request.memory);
        Ok(memory.and_then(|memory| self.pass(payload, lending, shape, memory)))
    }

    /// Passes data to the plugin.
    fn pass(&self, payload: Payload, lending: Lending, shape: &Shape, memory: &Memory) -> Outcome<(Buffer, Event)> {
        let (upload, permit) = match lending {
            Lending::ToWrite(permit) => (Upload::owned_mut::<u8, _>(payload), Some(permit)),
            Lending::ToRead(permit) => (Upload::owned::<u8, _>(payload), Some(permit)),
            Lending::None => (Upload::of(payload.as_ref()), None),
        };
        let buffer = self.served.client.upload(upload.shape(shape).to(memory)).map_err(fail)?;
        let (buffer, ready) = with_event(buffer)?;
        if let Some(permit) = permit {
            permit.release_after(&ready);
        }
        Ok((buffer, ready))
    }

    fn check_payload(&self, bytes: u64) -> Outcome<()> {
        if bytes > PAYLOAD {
            let message = format!("{bytes} bytes exceed the server's limit of {PAYLOAD} bytes for one transfer");
            return Err(exhausted(&message));
        }
        self.table.check_space(bytes)
    }

    fn allocate(&mut self, request: wire::Allocate) -> Result<(), Broken> {
        self.replies.begin()?;
        let shape = shape(request.shape)?;
        let bytes = shape.host_size().map_or(u64::MAX, |size| size as u64);
        let buffer = match self.check_payload(bytes) {
            Ok(()) => {
                let permit = self.permit(bytes)?;
                // Memory of the plugin may contain data of other clients.
                let zeros = usize::try_from(bytes).ok().and_then(|len| self.served.spare.zeros(len));
                zeros.ok_or_else(|| no_memory(bytes)).and_then(|zeros| {
                    let memory = self.served.memory(request.memory)?;
                    self.pass(zeros, Lending::ToWrite(permit), &shape, memory)
                })
            }
            Err(failure) => Err(failure),
        };
        self.add(request.ticket, request.handle, buffer)
    }

    fn derive(&mut self, request: wire::Derive) -> Result<(), Broken> {
        self.replies.begin()?;
        let bitcast = request.bitcast.map(|bitcast| shape(Some(bitcast))).transpose()?;
        let buffer = self.table.buffer(request.source).and_then(|source| match bitcast {
            Some(shape) => source.bitcast(&shape, None).map_err(fail),
            None => {
                self.table.check_space(source.bytes())?;
                source.copy_to(self.served.memory(request.memory)?).map_err(fail)
            }
        });
        self.add(request.ticket, request.handle, buffer.and_then(with_event))
    }

    fn read(&mut self, request: &wire::Read) -> Result<(), Broken> {
        self.replies.begin()?;
        let buffer = match self.table.buffer(request.handle) {
            Ok(buffer) => buffer,
            Err(failure) => {
                self.replies.fail(request.ticket, &failure);
                return Ok(());
            }
        };
        let is_ready = || buffer.ready_event().and_then(|ready| ready.is_ready());
        if buffer.bytes() > SMALL as u64 || !is_ready().unwrap_or(false) {
            self.reader.read(request.ticket, Arc::clone(buffer));
            return Ok(());
        }
        match buffer.download().bytes() {
            Ok(bytes) => {
                let data = wire::Data { ticket: request.ticket, bytes: bytes.len() as u64, ..wire::Data::default() };
                self.replies.answered(1);
                self.replies.outbox.send_copy(&wire::Reply::from(data), &bytes);
            }
            Err(error) => self.replies.fail(request.ticket, &Failure::from(&error)),
        }
        Ok(())
    }

    fn compile(&mut self, request: wire::Compile) -> Result<(), Broken> {
        self.replies.begin()?;
        // A compilation takes long. Send the answers that are complete.
        self.batch.flush();
        let space = match request.bytes {
            0..=PROGRAM => self.table.check_space(request.bytes),
            bytes => Err(exhausted(&format!("a program of {bytes} bytes exceeds the limit of {PROGRAM} bytes"))),
        };
        let code = match space {
            Ok(()) => self.incoming.payload(request.bytes)?.ok_or_else(|| no_memory(request.bytes)),
            Err(failure) => Err(failure),
        };
        let compiled = match code {
            Ok(code) => self.compile_program(&request, Bytes::from_owner(code)),
            Err(failure) => self.incoming.skip(request.bytes).map(|()| Err(failure))?,
        };
        match compiled {
            Ok((loaded, message, program)) => {
                self.table.insert(request.handle, Object::Executable(Arc::new(loaded)))?;
                self.replies.answered(1);
                let reply = wire::Reply::from(message);
                match program {
                    Some(program) => self.replies.outbox.send_owned(&reply, program.code().clone()),
                    None => self.replies.outbox.send(&reply),
                }
            }
            Err(failure) => {
                self.replies.fail(request.ticket, &failure);
                self.table.insert(request.handle, Object::Failed(failure))?;
            }
        }
        Ok(())
    }

    fn compile_program(
        &self,
        request: &wire::Compile,
        code: Bytes,
    ) -> Outcome<(Loaded, wire::Compiled, Option<Program>)> {
        let client = &self.served.client;
        let program = Program::from_bytes(request.format.as_str(), code);
        let options = self.served.compile_options(&request.options)?;
        let executable = client.compile_with_raw_options(&program, &options).map_err(fail)?;
        let index = |device| {
            let unknown = || invalid("the program runs on a device that the server does not serve");
            self.served.index(device).ok_or_else(unknown)
        };
        let devices = executable.addressable_devices().iter().map(index).collect::<Outcome<_>>()?;
        let shapes = executable.executable().output_shapes().map_err(fail)?;
        let output_bytes = shapes.iter().map(host_bytes).collect();
        let add = |sum: u64, shape: &Shape| sum.checked_add(shape.host_size()? as u64);
        let output_space = shapes.iter().try_fold(0, add).unwrap_or(u64::MAX);
        let (message, program) = describe::compiled(request.ticket, client, &executable, &shapes).map_err(fail)?;
        Ok((Loaded { executable, devices, output_bytes, output_space }, message, program))
    }

    fn device_query(&mut self, request: &wire::DeviceQuery) -> Result<(), Broken> {
        self.replies.begin()?;
        let values = self.served.device(request.device).and_then(|device| {
            let values = if request.clear && self.served.limits.clients != 1 {
                let message = "the memory statistics are those of all clients; `pjrt serve --clients 1` lets its only \
                               one reset them";
                return Err(Arc::new(Failure::of(ErrorCode::UNIMPLEMENTED, message)));
            } else if request.clear {
                device.clear_memory_stats().map(|()| Vec::new())
            } else {
                device.memory_stats().map(|stats| convert::memory_stats_values(&stats))
            };
            values.map_err(fail)
        });
        self.answer(request.ticket, values);
        Ok(())
    }

    fn poison(&mut self, request: wire::Poison) -> Result<(), Broken> {
        self.replies.begin()?;
        let Failure { code, message, .. } = request.failure.unwrap_or_default();
        let values = self.served.device(request.device).and_then(|device| {
            let code = ErrorCode::from_raw(code);
            // The plugin would find the runs of other clients, too.
            let Some(launch_id) = self.launches.find(request.launch_id) else { return Ok(Vec::new()) };
            let poisoned = device.poison_execution(launch_id, code, &message).map_err(fail)?;
            Ok(poisoned.then(|| NamedValue::new("poisoned", true).into()).into_iter().collect())
        });
        self.answer(request.ticket, values);
        Ok(())
    }

    fn executable_query(&mut self, request: &wire::ExecutableQuery) -> Result<(), Broken> {
        self.replies.begin()?;
        let values = self.table.executable(request.handle).and_then(|loaded| {
            let executable = loaded.executable.executable();
            let values = if request.memory {
                executable.compiled_memory_stats().map(|stats| convert::compiled_memory_stats_values(&stats))
            } else {
                executable.cost_analysis().map(|costs| costs.into_iter().map(wire::NamedValue::from).collect())
            };
            values.map_err(fail)
        });
        self.answer(request.ticket, values);
        Ok(())
    }

    fn answer(&self, ticket: u64, values: Outcome<Vec<wire::NamedValue>>) {
        match values {
            Ok(values) => self.replies.send(wire::Answer { ticket, values }),
            Err(failure) => self.replies.fail(ticket, &failure),
        }
    }
}

/// Returns a buffer and the event with which it becomes ready.
fn with_event(buffer: Buffer) -> Outcome<(Buffer, Event)> {
    let ready = buffer.ready_event().map_err(fail)?;
    Ok((buffer, ready))
}

/// Returns a shape in a request.
fn shape(shape: Option<wire::Shape>) -> Result<Shape, Broken> {
    convert::shape(shape.unwrap_or_default()).map_err(Broken::Protocol)
}

/// Sends the reason why the server refuses a client.
pub(crate) fn refuse(stream: &mut Stream, failure: &Failure) -> io::Result<()> {
    answer(stream, &wire::Welcome { refusal: Some(failure.clone()), ..wire::Welcome::default() })
}

/// Sends the only message to a connection that does not become a session.
fn answer(stream: &mut Stream, welcome: &wire::Welcome) -> io::Result<()> {
    stream.set_write_timeout(Some(HANDSHAKE))?;
    let mut bytes = Vec::new();
    frame::append(welcome, &mut bytes);
    stream.write_all(&bytes)
}

/// Returns whether the block that comes with the first message of a client arrived.
fn has_probe(incoming: &mut Incoming<Receiving>) -> bool {
    incoming.source().take_descriptor().is_some_and(|file| Readable::open(&file, wire::PROBE).is_ok())
}

/// Checks the first message of a client. Returns the version of the protocol that both sides speak.
fn check(hello: &wire::Hello, token: Option<&Token>) -> Outcome<u32> {
    if hello.magic != wire::MAGIC {
        return Err(invalid("the other side is not a client of `pjrt serve`"));
    }
    if hello.oldest > wire::NEWEST || hello.newest < wire::OLDEST {
        let message = format!(
            "the client speaks the versions {} to {} of the protocol, and this server {} to {}; update the older one",
            hello.oldest,
            hello.newest,
            wire::OLDEST,
            wire::NEWEST
        );
        return Err(Arc::new(Failure::of(ErrorCode::FAILED_PRECONDITION, &message)));
    }
    if token.is_some_and(|token| !token.is(&hello.token)) {
        let message = "the token is wrong; set PJRT_REMOTE_TOKEN_FILE to a copy of the file that `pjrt serve` names";
        return Err(Arc::new(Failure::of(ErrorCode::PERMISSION_DENIED, message)));
    }
    Ok(hello.newest.min(wire::NEWEST))
}

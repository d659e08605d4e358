//! The connection of one client.

use std::io::{self, Write as _};
use std::sync::{Arc, Weak};
use std::time::Duration;

use bytes::Bytes;
use pjrt::{Buffer, Error, ErrorCode, InFlightLimiter, NamedValue, Program, Shape, Upload};

use crate::net::outbox::Outbox;
use crate::net::stream::{Receiving, Stream};
use crate::server::access::Access;
use crate::server::describe;
use crate::server::execution::{execute, size};
use crate::server::limits::{PAYLOAD, STALLED};
use crate::server::reader::{Reader, SMALL};
use crate::server::replies::{Batch, Replies};
use crate::server::served::Served;
use crate::server::sessions::Opened;
use crate::server::table::{Loaded, Object, Table, invalid};
use crate::server::token::Token;
use crate::shared::memory::Readable;
use crate::wire::convert;
use crate::wire::frame::{self, Broken, Incoming};
use crate::wire::messages as wire;
use crate::wire::messages::{Failure, RequestKind};

/// Time in which a client must send its first message.
const HANDSHAKE: Duration = Duration::from_secs(5);
/// Number of bytes of a client's uploads that the plugin may still read. A larger upload waits until it is alone.
const UPLOADING: u64 = 64 << 20;

type Outcome<T> = Result<T, Arc<Failure>>;

fn fail(error: Error) -> Arc<Failure> {
    Arc::new(Failure::from(&error))
}

/// The state of a connection after the first messages.
struct Session {
    served: Arc<Served>,
    incoming: Incoming<Receiving>,
    table: Table,
    replies: Arc<Replies>,
    batch: Batch,
    reader: Reader,
    /// The bytes of uploads that have not ended.
    uploading: InFlightLimiter,
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
            replies.close(ErrorCode::INVALID_ARGUMENT.as_raw(), &message);
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
        let mut incoming = Incoming::new(Receiving::within(stream.try_clone()?, HANDSHAKE), frame::MAX_HELLO);
        let accepted = match incoming.next::<wire::Hello>() {
            Ok(hello) => match check(&hello, access.token.as_ref()) {
                Ok(version) if hello.is_status => {
                    let clients = opened.clients();
                    answer(&mut stream, &wire::Welcome { version, clients, ..wire::Welcome::default() })?;
                    return Err(Broken::Closed);
                }
                Ok(version) => {
                    let shares_memory = hello.shares_memory && has_probe(&mut incoming);
                    opened.admit(&hello).map(|held| (version, shares_memory, held))
                }
                Err(failure) => Err(failure),
            },
            Err(Broken::Protocol(message)) => Err(failure(ErrorCode::INVALID_ARGUMENT, &message)),
            Err(broken) => return Err(broken),
        };
        let (version, shares_memory, held) = match accepted {
            Ok(accepted) => accepted,
            Err(failure) => {
                refuse(&mut stream, &failure)?;
                return Err(Broken::Protocol(failure.message));
            }
        };
        incoming.after_first(frame::MAX_REQUEST).wait_forever()?;
        stream.set_write_timeout(Some(STALLED))?;
        let outbox = Outbox::new(stream)?;
        outbox.send(&wire::Welcome { version, shares_memory, ..served.welcome.clone() });
        let replies = Arc::new(Replies::new(outbox));
        Ok(Self {
            table: Table::new(served.limits.memory, held),
            batch: Batch::new(Arc::clone(&replies)),
            reader: Reader::start(Arc::clone(&replies), shares_memory)?,
            uploading: InFlightLimiter::bytes(UPLOADING),
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
                execute(&request, &self.served, &mut self.table, &mut self.batch, &self.replies)
            }
            RequestKind::DeviceQuery(request) => self.device_query(&request),
            RequestKind::ExecutableQuery(request) => self.executable_query(&request),
            RequestKind::Poison(request) => self.poison(request),
        }
    }

    /// Adds a new buffer to the table, and answers when it is ready.
    fn add(&mut self, ticket: u64, handle: u64, buffer: Outcome<Buffer>) -> Result<(), Broken> {
        match buffer.and_then(|buffer| Ok((buffer.ready_event().map_err(fail)?, buffer))) {
            Ok((ready, buffer)) => {
                let bytes = size(&buffer);
                self.table.insert(handle, Object::Buffer(Arc::new(buffer), bytes))?;
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
        let space = self.check_payload(request.bytes);
        let buffer = if request.block != 0 {
            let lent = self.lent(&request)?;
            space.and_then(|()| {
                let upload = Upload::owned::<u8, _>(lent).shape(&shape).to(self.served.memory(request.memory)?);
                self.served.client.upload(upload).map_err(fail)
            })
        } else if let Err(failure) = space {
            self.incoming.skip(request.bytes)?;
            Err(failure)
        } else {
            self.receive(&request, &shape)?
        };
        self.add(request.ticket, request.handle, buffer)
    }

    /// Returns the data of an upload in shared memory.
    fn lent(&mut self, request: &wire::Upload) -> Result<Lent, Broken> {
        let invalid = |reason: &str| Broken::Protocol(format!("the block {} of shared memory {reason}", request.block));
        if request.new_block != 0 {
            let file = self.incoming.source().take_descriptor().ok_or_else(|| invalid("came without a descriptor"))?;
            let size = usize::try_from(request.new_block).map_err(|_| invalid("is too large"))?;
            let block = Readable::open(&file, size).map_err(|error| invalid(&format!("cannot be used: {error}")))?;
            self.table.insert(request.block, Object::Block(Arc::new(block)))?;
        }
        let block = self.table.block(request.block).ok_or_else(|| invalid("is unknown"))?;
        if block.bytes().len() as u64 >= request.bytes {
            let (memory, replies) = (Arc::clone(block), Arc::downgrade(&self.replies));
            // Not more than the block.
            let len = usize::try_from(request.bytes).unwrap_or_default();
            Ok(Lent { memory, len, handle: request.block, replies })
        } else {
            Err(invalid(&format!("is smaller than {} bytes", request.bytes)))
        }
    }

    /// Receives the data of an upload and passes it to the plugin.
    fn receive(&mut self, request: &wire::Upload, shape: &Shape) -> Result<Outcome<Buffer>, Broken> {
        let Some(permit) = self.uploading.try_acquire(request.bytes).or_else(|| {
            // Send the answers that are complete, because the wait takes long.
            self.batch.flush();
            self.uploading.acquire(request.bytes).wait().ok()
        }) else {
            return Err(Broken::Protocol("the server cannot wait for earlier uploads".to_owned()));
        };
        let Some(payload) = self.incoming.payload(request.bytes)? else {
            self.incoming.skip(request.bytes)?;
            return Ok(Err(exhausted(&format!("the server has no memory for {} bytes", request.bytes))));
        };
        let memory = match self.served.memory(request.memory) {
            Ok(memory) => memory,
            Err(failure) => return Ok(Err(failure)),
        };
        let client = &self.served.client;
        let buffer = if request.zero_copy {
            client.upload(Upload::owned_mut::<u8, _>(payload).shape(shape).to(memory))
        } else {
            client.upload(Upload::of(payload.as_ref()).shape(shape).to(memory))
        };
        if let Ok(buffer) = &buffer
            && let Ok(ready) = buffer.ready_event()
        {
            permit.release_after(&ready);
        }
        Ok(buffer.map_err(fail))
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
        let buffer = self.table.check_space(bytes).and_then(|()| {
            let memory = self.served.memory(request.memory)?;
            memory.buffer(&shape).uninitialized().map_err(fail)
        });
        self.add(request.ticket, request.handle, buffer)
    }

    fn derive(&mut self, request: wire::Derive) -> Result<(), Broken> {
        self.replies.begin()?;
        let bitcast = request.bitcast.map(|bitcast| shape(Some(bitcast))).transpose()?;
        let buffer = self.table.buffer(request.source).and_then(|source| match bitcast {
            Some(shape) => source.bitcast(&shape, None).map_err(fail),
            None => {
                self.table.check_space(size(source))?;
                source.copy_to(self.served.memory(request.memory)?).map_err(fail)
            }
        });
        self.add(request.ticket, request.handle, buffer)
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
        if size(buffer) > SMALL as u64 || !is_ready().unwrap_or(false) {
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
        let code = if request.bytes <= PAYLOAD { self.incoming.payload(request.bytes)? } else { None };
        let compiled = match code {
            Some(code) => self.compile_program(&request, Bytes::from_owner(code)),
            None => {
                self.incoming.skip(request.bytes)?;
                Err(exhausted(&format!("the server has no memory for a program of {} bytes", request.bytes)))
            }
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
        let size = |shape: &Shape| shape.host_size().map_or(u64::MAX, |size| size as u64);
        let output_bytes = shapes.iter().map(size).collect();
        let (message, program) = describe::compiled(request.ticket, client, &executable, &shapes).map_err(fail)?;
        Ok((Loaded { executable, devices, output_bytes }, message, program))
    }

    fn device_query(&mut self, request: &wire::DeviceQuery) -> Result<(), Broken> {
        self.replies.begin()?;
        let values = self.served.device(request.device).and_then(|device| {
            let values = if request.clear {
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
            let poisoned = device.poison_execution(request.launch_id, code, &message).map_err(fail)?;
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

/// The data of an upload in shared memory. Dropping it returns the block to the client.
struct Lent {
    memory: Arc<Readable>,
    len: usize,
    handle: u64,
    replies: Weak<Replies>,
}

impl AsRef<[u8]> for Lent {
    fn as_ref(&self) -> &[u8] {
        self.memory.bytes().get(..self.len).unwrap_or_default()
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        if let Some(replies) = self.replies.upgrade() {
            replies.outbox.send(&wire::Reply::from(wire::Returned { block: self.handle }));
        }
    }
}

fn exhausted(message: &str) -> Arc<Failure> {
    Arc::new(Failure::new(ErrorCode::RESOURCE_EXHAUSTED.as_raw(), message, &[]))
}

/// Returns a shape in a request.
fn shape(shape: Option<wire::Shape>) -> Result<Shape, Broken> {
    convert::shape(shape.unwrap_or_default()).map_err(Broken::Protocol)
}

fn failure(code: ErrorCode, message: &str) -> Failure {
    Failure::new(code.as_raw(), message, &[])
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
fn check(hello: &wire::Hello, token: Option<&Token>) -> Result<u32, Failure> {
    if hello.magic != wire::MAGIC {
        return Err(failure(ErrorCode::INVALID_ARGUMENT, "the other side is not a client of `pjrt serve`"));
    }
    if hello.oldest > wire::NEWEST || hello.newest < wire::OLDEST {
        let message = format!(
            "the client speaks the versions {} to {} of the protocol, and this server {} to {}; update the older one",
            hello.oldest,
            hello.newest,
            wire::OLDEST,
            wire::NEWEST
        );
        return Err(failure(ErrorCode::FAILED_PRECONDITION, &message));
    }
    if token.is_some_and(|token| !token.is(&hello.token)) {
        let message = "the token is wrong; set PJRT_REMOTE_TOKEN_FILE to a copy of the file that `pjrt serve` names";
        return Err(failure(ErrorCode::PERMISSION_DENIED, message));
    }
    tracing::info!(program = hello.program, process = hello.process, "a client is connected");
    Ok(hello.newest.min(wire::NEWEST))
}

//! The connection to a server.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use device_plugin::{Error, ErrorCode, Event, HomeProcess, HostDestination, Result};

use crate::net::address::Address;
use crate::net::outbox::Outbox;
use crate::net::stream::Stream;
use crate::plugin::settings::Settings;
use crate::plugin::tickets::{Answered, Tickets, Waiting};
use crate::wire::frame::{self, Broken, Incoming};
use crate::wire::messages::{self as wire, Failure, ReplyKind, Request, Welcome};

/// Time in which a server must send its first message.
const HANDSHAKE: Duration = Duration::from_secs(30);
/// Size up to which the data of an upload is copied to the queue, so that the call need not wait for the connection.
const SMALL: usize = 64 << 10;

impl Failure {
    /// Returns the error of the other side.
    pub(crate) fn error(self) -> Error {
        let error = Error::new(ErrorCode::from_raw(self.code), self.message);
        self.payloads.into_iter().fold(error, |error, payload| error.with_payload(payload.name, payload.value))
    }
}

fn unavailable(message: String) -> Error {
    Error::new(ErrorCode::UNAVAILABLE, message)
}

/// The connection of one client to its server.
pub(crate) struct Connection {
    address: Address,
    outbox: Outbox,
    tickets: Tickets,
    next_handle: AtomicU64,
    receiver: Mutex<Option<JoinHandle<()>>>,
    /// Whether the process ends, so that no event may complete any more.
    is_ending: AtomicBool,
    home: HomeProcess,
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connection").field("address", &self.address).finish_non_exhaustive()
    }
}

/// A connection before its first request.
struct Greeted {
    stream: Stream,
    incoming: Incoming<Stream>,
    welcome: Welcome,
}

/// Connects to a server and exchanges the first messages.
fn greet(settings: &Settings) -> Result<Greeted> {
    let address = &settings.address;
    let mut stream = Stream::connect(address).map_err(unavailable)?;
    let exchange = |stream: &mut Stream| -> Result<(Incoming<Stream>, Welcome), Broken> {
        stream.set_read_timeout(Some(HANDSHAKE))?;
        let program = std::env::current_exe().ok().and_then(|path| Some(path.file_name()?.to_string_lossy().into()));
        let hello = wire::Hello {
            magic: wire::MAGIC.to_owned(),
            oldest: wire::OLDEST,
            newest: wire::NEWEST,
            token: settings.token.clone(),
            program: program.unwrap_or_default(),
            process: std::process::id(),
        };
        let mut bytes = Vec::new();
        frame::append(&hello, &mut bytes);
        std::io::Write::write_all(stream, &bytes)?;
        let mut incoming = Incoming::new(stream.try_clone()?, frame::MAX_REPLY);
        let welcome = incoming.next()?;
        stream.set_read_timeout(None)?;
        Ok((incoming, welcome))
    };
    let (incoming, mut welcome) =
        exchange(&mut stream).map_err(|broken| unavailable(format!("{address} did not answer: {broken}")))?;
    if let Some(refusal) = welcome.refusal.take() {
        return Err(refusal.error().context(format_args!("the server {address} refused the connection")));
    }
    if !(wire::OLDEST..=wire::NEWEST).contains(&welcome.version) {
        return Err(unavailable(format!("{address} speaks version {} of the protocol", welcome.version)));
    }
    Ok(Greeted { stream, incoming, welcome })
}

/// Returns the description of what a server serves.
pub(crate) fn describe(settings: &Settings) -> Result<Welcome> {
    let greeted = greet(settings)?;
    greeted.stream.shutdown();
    Ok(greeted.welcome)
}

impl Connection {
    /// Connects to a server. Also returns the description of what it serves.
    pub(crate) fn open(settings: &Settings) -> Result<(Arc<Self>, Welcome)> {
        let Greeted { stream, incoming, welcome } = greet(settings)?;
        let thread = |error| Error::resource_exhausted(format!("cannot start a thread of the connection: {error}"));
        let connection = Arc::new(Self {
            address: settings.address.clone(),
            outbox: Outbox::new(stream).map_err(thread)?,
            tickets: Tickets::new(welcome.max_outstanding.clamp(1, 1 << 16) as usize),
            next_handle: AtomicU64::new(1),
            receiver: Mutex::default(),
            is_ending: AtomicBool::new(false),
            home: HomeProcess::current(),
        });
        let theirs = Arc::clone(&connection);
        let builder = std::thread::Builder::new().name("pjrt remote receive".to_owned());
        let receiver = builder.spawn(move || theirs.receive(incoming)).map_err(thread)?;
        *connection.receiver.lock().unwrap_or_else(PoisonError::into_inner) = Some(receiver);
        Ok((connection, welcome))
    }

    /// Reserves handles for `count` objects, and returns the first one.
    pub(crate) fn handles(&self, count: usize) -> u64 {
        self.next_handle.fetch_add(count as u64, Ordering::Relaxed)
    }

    /// Returns an error if the connection failed, or belongs to the process that this one was forked from.
    pub(crate) fn check(&self) -> Result<()> {
        self.home.check()?;
        self.tickets.broken().map_or(Ok(()), Err)
    }

    /// Returns a ticket for an operation, and the event that becomes ready with it.
    pub(crate) fn ticket(&self) -> Result<(u64, Event)> {
        self.home.check()?;
        let (event, completer) = Event::pending();
        Ok((self.tickets.add(Waiting::Event(completer))?, event))
    }

    /// Queues a request.
    pub(crate) fn send(&self, request: impl Into<Request>) {
        self.outbox.wait_for_space();
        self.outbox.send(&request.into());
    }

    /// Sends a request and the bytes that follow it. Copies a few bytes to the queue. Waits until more bytes are
    /// written.
    pub(crate) fn send_payload(&self, request: impl Into<Request>, payload: &[u8]) {
        if payload.len() <= SMALL {
            self.outbox.wait_for_space();
            self.outbox.send_copy(&request.into(), payload);
        } else {
            self.outbox.write(&request.into(), payload);
        }
    }

    /// Frees an object of the server. Never waits, because it runs in destructors.
    pub(crate) fn release(&self, handle: u64) {
        if self.home.is_current() {
            self.outbox.send(&Request::from(wire::Release { handles: vec![handle] }));
        }
    }

    /// Begins to read a buffer.
    pub(crate) fn read(&self, handle: u64, to: HostDestination) -> Result<Event> {
        self.home.check()?;
        let (event, completer) = Event::pending();
        let ticket = self.tickets.add(Waiting::Read(to, completer))?;
        self.outbox.send(&Request::from(wire::Read { ticket, handle }));
        self.outbox.flush();
        Ok(event)
    }

    /// Sends a request, and waits for its answer.
    pub(crate) fn call(&self, request: impl FnOnce(u64) -> Request, payload: &[u8]) -> Result<Answered> {
        self.home.check()?;
        let (sender, answer): (_, Receiver<Result<Answered>>) = sync_channel(1);
        let ticket = self.tickets.add(Waiting::Call(sender))?;
        self.send_payload(request(ticket), payload);
        self.outbox.flush();
        answer.recv().unwrap_or_else(|_| Err(Error::internal("a request was dropped without an answer")))
    }

    /// Closes the connection, and waits for its threads.
    pub(crate) fn close(&self) {
        if !self.home.is_current() {
            return;
        }
        self.tickets.fail_all(&unavailable(format!("the client of {} was destroyed", self.address)));
        self.join();
    }

    /// Closes the connection before the process ends, and waits for its threads. Completes no events, because their
    /// callbacks would run while static objects are destroyed.
    pub(crate) fn end_with_process(&self) {
        self.is_ending.store(true, Ordering::SeqCst);
        self.join();
    }

    fn join(&self) {
        self.outbox.join();
        let receiver = self.receiver.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(receiver) = receiver
            && receiver.thread().id() != std::thread::current().id()
        {
            // The thread does not panic.
            let _ = receiver.join();
        }
    }

    /// Receives replies until the connection fails. Then fails all requests.
    fn receive(&self, mut incoming: Incoming<Stream>) {
        let broken = loop {
            let reply = match incoming.next::<wire::Reply>() {
                Ok(reply) => reply,
                Err(broken) => break unavailable(format!("the connection to {} is lost: {broken}", self.address)),
            };
            if self.is_ending.load(Ordering::SeqCst) {
                return;
            }
            if let Some(ReplyKind::Closing(failure)) = reply.kind {
                let context = format!("the server {} closed the connection", self.address);
                break unavailable(format!("{context}: {}", failure.message));
            }
            if let Err(broken) = self.take(reply, &mut incoming) {
                break unavailable(format!("the connection to {} is lost: {broken}", self.address));
            }
        };
        if !self.is_ending.load(Ordering::SeqCst) {
            self.outbox.close();
            self.tickets.fail_all(&broken);
        }
    }

    fn waiting(&self, ticket: u64) -> Result<Waiting, Broken> {
        let unknown = || Broken::Protocol(format!("the server answered the request {ticket}, which is unknown"));
        self.tickets.take(ticket).ok_or_else(unknown)
    }

    fn take(&self, reply: wire::Reply, incoming: &mut Incoming<Stream>) -> Result<(), Broken> {
        let wrong = |ticket: u64| Broken::Protocol(format!("the server sent another answer than request {ticket} has"));
        match reply.kind {
            Some(ReplyKind::Done(done)) => {
                for ticket in done.tickets {
                    match self.waiting(ticket)? {
                        Waiting::Event(completer) => completer.complete(Ok(())),
                        other => {
                            other.fail(Error::internal("the server sent no result"));
                            return Err(wrong(ticket));
                        }
                    }
                }
            }
            Some(ReplyKind::Failed(failed)) => {
                self.waiting(failed.ticket)?.fail(failed.failure.unwrap_or_default().error());
            }
            Some(ReplyKind::Data(data)) => match self.waiting(data.ticket)? {
                Waiting::Read(mut to, completer) => {
                    let expected = to.bytes().len();
                    if expected as u64 == data.bytes {
                        if let Err(broken) = incoming.payload_into(to.bytes()) {
                            drop(to);
                            completer.complete(Err(unavailable(format!("the transfer was cut: {broken}"))));
                            return Err(broken);
                        }
                        drop(to);
                        completer.complete(Ok(()));
                    } else {
                        incoming.skip(data.bytes)?;
                        let message = format!("the buffer has {} bytes, and not {expected}", data.bytes);
                        Waiting::Read(to, completer).fail(Error::internal(message));
                    }
                }
                Waiting::Call(caller) => match incoming.payload(data.bytes)? {
                    // The caller waits for the answer.
                    Some(payload) => drop(caller.send(Ok(Answered::Bytes(payload.as_ref().to_vec())))),
                    None => return Err(Broken::Protocol("the system has no memory for a reply".to_owned())),
                },
                Waiting::Event(completer) => {
                    Waiting::Event(completer).fail(Error::internal("the server sent data"));
                    return Err(wrong(data.ticket));
                }
            },
            Some(ReplyKind::Compiled(compiled)) => {
                let ticket = compiled.ticket;
                let waiting = self.waiting(ticket)?;
                let Some(program) = incoming.payload(compiled.bytes)? else {
                    return Err(Broken::Protocol("the system has no memory for a compiled program".to_owned()));
                };
                answer(waiting, Answered::Compiled(Box::new(compiled), program.as_ref().to_vec()))
                    .map_err(|()| wrong(ticket))?;
            }
            Some(ReplyKind::Answer(found)) => {
                let ticket = found.ticket;
                answer(self.waiting(ticket)?, Answered::Answer(found)).map_err(|()| wrong(ticket))?;
            }
            Some(ReplyKind::Closing(_)) | None => {
                return Err(Broken::Protocol("the server sent an unknown reply; update this plugin".to_owned()));
            }
        }
        Ok(())
    }
}

/// Passes an answer to its caller.
fn answer(waiting: Waiting, answered: Answered) -> Result<(), ()> {
    match waiting {
        Waiting::Call(caller) => {
            // The caller waits for the answer.
            drop(caller.send(Ok(answered)));
            Ok(())
        }
        other => {
            other.fail(Error::internal("the server sent an answer to another request"));
            Err(())
        }
    }
}

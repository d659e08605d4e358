//! The connection to a server.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use device_plugin::{Error, ErrorCode, Event, HomeProcess, HostDestination, Result};

use crate::net::address::Address;
use crate::net::closer::Closer;
use crate::net::greeting;
use crate::net::outbox::Outbox;
use crate::net::stream::{Receiving, Stream};
use crate::plugin::settings::Settings;
use crate::plugin::tickets::{Answered, Tickets, Waiting};
use crate::shared::arriving::Arriving;
use crate::shared::memory::Writable;
use crate::shared::outgoing::Outgoing;
use crate::wire::frame::{Broken, Incoming};
use crate::wire::messages::{self as wire, Failure, ReplyKind, Request, Welcome};

/// Number of further attempts if a connection ends before the first message of the server, and the time between them.
const RETRIES: u32 = 3;
const PAUSE: Duration = Duration::from_millis(50);
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
    /// Sends the arrays of uploads. The server's plugin may take any time.
    uploads: Outgoing,
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
    incoming: Incoming<Receiving>,
    welcome: Welcome,
}

/// Connects to a server and exchanges the first messages, once.
fn attempt(settings: &Settings) -> Result<Result<Greeted, Broken>> {
    let mut stream = Stream::connect(&settings.address).map_err(unavailable)?;
    // Forwarded connections, for example through SSH, lose the descriptor.
    let probe = if stream.is_unix() { Writable::create(wire::PROBE).ok() } else { None };
    let hello = wire::Hello { shares_memory: probe.is_some(), ..greeting::hello(&settings.token) };
    let descriptors: Vec<_> = probe.into_iter().map(|(_, descriptor)| descriptor).collect();
    let greeted = greeting::greet(&mut stream, &hello, &descriptors);
    Ok(greeted.map(|(incoming, welcome)| Greeted { stream, incoming, welcome }))
}

/// Connects to a server and exchanges the first messages.
fn greet(settings: &Settings) -> Result<Greeted> {
    let address = &settings.address;
    let mut greeted = attempt(settings)?;
    for _ in 0..RETRIES {
        // The process with the plugin may have ended while it got the connection. The next one answers.
        if !matches!(&greeted, Err(broken) if broken.is_end()) {
            break;
        }
        std::thread::sleep(PAUSE);
        greeted = attempt(settings)?;
    }
    let Greeted { stream, incoming, mut welcome } =
        greeted.map_err(|broken| unavailable(format!("{address} did not answer: {broken}")))?;
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
        let closer = Arc::new(Closer::default());
        closer.add(stream.try_clone().map_err(thread)?);
        let connection = Arc::new(Self {
            address: settings.address.clone(),
            outbox: Outbox::new(stream, closer).map_err(thread)?,
            tickets: Tickets::new(welcome.max_outstanding.clamp(1, 1 << 16) as usize),
            next_handle: AtomicU64::new(1),
            uploads: Outgoing::new(welcome.shares_memory, None),
            receiver: Mutex::default(),
            is_ending: AtomicBool::new(false),
            home: HomeProcess::current(),
        });
        let theirs = Arc::clone(&connection);
        let builder = std::thread::Builder::new().name("pjrt remote receive".to_owned());
        let receiver = builder.spawn(move || theirs.receive(incoming)).map_err(|error| {
            connection.outbox.join();
            thread(error)
        })?;
        *connection.receiver.lock().unwrap_or_else(PoisonError::into_inner) = Some(receiver);
        Ok((connection, welcome))
    }

    /// Reserves handles for `count` objects, and returns the first one.
    pub(crate) fn handles(&self, count: usize) -> u64 {
        self.next_handle.fetch_add(count as u64, Ordering::Relaxed)
    }

    /// Returns a ticket for an operation, and the event that becomes ready with it.
    pub(crate) fn ticket(&self) -> Result<(u64, Event)> {
        self.home.check()?;
        let (event, completer) = Event::pending();
        Ok((self.tickets.add([Waiting::Event(completer)])?, event))
    }

    /// Returns the first of the consecutive tickets for `count` operations, and their events.
    pub(crate) fn tickets(&self, count: usize) -> Result<(u64, Vec<Event>)> {
        self.home.check()?;
        let (events, completers): (Vec<_>, Vec<_>) = (0..count).map(|_| Event::pending()).unzip();
        Ok((self.tickets.add(completers.into_iter().map(Waiting::Event))?, events))
    }

    /// Queues a request.
    pub(crate) fn send(&self, request: impl Into<Request>) {
        self.outbox.request(request.into(), &[]);
    }

    /// Sends a request and the bytes that follow it. Copies a few bytes to the queue. Waits until more bytes are
    /// written.
    pub(crate) fn send_payload(&self, request: impl Into<Request>, payload: &[u8]) {
        if payload.len() <= SMALL {
            self.outbox.request(request.into(), payload);
        } else {
            self.outbox.write(&request.into(), payload);
        }
    }

    /// Sends an upload, whose bytes pass in shared memory if they are many and the server is on this machine. Waits
    /// until the server has received nearly all of them.
    pub(crate) fn upload(&self, upload: wire::Upload, bytes: &[u8]) {
        let through_ring = |new_ring| Request::from(wire::Upload { in_ring: true, new_ring, ..upload.clone() });
        if !self.uploads.send(&self.outbox, bytes, through_ring) {
            self.send_payload(upload, bytes);
        }
    }

    /// Frees an object of the server. Never waits, because it runs in destructors.
    pub(crate) fn release(&self, handle: u64) {
        if self.home.is_current() {
            self.outbox.release(handle);
        }
    }

    /// Begins to read a buffer.
    pub(crate) fn read(&self, handle: u64, to: HostDestination) -> Result<Event> {
        self.home.check()?;
        let (event, completer) = Event::pending();
        let ticket = self.tickets.add([Waiting::Read(to, completer)])?;
        self.outbox.request_now(wire::Read { ticket, handle }.into());
        self.outbox.flush();
        Ok(event)
    }

    /// Sends a request, and waits for its answer.
    pub(crate) fn call(&self, request: impl FnOnce(u64) -> Request, payload: &[u8]) -> Result<Answered> {
        self.home.check()?;
        let (sender, answer) = sync_channel(1);
        let ticket = self.tickets.add([Waiting::Call(sender)])?;
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

    /// Closes the connection before the process ends, and waits for its threads. Calls that wait for an answer return
    /// an error. Completes no events, because their callbacks would run while static objects are destroyed.
    pub(crate) fn end_with_process(&self) {
        self.is_ending.store(true, Ordering::SeqCst);
        self.tickets.end(&unavailable(format!("the process ends, and with it the connection to {}", self.address)));
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
    fn receive(&self, mut incoming: Incoming<Receiving>) {
        let mut arriving = Arriving::default();
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
            if let Err(broken) = self.take(reply, &mut incoming, &mut arriving) {
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

    fn take(
        &self,
        reply: wire::Reply,
        incoming: &mut Incoming<Receiving>,
        arriving: &mut Arriving,
    ) -> Result<(), Broken> {
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
            Some(ReplyKind::Data(data)) => {
                let waiting = self.waiting(data.ticket)?;
                if data.new_ring {
                    arriving.open(incoming, self.outbox.closer())?;
                }
                match waiting {
                    Waiting::Read(mut to, completer) => {
                        let expected = to.bytes().len();
                        if expected as u64 == data.bytes {
                            if let Err(broken) = arriving.receive(incoming, data.in_ring, to.bytes()) {
                                drop(to);
                                completer.complete(Err(unavailable(format!("the transfer was cut: {broken}"))));
                                return Err(broken);
                            }
                            drop(to);
                            completer.complete(Ok(()));
                        } else {
                            arriving.skip(incoming, data.in_ring, data.bytes)?;
                            let message = format!("the buffer has {} bytes, and not {expected}", data.bytes);
                            Waiting::Read(to, completer).fail(Error::internal(message));
                        }
                    }
                    Waiting::Call(caller) => {
                        let mut payload = incoming.spare.memory(data.bytes).ok_or_else(|| {
                            Broken::Protocol(format!("the system has no memory for a reply of {} bytes", data.bytes))
                        })?;
                        arriving.receive(incoming, data.in_ring, payload.as_mut())?;
                        // The caller waits for the answer.
                        drop(caller.send(Ok(Answered::Bytes(payload))));
                    }
                    Waiting::Event(completer) => {
                        Waiting::Event(completer).fail(Error::internal("the server sent data"));
                        return Err(wrong(data.ticket));
                    }
                }
            }
            Some(ReplyKind::Compiled(compiled)) => {
                let ticket = compiled.ticket;
                let waiting = self.waiting(ticket)?;
                let Some(program) = incoming.payload(compiled.bytes)? else {
                    return Err(Broken::Protocol("the system has no memory for a compiled program".to_owned()));
                };
                answer(waiting, Answered::Compiled(Box::new(compiled), program)).map_err(|()| wrong(ticket))?;
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

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::net::UnixListener;
    use std::sync::atomic::AtomicBool;
    use std::time::Instant;

    use super::*;
    use crate::wire::frame;

    #[test]
    fn end_of_the_process_ends_calls_and_completes_no_events() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let listener = UnixListener::bind(&path).unwrap();
        // A server that answers the first message only.
        let server = std::thread::spawn(move || {
            let mut stream = listener.accept().unwrap().0;
            let spare = Arc::new(frame::Spare::new(0));
            let mut incoming = Incoming::new(stream.try_clone().unwrap(), frame::MAX_HELLO, spare);
            incoming.next::<wire::Hello>().unwrap();
            let mut bytes = Vec::new();
            let welcome = Welcome { version: wire::NEWEST, max_outstanding: 2, ..Welcome::default() };
            frame::append(&welcome, &mut bytes);
            std::io::Write::write_all(&mut stream, &bytes).unwrap();
            std::io::copy(&mut stream, &mut std::io::sink()).unwrap();
        });
        let settings = Settings { address: Address::Unix(path), token: Vec::new() };
        let (connection, _) = Connection::open(&settings).unwrap();
        let query = |ticket| wire::DeviceQuery { ticket, ..wire::DeviceQuery::default() }.into();
        let (_, event) = connection.ticket().unwrap();
        static IS_READY: AtomicBool = AtomicBool::new(false);
        event.on_ready(|_| IS_READY.store(true, Ordering::SeqCst));
        let begin = Instant::now();
        std::thread::scope(|scope| {
            let code = || connection.call(query, &[]).err().map(|error| error.code());
            // One call waits for its answer, and the other one for a ticket.
            let calls = [scope.spawn(code), scope.spawn(code)];
            std::thread::sleep(Duration::from_millis(50));
            connection.end_with_process();
            for call in calls {
                assert_eq!(call.join().unwrap(), Some(ErrorCode::UNAVAILABLE));
            }
        });
        assert_eq!(connection.call(query, &[]).err().unwrap().code(), ErrorCode::UNAVAILABLE);
        assert_eq!(connection.ticket().err().unwrap().code(), ErrorCode::UNAVAILABLE);
        connection.close();
        assert!(!IS_READY.load(Ordering::SeqCst), "an event completed");
        assert!(begin.elapsed() < Duration::from_secs(5), "{:?}", begin.elapsed());
        server.join().unwrap();
    }
}

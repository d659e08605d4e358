//! A client for tests that sends its own messages.

use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use pjrt::{Client, ClientOptions, Plugin};

use crate::net::greeting;
use crate::net::stream::{Receiving, Stream};
use crate::server::access::Access;
use crate::server::limits::Limits;
use crate::server::listener::Server;
use crate::shared::memory::Writable;
use crate::wire::frame::{self, Incoming};
use crate::wire::messages::{self as wire, Failure, Reply, ReplyKind, Request};

/// Time in which something must happen.
const SOON: Duration = Duration::from_secs(20);
/// The code of `u8` elements.
const U8: u32 = 6;

/// A server in this process, and the client that it serves.
pub(crate) struct Served {
    pub(crate) client: Client,
    server: Server,
}

impl Served {
    pub(crate) fn new(memory: u64) -> Self {
        Self::limited(Limits { memory, ..Limits::default() })
    }

    pub(crate) fn limited(limits: Limits) -> Self {
        let plugin = Plugin::from_static(pjrt_cpu::Cpu::api()).unwrap();
        let client = plugin.client(&ClientOptions::new()).unwrap();
        Self { server: Server::new(client.clone(), limits).unwrap(), client }
    }

    /// Stops the server. Returns whether all connections have ended.
    pub(crate) fn stop(&self) -> bool {
        self.server.stop(SOON)
    }

    /// Waits until the plugin has at most `most` bytes in use.
    pub(crate) fn wait_for_bytes(&self, most: i64) {
        let begin = Instant::now();
        let bytes = || self.client.default_device().unwrap().memory_stats().unwrap().bytes_in_use;
        while bytes() > most {
            assert!(begin.elapsed() < SOON, "{} bytes in use", bytes());
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// A client that sends its own messages.
pub(crate) struct Raw {
    pub(crate) stream: Stream,
    pub(crate) incoming: Incoming<Receiving>,
    pub(crate) shares_memory: bool,
}

impl Raw {
    pub(crate) fn new(served: &Served, descriptors: &[OwnedFd]) -> Self {
        let (ours, theirs) = UnixStream::pair().unwrap();
        served.server.start(Stream::unix(theirs).unwrap(), &Access::default()).unwrap();
        let mut stream = Stream::unix(ours).unwrap();
        let hello = wire::Hello { shares_memory: true, ..greeting::hello(&[]) };
        let (incoming, welcome) = greeting::greet(&mut stream, &hello, descriptors).unwrap();
        stream.set_read_timeout(Some(SOON)).unwrap();
        Self { stream, incoming, shares_memory: welcome.shares_memory }
    }

    pub(crate) fn sharing(served: &Served) -> Self {
        let client = Self::new(served, &[Writable::create(wire::PROBE).unwrap().1]);
        assert!(client.shares_memory);
        client
    }

    /// Sends a request with descriptors and the bytes that follow it.
    pub(crate) fn send(&mut self, request: impl Into<Request>, descriptors: &[OwnedFd], payload: &[u8]) {
        let mut frame = Vec::new();
        frame::append(&request.into(), &mut frame);
        frame.extend(payload);
        // The server may have closed the connection.
        let _ = self.stream.write_with(&frame, descriptors);
    }

    pub(crate) fn release(&mut self, handle: u64) {
        self.send(Request { kind: None, released: vec![handle] }, &[], &[]);
    }

    pub(crate) fn read(&mut self, ticket: u64, handle: u64) {
        self.send(wire::Read { ticket, handle }, &[], &[]);
    }

    pub(crate) fn reply(&mut self) -> ReplyKind {
        self.incoming.next::<Reply>().unwrap().kind.unwrap()
    }

    /// Returns the result of the next request, which has no answer of its own.
    pub(crate) fn result(&mut self) -> Result<Vec<u64>, Failure> {
        match self.reply() {
            ReplyKind::Done(done) => Ok(done.tickets),
            ReplyKind::Failed(failed) => Err(failed.failure.unwrap()),
            other => panic!("{other:?}"),
        }
    }

    /// Returns the reason why the server closes the connection.
    pub(crate) fn reason(&mut self) -> String {
        loop {
            if let ReplyKind::Closing(failure) = self.reply() {
                return failure.message;
            }
        }
    }
}

pub(crate) fn shape(bytes: usize) -> Option<wire::Shape> {
    Some(wire::Shape { element_type: U8, dimensions: vec![i64::try_from(bytes).unwrap()] })
}

/// Returns an upload of bytes that follow it.
pub(crate) fn upload(ticket: u64, handle: u64, bytes: usize) -> wire::Upload {
    wire::Upload { ticket, handle, shape: shape(bytes), bytes: bytes as u64, ..wire::Upload::default() }
}

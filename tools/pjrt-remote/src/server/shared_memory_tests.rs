//! Clients that do not keep to the rules of shared memory.

use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;

use pjrt::{ClientOptions, Plugin};
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};

use crate::net::greeting;
use crate::net::stream::{Receiving, Stream};
use crate::server::access::Access;
use crate::server::limits::Limits;
use crate::server::listener::Server;
use crate::shared::limits::LARGE;
use crate::shared::memory::Writable;
use crate::wire::frame::{self, Incoming};
use crate::wire::messages::{self as wire, Reply, ReplyKind, Request};

/// A client that sends its own messages.
struct Raw {
    stream: Stream,
    incoming: Incoming<Receiving>,
    shares_memory: bool,
}

impl Raw {
    fn new(descriptors: &[OwnedFd]) -> Self {
        let plugin = Plugin::from_static(pjrt_cpu::Cpu::api()).unwrap();
        let server = Server::new(plugin.client(&ClientOptions::new()).unwrap(), Limits::default()).unwrap();
        let (ours, theirs) = UnixStream::pair().unwrap();
        server.start(Stream::unix(theirs).unwrap(), &Access::default()).unwrap();
        let mut stream = Stream::unix(ours).unwrap();
        let hello = wire::Hello { shares_memory: true, ..greeting::hello(&[]) };
        let (incoming, welcome) = greeting::greet(&mut stream, &hello, descriptors).unwrap();
        Self { stream, incoming, shares_memory: welcome.shares_memory }
    }

    fn sharing() -> Self {
        let client = Self::new(&[Writable::create(wire::PROBE).unwrap().1]);
        assert!(client.shares_memory);
        client
    }

    /// Uploads `bytes` bytes of a block.
    fn upload(&mut self, ticket: u64, bytes: usize, block: u64, new_block: usize, descriptors: &[OwnedFd]) {
        let shape = Some(wire::Shape { element_type: 6, dimensions: vec![i64::try_from(bytes).unwrap()] });
        let (handle, bytes, new_block) = (100 + ticket, bytes as u64, new_block as u64);
        let upload = wire::Upload { ticket, handle, shape, bytes, block, new_block, ..wire::Upload::default() };
        let mut frame = Vec::new();
        frame::append(&Request::from(upload), &mut frame);
        // The server may have closed the connection.
        let _ = self.stream.write_with(&frame, descriptors);
    }

    /// Returns the reason why the server closes the connection.
    fn reason(&mut self) -> String {
        loop {
            if let Some(ReplyKind::Closing(failure)) = self.incoming.next::<Reply>().unwrap().kind {
                return failure.message;
            }
        }
    }
}

/// Returns memory that the client can shrink.
fn unsealed(len: usize) -> OwnedFd {
    let file = memfd_create("test", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).unwrap();
    ftruncate(&file, len as u64).unwrap();
    file
}

#[test]
fn memory_is_shared_only_with_a_client_whose_descriptor_arrives() {
    assert!(!Raw::new(&[]).shares_memory);
    assert!(!Raw::new(&[unsealed(wire::PROBE)]).shares_memory);
}

#[test]
fn unsafe_and_missing_blocks_end_the_connection() {
    let mut client = Raw::sharing();
    client.upload(1, LARGE, 7, LARGE, &[unsealed(LARGE)]);
    assert!(client.reason().contains("can lose its pages"));

    // Sealed, but with pages that the server would have to provide.
    let sparse = unsealed(1 << 40);
    fcntl_add_seals(&sparse, SealFlags::SHRINK | SealFlags::FUTURE_WRITE).unwrap();
    let mut client = Raw::sharing();
    client.upload(1, LARGE, 7, 1 << 40, &[sparse]);
    assert!(client.reason().contains("lacks some of its pages"));

    let mut client = Raw::sharing();
    client.upload(1, LARGE, 7, LARGE, &[]);
    assert!(client.reason().contains("came without a descriptor"));

    let mut client = Raw::sharing();
    client.upload(1, LARGE, 7, 0, &[]);
    assert!(client.reason().contains("is unknown"));

    let mut client = Raw::sharing();
    let (_memory, file) = Writable::create(LARGE).unwrap();
    client.upload(1, 2 * LARGE, 7, LARGE, &[file]);
    assert!(client.reason().contains("is smaller than"));
}

#[test]
fn block_is_returned_when_its_buffer_is_freed() {
    let mut client = Raw::sharing();
    let (mut memory, file) = Writable::create(LARGE).unwrap();
    memory.write(0, &[5; LARGE]);
    client.upload(1, LARGE, 7, LARGE, &[file]);
    let Some(ReplyKind::Done(done)) = client.incoming.next::<Reply>().unwrap().kind else { panic!("not done") };
    assert_eq!(done.tickets, [1]);
    let mut frame = Vec::new();
    frame::append(&Request { kind: None, released: vec![101] }, &mut frame);
    client.stream.write_with(&frame, &[]).unwrap();
    let Some(ReplyKind::Returned(returned)) = client.incoming.next::<Reply>().unwrap().kind else { panic!("kept") };
    assert_eq!(returned.block, 7);
    // The block is still known, and may be used again.
    client.upload(2, 100, 7, 0, &[]);
    assert!(client.incoming.next::<Reply>().unwrap().kind.is_some());
}

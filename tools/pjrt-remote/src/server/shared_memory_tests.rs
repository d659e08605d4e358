//! Clients that do not keep to the rules of shared memory.

use std::os::fd::OwnedFd;

use rustix::fs::{MemfdFlags, ftruncate, memfd_create};

use crate::net::stream::Stream;
use crate::server::raw_client::{Raw, Served, upload};
use crate::shared::limits::LARGE;
use crate::shared::memory::Writable;
use crate::shared::ring::{Receiver, Sender};
use crate::wire::messages::{self as wire, ReplyKind};

/// Returns memory that the client can shrink.
fn unsealed(len: usize) -> OwnedFd {
    let file = memfd_create("test", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).unwrap();
    ftruncate(&file, len as u64).unwrap();
    file
}

fn through_ring(ticket: u64, bytes: usize, new_ring: bool) -> wire::Upload {
    wire::Upload { in_ring: true, new_ring, zero_copy: true, ..upload(ticket, 100 + ticket, bytes) }
}

/// Sends the first upload through a ring.
fn open(client: &mut Raw) -> Sender {
    let (mut ring, descriptors) = Sender::create(None).unwrap();
    client.send(through_ring(1, LARGE, true), &descriptors, &[]);
    ring.send(&[5; LARGE]).unwrap();
    assert_eq!(client.result(), Ok(vec![1]));
    ring
}

#[test]
fn memory_is_shared_only_with_a_client_whose_descriptor_arrives() {
    let served = Served::new(u64::MAX);
    assert!(!Raw::new(&served, &[]).shares_memory);
    assert!(!Raw::new(&served, &[unsealed(wire::PROBE)]).shares_memory);
}

#[test]
fn unsafe_and_missing_rings_end_the_connection() {
    let served = Served::new(u64::MAX);
    let socket = || Stream::pair().unwrap().1;
    for (memory, expected) in [
        (unsealed(2 << 20), "can lose its pages"),
        (Writable::create(LARGE).unwrap().1, "has another size"),
        (socket(), "cannot be used"),
    ] {
        let mut client = Raw::sharing(&served);
        client.send(through_ring(1, LARGE, true), &[memory, socket()], &[]);
        let reason = client.reason();
        assert!(reason.contains(expected), "{reason}");
    }
    let memory = Writable::create(2 << 20).unwrap().1;
    let udp = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let mut client = Raw::sharing(&served);
    client.send(through_ring(1, LARGE, true), &[memory, udp.into()], &[]);
    assert!(client.reason().contains("not a Unix socket"));

    let mut client = Raw::sharing(&served);
    client.send(through_ring(1, LARGE, true), &[socket()], &[]);
    assert!(client.reason().contains("came without a descriptor"));

    let mut client = Raw::sharing(&served);
    client.send(through_ring(1, LARGE, false), &[], &[]);
    assert!(client.reason().contains("has not opened"));

    let mut client = Raw::sharing(&served);
    let _ring = open(&mut client);
    client.send(through_ring(2, LARGE, true), &Sender::create(None).unwrap().1, &[]);
    assert!(client.reason().contains("second one"));
}

#[test]
fn changes_after_an_upload_reach_no_buffer() {
    let served = Served::new(u64::MAX);
    let mut client = Raw::sharing(&served);
    let mut ring = open(&mut client);
    // Overwrites all slots.
    client.send(through_ring(2, 2 * LARGE, false), &[], &[]);
    ring.send(&[6; 2 * LARGE]).unwrap();
    assert_eq!(client.result(), Ok(vec![2]));
    client.read(3, 101);
    let ReplyKind::Data(data) = client.reply() else { panic!("no data") };
    assert!(data.new_ring && data.in_ring);
    let mut take = || client.incoming.source().take_descriptor().unwrap();
    let (memory, signals) = (take(), take());
    let mut bytes = vec![0; LARGE];
    Receiver::open(&memory, signals).unwrap().receive(&mut bytes).unwrap();
    assert!(bytes == [5; LARGE]);
}

#[test]
fn refused_uploads_leave_the_ring_in_order() {
    let served = Served::new(2 * LARGE as u64);
    let mut client = Raw::sharing(&served);
    let mut ring = open(&mut client);
    client.send(through_ring(2, 2 * LARGE, false), &[], &[]);
    ring.send(&[6; 2 * LARGE]).unwrap();
    assert!(client.result().unwrap_err().message.contains("raise the limit"));
    client.send(through_ring(3, LARGE, false), &[], &[]);
    ring.send(&[7; LARGE]).unwrap();
    assert_eq!(client.result(), Ok(vec![3]));
}

#[test]
fn descriptors_that_no_message_announces_are_closed() {
    let served = Served::new(u64::MAX);
    let mut client = Raw::sharing(&served);
    for ticket in 1..10 {
        // The other ends notice that the server has closed these.
        let (ours, theirs) = Stream::pair().unwrap();
        client.send(upload(ticket, ticket, 1), &[theirs], &[1]);
        assert_eq!(client.result(), Ok(vec![ticket]));
        let mut end = [0];
        let mut ours = ours;
        ours.set_read_timeout(Some(std::time::Duration::from_secs(20))).unwrap();
        assert_eq!(std::io::Read::read(&mut ours, &mut end).unwrap(), 0);
    }
}

//! Clients that try to hold more memory than they may, or to see memory of others.

use std::time::{Duration, Instant};

use pjrt::{ErrorCode, Upload};

use crate::server::limits::Limits;
use crate::server::raw_client::{Raw, Served, shape, upload};
use crate::shared::limits::LARGE;
use crate::wire::messages::{self as wire, ReplyKind};

/// Size of an array that does not fit into the ring for downloads.
const ARRAY: usize = 4 * LARGE;

fn code(result: Result<Vec<u64>, wire::Failure>) -> Option<ErrorCode> {
    result.err().map(|failure| ErrorCode::from_raw(failure.code))
}

#[test]
fn allocated_buffer_contains_nothing_of_other_clients() {
    let served = Served::new(u64::MAX);
    let secret = vec![0xab_u8; 100_000];
    // Buffers of the plugin's own memory, which it uses again.
    for _ in 0..4 {
        let dimensions = [i64::try_from(secret.len()).unwrap()];
        let buffer = served.client.upload(Upload::of(&secret[..]).dims(&dimensions)).unwrap();
        buffer.wait().unwrap();
    }
    let mut client = Raw::new(&served, &[]);
    let request = wire::Allocate { ticket: 1, handle: 1, shape: shape(secret.len()), memory: 0 };
    client.send(request, &[], &[]);
    assert_eq!(client.result(), Ok(vec![1]));
    client.read(2, 1);
    let ReplyKind::Data(data) = client.reply() else { panic!("no data") };
    let payload = client.incoming.payload(data.bytes).unwrap().unwrap();
    assert_eq!(payload.as_ref().len(), secret.len());
    assert!(payload.as_ref().iter().all(|byte| *byte == 0));
}

#[test]
fn released_buffer_counts_until_it_is_read() {
    let served = Served::new(2 * ARRAY as u64);
    let mut client = Raw::sharing(&served);
    let data = vec![1; ARRAY];
    for handle in [1, 2] {
        client.send(upload(handle, handle, ARRAY), &[], &data);
        assert_eq!(client.result(), Ok(vec![handle]));
    }
    for handle in [1, 2] {
        client.read(10 + handle, handle);
        client.release(handle);
    }
    // Nobody takes the data from the ring.
    assert!(matches!(client.reply(), ReplyKind::Data(_)));
    client.send(upload(3, 3, ARRAY), &[], &data);
    assert_eq!(code(client.result()), Some(ErrorCode::RESOURCE_EXHAUSTED));
}

#[test]
fn program_beyond_the_limit_is_refused_and_skipped() {
    let served = Served::new(LARGE as u64);
    let mut client = Raw::new(&served, &[]);
    let compile = wire::Compile { ticket: 1, handle: 1, bytes: ARRAY as u64, ..wire::Compile::default() };
    client.send(compile, &[], &vec![0; ARRAY]);
    assert_eq!(code(client.result()), Some(ErrorCode::RESOURCE_EXHAUSTED));
    client.send(upload(2, 2, 1), &[], &[1]);
    assert_eq!(client.result(), Ok(vec![2]));
}

#[test]
fn stalled_ring_ends_with_the_connection() {
    let served = Served::new(u64::MAX);
    let mut client = Raw::sharing(&served);
    let data = vec![1; ARRAY];
    for handle in [1, 2] {
        client.send(upload(handle, handle, ARRAY), &[], &data);
        assert_eq!(client.result(), Ok(vec![handle]));
    }
    client.read(11, 1);
    client.read(12, 2);
    assert!(matches!(client.reply(), ReplyKind::Data(_)));
    // The client keeps its end of the ring open.
    let mut take = || client.incoming.source().take_descriptor().unwrap();
    let ring = (take(), take());
    client.stream.shutdown();
    served.wait_for_bytes(0);
    drop(ring);
}

#[test]
fn server_stops_while_a_client_stalls_its_upload() {
    let served = Served::new(u64::MAX);
    let mut client = Raw::sharing(&served);
    let (ring, descriptors) = crate::shared::ring::Sender::create(None).unwrap();
    let request = wire::Upload { in_ring: true, new_ring: true, ..upload(1, 1, LARGE) };
    client.send(request, &descriptors, &[]);
    std::thread::sleep(Duration::from_millis(100));
    let begin = Instant::now();
    assert!(served.stop(), "the connection has not ended after {:?}", begin.elapsed());
    drop((ring, descriptors));
}

#[test]
fn statistics_of_several_clients_are_not_reset() {
    let query = wire::DeviceQuery { ticket: 1, device: 0, clear: true };
    let mut client = Raw::new(&Served::new(u64::MAX), &[]);
    client.send(query.clone(), &[], &[]);
    assert_eq!(code(client.result()), Some(ErrorCode::UNIMPLEMENTED));
    let mut sole = Raw::new(&Served::limited(Limits { clients: 1, ..Limits::default() }), &[]);
    sole.send(query, &[], &[]);
    assert!(matches!(sole.reply(), ReplyKind::Answer(_)));
}

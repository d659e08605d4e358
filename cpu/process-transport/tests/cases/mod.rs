//! Test cases for every transport. Each process calls the cases in the same order, with its own transport.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::time::{Duration, Instant};

use process_transport::{Error, Stream, Transport};

fn soon() -> Instant {
    Instant::now() + Duration::from_secs(60)
}

fn others(own: &dyn Transport) -> impl Iterator<Item = usize> {
    let rank = own.rank();
    (0..own.size()).filter(move |other| *other != rank)
}

/// Waits until all processes have reached the end of a test case.
fn end(own: &dyn Transport, lane: u64) {
    let stream = Stream { lane: 1000 + lane, number: 0 };
    others(own).for_each(|to| own.send(to, stream, 0, &[]).unwrap());
    others(own).for_each(|from| assert!(own.receive(from, stream, 0, soon()).unwrap().is_empty()));
}

/// Runs all test cases after which the transports are still usable. Requires at least three processes.
pub(crate) fn all(own: &dyn Transport) {
    all_pairs_exchange_messages(own);
    large_messages_arrive_whole(own);
    order_is_kept_for_each_tag(own);
    threads_share_a_transport(own);
    failure_reaches_named_processes(own);
    deadline_names_the_silent_process(own);
    closed_stream_drops_messages(own);
    unknown_process_is_invalid(own);
}

fn all_pairs_exchange_messages(own: &dyn Transport) {
    let stream = Stream { lane: 1, number: 0 };
    let name = [u8::try_from(own.rank()).unwrap()];
    let body = b"12345".repeat(200 << 10);
    others(own).for_each(|to| own.send(to, stream, 1, &[&name, &body]).unwrap());
    for from in others(own) {
        let got = own.receive(from, stream, 1, soon()).unwrap();
        assert_eq!(usize::from(got[0]), from);
        assert!(got[1..] == *body);
    }
    end(own, 1);
}

fn large_messages_arrive_whole(own: &dyn Transport) {
    let stream = Stream { lane: 2, number: 0 };
    // Both processes send before they receive, so a `send` that waits for the receiver would never return.
    if own.rank() < 2 {
        let peer = 1 - own.rank();
        for size in [64 << 10, (64 << 10) + 7, (33 << 20) + 6] {
            let body = b"1234567".repeat(size / 7);
            own.send(peer, stream, 7, &[&body, b"end"]).unwrap();
            let got = own.receive(peer, stream, 7, soon()).unwrap();
            assert!(got[..body.len()] == *body && &got[body.len()..] == b"end");
        }
    }
    end(own, 2);
}

fn order_is_kept_for_each_tag(own: &dyn Transport) {
    let stream = Stream { lane: 3, number: 0 };
    let large = vec![1; 100 << 10];
    for number in 0..50u8 {
        for to in others(own) {
            let body = if number % 7 == 0 { &large[..] } else { &[] };
            own.send(to, stream, u64::from(number % 2), &[&[number], body]).unwrap();
        }
    }
    for from in others(own) {
        for tag in [1, 0] {
            let numbers = (0..25).map(|_| own.receive(from, stream, tag, soon()).unwrap()[0]);
            let expected = (0..50).filter(|number| u64::from(number % 2) == tag);
            assert!(numbers.eq(expected));
        }
    }
    end(own, 3);
}

fn threads_share_a_transport(own: &dyn Transport) {
    std::thread::scope(|scope| {
        for tag in 0..4u8 {
            scope.spawn(move || {
                let stream = Stream { lane: 4, number: u64::from(tag) };
                others(own).for_each(|to| own.send(to, stream, 5, &[&[tag]]).unwrap());
                others(own).for_each(|from| assert_eq!(own.receive(from, stream, 5, soon()).unwrap(), [tag]));
            });
        }
    });
    end(own, 4);
}

fn failure_reaches_named_processes(own: &dyn Transport) {
    let (stream, next) = (Stream { lane: 5, number: 0 }, Stream { lane: 5, number: 1 });
    let failed = Error::Failed { rank: 2, why: "out of memory".to_owned() };
    match own.rank() {
        2 => {
            own.fail(stream, &[0, 1], "out of memory");
            let stopped = Error::Stopped("out of memory".to_owned());
            assert_eq!(own.receive(0, stream, 0, soon()), Err(stopped));
            own.send(0, next, 0, &[b"next"]).unwrap();
        }
        0 => {
            assert_eq!(own.receive(2, stream, 0, soon()), Err(failed.clone()));
            assert_eq!(own.receive(1, stream, 0, soon()), Err(failed), "the stream failed as a whole");
            assert_eq!(own.receive(2, next, 0, soon()).unwrap(), b"next");
        }
        1 => assert_eq!(own.receive(2, stream, 0, soon()), Err(failed)),
        _ => {}
    }
    end(own, 5);
}

fn deadline_names_the_silent_process(own: &dyn Transport) {
    let peer = (own.rank() + 1) % own.size();
    let late = own.receive(peer, Stream { lane: 6, number: 0 }, 0, Instant::now() + Duration::from_millis(20));
    assert!(
        matches!(late, Err(Error::Timeout { rank, waited }) if rank == peer && waited >= Duration::from_millis(20))
    );
    end(own, 6);
}

fn closed_stream_drops_messages(own: &dyn Transport) {
    let stream = Stream { lane: 7, number: 0 };
    own.close(stream);
    others(own).for_each(|to| own.send(to, stream, 0, &[b"late"]).unwrap());
    // The messages of `end` arrive after the messages of the closed stream. The latter have therefore arrived, too.
    end(own, 7);
    let peer = (own.rank() + 1) % own.size();
    assert!(matches!(own.receive(peer, stream, 0, soon()), Err(Error::Stopped(_))));
}

fn unknown_process_is_invalid(own: &dyn Transport) {
    let stream = Stream { lane: 8, number: 0 };
    for rank in [own.rank(), own.size()] {
        assert!(matches!(own.send(rank, stream, 0, &[]), Err(Error::Invalid(_))), "{rank}");
    }
    end(own, 8);
}

/// Process 0 ends its transport, and process 1 is informed that process 2 failed. Ends all transports.
pub(crate) fn lost_and_dropped_processes(own: Box<dyn Transport>) {
    let stream = Stream { lane: 9, number: 0 };
    if own.rank() == 0 {
        drop(own);
        return;
    }
    let lost = own.receive(0, stream, 0, soon());
    assert!(matches!(lost, Err(Error::Lost { rank: 0, .. })), "{lost:?}");
    assert!(matches!(own.send(0, stream, 0, &[]), Err(Error::Lost { rank: 0, .. })));
    // Simulate another service that detects the failure of process 2 and reports it to process 1.
    if own.rank() == 2 {
        own.send(1, stream, 0, &[]).unwrap();
    } else if own.rank() == 1 {
        own.receive(2, stream, 0, soon()).unwrap();
        own.lose(2, "reported");
        let lost = own.receive(2, stream, 0, soon());
        assert!(matches!(lost, Err(Error::Lost { rank: 2, .. })), "{lost:?}");
    }
}

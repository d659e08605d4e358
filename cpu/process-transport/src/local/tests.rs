//! Tests of the connections between processes. Threads represent the processes.

use std::io::{Read, Write};
use std::net::TcpStream;

use super::*;
use crate::address::SECRET;
use crate::meeting::greeting;

#[path = "../../tests/cases/mod.rs"]
mod cases;
mod strangers;

const TIMEOUT: Duration = Duration::from_secs(60);

/// Returns `count` connected transports. Each transport represents one process.
fn connected(count: usize, prepare: fn(LocalListener) -> LocalListener) -> Vec<LocalTransport> {
    let listeners: Vec<_> = (0..count).map(|_| prepare(LocalListener::bind().unwrap())).collect();
    let addresses: Vec<_> = listeners.iter().map(|listener| listener.address().to_owned()).collect();
    std::thread::scope(|scope| {
        let connect = |(rank, listener): (usize, LocalListener)| {
            let addresses = &addresses;
            scope.spawn(move || listener.connect(rank, addresses, TIMEOUT).unwrap())
        };
        let threads: Vec<_> = listeners.into_iter().enumerate().map(connect).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

fn soon() -> Instant {
    Instant::now() + TIMEOUT
}

/// Returns the meeting of the process with this rank and listener.
fn meeting<'a>(listener: &'a LocalListener, rank: usize, all: &'a [Address]) -> Meeting<'a> {
    Meeting { tcp: &listener.tcp, unix: &listener.unix, own: &listener.own, rank, all, deadline: soon() }
}

/// Disables the Unix socket of a listener, so that all connections use TCP.
fn without_unix_socket(mut listener: LocalListener) -> LocalListener {
    listener.unix = UnixSocketListener::default();
    listener.own.unix_name.clear();
    listener.address = listener.own.to_string();
    listener
}

fn is_tcp(transport: &LocalTransport, peer: usize) -> bool {
    matches!(&*transport.peers[peer].as_ref().unwrap().lock(), Socket::Tcp(_))
}

#[test]
fn one_machine_uses_unix_sockets() {
    let all = connected(3, |listener| listener);
    for (own, peer) in [(0, 1), (0, 2), (1, 0), (1, 2), (2, 0), (2, 1)] {
        assert_eq!(is_tcp(&all[own], peer), !cfg!(target_os = "linux"));
    }
}

#[test]
fn tcp_connections_use_the_loopback_interface() {
    for transport in connected(3, without_unix_socket) {
        for peer in (0..3).filter(|peer| *peer != transport.rank) {
            let Socket::Tcp(socket) = &*transport.peers[peer].as_ref().unwrap().lock() else { panic!("Unix socket") };
            assert!(socket.local_addr().unwrap().ip().is_loopback());
            assert!(socket.peer_addr().unwrap().ip().is_loopback());
        }
    }
}

#[test]
fn cases_of_all_transports_over_tcp() {
    std::thread::scope(|scope| {
        for transport in connected(4, without_unix_socket) {
            scope.spawn(move || cases::all(&transport));
        }
    });
    std::thread::scope(|scope| {
        for transport in connected(3, without_unix_socket) {
            scope.spawn(move || cases::lost_and_dropped_processes(Box::new(transport)));
        }
    });
}

#[test]
fn unreachable_unix_sockets_are_replaced_by_tcp() {
    // The sockets exist, but their names are wrong, as if the processes had different network namespaces.
    let all = connected(2, |mut listener| {
        listener.own.unix_name.push_str("-elsewhere");
        listener.address = listener.own.to_string();
        listener
    });
    assert!(is_tcp(&all[0], 1) && is_tcp(&all[1], 0));
}

#[test]
fn unread_messages_do_not_block_for_ever() {
    let listeners = [0, 1].map(|_| LocalListener::bind().unwrap().with_stall_timeout(Duration::from_millis(100)));
    let addresses = listeners.each_ref().map(|listener| listener.address().to_owned());
    let [first, second] = listeners;
    // The second process sends its greeting and then never reads, like a stopped process.
    let all = [first.own.clone(), second.own.clone()];
    let (first, _silent) = std::thread::scope(|scope| {
        let first = scope.spawn(|| first.connect(0, &addresses, TIMEOUT).unwrap());
        let silent = meeting(&second, 1, &all).dial(0).unwrap();
        (first.join().unwrap(), silent)
    });
    let large = vec![0; 64 << 20];
    let lost = first.send(1, Stream::default(), 0, &[&large]);
    assert!(matches!(lost, Err(Error::Lost { rank: 1, .. })), "{lost:?}");
}

#[test]
fn stranger_is_refused() {
    let listeners = [0, 1].map(|_| LocalListener::bind().unwrap());
    let addresses = listeners.each_ref().map(|listener| listener.address().to_owned());
    let [first, second] = listeners;
    let socket = Address::parse(&addresses[0], 0).unwrap().socket;
    std::thread::scope(|scope| {
        let mut stranger = TcpStream::connect(socket).unwrap();
        stranger.write_all(&greeting(&[0; SECRET], 1, 2)).unwrap();
        let first = scope.spawn(|| first.connect(0, &addresses, TIMEOUT).unwrap());
        let second = second.connect(1, &addresses, TIMEOUT).unwrap();
        let first = first.join().unwrap();
        second.send(0, Stream::default(), 0, &[b"peer"]).unwrap();
        assert_eq!(first.receive(1, Stream::default(), 0, soon()).unwrap(), b"peer");
        assert_eq!(stranger.read(&mut [0; 8]).unwrap_or(0), 0);
    });
}

#[test]
fn missing_process_is_named() {
    let listener = LocalListener::bind().unwrap();
    let absent = LocalListener::bind().unwrap();
    let addresses = [listener.address().to_owned(), absent.address().to_owned()];
    let late = listener.connect(0, &addresses, Duration::from_millis(50)).unwrap_err();
    assert!(matches!(late, Error::Timeout { rank: 1, .. }), "{late:?}");
    let gone = LocalListener::bind().unwrap();
    let addresses = [gone.address().to_owned(), absent.address().to_owned()];
    drop(gone);
    let refused = absent.connect(1, &addresses, TIMEOUT).unwrap_err();
    assert!(matches!(refused, Error::Unreachable { rank: 0, .. }), "{refused:?}");
}

#[test]
fn other_machines_are_refused() {
    let listener = LocalListener::bind().unwrap();
    let far = Address { machine: "elsewhere".to_owned(), ..listener.own.clone() };
    let addresses = [listener.address().to_owned(), far.to_string()];
    assert_eq!(listener.connect(0, &addresses, TIMEOUT).unwrap_err(), Error::OtherMachine { rank: 1 });
}

#[test]
fn wrong_rank_is_refused() {
    let listener = LocalListener::bind().unwrap();
    let other = LocalListener::bind().unwrap();
    let addresses = [other.address().to_owned(), listener.address().to_owned()];
    assert!(matches!(listener.connect(0, &addresses, TIMEOUT), Err(Error::Invalid(_))));
    assert!(matches!(LocalListener::bind_to(Ipv4Addr::UNSPECIFIED.into()), Err(Error::Invalid(_))));
}

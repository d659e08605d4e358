//! Tests of connections from programs that are not peers, and from peers that do not keep the protocol.

use std::collections::VecDeque;
use std::sync::atomic::AtomicUsize;

use super::*;
use crate::meeting::{GREETING, MAGIC};

/// A connection of a stranger.
trait Wire: Read + Write + Send {}
impl<T: Read + Write + Send> Wire for T {}

/// One of the two sockets of a listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Door {
    Tcp,
    #[cfg(target_os = "linux")]
    Unix,
}

impl Door {
    const ALL: &[Self] = &[
        Self::Tcp,
        #[cfg(target_os = "linux")]
        Self::Unix,
    ];

    /// Connects to the socket. Waits at most 100 ms if the queue of the socket is full.
    fn knock(self, address: &Address) -> io::Result<Box<dyn Wire>> {
        let patience = Duration::from_millis(100);
        match self {
            Self::Tcp => Ok(Box::new(TcpStream::connect_timeout(&address.socket, patience)?)),
            #[cfg(target_os = "linux")]
            Self::Unix => match Socket::connect_unix(&address.unix_name, Instant::now() + patience)? {
                Some(socket) => Ok(Box::new(socket)),
                None => Err(io::ErrorKind::ConnectionRefused.into()),
            },
        }
    }
}

fn two() -> ([LocalListener; 2], [String; 2], [Address; 2]) {
    let listeners = [0, 1].map(|_| LocalListener::bind().unwrap());
    let texts = listeners.each_ref().map(|listener| listener.address().to_owned());
    let own = listeners.each_ref().map(|listener| listener.own.clone());
    (listeners, texts, own)
}

/// Connects the two processes within `timeout`, and checks that they exchange a message.
fn connect_both(listeners: [LocalListener; 2], texts: &[String; 2], timeout: Duration) -> [LocalTransport; 2] {
    let [first, second] = listeners;
    let pair = std::thread::scope(|scope| {
        let first = scope.spawn(|| first.connect(0, texts, timeout));
        let second = second.connect(1, texts, timeout).unwrap();
        [first.join().unwrap().unwrap(), second]
    });
    check(&pair);
    pair
}

fn check([first, second]: &[LocalTransport; 2]) {
    let soon = Instant::now() + Duration::from_secs(60);
    second.send(0, Stream::default(), 0, &[b"peer"]).unwrap();
    assert_eq!(first.receive(1, Stream::default(), 0, soon).unwrap(), b"peer");
}

/// Returns whether the other end has closed the connection without an answer.
fn is_closed(wire: &mut dyn Wire) -> bool {
    wire.read(&mut [0; 8]).unwrap_or(0) == 0
}

/// A stranger that sends `bytes` one by one, with pauses, until the connection ends.
fn drip(mut wire: impl Write, bytes: &[u8], pause: Duration) {
    for byte in bytes {
        if wire.write_all(&[*byte]).is_err() {
            return;
        }
        std::thread::sleep(pause);
    }
}

#[test]
fn silent_connections_do_not_delay_peers() {
    for door in Door::ALL {
        let (listeners, texts, own) = two();
        let silent: Vec<_> = (0..100).map(|_| door.knock(&own[0]).unwrap()).collect();
        let start = Instant::now();
        connect_both(listeners, &texts, Duration::from_secs(20));
        assert!(start.elapsed() < Duration::from_secs(4), "{door:?}: {:?}", start.elapsed());
        assert!(silent.into_iter().all(|mut wire| is_closed(&mut *wire)));
    }
}

#[test]
fn flood_of_connections_does_not_stop_peers() {
    for door in Door::ALL {
        let (listeners, texts, own) = two();
        let silent: Vec<_> = (0..1000).map_while(|_| door.knock(&own[0]).ok()).collect();
        assert!(silent.len() > 100, "{door:?}: the queue takes only {} connections", silent.len());
        let (is_over, knocks) = (AtomicBool::new(false), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let mut kept = VecDeque::new();
                    while !is_over.load(Ordering::Relaxed) {
                        let Ok(mut wire) = door.knock(&own[0]) else { continue };
                        knocks.fetch_add(1, Ordering::Relaxed);
                        let _ = wire.write_all(&MAGIC[..3]);
                        kept.push_back(wire);
                        if kept.len() > 200 {
                            kept.pop_front();
                        }
                    }
                });
            }
            let [first, second] = listeners;
            let first = scope.spawn(|| first.connect(0, &texts, Duration::from_secs(60)).unwrap());
            while knocks.load(Ordering::Relaxed) < 2000 && !first.is_finished() {
                std::thread::yield_now();
            }
            let second = second.connect(1, &texts, Duration::from_secs(30)).unwrap();
            check(&[first.join().unwrap(), second]);
            is_over.store(true, Ordering::Relaxed);
        });
        println!("{door:?}: {} half-open connections and {knocks:?} in a flood", silent.len());
    }
}

#[test]
fn slow_greetings_do_not_move_the_deadline() {
    for door in Door::ALL {
        let (listeners, texts, own) = two();
        let [first, _absent] = listeners;
        let (timeout, pause) = (Duration::from_secs(1), Duration::from_millis(300));
        std::thread::scope(|scope| {
            for _ in 0..5 {
                let wire = door.knock(&own[0]).unwrap();
                scope.spawn(move || drip(wire, &greeting(&[0; SECRET], 1, 2), pause));
            }
            let start = Instant::now();
            let error = first.connect(0, &texts, timeout).unwrap_err();
            assert!(matches!(error, Error::Timeout { rank: 1, .. }), "{error:?}");
            assert!(start.elapsed() < Duration::from_secs(3), "{door:?}: {:?}", start.elapsed());
        });
    }
}

#[test]
fn slow_answers_do_not_move_the_deadline() {
    let listener = LocalListener::bind().unwrap();
    let slow = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = Address { socket: slow.local_addr().unwrap(), unix_name: String::new(), ..listener.own.clone() };
    let texts = [address.to_string(), listener.address().to_owned()];
    let answer = greeting(&listener.own.secret, 0, 2);
    std::thread::scope(|scope| {
        scope.spawn(|| drip(slow.accept().unwrap().0, &answer, Duration::from_millis(300)));
        let start = Instant::now();
        let error = listener.connect(1, &texts, Duration::from_secs(1)).unwrap_err();
        assert!(matches!(error, Error::Unreachable { rank: 0, .. }), "{error:?}");
        assert!(start.elapsed() < Duration::from_secs(3), "{:?}", start.elapsed());
    });
}

#[test]
fn wrong_greetings_are_refused() {
    for door in Door::ALL {
        let (listeners, texts, own) = two();
        let right = greeting(&own[0].secret, 1, 2);
        let mut wrong = vec![
            greeting(&[0; SECRET], 1, 2).to_vec(),
            greeting(&own[1].secret, 1, 2).to_vec(),
            greeting(&own[0].secret, 0, 2).to_vec(),
            greeting(&own[0].secret, 2, 2).to_vec(),
            greeting(&own[0].secret, usize::MAX, 2).to_vec(),
            greeting(&own[0].secret, 1, 3).to_vec(),
            b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n".to_vec(),
            vec![0xff; 1 << 16],
        ];
        for at in 0..GREETING {
            let mut bytes = right;
            bytes[at] ^= 0x40;
            wrong.push(bytes.to_vec());
        }
        let mut wires: Vec<_> = wrong
            .iter()
            .map(|bytes| {
                let mut wire = door.knock(&own[0]).unwrap();
                wire.write_all(bytes).unwrap();
                wire
            })
            .collect();
        // These connections end in the middle of the greeting.
        for end in 0..GREETING {
            let mut wire = door.knock(&own[0]).unwrap();
            wire.write_all(&right[..end]).unwrap();
        }
        connect_both(listeners, &texts, Duration::from_secs(20));
        assert!(wires.iter_mut().all(|wire| is_closed(&mut **wire)), "{door:?}");
    }
}

#[test]
fn second_greeting_of_a_rank_is_refused() {
    for door in Door::ALL {
        // Process 2 is late, so that process 0 still accepts connections when the greeting of process 1 is replayed.
        let listeners = [0, 1, 2].map(|_| LocalListener::bind().unwrap());
        let texts = listeners.each_ref().map(|listener| listener.address().to_owned());
        let own = listeners[0].own.clone();
        let all = listeners.each_ref().map(|listener| listener.own.clone());
        let [first, second, third] = listeners;
        let timeout = Duration::from_secs(60);
        std::thread::scope(|scope| {
            let zero = scope.spawn(|| first.connect(0, &texts, timeout).unwrap());
            let mut wire = door.knock(&own).unwrap();
            wire.write_all(&greeting(&own.secret, 1, 3)).unwrap();
            let mut answer = [0; GREETING];
            wire.read_exact(&mut answer).unwrap();
            assert_eq!(answer, greeting(&all[1].secret, 0, 3));
            for _ in 0..3 {
                let mut replay = door.knock(&own).unwrap();
                replay.write_all(&greeting(&own.secret, 1, 3)).unwrap();
                assert!(is_closed(&mut *replay), "{door:?}");
            }
            // Process 2 connects to both.
            let one = scope.spawn(|| {
                let mut sockets = [None, None, None];
                meeting(&second, 1, &all).accept(&mut sockets).unwrap();
                sockets
            });
            let _third = third.connect(2, &texts, timeout).unwrap();
            let (zero, _sockets) = (zero.join().unwrap(), one.join().unwrap());
            let header = Header { kind: Kind::Message, stream: Stream::default(), tag: 5 };
            header.write(&mut wire, &[b"first"]).unwrap();
            assert_eq!(zero.receive(1, Stream::default(), 5, Instant::now() + timeout).unwrap(), b"first");
        });
    }
}

/// Returns a connected transport of process 0, and the socket of a process 1 that sends what the test writes.
fn with_liar() -> (LocalTransport, Box<dyn Wire>) {
    let ([first, second], texts, own) = two();
    std::thread::scope(|scope| {
        let first = scope.spawn(|| first.connect(0, &texts, Duration::from_secs(60)).unwrap());
        let mut wire = Door::Tcp.knock(&own[0]).unwrap();
        wire.write_all(&greeting(&own[0].secret, 1, 2)).unwrap();
        let mut answer = [0; GREETING];
        wire.read_exact(&mut answer).unwrap();
        assert_eq!(answer, greeting(&second.own.secret, 0, 2));
        (first.join().unwrap(), wire)
    })
}

#[test]
fn peers_that_break_the_protocol_are_lost() {
    let message = Header { kind: Kind::Message, stream: Stream::default(), tag: 0 };
    let mut whole = Vec::new();
    message.write(&mut whole, &[&[7; 1000]]).unwrap();
    let mut cases = vec![
        ("garbage", vec![0xa5; 100]),
        ("text", b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nServer: none\r\n\r\n".to_vec()),
        ("unknown kind", [9; Header::SIZE].to_vec()),
        ("size beyond the address space", message.encode(usize::MAX).to_vec()),
        ("size of an exbibyte", message.encode(1 << 60).to_vec()),
        ("size of 2 GiB", [&message.encode(2 << 30)[..], &[1; 100]].concat()),
        ("goodbye", Header { kind: Kind::Goodbye, ..message }.encode(0).to_vec()),
        ("end at once", Vec::new()),
    ];
    cases.extend([1, 39, 40, 41, 1039].map(|end| ("end in a frame", whole[..end].to_vec())));
    for (name, bytes) in cases {
        let (transport, mut wire) = with_liar();
        wire.write_all(&whole).unwrap();
        wire.write_all(&bytes).unwrap();
        drop(wire);
        let soon = Instant::now() + Duration::from_secs(60);
        assert_eq!(transport.receive(1, Stream::default(), 0, soon).unwrap(), [7; 1000], "{name}");
        let lost = transport.receive(1, Stream::default(), 0, soon);
        assert!(matches!(lost, Err(Error::Lost { rank: 1, .. })), "{name}: {lost:?}");
    }
}

#[test]
fn frame_that_does_not_end_times_out() {
    let (transport, mut wire) = with_liar();
    let header = Header { kind: Kind::Message, stream: Stream::default(), tag: 0 };
    wire.write_all(&header.encode(3 << 30)).unwrap();
    wire.write_all(&[1; 1000]).unwrap();
    let start = Instant::now();
    let late = transport.receive(1, Stream::default(), 0, start + Duration::from_millis(200));
    assert!(matches!(late, Err(Error::Timeout { rank: 1, .. })), "{late:?}");
    drop(transport);
    assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
}

/// Runs a function in a thread that has the user ID of `nobody`. Prints a message and returns `None` if this process
/// may not change its user ID.
#[cfg(target_os = "linux")]
fn as_another_user<T: Send>(test: &str, run: impl FnOnce() -> T + Send) -> Option<T> {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            // Linux changes the user ID of this thread only.
            match rustix::thread::set_thread_uid(rustix::process::Uid::from_raw(65534)) {
                Ok(()) => Some(run()),
                Err(error) => {
                    println!("SKIPPED {test}: it must run as root to use another user ID ({error})");
                    None
                }
            }
        });
        thread.join().unwrap()
    })
}

/// Connects to a Unix socket without the checks of this crate. Waits while the queue of the socket is full.
#[cfg(target_os = "linux")]
fn intrude(name: &str) -> io::Result<std::os::unix::net::UnixStream> {
    use std::os::linux::net::SocketAddrExt as _;
    use std::os::unix::net::{SocketAddr, UnixStream};
    UnixStream::connect_addr(&SocketAddr::from_abstract_name(name)?)
}

#[test]
#[cfg(target_os = "linux")]
fn greetings_of_another_user_are_not_read() {
    let (listeners, texts, own) = two();
    let test = "greetings_of_another_user_are_not_read";
    let knocked = as_another_user(test, || {
        let mut right = intrude(&own[0].unix_name).unwrap();
        right.write_all(&greeting(&own[0].secret, 1, 2)).unwrap();
        let silent: Vec<_> = (0..50).map(|_| intrude(&own[0].unix_name).unwrap()).collect();
        (right, silent)
    });
    let Some((mut right, silent)) = knocked else { return };
    let start = Instant::now();
    // The other user knows the secret and connects first. The process of this user is the peer all the same.
    let _pair = connect_both(listeners, &texts, Duration::from_secs(20));
    assert!(is_closed(&mut right));
    assert!(silent.into_iter().all(|mut wire| is_closed(&mut wire)));
    assert!(start.elapsed() < Duration::from_secs(4), "{:?}", start.elapsed());
}

#[test]
#[cfg(target_os = "linux")]
fn flood_of_another_user_does_not_stop_peers() {
    let (listeners, texts, own) = two();
    let knocks = AtomicUsize::new(0);
    let flood = || {
        as_another_user("flood_of_another_user_does_not_stop_peers", || {
            let mut kept = VecDeque::new();
            // The name disappears when the transports are connected.
            while let Ok(wire) = intrude(&own[0].unix_name) {
                knocks.fetch_add(1, Ordering::Relaxed);
                kept.push_back(wire);
                if kept.len() > 500 {
                    kept.pop_front();
                }
            }
        })
    };
    std::thread::scope(|scope| {
        let floods = [(); 8].map(|()| scope.spawn(flood));
        while knocks.load(Ordering::Relaxed) < 100 && floods.iter().any(|flood| !flood.is_finished()) {
            std::thread::yield_now();
        }
        connect_both(listeners, &texts, Duration::from_secs(30));
    });
    println!("{knocks:?} connections of another user");
}

#[test]
#[cfg(target_os = "linux")]
fn secrets_are_not_sent_to_another_user() {
    use std::os::linux::net::SocketAddrExt as _;
    use std::os::unix::net::{SocketAddr, UnixListener};
    let ([mut first, second], ..) = two();
    // Another user listens at the name of the Unix socket of process 0.
    let name = format!("process-transport-{:032x}", u128::from_ne_bytes(crate::socket::random().unwrap()));
    let test = "secrets_are_not_sent_to_another_user";
    let foreign =
        as_another_user(test, || UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap());
    let Some(foreign) = foreign else { return };
    first.own.unix_name = name;
    first.address = first.own.to_string();
    let texts = [first.address().to_owned(), second.address().to_owned()];
    let pair = connect_both([first, second], &texts, Duration::from_secs(20));
    assert!(matches!(&*pair[1].peers[0].as_ref().unwrap().lock(), Socket::Tcp(_)));
    foreign.set_nonblocking(true).unwrap();
    let mut read = Vec::new();
    if let Ok((mut stream, _)) = foreign.accept() {
        stream.set_nonblocking(true).unwrap();
        let _ = stream.read_to_end(&mut read);
    }
    assert!(read.is_empty(), "{read:?}");
}

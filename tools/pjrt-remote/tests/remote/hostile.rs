//! Clients that do not keep to the protocol. Most of them send the recorded bytes of a client, with changes.

use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use pjrt::ClientOptions;

use crate::server::{CLIENTS, Started, add_one, plugin};

/// Time in which the server must close the connection to a client that closed its half.
const SOON: Duration = Duration::from_secs(10);

fn path(server: &Started) -> &str {
    server.address.strip_prefix("unix:").unwrap()
}

/// Copies bytes until one side closes the connection, and keeps them.
fn forward(mut from: UnixStream, mut to: UnixStream, recorded: &Mutex<Vec<u8>>) {
    let mut buffer = [0; 65536];
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        recorded.lock().unwrap().extend(&buffer[..count]);
        if to.write_all(&buffer[..count]).is_err() {
            break;
        }
    }
    // The other side may have closed the connection.
    let _ = to.shutdown(std::net::Shutdown::Write);
}

/// Returns the bytes that a client sends which uploads, compiles, runs, copies, reads, asks and frees.
fn recording(server: &Started) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let proxy = folder.path().join("proxy");
    let listener = UnixListener::bind(&proxy).unwrap();
    let recorded = Arc::new(Mutex::new(Vec::new()));
    let threads = {
        let (recorded, upstream) = (Arc::clone(&recorded), UnixStream::connect(path(server)).unwrap());
        std::thread::spawn(move || {
            let client = listener.accept().unwrap().0;
            let (theirs, ours) = (client.try_clone().unwrap(), upstream.try_clone().unwrap());
            let back = std::thread::spawn(move || forward(ours, theirs, &Mutex::default()));
            forward(client, upstream, &recorded);
            back.join().unwrap();
        })
    };
    let options = ClientOptions::new().with("address", format!("unix:{}", proxy.display()));
    let client = plugin().client(&options).unwrap();
    let add_one = add_one(&client);
    let mut x = client.buffer_from_host(&[1.0f32; 4], &[4]).unwrap();
    for _ in 0..3 {
        x = add_one.execute(&[&x]).unwrap().into_iter().next().unwrap();
    }
    let y = x.copy_to(&client.devices().unwrap()[1]).unwrap();
    assert_eq!(y.to_host::<f32>().unwrap(), [4.0; 4]);
    assert!(Started::bytes_in_use(&client) > 0);
    drop((x, y, add_one, client));
    threads.join().unwrap();
    let recorded = recorded.lock().unwrap().clone();
    assert!(recorded.len() > 400, "{} bytes", recorded.len());
    recorded
}

/// Sends bytes as a client, closes this half, and returns what the server answers until it closes the other one.
fn exchange(server: &Started, bytes: &[u8]) -> Vec<u8> {
    let mut stream = UnixStream::connect(path(server)).unwrap();
    stream.set_read_timeout(Some(SOON)).unwrap();
    let mut sender = stream.try_clone().unwrap();
    // The server may close the connection before it has received everything.
    let _ = sender.write_all(bytes).and_then(|()| sender.shutdown(std::net::Shutdown::Write));
    let mut answer = Vec::new();
    match stream.read_to_end(&mut answer) {
        Ok(_) => {}
        Err(error) if error.kind() == ErrorKind::ConnectionReset => {}
        Err(error) => panic!("the server does not close the connection: {error}"),
    }
    answer
}

fn contains(answer: &[u8], text: &str) -> bool {
    answer.windows(text.len()).any(|window| window == text.as_bytes())
}

/// Checks that the server still serves a client, and that it holds nothing of the others.
fn check(server: &Started) {
    let client = server.client();
    let begin = Instant::now();
    while Started::bytes_in_use(&client) > 0 {
        assert!(begin.elapsed() < SOON, "the server holds {} bytes", Started::bytes_in_use(&client));
        std::thread::sleep(Duration::from_millis(10));
    }
    let x = client.buffer_from_host(&[1.0f32; 4], &[4]).unwrap();
    assert_eq!(add_one(&client).execute(&[&x]).unwrap()[0].to_host::<f32>().unwrap(), [2.0; 4]);
}

/// A xorshift generator, so that a failure can be repeated.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % u64::try_from(bound).unwrap()).unwrap()
    }

    fn byte(&mut self) -> u8 {
        u8::try_from(self.below(256)).unwrap()
    }
}

/// Returns the length of the first frame of a recording.
fn hello_len(recording: &[u8]) -> usize {
    8 + usize::try_from(u32::from_le_bytes(recording[..4].try_into().unwrap())).unwrap()
}

#[test]
fn recording_without_changes_is_answered() {
    let server = Started::unix();
    let mut stream = UnixStream::connect(path(&server)).unwrap();
    stream.set_read_timeout(Some(SOON)).unwrap();
    stream.write_all(&recording(&server)).unwrap();
    let (data, mut answer, mut buffer) = (4.0f32.to_le_bytes().repeat(4), Vec::new(), [0; 4096]);
    while !answer.windows(16).any(|window| window == data) {
        let count = stream.read(&mut buffer).expect("the server sends the result");
        assert!(count > 0, "the server closed the connection");
        answer.extend(&buffer[..count]);
    }
    assert!(contains(&answer, "pjrt-cpu"), "the first message names the platform");
    drop(stream);
    check(&server);
}

#[test]
fn changed_and_cut_recordings_end_the_connection_only() {
    let server = Started::unix();
    let recording = recording(&server);
    let hello = hello_len(&recording);
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let mut named = 0;
    for round in 0..400 {
        let mut bytes = recording.clone();
        let at = random.below(bytes.len());
        match round % 5 {
            0 => bytes[at] ^= 1 << random.below(8),
            1 => bytes.truncate(at),
            2 => bytes.insert(at, random.byte()),
            3 => drop(bytes.remove(at)),
            // Bytes after the first message, so that they reach the parser of requests.
            _ => {
                bytes.truncate(hello);
                let count = random.below(300);
                bytes.extend((0..count).map(|_| random.byte()));
            }
        }
        let answer = exchange(&server, &bytes);
        let reasons = ["the data was changed on the way", "is malformed", "unknown request", "not a client of"];
        named += usize::from(reasons.iter().any(|reason| contains(&answer, reason)));
    }
    // Changes of a payload, and cuts between two messages, are not errors of the protocol.
    assert!(named > 100, "the server named the reason {named} times");
    check(&server);
}

/// Returns the places of the messages in a recording. The checksum tells them from payloads.
fn messages(recording: &[u8]) -> Vec<std::ops::Range<usize>> {
    let word = |at: usize| Some(u32::from_le_bytes(recording.get(at..at + 4)?.try_into().unwrap()));
    let message = |at: usize| {
        let range = at + 8..at + 8 + usize::try_from(word(at)?).unwrap();
        (crc32fast::hash(recording.get(range.clone())?) == word(at + 4)? && !range.is_empty()).then_some(range)
    };
    (0..recording.len()).filter_map(message).collect()
}

#[test]
fn changed_messages_with_right_checksums_end_the_connection_only() {
    let server = Started::unix();
    let recording = recording(&server);
    let messages = messages(&recording);
    assert!(messages.len() >= 9, "{messages:?}");
    let mut random = Random(7);
    let mut answered = 0;
    for _ in 0..1000 {
        let mut bytes = recording.clone();
        for _ in 0..=random.below(3) {
            let message = messages[random.below(messages.len())].clone();
            let at = message.start + random.below(message.len());
            bytes[at] = if random.below(2) == 0 { random.byte() } else { bytes[at] ^ (1 << random.below(8)) };
            let sum = crc32fast::hash(&bytes[message.clone()]);
            bytes[message.start - 4..message.start].copy_from_slice(&sum.to_le_bytes());
        }
        answered += usize::from(!exchange(&server, &bytes).is_empty());
    }
    assert!(answered > 900, "the server answered {answered} clients");
    check(&server);
}

#[test]
fn random_bytes_and_huge_lengths_are_refused() {
    let server = Started::unix();
    let mut random = Random(42);
    for _ in 0..100 {
        let count = random.below(2000);
        let bytes: Vec<u8> = (0..count).map(|_| random.byte()).collect();
        exchange(&server, &bytes);
    }
    let answer = exchange(&server, &[0xff, 0xff, 0xff, 0x7f, 0, 0, 0, 0]);
    assert!(contains(&answer, "longer than the limit"), "{answer:?}");
    check(&server);
}

#[test]
fn server_is_patient_for_a_total_time_only() {
    let server = Started::unix();
    let hello = recording(&server)[..20].to_vec();
    let mut stream = UnixStream::connect(path(&server)).unwrap();
    let begin = Instant::now();
    // One byte at a time keeps each read of the server short.
    let closed = hello.iter().cycle().any(|byte| {
        std::thread::sleep(Duration::from_millis(500));
        assert!(begin.elapsed() < SOON, "the server waits for the first message for {:?}", begin.elapsed());
        stream.write_all(&[*byte]).is_err()
    });
    assert!(closed);
}

#[test]
fn long_first_message_is_refused() {
    let server = Started::unix();
    let answer = exchange(&server, &[0, 0x20, 0, 0, 0, 0, 0, 0]);
    assert!(contains(&answer, "8192 bytes is longer than the limit of 4096"), "{answer:?}");
    check(&server);
}

#[test]
fn silent_connections_do_not_count_as_clients() {
    let server = Started::unix();
    let silent: Vec<_> = (0..2 * CLIENTS).map(|_| UnixStream::connect(path(&server)).unwrap()).collect();
    let clients: Vec<_> = (0..CLIENTS).map(|_| server.client()).collect();
    let error = server.connect().unwrap_err();
    assert_eq!(error.code(), pjrt::ErrorCode::RESOURCE_EXHAUSTED, "{error}");
    assert!(error.message().contains("--clients"), "{error}");
    drop((silent, clients));
    let begin = Instant::now();
    while let Err(error) = server.connect() {
        assert!(begin.elapsed() < SOON, "{error}");
    }
    // Too many silent connections are refused at once.
    let silent: Vec<_> = (0..100).map(|_| UnixStream::connect(path(&server)).unwrap()).collect();
    let mut answer = Vec::new();
    let mut last = silent.last().unwrap();
    last.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
    last.read_to_end(&mut answer).unwrap();
    assert!(contains(&answer, "first message"), "{answer:?}");
}

#[test]
fn replies_that_nobody_reads_stop_the_server_from_reading() {
    let server = Started::unix();
    let recording = recording(&server);
    let mut stream = UnixStream::connect(path(&server)).unwrap();
    stream.set_write_timeout(Some(Duration::from_secs(2))).unwrap();
    stream.write_all(&recording[..hello_len(&recording)]).unwrap();
    // A query of the memory statistics of the first device: field 7 of a request with the ticket 1.
    let message = [0x3a, 2, 8, 1];
    let mut frame = [4u32.to_le_bytes(), crc32fast::hash(&message).to_le_bytes()].concat();
    frame.extend(message);
    let frames = frame.repeat(10_000);
    let sent = (0..200).take_while(|_| stream.write_all(&frames).is_ok()).count();
    assert!(sent < 200, "the server handled {} requests without a reader of its replies", sent * 10_000);
    drop(stream);
    check(&server);
}

#[test]
fn wrong_token_is_refused() {
    let server = Started::tcp();
    assert!(server.connect().is_ok());
    std::fs::write(server.token(), "another token, as long as the right one").unwrap();
    let error = server.connect().unwrap_err();
    assert_eq!(error.code(), pjrt::ErrorCode::PERMISSION_DENIED, "{error}");
    assert!(error.message().contains("token is wrong"), "{error}");
    std::fs::remove_file(server.token()).unwrap();
    let error = server.connect().unwrap_err();
    assert!(error.message().contains("PJRT_REMOTE_TOKEN_FILE"), "{error}");
}

#[test]
fn socket_in_a_folder_of_others_is_refused() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
    let client = pjrt::Plugin::from_static(pjrt_cpu::Cpu::api()).unwrap().client(&ClientOptions::new()).unwrap();
    let server = pjrt_remote::Server::new(client, pjrt_remote::Limits::default()).unwrap();
    let address = pjrt_remote::Address::Unix(folder.path().join("socket"));
    assert!(server.bind(&address, None).unwrap_err().to_string().contains("write"));
    let private = pjrt_remote::Address::Unix(folder.path().join("private/socket"));
    let listener = server.bind(&private, None);
    // The folder above lets other users replace the private one.
    assert!(listener.is_err());
    let tcp = |address: &str| server.bind(&address.parse().unwrap(), None).unwrap_err().to_string();
    assert!(tcp("127.0.0.1:0").contains("token"));
    let folder = tempfile::tempdir().unwrap();
    let token = pjrt_remote::Token::in_file(&folder.path().join("token")).unwrap();
    let beyond = server.bind(&"0.0.0.0:0".parse().unwrap(), Some(token)).unwrap_err();
    assert!(beyond.to_string().contains("loopback"), "{beyond}");
}

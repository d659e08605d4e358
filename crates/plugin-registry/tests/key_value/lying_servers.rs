//! Servers of key-value stores that lie, stall, or send without end. Each operation must return an error that names the
//! server, before the deadline, and must use memory in proportion to the limits of answers.

#![allow(clippy::unwrap_used, reason = "a test program")]

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, mpsc};
use std::time::{Duration, Instant};

use pjrt::{ErrorCode, KeyValueStore};
use plugin_registry::key_value::{Etcd, Redis};

/// Timeout of each operation.
const TIMEOUT: Duration = Duration::from_millis(600);
/// The longest time that an operation may take. The last attempt may begin shortly before the timeout.
const LIMIT: Duration = Duration::from_secs(3);

/// An answer of a server to one request.
#[derive(Clone)]
enum Lie {
    /// Sends the bytes, and leaves the connection open without a further answer.
    Stall(Vec<u8>),
    /// Sends the bytes and closes the connection.
    Close(Vec<u8>),
    /// Sends the first bytes, and then the second ones again and again.
    Flood(Vec<u8>, Vec<u8>),
    /// Sends the bytes one by one, with pauses that are shorter than the timeout of the operation.
    Drip(Vec<u8>),
}

impl Lie {
    fn tell(&self, stream: &mut TcpStream, is_over: &AtomicBool) {
        let is_over = || is_over.load(Ordering::Relaxed);
        match self {
            Self::Stall(bytes) => {
                let _ = stream.write_all(bytes);
                // Returns when the client closes the connection.
                while !is_over() && !matches!(stream.read(&mut [0; 1 << 12]), Ok(0)) {}
            }
            Self::Close(bytes) => drop(stream.write_all(bytes)),
            Self::Flood(first, bytes) => {
                let many = bytes.repeat((1 << 16) / bytes.len());
                let _ = stream.write_all(first);
                while !is_over() && stream.write_all(&many).is_ok() {}
            }
            Self::Drip(bytes) => {
                for byte in bytes.iter().cycle() {
                    if is_over() || stream.write_all(&[*byte]).is_err() {
                        return;
                    }
                    std::thread::sleep(Duration::from_millis(100));
                }
            }
        }
    }
}

/// Ends a server when it is dropped.
struct End<'a> {
    is_over: &'a AtomicBool,
    port: u16,
}

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        // This wakes the thread that accepts connections.
        drop(TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)));
    }
}

/// Runs a function with the port of a server, which handles each connection in a thread of its own.
fn with_server<T>(handle: impl Fn(TcpStream, &AtomicBool) + Sync, run: impl FnOnce(u16) -> T) -> T {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while let Ok((stream, _)) = listener.accept() {
                if is_over.load(Ordering::Relaxed) {
                    return;
                }
                stream.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
                stream.set_write_timeout(Some(Duration::from_millis(200))).unwrap();
                scope.spawn(|| handle(stream, &is_over));
            }
        });
        // Ends the threads of the server, also if `run` panics.
        let _end = End { is_over: &is_over, port };
        run(port)
    })
}

/// Returns the most memory that this process has used, in MiB, or 0 if it is unknown.
fn peak() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB"));
    peak.map_or(0, |peak| peak.parse::<usize>().unwrap() >> 10)
}

/// Checks the result of an operation against a lying server. Returns a description of what is wrong.
fn check<T: std::fmt::Debug>(
    name: &str,
    address: &str,
    expected: Option<ErrorCode>,
    run: impl FnOnce() -> Result<T, (ErrorCode, String)>,
) -> Option<String> {
    let start = Instant::now();
    let result = run();
    let took = start.elapsed();
    let Err((code, message)) = result else { return Some(format!("{name}: it succeeded: {result:?}")) };
    let has_remedy = ["; check", "; write", "; redirects", ": check"].iter().any(|remedy| message.contains(remedy));
    let is_right = took < LIMIT && message.contains(address) && has_remedy && message.len() < 5000;
    let is_expected = expected.is_none_or(|expected| code == expected);
    (!is_right || !is_expected).then(|| {
        let start: String = message.chars().take(300).collect();
        format!("{name}: after {took:?} with {} bytes, {code:?}: {start}", message.len())
    })
}

/// Reads from the stream until one of the words has arrived. Returns all bytes, or `None` if the client left.
fn read_until(stream: &mut TcpStream, is_over: &AtomicBool, is_whole: impl Fn(&[u8]) -> bool) -> Option<Vec<u8>> {
    let mut read = Vec::new();
    let mut bytes = [0; 1 << 12];
    while !is_whole(&read) {
        match stream.read(&mut bytes) {
            Ok(0) => return None,
            Ok(count) => read.extend(&bytes[..count]),
            Err(error)
                if matches!(error.kind(), std::io::ErrorKind::WouldBlock) && !is_over.load(Ordering::Relaxed) => {}
            Err(_) => return None,
        }
    }
    Some(read)
}

fn contains(bytes: &[u8], word: &str) -> bool {
    bytes.windows(word.len()).any(|window| window == word.as_bytes())
}

const INTERNAL: Option<ErrorCode> = Some(ErrorCode::INTERNAL);
const UNAVAILABLE: Option<ErrorCode> = Some(ErrorCode::UNAVAILABLE);

/// Returns answers that are wrong for each Redis command, and the expected error code.
fn redis_lies() -> Vec<(String, Lie, Option<ErrorCode>)> {
    let mut lies = Vec::new();
    let mut add = |name: &str, lie: Lie, code| lies.push((name.to_owned(), lie, code));
    for text in [
        "*1\r\n$1\r\na\r\n",
        "*0\r\n",
        "%1\r\n+a\r\n+b\r\n",
        "~1\r\n+a\r\n",
        ">1\r\n+a\r\n",
        ">2\r\n:1\r\n:2\r\n",
        "#t\r\n",
        "#x\r\n",
        ",1.5\r\n",
        ",x\r\n",
        "(99999999999999999999\r\n",
        "=5\r\ntxt:a\r\n",
        "=3\r\nabc\r\n",
        "|1\r\n+a\r\n+b\r\n:1\r\n",
        ":5\r\n",
        ":x\r\n",
        ":99999999999999999999999\r\n",
        "+\r\n",
        "+PONGPONG\r\n",
        "+NO\r\n",
        "$abc\r\n",
        "$5x\r\n",
        "$3\r\nabcdef\r\n",
        "$99999999999999999999\r\n",
        "*99999999999999999999\r\n",
        "?\r\n",
        "\0\0\0\0\r\n",
        "HTTP/1.1 400 Bad Request\r\n\r\n",
        "SSH-2.0-OpenSSH_9.2\r\n",
        "\u{ff}\u{fe}\r\n",
        "-\r\n",
        "%-1\r\n",
        "|-1\r\n",
        "!5\r\nERR a\r\n",
    ] {
        add(text, Lie::Stall(text.as_bytes().to_vec()), None);
        add(&format!("{text} and end"), Lie::Close(text.as_bytes().to_vec()), None);
    }
    for text in [
        "$1000000000\r\nabc",
        "$9223372036854775807\r\nabc",
        "*1000000000\r\n$1\r\na\r\n",
        "*3\r\n",
        "$5\r\nab",
        "+PO",
        ":",
        "",
        "-ERR",
    ] {
        add(&format!("{text:?} and silence"), Lie::Stall(text.as_bytes().to_vec()), UNAVAILABLE);
        add(&format!("{text:?} and end"), Lie::Close(text.as_bytes().to_vec()), UNAVAILABLE);
        add(&format!("{text:?} slowly"), Lie::Drip([text.as_bytes(), &[b'a'; 50]].concat()), None);
    }
    for (first, more) in [
        ("", "a"),
        ("+", "a"),
        ("-ERR ", "a"),
        (":", "1"),
        ("$1000000000\r\n", "a"),
        ("*1000000000\r\n", "_\r\n"),
        ("", "*1\r\n"),
        ("%1000000000\r\n", ":1\r\n"),
        ("=1000000000\r\n", "a"),
        ("!1000000000\r\n", "a"),
        ("(", "9"),
        (">1000000\r\n", "+a\r\n"),
    ] {
        add(&format!("{first:?} and {more:?} without end"), Lie::Flood(first.into(), more.into()), None);
    }
    add("a long error", Lie::Close(format!("-ERR {}\r\n", "a".repeat(60_000)).into_bytes()), None);
    for error in ["NOAUTH Authentication required.", "WRONGPASS no"] {
        add(error, Lie::Stall(format!("-{error}\r\n").into_bytes()), Some(ErrorCode::UNAUTHENTICATED));
    }
    lies
}

/// Answers `PING` correctly, and lies as the answer to the command `victim`.
fn redis_server(mut stream: TcpStream, is_over: &AtomicBool, victim: &str, lie: &Lie) {
    loop {
        let known = ["PING", "GET", "SUBSCRIBE", "EXEC"];
        let whole = |bytes: &[u8]| known.iter().any(|word| contains(bytes, &format!("\r\n{word}\r\n")));
        let Some(command) = read_until(&mut stream, is_over, whole) else { return };
        if contains(&command, &format!("\r\n{victim}\r\n")) {
            return lie.tell(&mut stream, is_over);
        }
        let answer: &[u8] = if contains(&command, "PING") { b"+PONG\r\n" } else { b"$-1\r\n" };
        if stream.write_all(answer).is_err() {
            return;
        }
    }
}

#[test]
fn redis() {
    let (count, faults) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let lies = redis_lies();
    assert!(lies.len() >= 60, "{}", lies.len());
    // The operations mostly wait, so run several at a time.
    std::thread::scope(|scope| {
        for part in 0..8 {
            let (lies, count, faults) = (&lies, &count, &faults);
            scope.spawn(move || {
                for (name, lie, code) in lies.iter().skip(part).step_by(8) {
                    for victim in ["GET", "SUBSCRIBE", "EXEC"] {
                        let fault = with_server(
                            |stream, is_over| redis_server(stream, is_over, victim, lie),
                            |port| {
                                let address = format!("redis://127.0.0.1:{port}");
                                let store = Redis::open(&address).unwrap().with_operation_timeout(TIMEOUT);
                                let name = format!("{victim}: {name}");
                                match victim {
                                    "GET" => check(&name, &address, *code, || store.try_get("key")),
                                    "SUBSCRIBE" => check(&name, &address, None, || store.get("key", TIMEOUT)),
                                    _ => check(&name, &address, *code, || store.put("key", b"value")),
                                }
                            },
                        );
                        faults.lock().unwrap().extend(fault);
                        count.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    let faults = faults.into_inner().unwrap();
    assert!(faults.is_empty(), "{} faults\n{}", faults.len(), faults.join("\n"));
    println!("{} lies of Redis, {count:?} operations, {} MiB", lies.len(), peak());
    assert!(peak() < 3000, "{} MiB", peak());
}

#[test]
fn redis_operations_do_not_wait_for_each_other() {
    let (arrived, came) = mpsc::channel();
    let arrived = Mutex::new(arrived);
    let took = with_server(
        |mut stream, is_over| {
            let is_command = |bytes: &[u8]| contains(bytes, "PING") || contains(bytes, "GET");
            while let Some(command) = read_until(&mut stream, is_over, is_command) {
                if contains(&command, "GET") {
                    let _ = arrived.lock().unwrap().send(());
                    return Lie::Stall(Vec::new()).tell(&mut stream, is_over);
                }
                stream.write_all(b"+PONG\r\n").unwrap();
            }
        },
        |port| {
            let store = Redis::open(&format!("redis://127.0.0.1:{port}")).unwrap();
            let store = store.with_operation_timeout(LIMIT * 2);
            std::thread::scope(|scope| {
                let slow = scope.spawn(|| store.try_get("slow"));
                came.recv().unwrap();
                let start = Instant::now();
                store.get("key", TIMEOUT).unwrap_err();
                let took = start.elapsed();
                slow.join().unwrap().unwrap_err();
                took
            })
        },
    );
    assert!(took < LIMIT, "{took:?}");
}

fn http(status: &str, body: &str) -> Vec<u8> {
    format!("HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}", body.len())
        .into_bytes()
}

fn etcd_lies(elsewhere: u16) -> Vec<(String, Lie, Option<ErrorCode>)> {
    let mut lies = Vec::new();
    let mut add = |name: String, lie: Lie, code| lies.push((name, lie, code));
    let key = "\"key\":\"a2V5\"";
    let header = "\"header\":{\"revision\":\"5\"}";
    for body in [
        "",
        "x",
        "{",
        "[]",
        "null",
        "5",
        "\"a\"",
        "{}",
        "{\"header\":5}",
        "{\"header\":{\"revision\":5}}",
        "{\"header\":{\"revision\":\"x\"}}",
        "{\"header\":{\"revision\":\"-5\"}}",
        "{\"header\":{\"revision\":\"0\"}}",
        "{\"header\":{\"revision\":\"99999999999999999999\"}}",
        "{\"header\":{\"revision\":1e99}}",
        "{\"kvs\":[]}",
        &format!("{{{header},\"kvs\":[{{{key},\"value\":5}}]}}"),
        &format!("{{{header},\"kvs\":[{{{key},\"value\":[]}}]}}"),
        &format!("{{{header},\"kvs\":[{{}}]}}"),
        &format!("{{{header},\"kvs\":[5]}}"),
        &format!("{{{header},\"kvs\":[null]}}"),
        &format!("{{{header},\"kvs\":[{{\"key\":\"b3RoZXI=\",\"value\":\"YQ==\"}}]}}"),
        &"[".repeat(100_000),
        &"{\"a\":".repeat(100_000),
        "{\"header\":{\"revision\":\"5\"}",
        "{\"a\":\"\\ud800\"}",
    ] {
        let short: String = body.chars().take(60).collect();
        add(format!("200 {short}"), Lie::Close(http("200 OK", body)), INTERNAL);
        add(format!("200 {short} and silence"), Lie::Stall(http("200 OK", body)), INTERNAL);
    }
    // Values of a JSON library would need 16 times as much memory as these answers.
    let zeros = format!("[{}0]", "0,".repeat(9 << 20));
    for body in [format!("{{{header},\"kvs\":[{{\"a\":{zeros}}}]}}"), zeros] {
        let short: String = body.chars().take(60).collect();
        add(format!("200 {short} and more"), Lie::Close(http("200 OK", &body)), None);
    }
    for value in ["!", "YQ", "YQ=", "YQ==YQ==", "\\u0000", "ÿ"] {
        let body = format!("{{{header},\"kvs\":[{{{key},\"value\":\"{value}\"}}]}}");
        add(format!("value {value}"), Lie::Close(http("200 OK", &body)), Some(ErrorCode::DATA_LOSS));
    }
    for status in ["301 Moved", "302 Found", "303 See Other", "307 Temporary Redirect", "308 Permanent Redirect"] {
        let answer =
            format!("HTTP/1.1 {status}\r\nLocation: http://127.0.0.1:{elsewhere}/\r\nContent-Length: 0\r\n\r\n");
        add(status.to_owned(), Lie::Close(answer.into_bytes()), INTERNAL);
    }
    for status in ["400 Bad", "401 No", "403 No", "418 Teapot", "429 Slow"] {
        add(status.to_owned(), Lie::Close(http(status, &"x".repeat(500_000))), INTERNAL);
    }
    for text in [
        "",
        "HTTP/1.1",
        "HTTP/1.1 200",
        "HTTP/1.1 200 OK\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nabc",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n100\r\nabc",
        "HTTP/1.1 100 Continue\r\n\r\n",
    ] {
        add(format!("{text:?} and silence"), Lie::Stall(text.into()), UNAVAILABLE);
        add(format!("{text:?} and end"), Lie::Close(text.into()), None);
        add(format!("{text:?} slowly"), Lie::Drip([text.as_bytes(), &[b'1'; 50]].concat()), None);
    }
    for text in [
        "HTTP/9.9 200 OK\r\n\r\n",
        "HTTP/1.1 999999 OK\r\n\r\n",
        "HTTP/1.1 -1 OK\r\n\r\n",
        "+PONG\r\n",
        "\0\0\0\0\0\0",
        "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\na",
        "HTTP/1.1 101 Switching Protocols\r\n\r\n",
        "HTTP/1.1 204 No Content\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 3\r\n\r\nabc",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-5\r\nabc\r\n0\r\n\r\n",
    ] {
        add(format!("{text:?}"), Lie::Close(text.into()), None);
    }
    let begin = "HTTP/1.1 200 OK\r\n";
    for (first, more) in [
        ("", "a"),
        ("HTTP/1.1 200 ", "a"),
        (begin, "a: b\r\n"),
        ("HTTP/1.1 200 OK\r\na: ", "a"),
        ("", "HTTP/1.1 100 Continue\r\n\r\n"),
        ("HTTP/1.1 200 OK\r\n\r\n", "a"),
        ("HTTP/1.1 200 OK\r\n\r\n[", "0,"),
        ("HTTP/1.1 200 OK\r\n\r\n", " "),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "1\r\na\r\n"),
        ("HTTP/1.1 500 Error\r\n\r\n", "a"),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;", "a"),
        ("HTTP/1.1 200 OK\r\n\r\n{\"a\":\"", "a"),
    ] {
        add(format!("{first:?} and {more:?} without end"), Lie::Flood(first.into(), more.into()), None);
    }
    lies
}

/// Answers the request of [`Etcd::open`] correctly, and lies as the answer to other requests to `victim`.
fn etcd_server(mut stream: TcpStream, is_over: &AtomicBool, victim: &str, lie: &Lie) {
    let empty = "{\"header\":{\"revision\":\"5\"}}";
    loop {
        let Some(request) = read_until(&mut stream, is_over, |bytes| bytes.ends_with(b"}")) else { return };
        // The first request reads the key `pjrt`.
        let is_first = contains(&request, "\"cGpydA==\"");
        if contains(&request, victim) && !is_first {
            return lie.tell(&mut stream, is_over);
        }
        if stream.write_all(&http("200 OK", empty)).is_err() {
            return;
        }
    }
}

#[test]
fn etcd() {
    let (count, followed, faults) = (AtomicUsize::new(0), AtomicUsize::new(0), Mutex::new(Vec::new()));
    let elsewhere = |_: TcpStream, is_over: &AtomicBool| {
        if !is_over.load(Ordering::Relaxed) {
            followed.fetch_add(1, Ordering::Relaxed);
        }
    };
    with_server(elsewhere, |other| {
        let lies = etcd_lies(other);
        assert!(lies.len() >= 60, "{}", lies.len());
        std::thread::scope(|scope| {
            for part in 0..8 {
                let (lies, count, faults) = (&lies, &count, &faults);
                scope.spawn(move || {
                    for (name, lie, code) in lies.iter().skip(part).step_by(8) {
                        for victim in ["/v3/kv/range", "/v3/watch"] {
                            let fault = with_server(
                                |stream, is_over| etcd_server(stream, is_over, victim, lie),
                                |port| {
                                    let address = format!("http://127.0.0.1:{port}");
                                    let store = Etcd::open(&address).unwrap().with_operation_timeout(TIMEOUT);
                                    let name = format!("{victim}: {name}");
                                    match victim {
                                        "/v3/watch" => check(&name, &address, None, || store.get("key", TIMEOUT)),
                                        _ => check(&name, &address, *code, || store.try_get("key")),
                                    }
                                },
                            );
                            faults.lock().unwrap().extend(fault);
                            count.fetch_add(1, Ordering::Relaxed);
                        }
                    }
                });
            }
        });
        let faults = faults.into_inner().unwrap();
        assert!(faults.is_empty(), "{} faults\n{}", faults.len(), faults.join("\n"));
        println!("{} lies of etcd, {count:?} operations, {} MiB", lies.len(), peak());
    });
    assert_eq!(followed.into_inner(), 0, "a redirect was followed");
    assert!(peak() < 3000, "{} MiB", peak());
}

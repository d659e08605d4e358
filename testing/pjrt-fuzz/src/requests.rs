//! Sends requests to a server of `pjrt-remote`.
//!
//! Almost any changed byte makes a checksum wrong. An input is therefore a list of messages and payloads, from which
//! this module makes frames with valid lengths and checksums.

use std::io::{ErrorKind, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::time::Duration;

use pjrt::ClientOptions;
use pjrt_remote::{Address, Limits, Server};

/// Time in which the server must end the connection of a client that has ended its half.
const SOON: Duration = Duration::from_secs(20);
/// Maximum number of bytes that the server may hold for a client.
const MEMORY: u64 = 1 << 20;
/// The first message of a client: the text `pjrt-remote`, and versions 1 to 1.
const HELLO: &[u8] = b"\x0a\x0bpjrt-remote\x10\x01\x18\x01";

/// Starts a server of the embedded device, once. Returns the path of its socket.
fn socket() -> Result<&'static PathBuf, String> {
    static SOCKET: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    let start = || {
        let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
        let path = folder.path().join("socket");
        // The folder belongs to the process, which does not end this server.
        std::mem::forget(folder);
        let plugin = plugin_registry::open("cpu").map_err(|error| error.to_string())?;
        let client = plugin.client(&ClientOptions::new()).map_err(|error| error.to_string())?;
        let mut limits = Limits::default();
        limits.memory = MEMORY;
        let server = Server::new(client, limits)?;
        let listener = server.bind(&Address::Unix(path.clone()), None).map_err(|error| error.to_string())?;
        std::thread::spawn(move || listener.run());
        Ok(path)
    };
    SOCKET.get_or_init(start).as_ref().map_err(Clone::clone)
}

/// Appends a message with its length and checksum.
fn append(message: &[u8], out: &mut Vec<u8>) {
    let length = u32::try_from(message.len()).unwrap_or(u32::MAX);
    out.extend(length.to_le_bytes());
    out.extend(crc32fast::hash(message).to_le_bytes());
    out.extend(message);
}

/// Checks that the server ends the connection of a client that sends any messages, and that it then serves another one.
/// Each part of `bytes` begins with its length. Messages alternate with payloads.
pub fn send(bytes: &[u8]) -> Result<(), String> {
    exchange(&frames(bytes))?;
    match exchange(&frames(&[]))?.len() {
        0 => Err("the server does not answer the next client".to_owned()),
        _ => Ok(()),
    }
}

/// Returns what a client sends.
fn frames(mut bytes: &[u8]) -> Vec<u8> {
    let mut frames = Vec::new();
    append(HELLO, &mut frames);
    let mut is_message = true;
    while let Some((length, rest)) = bytes.split_first() {
        let (part, rest) = rest.split_at(usize::from(*length).min(rest.len()));
        if is_message {
            append(part, &mut frames);
        } else {
            frames.extend(part);
        }
        (is_message, bytes) = (!is_message, rest);
    }
    frames
}

/// Sends bytes, and returns the answer of the server until it ends the connection.
fn exchange(bytes: &[u8]) -> Result<Vec<u8>, String> {
    let fail = |error: std::io::Error| format!("the server does not end the connection: {error}");
    let mut stream = UnixStream::connect(socket()?).map_err(fail)?;
    stream.set_read_timeout(Some(SOON)).map_err(fail)?;
    stream.set_write_timeout(Some(SOON)).map_err(fail)?;
    // The server may end the connection before it has received everything.
    let _ = stream.write_all(bytes).and_then(|()| stream.shutdown(Shutdown::Write));
    let mut answer = Vec::new();
    match stream.read_to_end(&mut answer) {
        Err(error) if error.kind() != ErrorKind::ConnectionReset => Err(fail(error)),
        _ => Ok(answer),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    /// Requests that use each other's objects, in the form of [`send`]: an upload of four floats and its data, a copy,
    /// a read, a query and a release.
    const VALID: &[&[u8]] = &[
        b"\x0a\x0d\x08\x01\x10\x05\x1a\x05\x08\x0b\x12\x01\x04\x28\x10",
        &[0; 16],
        b"\x1a\x06\x08\x02\x10\x06\x18\x05",
        b"",
        b"\x12\x04\x08\x03\x10\x06",
        b"",
        b"\x3a\x02\x08\x04",
        b"",
        b"\x22\x02\x05\x06",
        b"",
    ];

    fn input(parts: &[Vec<u8>]) -> Vec<u8> {
        parts.iter().flat_map(|part| [&[u8::try_from(part.len()).unwrap()], &part[..]].concat()).collect()
    }

    #[test]
    fn changed_requests_end_the_connection_only() {
        static PANICS: AtomicUsize = AtomicUsize::new(0);
        let hook = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            PANICS.fetch_add(1, Ordering::SeqCst);
            hook(info);
        }));
        let valid: Vec<Vec<u8>> = VALID.iter().map(|part| part.to_vec()).collect();
        let answer = exchange(&frames(&input(&valid))).unwrap();
        let reasons: [&[u8]; 3] = [b"malformed", b"unknown request", b"not the size"];
        for reason in reasons {
            assert!(!answer.windows(reason.len()).any(|window| window == reason), "{answer:?}");
        }
        // A xorshift generator, so that a failure can be repeated.
        let mut state = 0x2545_f491_4f6c_dd1du64;
        let mut below = |bound: usize| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            usize::try_from(state % u64::try_from(bound).unwrap()).unwrap()
        };
        for _ in 0..500 {
            let mut parts = valid.clone();
            for _ in 0..=below(4) {
                let index = below(parts.len());
                let part = &mut parts[index];
                match below(4) {
                    0 => part.insert(below(part.len() + 1), u8::try_from(below(256)).unwrap()),
                    1 if !part.is_empty() => drop(part.remove(below(part.len()))),
                    2 => {
                        let other = below(parts.len());
                        parts.swap(index, other);
                    }
                    _ if !part.is_empty() => {
                        let at = below(part.len());
                        part[at] = u8::try_from(below(256)).unwrap();
                    }
                    _ => {}
                }
            }
            let input = input(&parts);
            assert_eq!(send(&input), Ok(()), "{input:?}");
        }
        assert_eq!(PANICS.load(Ordering::SeqCst), 0);
    }
}

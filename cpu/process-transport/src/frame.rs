//! The frames that transports exchange. A frame consists of a header of five 64-bit words, and the bytes of the
//! message.

use std::io::{self, BufWriter, Read, Write};

use crate::transport::Stream;

/// Meaning of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A message of a stream.
    Message,
    /// The sender cannot continue with the stream. The bytes of the frame are the reason, as UTF-8 text.
    Failure,
    /// The sender ends the connection on purpose.
    Goodbye,
}

/// The header of a frame. Implementations of [`Transport`](crate::Transport) send it before the bytes of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Meaning of the frame.
    pub kind: Kind,
    /// The stream of a message or a failure.
    pub stream: Stream,
    /// The tag of a message.
    pub tag: u64,
}

const WORDS: usize = 5;
/// Maximum size in bytes of a message that is written together with its header. Small parts of a larger message are
/// written in blocks of about this size.
const SMALL: usize = 64 << 10;
/// Size in bytes of the first piece of new memory for a message. Each further piece doubles the memory.
const PIECE: usize = 1 << 20;

impl Header {
    /// Number of bytes of an encoded header.
    pub const SIZE: usize = WORDS * 8;

    /// Encodes the header of a frame with `len` bytes after the header.
    #[must_use]
    pub fn encode(self, len: usize) -> [u8; Self::SIZE] {
        let kind = match self.kind {
            Kind::Message => 0,
            Kind::Failure => 1,
            Kind::Goodbye => 2,
        };
        let words = [kind, self.stream.lane, self.stream.number, self.tag, len as u64];
        let mut bytes = [0; Self::SIZE];
        for (place, word) in bytes.as_chunks_mut::<8>().0.iter_mut().zip(words) {
            *place = word.to_le_bytes();
        }
        bytes
    }

    /// Decodes a header. Returns the header and the number of bytes that follow it. Returns `None` if the kind is
    /// unknown or if this number exceeds the address space.
    #[must_use]
    pub fn decode(bytes: &[u8; Self::SIZE]) -> Option<(Self, usize)> {
        let mut words = [0; WORDS];
        for (word, place) in words.iter_mut().zip(bytes.as_chunks::<8>().0) {
            *word = u64::from_le_bytes(*place);
        }
        let [kind, lane, number, tag, len] = words;
        let kind = match kind {
            0 => Kind::Message,
            1 => Kind::Failure,
            2 => Kind::Goodbye,
            _ => return None,
        };
        Some((Self { kind, stream: Stream { lane, number }, tag }, usize::try_from(len).ok()?))
    }

    /// Reason to report if [`decode`](Self::decode) rejects a header. The sender of the header then counts as lost.
    pub const UNKNOWN: &'static str =
        "it sent a message of an unknown kind; install the same version for all processes";

    /// Writes a frame with the concatenation of `parts` as the message.
    pub(crate) fn write(self, to: &mut impl Write, parts: &[&[u8]]) -> io::Result<()> {
        let len: usize = parts.iter().map(|part| part.len()).sum();
        let header = self.encode(len);
        // Buffer small parts, so that several parts share a system call and a network packet.
        let mut to = BufWriter::with_capacity(Self::SIZE + len.min(SMALL), to);
        to.write_all(&header)?;
        parts.iter().try_for_each(|part| to.write_all(part))?;
        to.flush()
    }

    /// Reads a frame. `memory` returns a buffer for a message of a given size. Its length and its contents are
    /// arbitrary. Returns `None` at the end of the connection.
    ///
    /// The sender chooses the size in the header. New memory is therefore allocated in pieces as the bytes arrive.
    pub(crate) fn read(
        from: &mut impl Read,
        memory: impl FnOnce(usize) -> Vec<u8>,
    ) -> io::Result<Option<(Self, Vec<u8>)>> {
        let mut bytes = [0; Self::SIZE];
        loop {
            match from.read(&mut bytes[..1]) {
                Ok(0) => return Ok(None),
                Ok(_) => break,
                // A signal handler interrupted the read, so try again.
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        from.read_exact(&mut bytes[1..])?;
        let (header, len) = Self::decode(&bytes).ok_or_else(|| io::Error::other(Self::UNKNOWN))?;
        let mut body = memory(len);
        body.truncate(len);
        let mut filled = 0;
        loop {
            from.read_exact(body.get_mut(filled..).unwrap_or_default())?;
            filled = body.len();
            if filled == len {
                return Ok(Some((header, body)));
            }
            let piece = filled.max(PIECE).min(len - filled);
            body.try_reserve_exact(piece).map_err(io::Error::other)?;
            body.resize(filled + piece, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Inbox;

    fn read(from: &mut impl Read) -> io::Result<Option<(Header, Vec<u8>)>> {
        Header::read(from, |_| Vec::new())
    }

    /// A reader in which every second read fails with `Interrupted`.
    struct Interrupted<'b>(&'b [u8], bool);

    impl Read for Interrupted<'_> {
        fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
            self.1 = !self.1;
            if self.1 { Err(io::ErrorKind::Interrupted.into()) } else { self.0.read(to) }
        }
    }

    #[test]
    fn signals_do_not_end_a_connection() {
        let header = Header { kind: Kind::Message, stream: Stream { lane: 1, number: 2 }, tag: 3 };
        let mut bytes = Vec::new();
        header.write(&mut bytes, &[b"abc"]).unwrap();
        let mut connection = Interrupted(&bytes, false);
        assert_eq!(read(&mut connection).unwrap(), Some((header, b"abc".to_vec())));
        assert_eq!(read(&mut connection).unwrap(), None);
    }

    /// A writer that counts the calls of `write`.
    #[derive(Default)]
    struct Counted(usize, Vec<u8>);

    impl Write for Counted {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 += 1;
            self.1.write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn small_parts_are_written_together() {
        let header = Header { kind: Kind::Message, stream: Stream { lane: 1, number: 2 }, tag: 3 };
        let parts = vec![&[5; 100][..]; 2000];
        let mut written = Counted::default();
        header.write(&mut written, &parts).unwrap();
        assert!(written.0 <= 5, "{} writes", written.0);
        assert_eq!(read(&mut &written.1[..]).unwrap(), Some((header, parts.concat())));
    }

    #[test]
    fn round_trips_and_refuses_damage() {
        let header = Header { kind: Kind::Failure, stream: Stream { lane: 1, number: 2 }, tag: u64::MAX };
        for body in [&b""[..], b"abc", &[7; SMALL + 1]] {
            let mut bytes = Vec::new();
            let (first, second) = body.split_at(body.len() / 2);
            header.write(&mut bytes, &[first, second]).unwrap();
            assert_eq!(read(&mut &bytes[..]).unwrap(), Some((header, body.to_vec())));
            assert!(read(&mut &bytes[..bytes.len() - 1]).is_err());
        }
        assert_eq!(read(&mut &b""[..]).unwrap(), None);
        assert!(read(&mut &[9; Header::SIZE][..]).is_err(), "unknown kind");
    }

    /// A reader that checks that each buffer is in proportion to the bytes that were read before.
    struct Measured<'b> {
        bytes: &'b [u8],
        read: usize,
    }

    impl Read for Measured<'_> {
        fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
            assert!(to.len() <= self.read.max(PIECE), "{} bytes after {}", to.len(), self.read);
            let count = self.bytes.read(to)?;
            self.read += count;
            Ok(count)
        }
    }

    #[test]
    fn memory_grows_with_the_bytes_that_arrive() {
        let header = Header { kind: Kind::Message, stream: Stream::default(), tag: 0 };
        let body: Vec<u8> = (0..5 * PIECE + 7).map(|at| u8::try_from(at % 251).unwrap()).collect();
        let inbox = Inbox::new(1);
        for len in [PIECE, PIECE + 1, 2 * PIECE, body.len()] {
            let bytes = [&header.encode(len)[..], &body[..len]].concat();
            let mut from = Measured { bytes: &bytes, read: 0 };
            let (_, read) = Header::read(&mut from, |len| inbox.memory(len)).unwrap().unwrap();
            assert!(read == body[..len] && read.capacity() == len, "{len}");
        }
        for claim in [body.len() + 1, 1 << 40, usize::MAX] {
            let bytes = [&header.encode(claim)[..], &body].concat();
            let mut from = Measured { bytes: &bytes, read: 0 };
            let error = Header::read(&mut from, |len| inbox.memory(len)).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof, "{claim}");
        }
    }

    #[test]
    fn reused_memory_is_filled_at_once() {
        let header = Header { kind: Kind::Message, stream: Stream::default(), tag: 0 };
        let inbox = Inbox::new(1);
        let block = vec![9; 2 * PIECE];
        let place = block.as_ptr();
        inbox.recycle(block);
        let body = vec![7; 2 * PIECE - 1];
        let bytes = [&header.encode(body.len())[..], &body].concat();
        let (_, read) = Header::read(&mut &bytes[..], |len| inbox.memory(len)).unwrap().unwrap();
        assert!(read == body && read.as_ptr() == place);
    }
}

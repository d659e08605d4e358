//! Frames: a message with its length and checksum, and the bytes that follow it.

use std::collections::VecDeque;
use std::io::{self, Read};
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use prost::Message;

/// Size of a frame's header: the length of the message and its CRC-32, as little-endian `u32`s.
pub(crate) const HEADER: usize = 8;
/// Maximum size of the first message of a client.
pub(crate) const MAX_HELLO: usize = 4 << 10;
/// Maximum size of a request. Programs and the contents of buffers follow their message.
pub(crate) const MAX_REQUEST: usize = 1 << 20;
/// Maximum size of a reply, and of the first message of a server.
pub(crate) const MAX_REPLY: usize = 16 << 20;
/// Size of the buffer that collects small messages.
const BUFFER: usize = 256 << 10;
/// Minimum size of memory that is kept for the next payloads.
const WORTH_KEEPING: usize = 256 << 10;
/// Alignment of payloads in memory. CPU devices use memory with this alignment without a copy.
const ALIGNMENT: usize = 64;

/// Why no further message can be read from a connection.
#[derive(Debug)]
pub(crate) enum Broken {
    /// The other side closed the connection between two messages.
    Closed,
    /// The connection failed, or ended within a message.
    Io(io::Error),
    /// The other side does not keep to the protocol.
    Protocol(String),
}

impl Broken {
    /// Returns whether the other side ended the connection without a reason.
    pub(crate) fn is_end(&self) -> bool {
        use io::ErrorKind::{BrokenPipe, ConnectionReset, UnexpectedEof};
        match self {
            Self::Closed => true,
            Self::Io(error) => matches!(error.kind(), BrokenPipe | ConnectionReset | UnexpectedEof),
            Self::Protocol(_) => false,
        }
    }
}

impl std::fmt::Display for Broken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Closed => f.write_str("the other side closed the connection"),
            Self::Io(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                f.write_str("the connection ended within a message")
            }
            Self::Io(error) => write!(f, "the connection failed: {error}"),
            Self::Protocol(message) => f.write_str(message),
        }
    }
}

impl From<io::Error> for Broken {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// Appends the frame of a message to `out`.
pub(crate) fn append(message: &impl Message, out: &mut Vec<u8>) {
    let start = out.len();
    out.extend_from_slice(&[0; HEADER]);
    // Encoding fails only if the destination is full, and a vector grows.
    let encoded = message.encode(out);
    debug_assert!(encoded.is_ok(), "a vector has space for every message");
    let body = out.get(start + HEADER..).unwrap_or_default();
    // A longer message is cut here, and the other side rejects its length.
    let (len, sum) = (u32::try_from(body.len()).unwrap_or(u32::MAX), crc32fast::hash(body));
    if let Some(header) = out.get_mut(start..start + HEADER) {
        header[..4].copy_from_slice(&len.to_le_bytes());
        header[4..].copy_from_slice(&sum.to_le_bytes());
    }
}

/// Memory of earlier payloads. The system needs more time to provide new memory than to copy to it.
#[derive(Debug)]
pub(crate) struct Spare {
    kept: Mutex<Kept>,
    /// Maximum total size.
    max: usize,
}

#[derive(Debug, Default)]
struct Kept {
    /// The oldest one is the first.
    parts: VecDeque<Vec<u8>>,
    /// Total size of `parts`.
    bytes: usize,
}

impl Spare {
    /// Returns a place that keeps at most `max` bytes.
    pub(crate) fn new(max: usize) -> Self {
        Self { kept: Mutex::default(), max }
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns memory of at least `needed` bytes, but not of many more.
    fn take(&self, needed: usize) -> Option<Vec<u8>> {
        let mut kept = self.lock();
        let fits = |bytes: &Vec<u8>| (needed..needed.saturating_mul(2)).contains(&bytes.len());
        let index = kept.parts.iter().position(fits)?;
        let bytes = kept.parts.remove(index)?;
        kept.bytes -= bytes.len();
        Some(bytes)
    }

    fn put(&self, bytes: Vec<u8>) {
        if !(WORTH_KEEPING..=self.max).contains(&bytes.len()) {
            return;
        }
        let mut kept = self.lock();
        kept.bytes += bytes.len();
        kept.parts.push_back(bytes);
        let mut oldest = Vec::new();
        while kept.bytes > self.max
            && let Some(bytes) = kept.parts.pop_front()
        {
            kept.bytes -= bytes.len();
            oldest.push(bytes);
        }
        // The system needs time to take the memory back.
        drop(kept);
        drop(oldest);
    }

    /// Returns memory for a payload: that of an earlier payload if its size fits, or else new memory. Returns `None` if
    /// the system has no memory. The caller must overwrite all of it, because it may contain data of others.
    pub(crate) fn memory(self: &Arc<Self>, len: u64) -> Option<Payload> {
        let len = usize::try_from(len).ok()?;
        match self.take(len.checked_add(ALIGNMENT)?) {
            Some(bytes) => Some(self.aligned(bytes, len)),
            None => self.zeros(len),
        }
    }

    /// Returns new memory for a payload. Its bytes are zero.
    pub(crate) fn zeros(self: &Arc<Self>, len: usize) -> Option<Payload> {
        let needed = len.checked_add(ALIGNMENT)?;
        // Find out whether the system has the memory, because `vec!` ends the process otherwise. Only `vec!` gets
        // memory with zeros from the system without writing it.
        Vec::<u8>::new().try_reserve_exact(needed).ok()?;
        Some(self.aligned(vec![0; needed], len))
    }

    fn aligned(self: &Arc<Self>, bytes: Vec<u8>, len: usize) -> Payload {
        let start = bytes.as_ptr().align_offset(ALIGNMENT).min(ALIGNMENT);
        Payload { bytes, range: start..start + len, spare: Arc::clone(self) }
    }
}

/// The bytes that follow a message, in aligned memory. Dropping it keeps the memory for another payload.
#[derive(Debug)]
pub(crate) struct Payload {
    bytes: Vec<u8>,
    range: Range<usize>,
    spare: Arc<Spare>,
}

impl Drop for Payload {
    fn drop(&mut self) {
        self.spare.put(std::mem::take(&mut self.bytes));
    }
}

impl AsRef<[u8]> for Payload {
    fn as_ref(&self) -> &[u8] {
        self.bytes.get(self.range.clone()).unwrap_or_default()
    }
}

impl AsMut<[u8]> for Payload {
    fn as_mut(&mut self) -> &mut [u8] {
        self.bytes.get_mut(self.range.clone()).unwrap_or_default()
    }
}

/// The messages that arrive on a connection.
#[derive(Debug)]
pub(crate) struct Incoming<R> {
    source: R,
    buffer: Vec<u8>,
    /// The part of `buffer` that has arrived and was not consumed.
    start: usize,
    end: usize,
    /// Maximum size of a message.
    limit: usize,
    pub(crate) spare: Arc<Spare>,
}

impl<R: Read> Incoming<R> {
    /// Returns the messages of a connection, whose payloads use the memory in `spare`.
    pub(crate) fn new(source: R, limit: usize, spare: Arc<Spare>) -> Self {
        Self { source, buffer: vec![0; BUFFER], start: 0, end: 0, limit, spare }
    }

    /// Begins to accept messages of another size, after the first message has arrived.
    pub(crate) fn after_first(&mut self, limit: usize) -> &mut R {
        self.limit = limit;
        self.source()
    }

    pub(crate) fn source(&mut self) -> &mut R {
        &mut self.source
    }

    /// Returns whether everything that has arrived was consumed.
    pub(crate) fn is_empty(&self) -> bool {
        self.start == self.end
    }

    fn arrived(&self) -> &[u8] {
        self.buffer.get(self.start..self.end).unwrap_or_default()
    }

    /// Returns the length and the checksum in the next header, if the header has arrived.
    fn header(&self) -> Option<(usize, u32)> {
        let (header, _) = self.arrived().split_first_chunk::<HEADER>()?;
        let word = |at: usize| u32::from_le_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
        Some((usize::try_from(word(0)).unwrap_or(usize::MAX), word(4)))
    }

    /// Returns whether the next message has arrived, so that [`Self::next`] does not wait.
    pub(crate) fn has_message(&self) -> bool {
        self.header().is_some_and(|(len, _)| self.arrived().len() - HEADER >= len)
    }

    /// Waits until `count` bytes have arrived in the buffer, which must have space for them.
    fn fill(&mut self, count: usize) -> Result<(), Broken> {
        if self.buffer.len() - self.start < count {
            self.buffer.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        while self.end - self.start < count {
            let space = self.buffer.get_mut(self.end..).unwrap_or_default();
            match self.source.read(space) {
                Ok(0) if self.start == self.end => return Err(Broken::Closed),
                Ok(0) => return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()),
                Ok(read) => self.end += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    fn consume(&mut self, count: usize) {
        self.start += count;
        if self.start >= self.end {
            (self.start, self.end) = (0, 0);
        }
    }

    /// Waits for the next message.
    pub(crate) fn next<M: Message + Default>(&mut self) -> Result<M, Broken> {
        self.fill(HEADER)?;
        let Some((len, sum)) = self.header() else { return Err(Broken::Closed) };
        if len > self.limit {
            let limit = self.limit;
            return Err(Broken::Protocol(format!(
                "a message of {len} bytes is longer than the limit of {limit} bytes; the other side speaks another \
                 protocol, or the data was changed on the way"
            )));
        }
        if len <= BUFFER - HEADER {
            self.fill(HEADER + len)?;
            let message = decode(self.arrived().get(HEADER..HEADER + len).unwrap_or_default(), sum);
            self.consume(HEADER + len);
            return message;
        }
        self.consume(HEADER);
        match self.payload(len as u64)? {
            Some(message) => decode(message.as_ref(), sum),
            None => Err(Broken::Protocol(format!("the system has no memory for a message of {len} bytes"))),
        }
    }

    /// Reads the bytes that follow a message to `to`.
    pub(crate) fn payload_into(&mut self, to: &mut [u8]) -> Result<(), Broken> {
        let count = to.len().min(self.arrived().len());
        let (head, rest) = to.split_at_mut(count);
        head.copy_from_slice(self.arrived().get(..count).unwrap_or_default());
        self.consume(count);
        self.source.read_exact(rest)?;
        Ok(())
    }

    /// Reads the bytes that follow a message. Returns `None`, without reading them, if the system has no memory for
    /// them. Memory is reserved for all of them, but the system provides it only as they arrive.
    pub(crate) fn payload(&mut self, len: u64) -> Result<Option<Payload>, Broken> {
        let Some(mut payload) = self.spare.memory(len) else { return Ok(None) };
        self.payload_into(payload.as_mut())?;
        Ok(Some(payload))
    }

    /// Skips the bytes that follow a message.
    pub(crate) fn skip(&mut self, len: u64) -> Result<(), Broken> {
        let count = usize::try_from(len).unwrap_or(usize::MAX).min(self.arrived().len());
        self.consume(count);
        let rest = len - count as u64;
        if io::copy(&mut self.source.by_ref().take(rest), &mut io::sink())? < rest {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
        }
        Ok(())
    }
}

fn decode<M: Message + Default>(bytes: &[u8], sum: u32) -> Result<M, Broken> {
    if crc32fast::hash(bytes) != sum {
        return Err(Broken::Protocol("the checksum of a message is wrong; the data was changed on the way".to_owned()));
    }
    M::decode(bytes).map_err(|error| Broken::Protocol(format!("a message is malformed: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::messages::{Data, Done, Reply, Request};

    /// A source that returns one byte at a time.
    struct Slow<'a>(&'a [u8]);

    impl Read for Slow<'_> {
        fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
            let count = to.len().min(1);
            self.0.read(&mut to[..count])
        }
    }

    fn open<R: Read>(source: R, limit: usize) -> Incoming<R> {
        Incoming::new(source, limit, Arc::new(Spare::new(4 * WORTH_KEEPING)))
    }

    fn frame(message: &impl Message) -> Vec<u8> {
        let mut bytes = Vec::new();
        append(message, &mut bytes);
        bytes
    }

    #[test]
    fn messages_and_payloads_arrive_in_pieces() {
        let small = Reply::from(Done { tickets: vec![1, 2, 3] });
        let large = Reply::from(Done { tickets: (0..300_000).collect() });
        let mut bytes = frame(&small);
        bytes.extend(frame(&Reply::from(Data { ticket: 4, bytes: 5, ..Data::default() })));
        bytes.extend(b"hello");
        bytes.extend(frame(&large));
        assert!(bytes.len() > BUFFER, "the large message does not fit into the buffer");
        let mut incoming = open(Slow(&bytes), MAX_REPLY);
        assert!(!incoming.has_message());
        assert_eq!(incoming.next::<Reply>().unwrap(), small);
        assert!(incoming.next::<Reply>().is_ok());
        let payload = incoming.payload(5).unwrap().unwrap();
        assert_eq!(payload.as_ref(), b"hello");
        assert_eq!(payload.as_ref().as_ptr().addr() % ALIGNMENT, 0);
        assert_eq!(incoming.next::<Reply>().unwrap(), large);
        assert!(matches!(incoming.next::<Reply>(), Err(Broken::Closed)));
    }

    #[test]
    fn memory_of_large_payloads_is_used_again() {
        let (first, second) = (vec![1; WORTH_KEEPING], vec![2; WORTH_KEEPING - 100]);
        let bytes = [&first[..], &second[..], b"small"].concat();
        let mut incoming = open(&bytes[..], MAX_REPLY);
        let address = |payload: &Payload| payload.as_ref().as_ptr().addr();
        let payload = incoming.payload(first.len() as u64).unwrap().unwrap();
        assert_eq!(payload.as_ref(), first);
        let place = address(&payload);
        drop(payload);
        let payload = incoming.payload(second.len() as u64).unwrap().unwrap();
        assert_eq!((payload.as_ref(), address(&payload)), (&second[..], place));
        drop(payload);
        let small = incoming.payload(5).unwrap().unwrap();
        assert_eq!(small.as_ref(), b"small");
        assert_ne!(address(&small), place, "a small payload does not take the memory of a large one");
    }

    #[test]
    fn broken_frames_are_errors() {
        let good = frame(&Reply::from(Done { tickets: vec![7] }));
        let next = |bytes: &[u8]| open(bytes, 1024).next::<Request>().unwrap_err().to_string();
        let mut changed = good.clone();
        changed[9] ^= 1;
        assert!(next(&changed).contains("checksum"));
        assert!(next(&good[..good.len() - 1]).contains("within a message"));
        assert!(next(&good[..3]).contains("within a message"));
        assert!(next(&[0xff; 8]).contains("longer than the limit"));
        assert_eq!(next(&[]), Broken::Closed.to_string());
        let mut incoming = open(&b"four"[..], 1024);
        assert!(incoming.payload(5).is_err());
        // No system has this much memory, and nothing is read.
        let mut incoming = open(&b"four"[..], 1024);
        assert!(incoming.payload(u64::MAX).unwrap().is_none());
        assert_eq!(incoming.payload(4).unwrap().unwrap().as_ref(), b"four");
    }
}

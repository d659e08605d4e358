//! The headers of a recording file and of its blocks. See `docs/record-format.md`.

/// The first bytes of a recording file.
pub(crate) const MAGIC: &[u8; 8] = b"PJRTREC\n";
/// The version of the file format, major and minor. A reader rejects files with another major version.
pub const VERSION: (u16, u16) = (1, 0);
/// Number of bytes of the file header, which consists of the magic, the version and four zero bytes.
pub(crate) const FILE_HEADER: usize = 16;
/// Number of bytes of a block header.
pub(crate) const BLOCK_HEADER: usize = 40;
/// Maximum size of a block's payload in bytes, compressed or not. A reader rejects larger payloads before it allocates
/// memory.
pub const MAX_PAYLOAD: usize = 1 << 22;
/// Minimum size in bytes of a payload that is compressed. The compression of a smaller payload saves few bytes.
const MIN_COMPRESSED: usize = 256;

/// The kind of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Kind {
    /// A description of the recorded process and its plugin.
    Process = 1,
    /// A piece of data, to which [`Content`](crate::Content) refers.
    Data = 2,
    /// A call, written before the plugin receives it.
    Call = 3,
    /// The outcome of a call.
    Outcome = 4,
    /// The contents of a buffer.
    Contents = 5,
    /// A buffer that no call in the file creates.
    Snapshot = 6,
    /// The end of the recording.
    End = 7,
}

impl Kind {
    pub(crate) fn from_raw(raw: u8) -> Option<Self> {
        let all = [Self::Process, Self::Data, Self::Call, Self::Outcome, Self::Contents, Self::Snapshot, Self::End];
        all.into_iter().find(|kind| *kind as u8 == raw)
    }
}

/// The call, the thread and the time to which a block belongs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
// Exhaustive, because writers construct this struct.
pub struct Stamp {
    /// Number of the call, counted from 1. It is 0 if the block does not belong to a call.
    pub call: u64,
    /// Thread ID of the operating system.
    pub thread: u64,
    /// Nanoseconds since the recording began.
    pub nanos: u64,
}

/// The header of a block.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Header {
    pub(crate) checksum: u32,
    pub(crate) kind: u8,
    pub(crate) compression: u8,
    /// Size of the payload in the file, in bytes.
    pub(crate) stored: u32,
    /// Size of the payload after decompression, in bytes.
    pub(crate) length: u32,
    pub(crate) stamp: Stamp,
}

/// Compression code of a payload that is not compressed.
pub(crate) const PLAIN: u8 = 0;
/// Compression code of a payload that is one LZ4 block without a frame.
pub(crate) const LZ4: u8 = 1;

impl Header {
    pub(crate) fn parse(bytes: &[u8; BLOCK_HEADER]) -> Self {
        let u32_at = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let u64_at = |at: usize| u64::from(u32_at(at)) | u64::from(u32_at(at + 4)) << 32;
        Self {
            checksum: u32_at(0),
            kind: bytes[4],
            compression: bytes[5],
            stored: u32_at(8),
            length: u32_at(12),
            stamp: Stamp { call: u64_at(16), thread: u64_at(24), nanos: u64_at(32) },
        }
    }
}

/// Returns the checksum of a block, which is the CRC-32 of all bytes of the block after the checksum field.
pub(crate) fn checksum(header: &[u8; BLOCK_HEADER], payload: &[u8]) -> u32 {
    let mut crc = crc32fast::Hasher::new();
    crc.update(&header[4..]);
    crc.update(payload);
    crc.finalize()
}

/// Encodes a whole block. If `compress` is set, compresses the payload if this makes it smaller. Returns `None` if the
/// payload is too large.
pub(crate) fn encode(kind: u8, stamp: Stamp, payload: &[u8], compress: bool) -> Option<Vec<u8>> {
    if payload.len() > MAX_PAYLOAD {
        return None;
    }
    let compressed = (compress && payload.len() >= MIN_COMPRESSED).then(|| lz4_flex::block::compress(payload));
    let compressed = compressed.filter(|compressed| compressed.len() < payload.len());
    let (compression, stored) = compressed.as_deref().map_or((PLAIN, payload), |stored| (LZ4, stored));
    let length = u32::try_from(payload.len()).ok()?;
    let mut header = [0; BLOCK_HEADER];
    header[4] = kind;
    header[5] = compression;
    header[8..12].copy_from_slice(&u32::try_from(stored.len()).ok()?.to_le_bytes());
    header[12..16].copy_from_slice(&length.to_le_bytes());
    for (at, number) in [(16, stamp.call), (24, stamp.thread), (32, stamp.nanos)] {
        header[at..at + 8].copy_from_slice(&number.to_le_bytes());
    }
    let crc = checksum(&header, stored);
    header[..4].copy_from_slice(&crc.to_le_bytes());
    let mut block = Vec::with_capacity(BLOCK_HEADER + stored.len());
    block.extend_from_slice(&header);
    block.extend_from_slice(stored);
    Some(block)
}

/// Size in bytes of messages that a file of any size may contain after decompression.
const FREE_MESSAGES: u64 = 1 << 20;
/// Size in bytes of messages after decompression that each byte of the file allows.
const MESSAGES_PER_BYTE: u64 = 2;

/// The size of a file up to a block, and of the messages up to this block. Messages describe objects that a reader
/// keeps in memory, so their size after decompression must be in proportion to the size of the file. Otherwise, a small
/// file could exhaust the memory of its readers.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Expansion {
    file: u64,
    messages: u64,
}

impl Expansion {
    /// Adds a block of `size` bytes, which consists of its header and its stored payload. `message` is the size of its
    /// message after decompression, or 0 for a piece of data. Returns `None` if the messages are too large for the
    /// file.
    pub(crate) fn with(self, size: u64, message: u64) -> Option<Self> {
        let sum = Self { file: self.file.saturating_add(size), messages: self.messages.saturating_add(message) };
        let allowed = sum.file.saturating_mul(MESSAGES_PER_BYTE).saturating_add(FREE_MESSAGES);
        (sum.messages <= allowed).then_some(sum)
    }
}

/// Returns the header of a file.
pub(crate) fn file_header(version: (u16, u16)) -> [u8; FILE_HEADER] {
    let mut header = [0; FILE_HEADER];
    header[..8].copy_from_slice(MAGIC);
    header[8..10].copy_from_slice(&version.0.to_le_bytes());
    header[10..12].copy_from_slice(&version.1.to_le_bytes());
    header
}

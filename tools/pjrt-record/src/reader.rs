//! Reads recordings.

use std::collections::HashMap;
use std::io::{self, ErrorKind, Read, Seek, SeekFrom};

use prost::Message;

use crate::block::{
    BLOCK_HEADER, Expansion, FILE_HEADER, Header, Kind, LZ4, MAGIC, MAX_PAYLOAD, PLAIN, Stamp, VERSION, checksum,
};
use crate::content::{Content, HASH, Hash, PIECE};
use crate::error::ReadError;
use crate::message::{Call, Contents, End, Outcome, Process, Snapshot};

/// A block of a recording.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Block {
    /// Offset of the block in the file.
    pub offset: u64,
    /// Size of the block in the file, in bytes.
    pub size: u64,
    /// Call, thread and time of the block.
    pub stamp: Stamp,
    /// Content of the block.
    pub body: Body,
}

/// The content of a block.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Body {
    /// A description of the recorded process and its plugin.
    Process(Process),
    /// A piece of data. [`Reader::content`] joins the pieces.
    Data {
        /// Hash of the piece.
        hash: Hash,
        /// Size of the piece in bytes.
        size: usize,
    },
    /// A call.
    Call(Call),
    /// The outcome of a call.
    Outcome(Outcome),
    /// The contents of a buffer.
    Contents(Contents),
    /// A buffer that no call in the file creates.
    Snapshot(Snapshot),
    /// The end of the recording.
    End(End),
    /// A block of a newer version of the format, with the code of its kind.
    Unknown(u8),
}

impl Body {
    /// Returns the kind and the payload of a block. To encode data, use [`encode_piece`](crate::encode_piece) instead.
    /// An unknown block becomes an empty end.
    pub(crate) fn encode(&self) -> (Kind, Vec<u8>) {
        match self {
            Self::Process(message) => (Kind::Process, message.encode_to_vec()),
            Self::Call(message) => (Kind::Call, message.encode_to_vec()),
            Self::Outcome(message) => (Kind::Outcome, message.encode_to_vec()),
            Self::Contents(message) => (Kind::Contents, message.encode_to_vec()),
            Self::Snapshot(message) => (Kind::Snapshot, message.encode_to_vec()),
            Self::End(message) => (Kind::End, message.encode_to_vec()),
            Self::Data { hash, .. } => (Kind::Data, hash.0.to_vec()),
            Self::Unknown(_) => (Kind::End, Vec::new()),
        }
    }

    fn decode(kind: u8, payload: &[u8]) -> Result<Self, String> {
        let reason = |error: prost::DecodeError| error.to_string();
        Ok(match Kind::from_raw(kind) {
            Some(Kind::Process) => Self::Process(Process::decode(payload).map_err(reason)?),
            Some(Kind::Call) => Self::Call(Call::decode(payload).map_err(reason)?),
            Some(Kind::Outcome) => Self::Outcome(Outcome::decode(payload).map_err(reason)?),
            Some(Kind::Contents) => Self::Contents(Contents::decode(payload).map_err(reason)?),
            Some(Kind::Snapshot) => Self::Snapshot(Snapshot::decode(payload).map_err(reason)?),
            Some(Kind::End) => Self::End(End::decode(payload).map_err(reason)?),
            Some(Kind::Data) => {
                let (hash, piece) = payload.split_first_chunk::<HASH>().ok_or("the piece of data has no hash")?;
                if piece.len() > PIECE {
                    return Err(format!("the piece of data has more than {PIECE} bytes"));
                }
                Self::Data { hash: Hash(*hash), size: piece.len() }
            }
            None => Self::Unknown(kind),
        })
    }
}

/// The progress of reading a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum State {
    /// More blocks may follow.
    Reading,
    /// The recording is complete. Its last block is [`Body::End`].
    Complete,
    /// The file ends after a complete block, without the end of the recording. The process was killed, or it is still
    /// running.
    Unfinished,
    /// The file ends within a block.
    Cut {
        /// Offset of the incomplete block.
        offset: u64,
    },
}

/// Reads a recording block by block. The memory use depends only on the size of a block and on the number of pieces of
/// data. The reader rejects a file whose messages expand to more than twice the size of the file and 1 MiB, so that a
/// program that keeps all messages uses memory in proportion to the size of the file.
#[derive(Debug)]
pub struct Reader<R> {
    from: R,
    /// Current position in the file, or `None` after an error.
    position: Option<u64>,
    /// The sizes of the blocks before `offset`.
    expansion: Expansion,
    version: (u16, u16),
    offset: u64,
    state: State,
    ended: bool,
    /// Offsets of the blocks with data, by the hash of the piece.
    pieces: HashMap<Hash, u64>,
}

impl<R: Read + Seek> Reader<R> {
    /// Reads the header of a recording.
    ///
    /// # Errors
    ///
    /// Returns an error if the file is not a recording, or if it has another major version.
    pub fn new(mut from: R) -> Result<Self, ReadError> {
        let mut header = [0; FILE_HEADER];
        if fill(&mut from, &mut header)? < FILE_HEADER || header[..8] != *MAGIC {
            return Err(ReadError::NotARecording);
        }
        let number = |at: usize| u16::from_le_bytes([header[at], header[at + 1]]);
        let version = (number(8), number(10));
        if version.0 != VERSION.0 {
            return Err(ReadError::Version { major: version.0, minor: version.1 });
        }
        let offset = FILE_HEADER as u64;
        Ok(Self {
            from,
            position: Some(offset),
            expansion: Expansion::default(),
            version,
            offset,
            state: State::Reading,
            ended: false,
            pieces: HashMap::new(),
        })
    }

    /// Returns the size of the file in bytes.
    #[cfg(feature = "replay")]
    pub(crate) fn file_size(&mut self) -> Result<u64, ReadError> {
        self.position = None;
        Ok(self.from.seek(SeekFrom::End(0))?)
    }

    /// Returns the version of the format, major and minor.
    #[must_use]
    pub fn version(&self) -> (u16, u16) {
        self.version
    }

    /// Returns how far the recording has been read.
    #[must_use]
    pub fn state(&self) -> State {
        self.state
    }

    /// Reads the next block. Returns `None` at the end of the file, and before an incomplete block. [`Reader::state`]
    /// distinguishes these two cases.
    ///
    /// # Errors
    ///
    /// Returns an error if the block is damaged. Another call returns the same error.
    pub fn read(&mut self) -> Result<Option<Block>, ReadError> {
        let offset = self.offset;
        let Some((header, payload)) = self.block(offset)? else { return Ok(None) };
        let body = Body::decode(header.kind, &payload).map_err(|reason| ReadError::Damaged { offset, reason })?;
        let size = BLOCK_HEADER as u64 + u64::from(header.stored);
        let message = if matches!(body, Body::Data { .. }) { 0 } else { payload.len() as u64 };
        let too_large = || damaged(offset, "its message and those before it are too large for the size of the file");
        self.expansion = self.expansion.with(size, message).ok_or_else(too_large)?;
        if let Body::Data { hash, .. } = &body {
            self.pieces.insert(*hash, offset);
        }
        self.ended = matches!(body, Body::End(_));
        self.offset = offset.saturating_add(size);
        Ok(Some(Block { offset, size, stamp: header.stamp, body }))
    }

    /// Returns a block that [`Self::read`] has returned before. Does not change which block [`Self::read`] returns
    /// next.
    pub(crate) fn read_again(&mut self, offset: u64) -> Result<Block, ReadError> {
        let state = self.state;
        let found = self.block(offset);
        self.state = state;
        let (header, payload) = found?.ok_or_else(|| damaged(offset, "the file has become shorter"))?;
        let body = Body::decode(header.kind, &payload).map_err(|reason| ReadError::Damaged { offset, reason })?;
        let size = BLOCK_HEADER as u64 + u64::from(header.stored);
        Ok(Block { offset, size, stamp: header.stamp, body })
    }

    /// Moves back to the first block. Keeps the offsets of the data that have been found.
    pub fn rewind(&mut self) {
        self.offset = FILE_HEADER as u64;
        (self.state, self.ended, self.expansion) = (State::Reading, false, Expansion::default());
    }

    /// Returns data whose pieces precede the current block.
    ///
    /// # Errors
    ///
    /// Returns an error if the data are larger than `limit` bytes, damaged or missing.
    pub fn content(&mut self, content: &Content, limit: u64) -> Result<Vec<u8>, ReadError> {
        if content.size > limit {
            return Err(ReadError::TooLarge { size: content.size, limit });
        }
        let pieces = content.size.div_ceil(PIECE as u64);
        if content.hashes.len() as u64 != pieces.saturating_mul(HASH as u64) {
            let reason = format!("data of {} bytes have {pieces} pieces, but the block has other hashes", content.size);
            return Err(ReadError::Damaged { offset: self.offset, reason });
        }
        let mut data = Vec::new();
        for hash in content.pieces() {
            let piece = self.piece(&hash)?;
            if (data.len() + piece.len()) as u64 > content.size {
                let reason = "the pieces are longer than the data".to_owned();
                return Err(ReadError::Damaged { offset: self.offset, reason });
            }
            data.extend_from_slice(&piece);
        }
        if data.len() as u64 != content.size {
            let reason = format!("the pieces have {} bytes, and the data {}", data.len(), content.size);
            return Err(ReadError::Damaged { offset: self.offset, reason });
        }
        Ok(data)
    }

    /// Returns a piece of data that precedes the current block.
    pub(crate) fn piece(&mut self, hash: &Hash) -> Result<Vec<u8>, ReadError> {
        let missing = || ReadError::MissingData(hash.to_hex());
        let offset = *self.pieces.get(hash).ok_or_else(missing)?;
        let state = self.state;
        let found = self.block(offset);
        self.state = state;
        let (_, mut payload) = found?.ok_or_else(missing)?;
        let piece = payload.split_off(HASH.min(payload.len()));
        if Hash::of(&piece) != *hash {
            return Err(damaged(offset, "the data do not have the hash that the block names"));
        }
        Ok(piece)
    }

    /// Reads the block at an offset. Returns `None` at the end of the file, and if the block is incomplete.
    fn block(&mut self, offset: u64) -> Result<Option<(Header, Vec<u8>)>, ReadError> {
        // Seek only if necessary, because a seek discards the buffer of a buffered reader.
        if self.position.take() != Some(offset) {
            self.from.seek(SeekFrom::Start(offset))?;
        }
        let mut bytes = [0; BLOCK_HEADER];
        match fill(&mut self.from, &mut bytes)? {
            0 => {
                self.state = if self.ended { State::Complete } else { State::Unfinished };
                return Ok(None);
            }
            BLOCK_HEADER => {}
            _ => {
                self.state = State::Cut { offset };
                return Ok(None);
            }
        }
        let header = Header::parse(&bytes);
        let (stored, length) = (header.stored as usize, header.length as usize);
        if stored > MAX_PAYLOAD || length > MAX_PAYLOAD {
            return Err(damaged(offset, "it is longer than the format allows"));
        }
        let mut payload = vec![0; stored];
        if fill(&mut self.from, &mut payload)? < stored {
            self.state = State::Cut { offset };
            return Ok(None);
        }
        if checksum(&bytes, &payload) != header.checksum {
            return Err(damaged(offset, "its checksum is wrong"));
        }
        self.position = offset.checked_add(BLOCK_HEADER as u64 + u64::from(header.stored));
        let payload = match header.compression {
            PLAIN if stored == length => payload,
            LZ4 => lz4_flex::block::decompress(&payload, length)
                .ok()
                .filter(|plain| plain.len() == length)
                .ok_or_else(|| damaged(offset, "it cannot be decompressed"))?,
            PLAIN => return Err(damaged(offset, "it has two lengths")),
            _ => return Err(damaged(offset, "its compression is unknown")),
        };
        Ok(Some((header, payload)))
    }
}

fn damaged(offset: u64, reason: &str) -> ReadError {
    ReadError::Damaged { offset, reason: reason.to_owned() }
}

/// Reads until the buffer is full or the file ends. Returns the number of bytes that were read.
fn fill(from: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match from.read(&mut buffer[filled..]) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

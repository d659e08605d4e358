//! Takes recordings apart into the payloads of their blocks. A fuzzer changes the payloads, and joins them to a file
//! with valid lengths and checksums.

use crate::block::{self, BLOCK_HEADER, FILE_HEADER, Header, LZ4, MAX_PAYLOAD, PLAIN, Stamp, VERSION};

/// A block with a payload that need not be valid.
#[doc(hidden)]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RawBlock {
    /// Code of the kind.
    pub kind: u8,
    /// Call, thread and time.
    pub stamp: Stamp,
    /// The payload after decompression.
    pub payload: Vec<u8>,
}

/// Returns the blocks of a file up to the first block that cannot be decompressed. Ignores checksums.
#[doc(hidden)]
#[must_use]
pub fn split(file: &[u8]) -> Vec<RawBlock> {
    let mut blocks = Vec::new();
    let mut rest = file.get(FILE_HEADER..).unwrap_or_default();
    while let Some((header, after)) = rest.split_first_chunk::<BLOCK_HEADER>() {
        let header = Header::parse(header);
        let Some((stored, next)) = after.split_at_checked(header.stored as usize) else { break };
        let length = header.length as usize;
        let payload = match header.compression {
            PLAIN => Some(stored.to_vec()),
            LZ4 if length <= MAX_PAYLOAD => lz4_flex::block::decompress(stored, length).ok(),
            _ => None,
        };
        let Some(payload) = payload else { break };
        blocks.push(RawBlock { kind: header.kind, stamp: header.stamp, payload });
        rest = next;
    }
    blocks
}

/// Writes blocks to a file. Leaves out payloads that are too large for a block.
#[doc(hidden)]
#[must_use]
pub fn join(blocks: &[RawBlock]) -> Vec<u8> {
    let mut file = block::file_header(VERSION).to_vec();
    for RawBlock { kind, stamp, payload } in blocks {
        file.extend(block::encode(*kind, *stamp, payload, true).unwrap_or_default());
    }
    file
}

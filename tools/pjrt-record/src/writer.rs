//! Writes recordings.

use std::collections::HashSet;
use std::io::{self, Write};

use crate::block::{self, Expansion, Kind, Stamp, VERSION};
use crate::content::{Content, Hash, PIECE};
use crate::reader::Body;

/// Writes a recording. One call of [`Write::write_all`] writes each block, so that a killed process leaves complete
/// blocks, and at most one incomplete block at the end.
#[derive(Debug)]
pub struct Writer<W: Write> {
    out: W,
    known: HashSet<Hash>,
    expansion: Expansion,
}

impl<W: Write> Writer<W> {
    /// Writes the header of a recording.
    ///
    /// # Errors
    ///
    /// Returns an error if `out` fails.
    pub fn new(mut out: W) -> io::Result<Self> {
        out.write_all(&block::file_header(VERSION))?;
        Ok(Self { out, known: HashSet::new(), expansion: Expansion::default() })
    }

    /// Writes the pieces of data that the file does not contain yet. Returns a reference to the data.
    ///
    /// # Errors
    ///
    /// Returns an error if `out` fails.
    pub fn store(&mut self, data: &[u8]) -> io::Result<Content> {
        let content = Content::of(data);
        for (hash, piece) in content.pieces().zip(data.chunks(PIECE)) {
            if !self.has(&hash) {
                self.write_piece(hash, &encode_piece(hash, piece)?)?;
            }
        }
        Ok(content)
    }

    /// Returns whether the file contains a piece.
    #[must_use]
    pub fn has(&self, hash: &Hash) -> bool {
        self.known.contains(hash)
    }

    /// Writes a block that [`encode_piece`] returned, unless the file already contains the piece.
    ///
    /// # Errors
    ///
    /// Returns an error if `out` fails.
    pub fn write_piece(&mut self, hash: Hash, block: &[u8]) -> io::Result<()> {
        if self.known.insert(hash) {
            self.out.write_all(block)?;
            self.expansion = self.expansion.with(block.len() as u64, 0).unwrap_or(self.expansion);
        }
        Ok(())
    }

    /// Writes a block.
    ///
    /// # Errors
    ///
    /// Returns an error if `out` fails, or if the block is too large.
    pub fn write(&mut self, stamp: Stamp, body: &Body) -> io::Result<()> {
        let (kind, payload) = body.encode();
        let encode = |compress| {
            let block = block::encode(kind as u8, stamp, &payload, compress).ok_or_else(|| too_large(payload.len()))?;
            Ok::<_, io::Error>((self.expansion.with(block.len() as u64, payload.len() as u64), block))
        };
        // A reader rejects files whose messages expand too much, so write such a message without compression.
        let (expansion, block) = match encode(true)? {
            (None, _) => encode(false)?,
            allowed => allowed,
        };
        self.out.write_all(&block)?;
        self.expansion = expansion.unwrap_or(self.expansion);
        Ok(())
    }

    /// Returns the destination of the recording.
    pub fn get_ref(&self) -> &W {
        &self.out
    }
}

/// Encodes the block for a piece, which must have at most [`PIECE`] bytes. This function compresses the piece without
/// the writer, so that several threads can encode pieces at the same time.
///
/// # Errors
///
/// Returns an error if the piece is too large.
pub fn encode_piece(hash: Hash, piece: &[u8]) -> io::Result<Vec<u8>> {
    let mut payload = Vec::with_capacity(hash.0.len() + piece.len());
    payload.extend_from_slice(&hash.0);
    payload.extend_from_slice(piece);
    block::encode(Kind::Data as u8, Stamp::default(), &payload, true).ok_or_else(|| too_large(piece.len()))
}

fn too_large(size: usize) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, format!("a block of {size} bytes exceeds the format's limit"))
}

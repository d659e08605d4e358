//! References to data by their hash.

use std::io::{self, Read};

use sha2::{Digest, Sha256};

/// Maximum number of bytes in a piece. A piece is the section of the data that one block of the file contains.
pub const PIECE: usize = 1 << 20;
/// Number of bytes of a hash.
pub(crate) const HASH: usize = 32;

/// The SHA-256 hash of a piece of data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Hash(pub(crate) [u8; HASH]);

impl Hash {
    /// Computes the hash of a piece.
    #[must_use]
    pub fn of(piece: &[u8]) -> Self {
        Self(Sha256::digest(piece).into())
    }

    /// Computes the hash of all bytes that the reader provides.
    ///
    /// # Errors
    ///
    /// Returns an error if reading fails.
    pub fn of_reader(mut from: impl Read) -> io::Result<Self> {
        let mut hasher = Sha256::new();
        io::copy(&mut from, &mut hasher)?;
        Ok(Self(hasher.finalize().into()))
    }

    /// Returns the bytes of the hash.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Returns the hash in hexadecimal digits.
    #[must_use]
    pub fn to_hex(&self) -> String {
        hex(&self.0)
    }
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A reference to data in a recording. The data are stored in pieces of [`PIECE`] bytes. The last piece may be shorter.
#[derive(Clone, PartialEq, Eq, prost::Message, serde::Serialize)]
pub struct Content {
    /// Size of the data in bytes.
    #[prost(uint64, tag = "1")]
    pub size: u64,
    /// Concatenated hashes of the pieces, in order.
    #[prost(bytes = "vec", tag = "2")]
    #[serde(serialize_with = "serialize_hashes")]
    pub hashes: Vec<u8>,
}

impl Content {
    /// Computes the reference to data. The reference to empty data has no pieces.
    #[must_use]
    pub fn of(data: &[u8]) -> Self {
        let mut hashes = Vec::with_capacity(data.len().div_ceil(PIECE) * HASH);
        for piece in data.chunks(PIECE) {
            hashes.extend_from_slice(&Hash::of(piece).0);
        }
        Self { size: data.len() as u64, hashes }
    }

    /// Returns the hashes of the pieces, in order.
    pub fn pieces(&self) -> impl Iterator<Item = Hash> {
        self.hashes.as_chunks::<HASH>().0.iter().map(|hash| Hash(*hash))
    }
}

fn serialize_hashes<S: serde::Serializer>(hashes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(hashes.chunks(HASH).map(hex))
}

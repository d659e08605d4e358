//! Errors of a reader.

use std::io;

use crate::block::VERSION;

/// Why a recording cannot be read. The message names the offset in the file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The file cannot be read.
    #[error("cannot read the file: {0}")]
    Io(#[from] io::Error),
    /// The file does not begin as a recording does.
    #[error("the file is not a recording of the layer `record`")]
    NotARecording,
    /// The file has another major version.
    #[error(
        "the recording has format version {major}.{minor}, and this build reads version {own}: use a build whose \
         format version begins with {major}",
        own = format!("{}.x", VERSION.0)
    )]
    Version {
        /// The file's major version.
        major: u16,
        /// The file's minor version.
        minor: u16,
    },
    /// A block is damaged.
    #[error(
        "the block at offset {offset} is damaged: {reason}. The blocks before it are usable. Copy the file again, or \
         record again"
    )]
    Damaged {
        /// The offset of the block in the file.
        offset: u64,
        /// The reason.
        reason: String,
    },
    /// A piece of data is not in the file.
    #[error("the data with the hash {0} are not in the file: record again")]
    MissingData(String),
    /// Data are larger than the caller accepts.
    #[error("{size} bytes of data exceed the limit of {limit} bytes")]
    TooLarge {
        /// The size.
        size: u64,
        /// The limit.
        limit: u64,
    },
}

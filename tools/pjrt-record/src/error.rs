//! Errors of reading a recording.

use std::io;

use crate::block::VERSION;

/// The reason why a recording cannot be read. If a block is damaged, the message contains the block's offset in the
/// file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The file cannot be read.
    #[error("cannot read the file: {0}")]
    Io(#[from] io::Error),
    /// The file does not begin with the header of a recording.
    #[error("the file is not a recording of the layer `record`")]
    NotARecording,
    /// The file has a different major version of the format.
    #[error(
        "the recording has format version {major}.{minor}, and this build reads version {own}: use a build whose \
         format version begins with {major}",
        own = format!("{}.x", VERSION.0)
    )]
    Version {
        /// Major version of the file.
        major: u16,
        /// Minor version of the file.
        minor: u16,
    },
    /// A block is damaged.
    #[error(
        "the block at offset {offset} is damaged: {reason}. The blocks before it are usable. Copy the file again, or \
         record again"
    )]
    Damaged {
        /// Offset of the block in the file.
        offset: u64,
        /// Description of the damage.
        reason: String,
    },
    /// A piece of data is not in the file.
    #[error("the data with the hash {0} are not in the file: record again")]
    MissingData(String),
    /// The data are larger than the caller's limit.
    #[error("{size} bytes of data exceed the limit of {limit} bytes")]
    TooLarge {
        /// Size of the data in bytes.
        size: u64,
        /// Limit of the caller in bytes.
        limit: u64,
    },
}

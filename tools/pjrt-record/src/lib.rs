//! Recordings of the calls between a framework and a PJRT plugin.
//!
//! The layer `record` of `pjrt-layers` writes a recording while a program runs. A [`Reader`] can read the recording
//! even if the program was killed. The file consists of blocks, and is readable up to the last complete block. A
//! recording contains the calls that are needed to repeat the computation, and the data of these calls. Equal data are
//! stored once.
//!
//! With the feature `replay`, the module `replay` repeats the calls of a recording on a plugin and compares the results
//! with those in the file.
//!
//! ```
//! use std::io::Cursor;
//! use pjrt_record::{Body, Call, Reader, Stamp, Writer};
//!
//! let mut file = Vec::new();
//! let mut writer = Writer::new(&mut file)?;
//! let program = writer.store(b"module {}")?;
//! let stamp = Stamp { call: 1, thread: 1, nanos: 0 };
//! writer.write(stamp, &Body::Call(Call { function: "PJRT_Client_Compile".to_owned(), ..Call::default() }))?;
//!
//! let mut reader = Reader::new(Cursor::new(file))?;
//! while let Some(block) = reader.read()? {
//!     println!("{}: {:?}", block.offset, block.body);
//! }
//! assert_eq!(reader.content(&program, 100)?, b"module {}");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

mod block;
mod content;
mod error;
mod index;
mod json;
mod message;
mod raw;
mod reader;
#[cfg(feature = "replay")]
pub mod replay;
mod selection;
mod summary;
mod trim;
mod writer;

pub use block::{Kind, MAX_PAYLOAD, Stamp, VERSION};
pub use content::{Content, Hash, PIECE};
pub use error::ReadError;
pub use json::line;
pub use message::{
    Arguments, ArrayType, BufferList, Call, ClientCreate, ClientDescription, Compile, Contents, Copy, CreateBuffer,
    CreateManager, Deserialize, Device, Download, End, ExecutableDescription, Execute, Failure, Fulfill, Integers,
    Layout, Memory, MemoryLayout, NamedOption, Object, Outcome, Process, Retrieve, SetError, Snapshot, Tiled, Transfer,
    Upload, Value,
};
#[doc(hidden)]
pub use raw::{RawBlock, join, split};
pub use reader::{Block, Body, Reader, State};
pub use selection::{ParseSelectionError, Selection};
pub use summary::{Run, Summary};
pub use trim::{TrimError, Trimmed, trim};
pub use writer::{Writer, encode_piece};

//! The objects of a replay.

use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

use pjrt::{AliasFulfillment, AsyncHostToDeviceTransferManager, Buffer, Client, LoadedExecutable};

use super::budget::Share;
use super::places::Places;
use super::readiness::{Node, Readiness};
use super::report::Verdict;

fn text(error: pjrt::Error) -> String {
    error.to_string()
}

/// An object that the replay created.
#[derive(Debug)]
pub(super) enum Made {
    Manager(Manager),
    Fulfillment(AliasFulfillment, Node),
    Buffer(Known),
    Executable(LoadedExecutable, Share),
    Client(Client, Share),
}

impl Made {
    pub(super) fn buffer(buffer: Buffer, waits: Option<Node>, share: impl Into<Rc<Share>>) -> Self {
        Self::Buffer(Known { buffer: Rc::new(buffer), waits, share: Some(share.into()) })
    }
}

/// A buffer, and the data for which it waits.
#[derive(Clone, Debug)]
pub(super) struct Known {
    pub(super) buffer: Rc<Buffer>,
    pub(super) waits: Option<Node>,
    /// The size of the buffer, unless a run computed it.
    pub(super) share: Option<Rc<Share>>,
}

/// A transfer manager, with the contents of its buffers.
#[derive(Debug)]
pub(super) struct Manager {
    pub(super) raw: AsyncHostToDeviceTransferManager,
    pub(super) nodes: Vec<Node>,
    pub(super) shares: Vec<Rc<Share>>,
}

/// The objects that a call created.
#[derive(Debug, Default)]
pub(super) struct Produced {
    pub(super) objects: Vec<Made>,
    pub(super) outputs: Vec<Vec<Known>>,
}

/// A download whose data have not been compared yet.
#[derive(Debug)]
pub(super) struct Pending {
    pub(super) known: Known,
    pub(super) number: u64,
    /// Offset and size in bytes, if the download is a call of `PJRT_Buffer_CopyRawToHost`.
    pub(super) raw: Option<(usize, usize)>,
}

impl Pending {
    /// Waits for the buffer. Returns the size of the data that [`Pending::read`] would return, in bytes. Returns an
    /// error if the wait would end only after a later call, which the replay would never reach.
    pub(super) fn size(&self, readiness: &Readiness) -> Result<u64, String> {
        if !readiness.is_ready(self.known.waits) {
            return Err("the buffer waits for data, and no earlier call of the recording sends them".to_owned());
        }
        let buffer = &self.known.buffer;
        buffer.wait().map_err(text)?;
        if let Some((_, size)) = self.raw {
            return Ok(size as u64);
        }
        let mut shape = buffer.shape().map_err(text)?.clone();
        // A plugin without this function has no arrays with dynamic dimensions.
        if let Ok(extents) = buffer.unpadded_dimensions() {
            shape.dimensions = extents;
        }
        Ok(shape.host_size().map_or(u64::MAX, |size| size as u64))
    }

    pub(super) fn read(&self) -> Result<Vec<u8>, String> {
        let download = self.known.buffer.download();
        match self.raw {
            None => download.bytes().map_err(text),
            Some((offset, size)) => download.raw(offset, size).start().and_then(pjrt::HostRead::wait).map_err(text),
        }
    }
}

/// A call whose recorded outcome has not been read yet.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) function: String,
    /// Whether the call has an outcome in the file if it succeeds.
    pub(super) has_outcome: bool,
    /// Number of the client of the new objects.
    pub(super) client: u64,
    /// Name of the program that the call runs.
    pub(super) program: Option<Arc<str>>,
    /// The result of the call in the replay.
    pub(super) result: Result<Produced, String>,
}

/// The objects of a replay, by their numbers in the recording.
///
/// The fields are dropped in this order. Transfer managers and fulfillments come first, so that no buffer waits for
/// data when its client is destroyed.
#[derive(Debug, Default)]
pub(super) struct Objects {
    pub(super) managers: HashMap<u64, Manager>,
    pub(super) fulfillments: HashMap<u64, (AliasFulfillment, Node)>,
    /// The calls whose recorded outcome has not been read yet, by their numbers.
    pub(super) calls: HashMap<u64, Waiting>,
    pub(super) readiness: Readiness,
    pub(super) downloads: HashMap<u64, Pending>,
    /// The downloads of each buffer.
    pub(super) readers: HashMap<u64, Vec<u64>>,
    /// The results of downloads whose buffer was deleted or donated before their contents in the file.
    pub(super) done: HashMap<u64, Result<Verdict, String>>,
    pub(super) buffers: HashMap<u64, Known>,
    /// The executables, each with the size of its program.
    pub(super) executables: HashMap<u64, (LoadedExecutable, Share)>,
    /// Program names of the executables.
    pub(super) programs: HashMap<u64, Arc<str>>,
    /// Number of the client of each object that belongs to a client.
    pub(super) clients: HashMap<u64, u64>,
    /// The run that computed each buffer: the number of the call, the name of the program, and the index of the output.
    pub(super) runs: HashMap<u64, (u64, Arc<str>, usize)>,
    pub(super) places: HashMap<u64, (Places, Share)>,
    /// Number of bytes that the largest client so far counts.
    pub(super) client_bytes: u64,
}

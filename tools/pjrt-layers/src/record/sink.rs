//! The file of a recording.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use pjrt_record::{Body, Content, End, Hash, PIECE, Process, Selection, Stamp, Writer, encode_piece};

use crate::core::Plugin;
use crate::core::thread_id;
use crate::output;

/// Settings of a recording: its folder, the plugin's path, and an optional limit to one run.
#[derive(Clone, Debug, Default)]
pub struct Target {
    /// The folder for `record-PID.pjrt`. `None` selects the current folder.
    pub folder: Option<PathBuf>,
    /// The path of the plugin's library, which the first block of the file contains.
    pub plugin: Option<PathBuf>,
    /// The run to which the recording is limited. `None` means that the recording is not limited.
    pub only: Option<Selection>,
}

/// The file of a recording. The file is created when its first block is written.
#[derive(Debug)]
pub(super) struct Sink {
    target: Target,
    start: Instant,
    process: u32,
    file: Mutex<Output>,
    /// The stack of layers. The first call that the layer handles sets this field.
    pub(super) plugin: OnceLock<&'static Plugin>,
}

#[derive(Debug)]
enum Output {
    None,
    Open(Writer<File>),
    /// The recording has ended, or the file cannot be written.
    Closed,
}

impl Sink {
    pub(super) fn new(target: Target) -> Self {
        let process = std::process::id();
        let file = Mutex::new(Output::None);
        Self { target, start: Instant::now(), process, file, plugin: OnceLock::new() }
    }

    pub(super) fn only(&self) -> Option<&Selection> {
        self.target.only.as_ref()
    }

    /// Returns whether this process created the layer. A forked process shares the open file with its parent, and must
    /// not write to it.
    pub(super) fn is_ours(&self) -> bool {
        std::process::id() == self.process
    }

    /// Returns the stamp of a block that this thread writes. `call` is the number of the call that the block describes,
    /// or 0.
    pub(super) fn stamp(&self, call: u64) -> Stamp {
        let nanos = u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX);
        Stamp { call, thread: thread_id(), nanos }
    }

    /// Writes data, except for chunks that the file already contains. Does not hold the lock while it hashes and
    /// compresses chunks, so that several threads can do this at the same time.
    pub(super) fn store(&self, data: &[u8]) -> Content {
        let content = Content::of(data);
        for (hash, piece) in content.pieces().zip(data.chunks(PIECE)) {
            self.store_piece(hash, piece);
        }
        content
    }

    fn store_piece(&self, hash: Hash, piece: &[u8]) {
        let known = matches!(&*self.lock(), Output::Open(writer) if writer.has(&hash));
        if !known {
            self.with_writer(encode_piece(hash, piece), |writer, block| writer.write_piece(hash, &block));
        }
    }

    pub(super) fn write(&self, stamp: Stamp, body: &Body) {
        self.with_writer(Ok(()), |writer, ()| writer.write(stamp, body));
    }

    /// Writes an `End` block with the number of calls so far. Other blocks may follow, because the process may use
    /// another client later.
    pub(super) fn end(&self, calls: u64) {
        if let Output::Open(writer) = &mut *self.lock()
            && self.is_ours()
        {
            // If this fails, the file has no `End` block, and a reader reports an incomplete recording.
            let _ = writer.write(self.stamp(0), &Body::End(End { calls }));
        }
    }

    /// Ends the recording. Later blocks are dropped.
    pub(super) fn close(&self, calls: u64) {
        self.end(calls);
        *self.lock() = Output::Closed;
    }

    fn with_writer<T>(&self, input: io::Result<T>, write: impl FnOnce(&mut Writer<File>, T) -> io::Result<()>) {
        let mut output = self.lock();
        if matches!(*output, Output::None) {
            *output = match self.open() {
                Ok(writer) => Output::Open(writer),
                Err(error) => self.failed(&error),
            };
        }
        let Output::Open(writer) = &mut *output else { return };
        if let Err(error) = input.and_then(|input| write(writer, input)) {
            *output = self.failed(&error);
        }
    }

    fn open(&self) -> io::Result<Writer<File>> {
        let (_, file) = output::create(self.folder(), "record", "pjrt")?;
        let mut writer = Writer::new(file)?;
        writer.write(self.stamp(0), &Body::Process(self.process_block()))?;
        Ok(writer)
    }

    fn folder(&self) -> &Path {
        self.target.folder.as_deref().unwrap_or(Path::new("."))
    }

    fn process_block(&self) -> Process {
        let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let plugin = self.target.plugin.as_deref();
        let hash = plugin.and_then(|path| Hash::of_reader(File::open(path).ok()?).ok());
        let (plugin_api_major, plugin_api_minor) = self.plugin.get().map_or((0, 0), |plugin| plugin.version());
        let text = |path: Option<PathBuf>| path.unwrap_or_default().to_string_lossy().into_owned();
        Process {
            recorder: concat!("pjrt-layers ", env!("CARGO_PKG_VERSION")).to_owned(),
            process: self.process,
            unix_nanos: u64::try_from(unix.as_nanos()).unwrap_or(u64::MAX),
            program: text(std::env::current_exe().ok()),
            system: format!("{} {}", std::env::consts::OS, std::env::consts::ARCH),
            plugin_path: text(plugin.map(Into::into)),
            plugin_sha256: hash.map(|hash| hash.to_hex()).unwrap_or_default(),
            plugin_api_major,
            plugin_api_minor,
            only_run: self.only().map(ToString::to_string).unwrap_or_default(),
        }
    }

    /// Writes an error to the standard error, and returns the state that ends the recording. The process continues.
    fn failed(&self, error: &io::Error) -> Output {
        // No caller receives this error, so it is written to the standard error.
        let _ = writeln!(
            io::stderr(),
            "pjrt-layers: cannot write the recording in {}: {error}; the recording ends here",
            self.folder().display()
        );
        Output::Closed
    }

    fn lock(&self) -> MutexGuard<'_, Output> {
        self.file.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

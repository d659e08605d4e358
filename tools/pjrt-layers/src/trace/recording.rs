//! The records of all threads of a process.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use super::log::{ARGS, Log};
use crate::core::Clock;
use crate::function::{Field, Function, Kind};
use crate::generated::FUNCTIONS;
use crate::layer_error::LayerError;
use crate::output::OutputFile;

/// Settings for the files that the layer writes.
#[derive(Clone, Debug, Default)]
pub struct Outputs {
    /// The folder for `tally-PID.txt`, `tally-PID.json`, `trace-PID.pftrace` and `trace-PID.jsonl`. Without a folder,
    /// the layer only writes the tally to the standard error when the process exits.
    pub folder: Option<PathBuf>,
    /// Number of records that the timeline keeps for each thread. A call has one record, a run has further records for
    /// its outputs and events, and an event that became ready has one record. The layer rounds the number up to 1024
    /// times a power of two. Older calls are only in the tally. 0 selects the default, 262144.
    pub calls_per_thread: usize,
}

/// The records of all threads, and the data that is needed to interpret them.
#[derive(Debug)]
pub(super) struct Recording {
    pub(super) clock: Clock,
    pub(super) outputs: Outputs,
    /// The files in the folder of `outputs`.
    pub(super) files: Option<Mutex<Files>>,
    pub(super) logs: Mutex<Vec<Arc<Log>>>,
    /// Errors of failed calls, by the start time and the thread of the call.
    pub(super) errors: Mutex<HashMap<(u64, u64), LayerError>>,
    /// For each function, the fields that a record keeps.
    pub(super) fields: Vec<Vec<&'static Field>>,
}

/// The files that the layer writes. Each report replaces their contents.
#[derive(Debug)]
pub(super) struct Files {
    pub(super) tally: OutputFile,
    pub(super) tally_json: OutputFile,
    pub(super) timeline: OutputFile,
    pub(super) lines: OutputFile,
}

impl Files {
    fn new(folder: &Path) -> Self {
        Self {
            tally: OutputFile::new(folder, "tally", "txt"),
            tally_json: OutputFile::new(folder, "tally", "json"),
            timeline: OutputFile::new(folder, "trace", "pftrace"),
            lines: OutputFile::new(folder, "trace", "jsonl"),
        }
    }
}

impl Recording {
    pub(super) fn new(outputs: Outputs) -> Self {
        Self {
            clock: Clock::new(),
            files: outputs.folder.as_deref().map(|folder| Mutex::new(Files::new(folder))),
            outputs,
            logs: Mutex::default(),
            errors: Mutex::default(),
            fields: FUNCTIONS.iter().map(fields).collect(),
        }
    }
}

/// Returns the fields of a function that a record keeps. These are the first [`ARGS`] fields if the handles are before
/// the sizes, integers and booleans.
fn fields(function: &'static Function) -> Vec<&'static Field> {
    let handles = function.fields.iter().filter(|field| matches!(field.kind, Kind::Handle(_)));
    let numbers = function.fields.iter().filter(|field| matches!(field.kind, Kind::Size | Kind::Integer | Kind::Bool));
    handles.chain(numbers).take(ARGS).collect()
}

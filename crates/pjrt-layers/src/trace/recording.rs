//! The records of a process.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use super::log::{ARGS, Log};
use crate::core::Clock;
use crate::function::{Field, Function, Kind};
use crate::generated::FUNCTIONS;
use crate::layer_error::LayerError;

/// Where the layer writes its results.
#[derive(Clone, Debug, Default)]
pub struct Outputs {
    /// The folder for `tally-PID.txt`, `tally-PID.json`, `trace-PID.pftrace` and `trace-PID.jsonl`. Without a folder, the
    /// layer writes the tally to the standard error when the process exits.
    pub folder: Option<PathBuf>,
    /// Number of calls that the timeline keeps for each thread. Older calls are only in the tally. 0 stands for 262144.
    pub calls_per_thread: usize,
}

/// The records of all threads.
#[derive(Debug)]
pub(super) struct Recording {
    pub(super) clock: Clock,
    pub(super) outputs: Outputs,
    pub(super) logs: Mutex<Vec<Arc<Log>>>,
    /// Texts of errors, by the start of the call and its thread.
    pub(super) errors: Mutex<HashMap<(u64, u64), LayerError>>,
    /// The fields that a record keeps, by function.
    pub(super) fields: Vec<Vec<&'static Field>>,
}

impl Recording {
    pub(super) fn new(outputs: Outputs) -> Self {
        Self {
            clock: Clock::new(),
            outputs,
            logs: Mutex::default(),
            errors: Mutex::default(),
            fields: FUNCTIONS.iter().map(fields).collect(),
        }
    }
}

/// The fields of a function that a record keeps: handles first, then numbers.
fn fields(function: &'static Function) -> Vec<&'static Field> {
    let handles = function.fields.iter().filter(|field| matches!(field.kind, Kind::Handle(_)));
    let numbers = function.fields.iter().filter(|field| matches!(field.kind, Kind::Size | Kind::Integer | Kind::Bool));
    handles.chain(numbers).take(ARGS).collect()
}

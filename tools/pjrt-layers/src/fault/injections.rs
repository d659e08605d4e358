//! Writes each injected error, and each call with lost or late events, to a file.

use std::io::{self, Write};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use serde_json::json;

use crate::output::OutputFile;

/// Writes one JSON object for each injected error and for each call with lost or late events to `fault-PID.jsonl`,
/// before the call continues. Even if the process crashes, the file contains all JSON objects up to the crash. Delays
/// are not in the file.
#[derive(Debug, Default)]
pub(super) struct Injections {
    file: Option<Mutex<OutputFile>>,
}

impl Injections {
    pub(super) fn new(folder: Option<&Path>) -> Self {
        Self { file: folder.map(|folder| Mutex::new(OutputFile::new(folder, "fault", "jsonl"))) }
    }

    pub(super) fn add(&self, function: &str, rule: usize, text: &str, call: u64, effect: &str) {
        let Some(file) = &self.file else { return };
        let line = json!({ "function": function, "rule": rule + 1, "text": text, "call": call, "effect": effect });
        let mut file = file.lock().unwrap_or_else(PoisonError::into_inner);
        let written = file.file().and_then(|file| file.write_all(format!("{line}\n").as_bytes()));
        // No caller receives this error, so it is written to the standard error.
        if let Err(error) = written {
            let _ = writeln!(io::stderr(), "pjrt-layers: cannot write injected errors to the output folder: {error}");
        }
    }
}

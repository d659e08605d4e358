//! Writes each injected error, and each call with lost or late events, to a file.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use serde_json::json;

/// Writes one JSON object for each injected error and for each call with lost or late events to `fault-PID.jsonl`,
/// before the call continues. Even if the process crashes, the file contains all JSON objects up to the crash. Delays
/// are not in the file.
#[derive(Debug, Default)]
pub(super) struct Injections {
    folder: Option<PathBuf>,
    file: Mutex<Option<File>>,
}

impl Injections {
    pub(super) fn new(folder: Option<&Path>) -> Self {
        Self { folder: folder.map(Path::to_owned), file: Mutex::default() }
    }

    pub(super) fn add(&self, function: &str, rule: usize, text: &str, call: u64, effect: &str) {
        let Some(folder) = &self.folder else { return };
        let line = json!({ "function": function, "rule": rule + 1, "text": text, "call": call, "effect": effect });
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        // No caller receives this error, so it is written to the standard error.
        if let Err(error) = write(&mut file, folder, &format!("{line}\n")) {
            let _ = writeln!(io::stderr(), "pjrt-layers: cannot write to {}: {error}", folder.display());
        }
    }
}

fn write(file: &mut Option<File>, folder: &Path, line: &str) -> io::Result<()> {
    let file = match file {
        Some(file) => file,
        None => {
            std::fs::create_dir_all(folder)?;
            let path = folder.join(format!("fault-{}.jsonl", std::process::id()));
            file.insert(File::options().create(true).append(true).open(path)?)
        }
    };
    file.write_all(line.as_bytes())
}

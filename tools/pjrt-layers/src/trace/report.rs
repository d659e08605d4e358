//! Writes the tally and the timeline of the layer.

use std::io::{self, Write};
use std::path::Path;
use std::sync::{Arc, PoisonError};

use serde_json::json;

use super::log::Log;
use super::recording::{Files, Recording};
use super::tally::Tally;
use super::{flows, json, perfetto};

/// Writes the files of this process to the folder, if a folder is set. Replaces what an earlier call wrote.
pub(super) fn write_files(trace: &Recording) {
    if let Some(files) = &trace.files
        && let Err(error) = write(trace, &mut files.lock().unwrap_or_else(PoisonError::into_inner))
    {
        // No caller receives this error, so it is written to the standard error.
        let folder = trace.outputs.folder.as_deref().unwrap_or(Path::new("."));
        let _ = writeln!(io::stderr(), "pjrt-layers: cannot write to {}: {error}", folder.display());
    }
}

/// Writes the tally to the standard error if no folder is set.
pub(super) fn write_tally(trace: &Recording) {
    if trace.outputs.folder.is_none() {
        let tally = tally(trace, &logs(trace));
        let _ = write!(io::stderr(), "\nPJRT calls of process {}\n{tally}", std::process::id());
    }
}

fn logs(trace: &Recording) -> Vec<Arc<Log>> {
    trace.logs.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

fn tally(trace: &Recording, logs: &[Arc<Log>]) -> Tally {
    let scale = trace.clock.scale();
    Tally::of(logs.iter().map(|log| &log.counters), |ticks| scale.nanos(ticks))
}

fn write(trace: &Recording, files: &mut Files) -> io::Result<()> {
    let logs = logs(trace);
    let scale = trace.clock.scale();
    let process = std::process::id();

    let tally = tally(trace, &logs);
    let mut records = Vec::new();
    let mut lost = 0;
    for log in &logs {
        let (some, overwritten) = log.records();
        records.push(some);
        lost += overwritten;
    }
    let mut text = tally.to_string();
    if lost > 0 {
        text.push_str(&format!("The timeline lacks the {lost} oldest calls.\n"));
    }
    files.tally.emptied()?.write_all(text.as_bytes())?;
    let json = json!({ "process": process, "overwritten": lost, "functions": tally.to_json() });
    writeln!(files.tally_json.emptied()?, "{json:#}")?;

    let steps = flows::steps(&records, &trace.fields);
    files.timeline.emptied()?.write_all(&perfetto::encode(trace, &scale, &logs, &steps))?;
    let mut lines = io::BufWriter::new(files.lines.emptied()?);
    for step in &steps {
        writeln!(lines, "{}", json::line(trace, &scale, &logs[step.log], step))?;
    }
    lines.flush()
}

//! Writes the tally and the timeline of the layer.

use std::fs;
use std::io::{self, Write};
use std::path::Path;
use std::sync::{Arc, PoisonError};

use serde_json::json;

use super::log::Log;
use super::recording::Recording;
use super::tally::Tally;
use super::{flows, json, perfetto};

/// Writes the files of this process to the folder, if a folder is set. Overwrites the files that an earlier call wrote.
pub(super) fn write_files(trace: &Recording) {
    if let Some(folder) = &trace.outputs.folder
        && let Err(error) = write(trace, folder)
    {
        // No caller receives this error, so it is written to the standard error.
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

fn write(trace: &Recording, folder: &Path) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    let logs = logs(trace);
    let scale = trace.clock.scale();
    let process = std::process::id();
    let file = |name: &str, end: &str| folder.join(format!("{name}-{process}.{end}"));

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
    fs::write(file("tally", "txt"), text)?;
    let json = json!({ "process": process, "overwritten": lost, "functions": tally.to_json() });
    fs::write(file("tally", "json"), format!("{json:#}\n"))?;

    let steps = flows::steps(&records, &trace.fields);
    fs::write(file("trace", "pftrace"), perfetto::encode(trace, &scale, &logs, &steps))?;
    let mut lines = io::BufWriter::new(fs::File::create(file("trace", "jsonl"))?);
    for step in &steps {
        writeln!(lines, "{}", json::line(trace, &scale, &logs[step.log], step))?;
    }
    lines.flush()
}

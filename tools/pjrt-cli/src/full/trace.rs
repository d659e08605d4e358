//! `pjrt trace`: merges the tallies and timelines that the layer `trace` wrote in several processes.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use pjrt_layers::trace::Tally;
use serde_json::{Value, json};

use crate::Report;

#[derive(clap::Args)]
#[command(after_help = "Examples:
  pjrt with -p acme --layers trace --output calls -- torchrun train.py
  pjrt trace calls --output calls.pftrace             open the file in ui.perfetto.dev")]
pub(crate) struct Args {
    /// The folder with the files of the processes, which `pjrt with --output` named.
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// Write one timeline of all processes, for ui.perfetto.dev.
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Print the tally as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

pub(crate) fn run(args: &Args) -> Result<Report, String> {
    let files = files(&args.folder)?;
    let mut tally = Tally::default();
    let (mut processes, mut overwritten) = (Vec::new(), 0);
    for path in &files {
        if named(path, "tally-", "json") {
            let (process, lost, part) = read(path)?;
            processes.push(process);
            overwritten += lost;
            tally.merge(&part);
        }
    }
    if processes.is_empty() {
        return Err(format!(
            "{} has no tally-PID.json: run the command with `pjrt with --layers trace --output {0}`",
            args.folder.display()
        ));
    }
    if let Some(output) = &args.output {
        merge(files.iter().filter(|path| named(path, "trace-", "pftrace")), output)?;
    }
    if args.json {
        let out = json!({ "processes": processes, "overwritten": overwritten, "functions": tally.to_json() });
        return Ok(Report::from(format!("{out:#}\n")));
    }
    let mut out = String::new();
    line!(out, "PJRT calls of {} process{}", processes.len(), if processes.len() == 1 { "" } else { "es" });
    out.push_str(&tally.to_string());
    if overwritten > 0 {
        line!(
            out,
            "The timeline lacks the {overwritten} oldest calls. To keep more, set a larger PJRT_LAYERS_TRACE_CALLS."
        );
    }
    Ok(Report::from(out))
}

fn files(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let fault = |error: io::Error| format!("{}: {error}", folder.display());
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).map_err(fault)? {
        files.push(entry.map_err(fault)?.path());
    }
    files.sort();
    Ok(files)
}

fn named(path: &Path, start: &str, extension: &str) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    name.starts_with(start) && path.extension().is_some_and(|found| found == extension)
}

/// Reads the tally of one process. Returns the process id, the number of overwritten calls, and the tally.
fn read(path: &Path) -> Result<(u64, u64, Tally), String> {
    let fault = |what: String| format!("{}: {what}", path.display());
    let text = fs::read_to_string(path).map_err(|error| fault(error.to_string()))?;
    let value: Value = serde_json::from_str(&text).map_err(|error| fault(error.to_string()))?;
    let number = |name: &str| value.get(name).and_then(Value::as_u64);
    let tally = value.get("functions").and_then(Tally::from_json);
    let parts = number("process").zip(number("overwritten")).zip(tally);
    let ((process, overwritten), tally) =
        parts.ok_or_else(|| fault("the file is not a tally of the layer `trace`".to_owned()))?;
    Ok((process, overwritten, tally))
}

/// Concatenates timelines. Perfetto's format permits concatenation, because the tracks of different processes have
/// different ids.
fn merge<'a>(files: impl Iterator<Item = &'a PathBuf>, output: &Path) -> Result<(), String> {
    let fault = |path: &Path, error: io::Error| format!("{}: {error}", path.display());
    let mut merged = File::create(output).map_err(|error| fault(output, error))?;
    for path in files {
        let mut file = File::open(path).map_err(|error| fault(path, error))?;
        io::copy(&mut file, &mut merged).map_err(|error| fault(path, error))?;
    }
    merged.flush().map_err(|error| fault(output, error))
}

//! `pjrt record`: describes the files that the layer `record` wrote, converts them to JSON, and extracts runs from
//! them.

use std::fs::File;
use std::io::{BufReader, BufWriter, ErrorKind, Write};
use std::path::{Path, PathBuf};

use pjrt::ElementType;
use pjrt_record::{ArrayType, Reader, Selection, State, Summary, line, trim};
use serde_json::json;

use crate::{Report, escape};

#[derive(clap::Args)]
#[command(after_help = "Examples:
  pjrt with -p acme --layers record --output calls -- python train.py
  pjrt record info calls/record-4711.pjrt             versions, calls, runs and sizes
  pjrt record json calls/record-4711.pjrt             one JSON object for each block
  pjrt record trim calls/record-4711.pjrt --run 7 -o one.pjrt   one run with its inputs
  pjrt replay calls/record-4711.pjrt -p cpu           run it on another plugin")]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    /// Describe a recording: plugin, versions, calls, runs, sizes, and whether it is complete.
    #[command(after_help = "Example:
  pjrt record info calls/record-4711.pjrt --runs 100")]
    Info(InfoArgs),
    /// Convert a recording to lines of JSON, one for each block.
    #[command(after_help = "Example:
  pjrt record json calls/record-4711.pjrt | grep PJRT_LoadedExecutable_Execute")]
    Json(FileArgs),
    /// Write a recording of one run, with its program, its inputs and its results.
    ///
    /// If an argument was computed by another run, the new recording contains its contents if the old one has them.
    /// Otherwise, it contains that run, too.
    #[command(after_help = "Examples:
  pjrt record trim calls/record-4711.pjrt --run 7 -o one.pjrt            the seventh run
  pjrt record trim calls/record-4711.pjrt --run jit_step:3 -o one.pjrt   the third run of the program jit_step
  pjrt replay one.pjrt -p cpu")]
    Trim(TrimArgs),
}

#[derive(clap::Args)]
struct TrimArgs {
    /// The recording.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// The run: its number in `pjrt record info`, or the name of a program and the number among its runs.
    #[arg(long, value_name = "N|PROGRAM:N")]
    run: Selection,
    /// The new recording.
    #[arg(long, short, value_name = "FILE")]
    output: PathBuf,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

#[derive(clap::Args)]
struct FileArgs {
    /// The recording.
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

#[derive(clap::Args)]
struct InfoArgs {
    /// The recording.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// How many runs are listed.
    #[arg(long, default_value_t = 20)]
    runs: usize,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

impl Args {
    pub(crate) fn json(&self) -> bool {
        match &self.command {
            Command::Info(args) => args.json,
            Command::Json(_) => true,
            Command::Trim(args) => args.json,
        }
    }
}

pub(crate) fn run(args: &Args) -> Result<Report, String> {
    match &args.command {
        Command::Info(args) => info(args),
        Command::Json(args) => convert(&args.file),
        Command::Trim(args) => cut_out(args),
    }
}

/// Writes the selected run, and the runs that it depends on, to a new file. Removes the file if it cannot be completed.
fn cut_out(args: &TrimArgs) -> Result<Report, String> {
    let path = &args.output;
    let fault = |reason: String| format!("{}: {reason}", path.display());
    let mut reader = open(&args.file)?;
    let file = File::create_new(path).map_err(|error| match error.kind() {
        ErrorKind::AlreadyExists => fault("the file exists: remove it, or pass another path to --output".to_owned()),
        _ => fault(error.to_string()),
    })?;
    let mut out = BufWriter::new(file);
    let trimmed = trim(&mut reader, &args.run, &mut out).map_err(|error| format!("{}: {error}", args.file.display()));
    let trimmed = trimmed.and_then(|trimmed| out.flush().map(|()| trimmed).map_err(|error| fault(error.to_string())));
    let trimmed = trimmed.inspect_err(|_| {
        // Return the first error, not an error of removing the file.
        let _ = std::fs::remove_file(path);
    })?;
    let mut text = String::new();
    if args.json {
        let report = json!({ "file": path, "calls": trimmed.calls, "other_runs": trimmed.other_runs });
        line!(text, "{report:#}");
    } else {
        line!(
            text,
            "{}: the run {} in {} calls",
            escape::one_line(&path.display().to_string()),
            args.run,
            trimmed.calls
        );
        if trimmed.other_runs > 0 {
            line!(text, "{} other runs compute its arguments, or belong to its launch", trimmed.other_runs);
        }
    }
    Ok(Report::from(text))
}

/// Opens a recording.
pub(crate) fn open(path: &Path) -> Result<Reader<BufReader<File>>, String> {
    let fault = |reason: String| format!("{}: {reason}", path.display());
    let file = File::open(path).map_err(|error| fault(error.to_string()))?;
    Reader::new(BufReader::new(file)).map_err(|error| fault(error.to_string()))
}

/// Prints each block as a line of JSON as soon as it is read, because a recording may be larger than memory.
fn convert(path: &Path) -> Result<Report, String> {
    let mut reader = open(path)?;
    let mut out = BufWriter::new(std::io::stdout().lock());
    while let Some(block) = reader.read().map_err(|error| format!("{}: {error}", path.display()))? {
        match writeln!(out, "{}", escape::json(&line(&block).to_string())) {
            Err(error) if error.kind() == ErrorKind::BrokenPipe => return Ok(Report::new(String::new(), 0)),
            result => result.map_err(|error| error.to_string())?,
        }
    }
    out.flush().map_err(|error| error.to_string())?;
    if let State::Cut { offset } = reader.state() {
        return Err(format!("{}: {}", path.display(), cut(offset)));
    }
    Ok(Report::new(String::new(), 0))
}

fn cut(offset: u64) -> String {
    format!("the file ends within the block at offset {offset}: the blocks before it are usable")
}

fn info(args: &InfoArgs) -> Result<Report, String> {
    let mut reader = open(&args.file)?;
    let version = reader.version();
    let summary = Summary::of(&mut reader).map_err(|error| format!("{}: {error}", args.file.display()))?;
    let state = match (&summary.damage, summary.state) {
        (Some(damage), _) => damage.clone(),
        (None, Some(State::Cut { offset })) => cut(offset),
        (None, Some(State::Complete)) => "complete".to_owned(),
        _ => "the process was killed, or still runs: the file ends after a whole block".to_owned(),
    };
    Ok(Report::from(if args.json {
        as_json(&summary, version, &state)
    } else {
        as_text(&summary, args, version, &state)
    }))
}

fn as_text(summary: &Summary, args: &InfoArgs, version: (u16, u16), state: &str) -> String {
    let mut out = String::new();
    let process = &summary.process;
    line!(out, "recording  {} (format {}.{}, {})", state, version.0, version.1, process.recorder);
    line!(out, "process    {} of {} on {}", process.process, process.program, process.system);
    let (major, minor) = (process.plugin_api_major, process.plugin_api_minor);
    let path = if process.plugin_path.is_empty() { "linked into the program" } else { &process.plugin_path };
    line!(out, "plugin     {path}, API {major}.{minor}");
    if !process.plugin_sha256.is_empty() {
        line!(out, "           SHA-256 {}", process.plugin_sha256);
    }
    for client in &summary.clients {
        let devices = client.devices.iter().filter(|device| device.addressable).count();
        let version = client.platform_version.lines().next().unwrap_or_default();
        line!(out, "client     {} {version}, {devices} devices", client.platform_name);
    }
    if !process.only_run.is_empty() {
        line!(out, "limited to the run {}", process.only_run);
    }
    line!(
        out,
        "data       {} bytes, of which {} are distinct and take {} in the file",
        summary.data,
        summary.distinct,
        summary.stored
    );
    line!(out, "compared   {} contents of buffers, by a replay", summary.compared);
    line!(out, "threads    {}", summary.threads);
    line!(out, "\n{:<56} {:>8} {:>8}", "function", "calls", "failed");
    for (name, (calls, failed)) in &summary.functions {
        line!(out, "{name:<56} {calls:>8} {failed:>8}");
    }
    if !summary.runs.is_empty() {
        line!(out, "\nruns");
    }
    for (at, run) in summary.runs.iter().enumerate().take(args.runs) {
        let arguments: Vec<String> = run.arguments.iter().map(|array| shape(array.as_ref())).collect();
        let outputs: Vec<String> = run.outputs.iter().map(|array| shape(Some(array))).collect();
        let end = match run.failed {
            None => ", which did not return",
            Some(true) => ", which failed",
            Some(false) => "",
        };
        let donated = if run.donated > 0 { format!(", {} donated", run.donated) } else { String::new() };
        let devices = if run.devices > 1 { format!(" on {} devices", run.devices) } else { String::new() };
        let (arguments, outputs) = (arguments.join(", "), outputs.join(", "));
        line!(out, "{:>6}  {}({arguments}) -> ({outputs}){devices}{donated}{end}", at + 1, run.program);
    }
    if summary.runs.len() > args.runs {
        line!(
            out,
            "        ... {} more; pass --runs {} to see all",
            summary.runs.len() - args.runs,
            summary.runs.len()
        );
    }
    let gaps = [
        ("calls that a replay skips, because the file does not contain their arguments", &summary.not_replayable),
        ("parts of calls that the file does not contain; a replay makes these calls without them", &summary.left_out),
    ];
    for (title, gaps) in gaps.into_iter().filter(|(_, gaps)| !gaps.is_empty()) {
        line!(out, "\n{title}");
        for (what, count) in gaps {
            line!(out, "{count:>6}  {what}");
        }
    }
    out
}

fn as_json(summary: &Summary, version: (u16, u16), state: &str) -> String {
    let functions: Vec<_> = summary
        .functions
        .iter()
        .map(|(name, (calls, failed))| json!({ "function": name, "calls": calls, "failed": failed }))
        .collect();
    let runs: Vec<_> = summary
        .runs
        .iter()
        .map(|run| {
            json!({
                "call": run.call,
                "program": run.program,
                "arguments": run.arguments.iter().map(|array| shape(array.as_ref())).collect::<Vec<_>>(),
                "outputs": run.outputs.iter().map(|array| shape(Some(array))).collect::<Vec<_>>(),
                "devices": run.devices,
                "donated": run.donated,
                "failed": run.failed,
            })
        })
        .collect();
    let out = json!({
        "format": format!("{}.{}", version.0, version.1),
        "state": state,
        "complete": summary.damage.is_none() && summary.state == Some(State::Complete),
        "process": summary.process,
        "clients": summary.clients,
        "functions": functions,
        "runs": runs,
        "not_replayable": summary.not_replayable,
        "left_out": summary.left_out,
        "compared": summary.compared,
        "data_bytes": summary.data,
        "distinct_bytes": summary.distinct,
        "stored_bytes": summary.stored,
        "threads": summary.threads,
    });
    format!("{out:#}\n")
}

/// Formats an element type and a shape, such as `f32[2,3]`. Returns `?` if the recording does not describe the array.
fn shape(array: Option<&ArrayType>) -> String {
    let Some(array) = array else { return "?".to_owned() };
    let name = ElementType::from_raw(array.element_type).map_or("?", ElementType::name);
    let dimensions: Vec<String> = array.dimensions.iter().map(ToString::to_string).collect();
    format!("{name}[{}]", dimensions.join(","))
}

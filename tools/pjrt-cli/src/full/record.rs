//! `pjrt record`: describes the files that the layer `record` wrote, converts them to JSON, and extracts runs from
//! them.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufReader, BufWriter, ErrorKind, Write};
use std::path::{Path, PathBuf};

use pjrt::ElementType;
use pjrt_record::{ArrayType, Reader, Run, Selection, State, Summary, Trimmed, line, trim};
use serde::Serialize;
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

/// Writes the selected run, and the runs that it depends on, to a new file.
fn cut_out(args: &TrimArgs) -> Result<Report, String> {
    let path = &args.output;
    let mut reader = open(&args.file)?;
    let trimmed = write_new(path, |file| {
        let mut out = BufWriter::new(file);
        let trimmed = trim(&mut reader, &args.run, &mut out);
        let trimmed = trimmed.map_err(|error| format!("{}: {error}", args.file.display()))?;
        out.flush().map_err(|error| format!("{}: {error}", path.display()))?;
        Ok::<Trimmed, String>(trimmed)
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
            escape::one_line(&args.run.to_string()),
            trimmed.calls
        );
        if trimmed.other_runs > 0 {
            line!(text, "{} other runs compute its arguments, or belong to its launch", trimmed.other_runs);
        }
    }
    Ok(Report::from(text))
}

/// Writes a new file that only this user can read. `write` writes to a temporary file beside it, which replaces the
/// path only if `write` succeeds. An interrupted or failed command therefore leaves no incomplete file at the path.
fn write_new<T>(path: &Path, write: impl FnOnce(&File) -> Result<T, String>) -> Result<T, String> {
    let fault = |error: std::io::Error| format!("{}: {error}", path.display());
    let exists = || format!("{}: the file exists: remove it, or pass another path to --output", path.display());
    if path.symlink_metadata().is_ok() {
        return Err(exists());
    }
    let Some(name) = path.file_name() else { return Err(format!("{}: pass the path of a file", path.display())) };
    let folder = path.parent().unwrap_or(Path::new(""));
    let (part, file) = private_files::create_numbered(folder, &name.to_string_lossy(), "part").map_err(fault)?;
    let written = write(&file).and_then(|written| {
        // Another program may have created the file in the meantime.
        if path.symlink_metadata().is_ok() {
            return Err(exists());
        }
        fs::rename(&part, path).map_err(fault)?;
        Ok(written)
    });
    written.inspect_err(|_| {
        // Return the first error, not an error of removing the file.
        let _ = fs::remove_file(&part);
    })
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
        match writeln!(out, "{}", escape::json(&line(&block))) {
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
        as_json(&summary, version, &state)?
    } else {
        as_text(&summary, args, version, &state)
    }))
}

fn as_text(summary: &Summary, args: &InfoArgs, version: (u16, u16), state: &str) -> String {
    let mut out = String::new();
    let process = &summary.process;
    // Line feeds in names could forge lines.
    let clean = escape::one_line;
    line!(out, "recording  {} (format {}.{}, {})", clean(state), version.0, version.1, clean(&process.recorder));
    line!(out, "process    {} of {} on {}", process.process, clean(&process.program), clean(&process.system));
    let (major, minor) = (process.plugin_api_major, process.plugin_api_minor);
    let path = if process.plugin_path.is_empty() { "linked into the program" } else { &process.plugin_path };
    line!(out, "plugin     {}, API {major}.{minor}", clean(path));
    if !process.plugin_sha256.is_empty() {
        line!(out, "           SHA-256 {}", clean(&process.plugin_sha256));
    }
    for client in &summary.clients {
        let devices = client.devices.iter().filter(|device| device.addressable).count();
        let version = client.platform_version.lines().next().unwrap_or_default();
        line!(out, "client     {} {}, {devices} devices", clean(&client.platform_name), clean(version));
    }
    if !process.only_run.is_empty() {
        line!(out, "limited to the run {}", clean(&process.only_run));
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
        line!(out, "{:<56} {calls:>8} {failed:>8}", clean(name));
    }
    if !summary.runs.is_empty() {
        line!(out, "\nruns");
    }
    for (at, run) in summary.runs.iter().enumerate().take(args.runs) {
        line!(out, "{:>6}  {}", at + 1, clean(&describe(run)));
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
            line!(out, "{count:>6}  {}", clean(what));
        }
    }
    if summary.omitted > 0 {
        line!(out, "\n{} names and lists are too long for the size of the file, and not shown", summary.omitted);
    }
    out
}

/// Describes a run in one line.
fn describe(run: &Run) -> String {
    let end = match run.failed {
        None => ", which did not return",
        Some(true) => ", which failed",
        Some(false) => "",
    };
    let donated = if run.donated > 0 { format!(", {} donated", run.donated) } else { String::new() };
    let devices = if run.devices > 1 { format!(" on {} devices", run.devices) } else { String::new() };
    if run.is_omitted {
        return format!("a run with too many arguments or outputs{devices}{donated}{end}");
    }
    let arguments: Vec<String> = run.arguments.iter().map(|array| shape(array.as_deref())).collect();
    let outputs: Vec<String> = run.outputs.iter().map(|array| shape(Some(array))).collect();
    let (arguments, outputs) = (arguments.join(", "), outputs.join(", "));
    format!("{}({arguments}) -> ({outputs}){devices}{donated}{end}", run.program)
}

/// The JSON form of a summary. It borrows the summary and is serialized directly to text, because a recording may have
/// millions of runs.
#[derive(Serialize)]
struct Info<'a> {
    format: String,
    state: &'a str,
    complete: bool,
    process: &'a pjrt_record::Process,
    clients: &'a [pjrt_record::ClientDescription],
    functions: Vec<FunctionInfo<'a>>,
    #[serde(serialize_with = "runs")]
    runs: &'a [Run],
    not_replayable: &'a BTreeMap<String, u64>,
    left_out: &'a BTreeMap<String, u64>,
    omitted: u64,
    compared: u64,
    data_bytes: u64,
    distinct_bytes: u64,
    stored_bytes: u64,
    threads: usize,
}

#[derive(Serialize)]
struct FunctionInfo<'a> {
    function: &'a str,
    calls: u64,
    failed: u64,
}

#[derive(Serialize)]
struct RunInfo<'a> {
    call: u64,
    program: &'a str,
    arguments: Vec<String>,
    outputs: Vec<String>,
    devices: usize,
    donated: usize,
    failed: Option<bool>,
    omitted: bool,
}

fn runs<S: serde::Serializer>(runs: &[Run], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(runs.iter().map(|run| RunInfo {
        call: run.call,
        program: &run.program,
        arguments: run.arguments.iter().map(|array| shape(array.as_deref())).collect(),
        outputs: run.outputs.iter().map(|array| shape(Some(array))).collect(),
        devices: run.devices,
        donated: run.donated,
        failed: run.failed,
        omitted: run.is_omitted,
    }))
}

fn as_json(summary: &Summary, version: (u16, u16), state: &str) -> Result<String, String> {
    let functions = summary.functions.iter();
    let functions =
        functions.map(|(name, (calls, failed))| FunctionInfo { function: name, calls: *calls, failed: *failed });
    let info = Info {
        format: format!("{}.{}", version.0, version.1),
        state,
        complete: summary.damage.is_none() && summary.state == Some(State::Complete),
        process: &summary.process,
        clients: &summary.clients,
        functions: functions.collect(),
        runs: &summary.runs,
        not_replayable: &summary.not_replayable,
        left_out: &summary.left_out,
        omitted: summary.omitted,
        compared: summary.compared,
        data_bytes: summary.data,
        distinct_bytes: summary.distinct,
        stored_bytes: summary.stored,
        threads: summary.threads,
    };
    let text = serde_json::to_string_pretty(&info).map_err(|error| error.to_string())?;
    Ok(text + "\n")
}

/// Formats an element type and a shape, such as `f32[2,3]`. Returns `?` if the recording does not describe the array.
fn shape(array: Option<&ArrayType>) -> String {
    let Some(array) = array else { return "?".to_owned() };
    let name = ElementType::from_raw(array.element_type).map_or("?", ElementType::name);
    let dimensions: Vec<String> = array.dimensions.iter().map(ToString::to_string).collect();
    format!("{name}[{}]", dimensions.join(","))
}

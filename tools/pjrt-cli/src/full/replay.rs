//! `pjrt replay`: runs a recording on a plugin and compares the results.

use std::path::PathBuf;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use pjrt::{ClientOptions, NamedValue};
use pjrt_record::replay::{self, Comparison, Options, Progress, Tolerance, Verdict};
use serde_json::json;

use crate::full::record;
use crate::full::time_limit::duration;
use crate::open::{PluginArgs, option};
use crate::paint::{Meaning, paint};
use crate::{Report, escape};

/// Interval between two checks of the progress.
const PAUSE: Duration = Duration::from_millis(100);

#[derive(clap::Args, Clone)]
#[command(after_help = "The exit code is 1 if a result differs, or if a call ends differently than in the recording.

The plugin compiles and runs the programs in the recording. Replay a stranger's recording only on a plugin that can be
trusted with any program, such as `cpu`. Without --trust-options, the replay uses only recorded options that are known to
be harmless, and lists the others. With --trust-options, a recording is code: an option can make a plugin write files or
load libraries.

Examples:
  pjrt replay calls/record-4711.pjrt --plugin cpu                         on the embedded device, bit by bit
  pjrt replay calls/record-4711.pjrt -p ./libacme.so --tolerance 1e-5     floats may differ
  pjrt replay calls/record-4711.pjrt -p acme --tolerance 1e-6,bf16=1e-2   by type")]
pub(crate) struct Args {
    /// The recording, which the layer `record` wrote.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    #[command(flatten)]
    plugin: PluginArgs,
    /// An option of the plugin's client, in place of the recorded options. See `pjrt run --help`.
    #[arg(long = "option", short = 'O', value_name = "NAME=VALUE")]
    options: Vec<String>,
    /// How much floating-point elements may differ: |got - expected| <= T * (1 + |expected|). By default, all elements
    /// must be equal bit by bit.
    #[arg(long, value_name = "T|TYPE=T,...")]
    tolerance: Option<Tolerance>,
    /// Use all recorded options of clients, compilations and runs, although they may contain paths. The recording can
    /// then do everything that this user can do.
    #[arg(long)]
    trust_options: bool,
    /// How many bytes of data one recorded call may have, and how many bytes the recorded arrays and programs may have
    /// together. Outputs of runs do not count. The default is 64 MiB and 16 times the size of the file.
    #[arg(long, value_name = "BYTES")]
    limit: Option<u64>,
    /// How long one recorded call may take, such as `500ms`, `10s` or `2m`.
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = duration)]
    timeout: Duration,
    /// Print the results as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

pub(crate) fn run(args: &Args) -> Result<Report, String> {
    let (progress, (send, receive)) = (Progress::default(), channel());
    let worker = (args.clone(), progress.clone());
    // A call that never returns cannot be stopped. The process ends while the thread still waits for the call.
    std::thread::spawn(move || {
        // Sending fails only if the command has ended because of its time limit.
        let _ = send.send(repeat(&worker.0, worker.1));
    });
    let mut last = (progress.step(), Instant::now());
    let report = loop {
        match receive.recv_timeout(PAUSE) {
            Ok(report) => break report?,
            Err(RecvTimeoutError::Disconnected) => return Err("the replay ended without a result".to_owned()),
            Err(RecvTimeoutError::Timeout) => {}
        }
        let step = progress.step();
        if step.position != last.0.position {
            last = (step, Instant::now());
        } else if last.1.elapsed() >= args.timeout {
            return Err(format!(
                "{}: call {} {} has not ended after {:?}: pass a longer --timeout if the program needs more time",
                args.file.display(),
                step.call,
                escape::one_line(&step.function),
                args.timeout
            ));
        }
    };
    let code = u8::from(!report.is_equal());
    Ok(match args.json {
        true => Report::new(as_json(&report), code),
        false => Report::painted(as_text(&report), code),
    })
}

/// Replays the recording.
fn repeat(args: &Args, progress: Progress) -> Result<replay::Report, String> {
    let mut given = ClientOptions::new();
    for text in &args.options {
        let (name, value) = option(text)?;
        given = given.with(name, value);
    }
    let mut reader = record::open(&args.file)?;
    let plugin = args.plugin.find()?.load().map_err(|error| error.to_string())?;
    let mut make = |recorded: &[NamedValue]| {
        let label = "the command pjrt";
        if !args.options.is_empty() || recorded.is_empty() {
            return plugin.client_labelled(label, &given).map_err(|error| error.to_string());
        }
        let options = ClientOptions::new().with_values(recorded.to_vec());
        // The plugin may differ from the recorded one and reject its options. Then use only the options that the user
        // gave.
        let client = plugin.client_labelled(label, &options).or_else(|_| plugin.client_labelled(label, &given));
        client.map_err(|error| error.to_string())
    };
    let options = Options::default()
        .with_tolerance(args.tolerance.clone().unwrap_or_default())
        .with_limit(args.limit)
        .with_trusted_options(args.trust_options)
        .with_progress(progress);
    replay::replay(&mut reader, &mut make, &options).map_err(|error| format!("{}: {error}", args.file.display()))
}

fn as_text(report: &replay::Report) -> String {
    let mut out = String::new();
    for one in &report.comparisons {
        let (meaning, word, detail) = verdict(&one.verdict);
        line!(out, "{}{}{}", column(meaning, word), escape::one_line(&place(one)), escape::one_line(&detail));
    }
    for problem in &report.problems {
        let text = format!("call {} {}: {}", problem.call, problem.function, problem.what);
        line!(out, "{}{}", column(Meaning::Bad, "different"), escape::one_line(&text));
    }
    for (what, count) in &report.skipped {
        line!(out, "{}{} ({count} calls)", column(Meaning::Notable, "not replayed"), escape::one_line(what));
    }
    for (what, count) in &report.left_out {
        line!(out, "{}{} ({count} calls)", column(Meaning::Notable, "left out"), escape::one_line(what));
    }
    for (what, count) in &report.dropped_options {
        line!(out, "{}{} ({count} calls)", column(Meaning::Notable, "dropped"), escape::one_line(what));
    }
    if !report.dropped_options.is_empty() {
        line!(
            out,
            "{} recorded options are not known to be harmless, and were dropped: --trust-options uses them",
            report.dropped_options.len()
        );
    }
    let different = report.comparisons.iter().filter(|one| !is_fine(&one.verdict)).count() + report.problems.len();
    line!(
        out,
        "{} runs, {} results compared, {different} different",
        report.runs,
        report.comparisons.iter().filter(|one| !matches!(one.verdict, Verdict::NotCompared(_))).count()
    );
    out
}

/// Formats a word of the first column, padded with spaces.
fn column(meaning: Meaning, word: &str) -> String {
    format!("{}{}", paint(meaning, word), " ".repeat(14_usize.saturating_sub(word.len())))
}

fn is_fine(verdict: &Verdict) -> bool {
    matches!(verdict, Verdict::Equal | Verdict::NotCompared(_))
}

/// Describes where the compared contents come from: an output of a run, or a download.
fn place(one: &Comparison) -> String {
    match &one.run {
        Some((call, program, output)) => format!("run {call} {program}, output {output}, {}", one.shape),
        None => format!("download {}, {}", one.call, one.shape),
    }
}

fn verdict(verdict: &Verdict) -> (Meaning, &'static str, String) {
    match verdict {
        Verdict::Equal => (Meaning::Good, "equal", String::new()),
        Verdict::NotCompared(reason) => (Meaning::Notable, "not compared", format!(": {reason}")),
        Verdict::Failed { expected, got } => {
            let text = |error: &Option<String>| error.clone().unwrap_or_else(|| "no error".to_owned());
            (Meaning::Bad, "different", format!(": expected {}, got {}", text(expected), text(got)))
        }
        Verdict::Different(found) => {
            let largest = found.largest.map(|largest| format!(", largest difference {largest}")).unwrap_or_default();
            let text = format!(
                ": {} of {} elements differ; the first is {:?}: expected {}, got {}{largest}",
                found.count, found.elements, found.index, found.expected, found.got
            );
            (Meaning::Bad, "different", text)
        }
        _ => (Meaning::Notable, "not compared", String::new()),
    }
}

fn as_json(report: &replay::Report) -> String {
    let comparisons: Vec<_> = report
        .comparisons
        .iter()
        .map(|one| {
            let (_, word, _) = verdict(&one.verdict);
            let mut out = json!({ "call": one.call, "shape": one.shape.to_string(), "result": word });
            if let Some((call, program, output)) = &one.run {
                out["run"] = json!({ "call": call, "program": **program, "output": output });
            }
            match &one.verdict {
                Verdict::Different(found) => {
                    out["index"] = json!(found.index);
                    out["expected"] = json!(found.expected);
                    out["got"] = json!(found.got);
                    out["differing"] = json!(found.count);
                    out["elements"] = json!(found.elements);
                    out["largest_difference"] = json!(found.largest);
                }
                Verdict::Failed { expected, got } => {
                    (out["expected_error"], out["error"]) = (json!(expected), json!(got));
                }
                Verdict::NotCompared(reason) => out["reason"] = json!(reason),
                _ => {}
            }
            out
        })
        .collect();
    let problems: Vec<_> = report
        .problems
        .iter()
        .map(|one| json!({ "call": one.call, "function": one.function, "what": one.what }))
        .collect();
    let out = json!({
        "equal": report.is_equal(),
        "runs": report.runs,
        "comparisons": comparisons,
        "problems": problems,
        "not_replayed": report.skipped,
        "left_out": report.left_out,
        "dropped_options": report.dropped_options,
    });
    format!("{out:#}\n")
}

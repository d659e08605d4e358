//! The `pjrt` command, which runs StableHLO programs on PJRT devices, and finds, checks and packages plugins.
#![deny(unsafe_code)]

/// Appends a line to the output of a command. A command prints its output only when it is complete. If the reader
/// closes the pipe early, the command's work is not interrupted.
macro_rules! line {
    ($out:ident, $($text:tt)*) => {{
        $out.push_str(&format!($($text)*));
        $out.push('\n');
    }};
}

mod array;
mod bench;
mod child;
mod completions;
mod conform;
mod devices;
mod doctor;
mod env;
mod escape;
mod guarded;
mod header;
mod inspect;
#[cfg(unix)]
mod interrupt;
mod layers_library;
mod library;
mod list;
mod new;
mod open;
mod package;
mod paint;
mod probe;
mod program;
mod progress;
mod record;
mod replay;
mod run;
mod show;
mod signature;
mod suggest;
mod supports;
mod table;
mod time_limit;
mod trace;
mod verbose;
mod with;

use std::borrow::Cow;
use std::io::{ErrorKind, Write};
use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};

use paint::{Meaning, paint};

/// Run StableHLO programs on PJRT devices; find, check and package plugins.
#[derive(Parser)]
#[command(
    name = "pjrt",
    version,
    arg_required_else_help = true,
    after_help = "Examples:
  pjrt run axpy.mlir f32=2 f32[4]=0,1,2,3 f32[4]=10   run a program on the embedded CPU device
  pjrt list                                           the plugins on this machine
  pjrt doctor                                         whether they work, and why not
  pjrt new acme                                       begin a plugin"
)]
struct Cli {
    /// Show the events of the libraries on the standard error: once for information, twice for details, three times for
    /// everything.
    #[arg(long, short, global = true, action = clap::ArgAction::Count)]
    verbose: u8,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Compile a program, run it on given inputs and print or save its outputs.
    Run(run::Args),
    /// Measure plugins on the same programs, alternately, and compare their outputs.
    Bench(bench::Args),
    /// Show the signature of a program, its ops, and the version of StableHLO it needs.
    Show(show::Args),
    /// Report whether a plugin supports a program, by its manifest or by compiling.
    Supports(supports::Args),
    /// List a plugin's devices and their memories.
    Devices(devices::Args),
    /// List the plugins found on this machine. A framework that does not request a specific plugin uses the first
    /// plugin of the list.
    List(list::Args),
    /// Check each plugin: its library, its requirements, its hardware, and whether it loads and creates a client.
    Doctor(doctor::Args),
    /// Run the conformance suite: about a thousand checks of the C API's contract, in child processes.
    Conform(conform::Args),
    /// Show the environment variables that a plugin needs, or run a command with them.
    Env(env::Args),
    /// Run a command with layers between its framework and a plugin. Layers trace, check or adapt calls.
    With(with::Args),
    /// Merge the tallies and timelines that the layer `trace` wrote in several processes.
    Trace(trace::Args),
    /// Describe the files that the layer `record` wrote, convert them to JSON, or extract a run.
    Record(record::Args),
    /// Run a recording on a plugin, without the framework, and compare the results.
    Replay(replay::Args),
    /// Describe a plugin without creating a client: manifest, capabilities, options, versions, attributes, extensions and
    /// functions.
    Inspect(inspect::Args),
    /// Write the C header of a plugin: the functions its library exports.
    Header(header::Args),
    /// Create the project of a new plugin, which builds, passes its tests and runs under JAX.
    New(new::Args),
    /// Write a wheel through which JAX and PyTorch/XLA find a plugin.
    Package(package::Args),
    /// Print the completions of a shell.
    Completions(completions::CompletionsArgs),
    /// Print the manual page, or write the pages of all commands.
    Man(completions::ManArgs),
    /// Start a probe, and end all its processes when the command that started it ends.
    #[command(name = "__guard", hide = true)]
    Guard,
    /// Load the plugin that `doctor` or `inspect` names on the standard input.
    #[command(name = "__probe", hide = true)]
    Probe(probe::Args),
    /// Start a command of `with --sweep`, and end all its processes when the command that started it ends.
    #[command(name = "__command_guard", hide = true)]
    SweepGuard,
    /// Become the command that `with --sweep` names on the standard input.
    #[command(name = "__command", hide = true)]
    SweepWorker {
        /// Id of the parent process. This process ends when its parent ends.
        parent: u32,
    },
    /// Start a worker of `conform`, and end all its processes when the command that started it ends.
    #[command(name = "__conform_guard", hide = true)]
    ConformGuard,
    /// Run the cases that `conform` names on the standard input.
    #[command(name = "__conform_worker", hide = true)]
    ConformWorker(conform::WorkerArgs),
}

impl Command {
    /// Returns whether the output is JSON for another program.
    fn json(&self) -> bool {
        match self {
            Self::Run(args) => args.json,
            Self::Bench(args) => args.json,
            Self::Show(args) => args.json,
            Self::Supports(args) => args.json,
            Self::Devices(args) => args.json,
            Self::List(args) => args.json,
            Self::Doctor(args) => args.json,
            Self::Env(args) => args.json,
            Self::With(args) => args.sweep.json,
            Self::Trace(args) => args.json,
            Self::Record(args) => args.json(),
            Self::Replay(args) => args.json,
            Self::Inspect(args) => args.json,
            Self::Conform(args) => args.json,
            Self::Header(_)
            | Self::New(_)
            | Self::Package(_)
            | Self::Completions(_)
            | Self::Man(_)
            | Self::Guard
            | Self::SweepGuard
            | Self::SweepWorker { .. }
            | Self::Probe(_)
            | Self::ConformGuard
            | Self::ConformWorker(_) => false,
        }
    }
}

/// The output of a command and its exit code.
struct Report {
    text: String,
    code: u8,
    /// Whether the text contains color sequences. If so, the untrusted strings in it are already escaped.
    painted: bool,
}

impl Report {
    fn new(text: String, code: u8) -> Self {
        Self { text, code, painted: false }
    }

    /// Creates a report that contains color sequences. Its untrusted strings must already be escaped.
    fn painted(text: String, code: u8) -> Self {
        Self { text, code, painted: true }
    }
}

impl From<String> for Report {
    fn from(text: String) -> Self {
        Self::new(text, 0)
    }
}

/// Checks that only root can replace this program if it has elevated privileges. The program starts its own file to load
/// plugins in other processes, and its user may have put a hard link to it into another folder.
fn trusted_program() -> Result<(), String> {
    let program = std::env::current_exe().map_err(|error| format!("cannot find this program: {error}"))?;
    plugin_registry::discovery::check_trusted(&program).map_err(|refusal| refusal.to_string())
}

fn run(command: Command) -> Result<Report, String> {
    match command {
        Command::Run(args) => run::run(&args),
        Command::Bench(args) => bench::run(&args).map(Report::from),
        Command::Show(args) => show::run(&args).map(Report::from),
        Command::Supports(args) => supports::run(&args),
        Command::Devices(args) => devices::run(&args).map(Report::from),
        Command::List(args) => list::run(&args),
        Command::Doctor(args) => doctor::run(&args),
        Command::Env(args) => env::run(&args),
        Command::With(args) => with::run(&args),
        Command::Trace(args) => trace::run(&args),
        Command::Record(args) => record::run(&args),
        Command::Replay(args) => replay::run(&args),
        Command::Inspect(args) => inspect::run(&args),
        Command::Header(args) => header::run(&args).map(Report::from),
        Command::New(args) => new::run(&args).map(Report::from),
        Command::Package(args) => package::run(&args).map(Report::from),
        Command::Completions(args) => completions::completions(&args, Cli::command()).map(Report::from),
        Command::Man(args) => completions::man(&args, Cli::command()).map(Report::from),
        Command::Conform(args) => conform::run(&args),
        Command::Guard => pjrt_conformance::process::guard::run(&["__probe"]).map(|()| Report::from(String::new())),
        Command::SweepGuard => guarded::guard().map(|()| Report::from(String::new())),
        Command::SweepWorker { parent } => guarded::command(parent),
        Command::Probe(args) => probe::run(&args).map(Report::from),
        Command::ConformGuard => conform::guard().map(Report::from),
        Command::ConformWorker(args) => conform::worker(&args).map(Report::from),
    }
}

fn main() -> ExitCode {
    let Cli { verbose, command } = Cli::parse();
    verbose::show(verbose);
    let json = command.json();
    let result = trusted_program().and_then(|()| run(command));
    let report = result.unwrap_or_else(|reason| {
        anstream::eprintln!("{} {}", paint(Meaning::Bad, "pjrt:"), escape::lines(&reason));
        let text = if json { format!("{:#}\n", serde_json::json!({ "error": reason })) } else { String::new() };
        Report::new(text, 1)
    });
    let text = match report.painted {
        true => Cow::Borrowed(report.text.as_str()),
        false if json => escape::json(&report.text),
        false => escape::lines(&report.text),
    };
    match anstream::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            eprintln!("pjrt: {error}");
            ExitCode::FAILURE
        }
        _ => ExitCode::from(report.code),
    }
}

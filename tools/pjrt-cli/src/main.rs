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
mod devices;
mod escape;
#[cfg(feature = "full")]
mod full;
#[cfg(unix)]
mod interrupt;
mod library;
mod list;
mod new;
mod open;
mod paint;
mod program;
mod run;
mod show;
mod signature;
mod suggest;
mod table;
mod verbose;

use std::borrow::Cow;
#[cfg(not(feature = "full"))]
use std::ffi::OsString;
use std::io::{ErrorKind, Write};
use std::process::ExitCode;

#[cfg(feature = "full")]
use clap::CommandFactory;
use clap::{Parser, Subcommand};

use paint::{Meaning, paint};

#[cfg(feature = "full")]
const EXAMPLES: &str = "Examples:
  pjrt run axpy.mlir f32=2 f32[4]=0,1,2,3 f32[4]=10   run a program on the embedded CPU device
  pjrt list                                           the plugins on this machine
  pjrt doctor                                         whether they work, and why not
  pjrt new acme                                       begin a plugin";
#[cfg(not(feature = "full"))]
const EXAMPLES: &str = "Examples:
  pjrt run axpy.mlir f32=2 f32[4]=0,1,2,3 f32[4]=10   run a program on the embedded CPU device
  pjrt list                                           the plugins on this machine
  pjrt new acme                                       begin a plugin

The package's feature `full` has all other commands.";

/// Run StableHLO programs on PJRT devices; find, check and package plugins.
#[derive(Parser)]
#[command(
    name = "pjrt",
    version,
    arg_required_else_help = true,
    after_help = EXAMPLES
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
    /// Show the signature of a program, its ops, and the version of StableHLO it needs.
    Show(show::Args),
    /// List a plugin's devices and their memories.
    Devices(devices::Args),
    /// List the plugins found on this machine. A framework that does not request a specific plugin uses the first
    /// plugin of the list.
    List(list::Args),
    /// Create the project of a new plugin, which builds, passes its tests and runs under JAX.
    New(new::Args),
    #[cfg(feature = "full")]
    #[command(flatten)]
    Full(full::Command),
    #[cfg(not(feature = "full"))]
    #[command(external_subcommand)]
    Other(Vec<OsString>),
}

impl Command {
    /// Returns whether the output is JSON for another program.
    fn json(&self) -> bool {
        match self {
            Self::Run(args) => args.json,
            Self::Show(args) => args.json,
            Self::Devices(args) => args.json,
            Self::List(args) => args.json,
            #[cfg(feature = "full")]
            Self::Full(command) => command.json(),
            Self::New(_) => false,
            #[cfg(not(feature = "full"))]
            Self::Other(_) => false,
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

/// Checks that only root can replace this program if it has elevated privileges. The program starts its own file to
/// load plugins in other processes, and its user may have put a hard link to it into another folder.
fn trusted_program() -> Result<(), String> {
    let program = std::env::current_exe().map_err(|error| format!("cannot find this program: {error}"))?;
    plugin_registry::discovery::check_trusted(&program).map_err(|refusal| refusal.to_string())
}

/// Returns the error for a command that this build lacks.
#[cfg(not(feature = "full"))]
fn lacking(words: &[OsString]) -> String {
    let name = words.first().map(|word| word.to_string_lossy()).unwrap_or_default();
    format!(
        "this build has the commands run, show, devices, list and new, and not {name:?}; build the package pjrt-cli with its \
         feature `full` for all commands"
    )
}

fn run(command: Command) -> Result<Report, String> {
    match command {
        Command::Run(args) => run::run(&args),
        Command::Show(args) => show::run(&args).map(Report::from),
        Command::Devices(args) => devices::run(&args).map(Report::from),
        Command::List(args) => list::run(&args),
        Command::New(args) => new::run(&args).map(Report::from),
        #[cfg(feature = "full")]
        Command::Full(command) => command.run(Cli::command()),
        #[cfg(not(feature = "full"))]
        Command::Other(words) => Err(lacking(&words)),
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

//! The `pjrt` command: run StableHLO programs on PJRT devices, find, check and package plugins.
#![forbid(unsafe_code)]

/// Adds a line of output. A command's output is printed at its end, so that a reader that closes early breaks nothing.
macro_rules! line {
    ($out:ident, $($text:tt)*) => {{
        $out.push_str(&format!($($text)*));
        $out.push('\n');
    }};
}

mod array;
mod check;
mod child;
mod devices;
mod doctor;
mod env;
mod escape;
mod guard;
mod header;
mod inspect;
#[cfg(unix)]
mod interrupt;
mod list;
mod new;
mod npy;
mod open;
mod package;
mod probe;
mod program;
mod run;
mod table;

use std::io::{ErrorKind, Write};
use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Run StableHLO programs on PJRT devices; find, check and package plugins.
#[derive(Parser)]
#[command(name = "pjrt", version, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Compile a program, run it on given inputs and print or save its outputs.
    Run(run::Args),
    /// Tell whether a plugin's devices can run a program, without making a client of it.
    Check(check::Args),
    /// List a plugin's devices and their memories.
    Devices(devices::Args),
    /// List the plugins found on this machine, in the order in which a framework without a wish takes them.
    List(list::Args),
    /// Check each plugin: its library, what it needs, its hardware, and whether it loads and makes a client.
    Doctor(doctor::Args),
    /// Show what a plugin needs of a process, or run a command with it.
    Env(env::Args),
    /// Show what a plugin says of itself without creating a client: manifest, capabilities, options, versions,
    /// attributes, extensions, functions.
    Inspect(inspect::Args),
    /// Write the C header of a plugin: the functions its library exports.
    Header(header::Args),
    /// Write the project of a new plugin, which builds, passes its tests and runs under JAX at once.
    New(new::Args),
    /// Write a wheel through which JAX and PyTorch/XLA find a plugin.
    Package(package::Args),
    /// Start a probe, and end all of it with the command that asked for it.
    #[command(name = "__guard", hide = true)]
    Guard(guard::Args),
    /// Load a plugin as `doctor` and `inspect` say on the standard input.
    #[command(name = "__probe", hide = true)]
    Probe(probe::Args),
}

impl Command {
    /// Whether the output is for a program.
    fn json(&self) -> bool {
        match self {
            Self::Run(args) => args.json,
            Self::Check(args) => args.json,
            Self::Devices(args) => args.json,
            Self::List(args) => args.json,
            Self::Doctor(args) => args.json,
            Self::Env(args) => args.json,
            Self::Inspect(args) => args.json,
            Self::Header(_) | Self::New(_) | Self::Package(_) | Self::Guard(_) | Self::Probe(_) => false,
        }
    }
}

/// What a command prints, and the code it ends with.
struct Report {
    text: String,
    code: u8,
}

impl From<String> for Report {
    fn from(text: String) -> Self {
        Self { text, code: 0 }
    }
}

fn main() -> ExitCode {
    let command = Cli::parse().command;
    let json = command.json();
    let result = match command {
        Command::Run(args) => run::run(&args),
        Command::Check(args) => check::run(&args),
        Command::Devices(args) => devices::run(&args).map(Report::from),
        Command::List(args) => list::run(&args).map(Report::from),
        Command::Doctor(args) => doctor::run(&args),
        Command::Env(args) => env::run(&args),
        Command::Inspect(args) => inspect::run(&args),
        Command::Header(args) => header::run(&args).map(Report::from),
        Command::New(args) => new::run(&args).map(Report::from),
        Command::Package(args) => package::run(&args).map(Report::from),
        Command::Guard(args) => guard::run(&args).map(Report::from),
        Command::Probe(args) => probe::run(&args).map(Report::from),
    };
    let report = result.unwrap_or_else(|reason| {
        eprintln!("pjrt: {}", escape::lines(&reason));
        let text = if json { format!("{:#}\n", serde_json::json!({ "error": reason })) } else { String::new() };
        Report { text, code: 1 }
    });
    let text = if json { escape::json(&report.text) } else { escape::lines(&report.text) };
    match std::io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            eprintln!("pjrt: {error}");
            ExitCode::FAILURE
        }
        _ => ExitCode::from(report.code),
    }
}

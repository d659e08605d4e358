//! The `pjrt` command: run StableHLO programs on PJRT devices, list devices, inspect plugins.
#![forbid(unsafe_code)]

/// Adds a line of output. A command's output is printed at its end, so that a reader that closes early breaks nothing.
macro_rules! line {
    ($out:ident, $($text:tt)*) => {{
        $out.push_str(&format!($($text)*));
        $out.push('\n');
    }};
}

mod array;
mod devices;
mod header;
mod inspect;
mod npy;
mod open;
mod package;
mod run;

use std::io::{ErrorKind, Write};
use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Run StableHLO programs on PJRT devices, list devices, inspect plugins.
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
    /// List a plugin's devices and their memories.
    Devices(devices::Args),
    /// Show what a plugin says of itself without creating a client: versions, attributes, extensions, functions.
    Inspect(inspect::Args),
    /// Write the C header of a plugin: the functions its library exports.
    Header(header::Args),
    /// Write a wheel through which JAX and PyTorch/XLA find a plugin.
    Package(package::Args),
}

fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Run(args) => run::run(&args),
        Command::Devices(args) => devices::run(&args),
        Command::Inspect(args) => inspect::run(&args),
        Command::Header(args) => header::run(&args),
        Command::Package(args) => package::run(&args),
    };
    match result {
        Ok(output) => match std::io::stdout().write_all(output.as_bytes()) {
            Err(error) if error.kind() != ErrorKind::BrokenPipe => {
                eprintln!("pjrt: {error}");
                ExitCode::FAILURE
            }
            _ => ExitCode::SUCCESS,
        },
        Err(reason) => {
            eprintln!("pjrt: {reason}");
            ExitCode::FAILURE
        }
    }
}

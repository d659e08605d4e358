//! The `pjrt` command: run StableHLO programs on PJRT devices, list devices, inspect plugins.
#![forbid(unsafe_code)]

mod array;
mod devices;
mod inspect;
mod npy;
mod open;
mod run;

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
}

fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Run(args) => run::run(&args),
        Command::Devices(args) => devices::run(&args),
        Command::Inspect(args) => inspect::run(&args),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => {
            eprintln!("pjrt: {reason}");
            ExitCode::FAILURE
        }
    }
}

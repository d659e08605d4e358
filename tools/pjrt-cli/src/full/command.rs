//! The list of the commands that need the feature `full`.

use clap::Subcommand;

use super::{
    bench, completions, conform, doctor, env, guarded, header, inspect, install, package, probe, record, replay, serve,
    supports, trace, uninstall, with,
};
use crate::Report;

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Install a plugin from a Python package index, without Python.
    Install(install::Args),
    /// Remove a plugin that `pjrt install` installed.
    Uninstall(uninstall::Args),
    /// Measure plugins on the same programs, alternately, and compare their outputs.
    Bench(bench::Args),
    /// Report whether a plugin supports a program, by its manifest or by compiling.
    Supports(supports::Args),
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
    /// Serve a plugin's devices to other processes, whose frameworks use the plugin `remote`.
    Serve(serve::Args),
    /// Describe a plugin without creating a client: manifest, capabilities, options, versions, attributes, extensions
    /// and functions.
    Inspect(inspect::Args),
    /// Write the C header of a plugin: the functions its library exports.
    Header(header::Args),
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
    pub(crate) fn json(&self) -> bool {
        match self {
            Self::Install(args) => args.json,
            Self::Bench(args) => args.json,
            Self::Supports(args) => args.json,
            Self::Doctor(args) => args.json,
            Self::Env(args) => args.json,
            Self::With(args) => args.sweep.json,
            Self::Trace(args) => args.json,
            Self::Record(args) => args.json(),
            Self::Replay(args) => args.json,
            Self::Serve(args) => args.json,
            Self::Inspect(args) => args.json,
            Self::Conform(args) => args.json,
            Self::Uninstall(_)
            | Self::Header(_)
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

    /// Runs the command. `cli` describes the whole command line.
    pub(crate) fn run(self, cli: clap::Command) -> Result<Report, String> {
        match self {
            Self::Install(args) => install::run(&args),
            Self::Uninstall(args) => uninstall::run(&args).map(Report::from),
            Self::Bench(args) => bench::run(&args).map(Report::from),
            Self::Supports(args) => supports::run(&args),
            Self::Doctor(args) => doctor::run(&args),
            Self::Env(args) => env::run(&args),
            Self::With(args) => with::run(&args),
            Self::Trace(args) => trace::run(&args),
            Self::Record(args) => record::run(&args),
            Self::Replay(args) => replay::run(&args),
            Self::Serve(args) => serve::run(&args),
            Self::Inspect(args) => inspect::run(&args),
            Self::Header(args) => header::run(&args).map(Report::from),
            Self::Package(args) => package::run(&args).map(Report::from),
            Self::Completions(args) => completions::completions(&args, cli).map(Report::from),
            Self::Man(args) => completions::man(&args, cli).map(Report::from),
            Self::Conform(args) => conform::run(&args),
            Self::Guard => pjrt_conformance::process::guard::run(&["__probe"]).map(|()| Report::from(String::new())),
            Self::SweepGuard => guarded::guard().map(|()| Report::from(String::new())),
            Self::SweepWorker { parent } => guarded::command(parent),
            Self::Probe(args) => probe::run(&args).map(Report::from),
            Self::ConformGuard => conform::guard().map(Report::from),
            Self::ConformWorker(args) => conform::worker(&args).map(Report::from),
        }
    }
}

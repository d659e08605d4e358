//! `pjrt supports`: reports whether a plugin supports a program.

use device_plugin::support::Reason;
use device_plugin::{Depth, Manifest, Support};
use plugin_registry::PluginEntry;
use serde_json::json;

use crate::Report;
use crate::full::child::probe;
use crate::full::probe::Task;
use crate::full::progress::Progress;
use crate::full::time_limit::TimeLimit;
use crate::list;
use crate::open::PluginArgs;
use crate::program::ProgramArgs;

#[derive(clap::Args)]
#[command(after_help = "The exit code is 0 for yes, 3 for no and 4 for maybe; 1 and 2 are errors.

Examples:
  pjrt supports model.mlir                             by the op types that the plugin's manifest lists
  pjrt supports model.mlir -p cuda --depth compile     by compiling it in a child process")]
pub(crate) struct Args {
    #[command(flatten)]
    program: ProgramArgs,
    #[command(flatten)]
    plugin: PluginArgs,
    /// How closely to look: at the names of ops, also at their attributes, also at types, or by compiling the program.
    #[arg(long, default_value = "types", value_name = "names|attributes|types|compile")]
    depth: Depth,
    /// Create a client in a child process if the plugin compiles only with one. The device must be free.
    #[arg(long)]
    with_client: bool,
    #[command(flatten)]
    limit: TimeLimit,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

pub(crate) fn run(args: &Args) -> Result<Report, String> {
    let program = args.program.read()?;
    let entry = args.plugin.find()?;
    let (name, mut support) = match described(&entry, &args.limit)? {
        Some(manifest) => {
            let support = manifest.supports(&program, args.depth).map_err(|faults| faults.to_string())?;
            (manifest.name, support)
        }
        None => {
            let support = entry.supports(&program, args.depth).map_err(|error| error.to_string())?;
            (entry.name().to_owned(), support)
        }
    };
    let mut by = args.depth;
    // If the manifest gives no definite answer, a plugin in a library can try to compile the program.
    if matches!(support, Support::Maybe(_))
        && entry.candidate().location.path().is_some()
        && entry.candidate().is_usable()
    {
        let compiled = compiled(&entry, args, program.format())?;
        support = match (support, compiled) {
            (Support::Maybe(mut reasons), Support::Maybe(more)) => {
                reasons.extend(more);
                Support::Maybe(reasons)
            }
            (_, decided) => {
                by = Depth::Compile;
                decided
            }
        };
    }
    let code = match support {
        Support::Yes | Support::Host(_) => 0,
        Support::No(_) => 3,
        Support::Maybe(_) => 4,
    };
    let text = if args.json {
        format!("{:#}\n", json!({ "plugin": name, "depth": by, "support": support }))
    } else {
        format!("{name}, by {by}: {support}\n")
    };
    Ok(Report::new(text, code))
}

/// Checks in a separate process whether a library's plugin compiles a program.
fn compiled(entry: &PluginEntry, args: &Args, format: &str) -> Result<Support, String> {
    let path = &args.program.path;
    let path = std::path::absolute(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let _progress = Progress::one(format!("compiling with {}", list::shown(entry.name())));
    let probe =
        probe(entry, &Task::Compile { path: &path, format, with_client: args.with_client }, args.limit.timeout)?;
    if let Some(told) = probe.step("compile") {
        return serde_json::from_value(told["support"].clone())
            .map_err(|error| format!("the answer of the probe is not valid: {error}"));
    }
    let failure = probe.failure().unwrap_or_default();
    let support = match (probe.failed_step(), probe.step("load").and_then(|load| load["error"].as_str())) {
        (Some("compile"), _) if !probe.timed_out() => {
            Support::No(vec![Reason::new(format!("compiling it ends the plugin's process: {failure}"))])
        }
        (_, Some(error)) => Support::Maybe(vec![Reason::new(format!("the check with the plugin failed: {error}"))]),
        _ => Support::Maybe(vec![Reason::new(format!("the check with the plugin failed: {failure}"))]),
    };
    Ok(support)
}

/// Returns the description that a library without a manifest exports. A separate process loads the library. Returns
/// `None` if there is a manifest, if the plugin has no usable library file, or if the library exports no valid
/// description.
fn described(entry: &PluginEntry, limit: &TimeLimit) -> Result<Option<Manifest>, String> {
    let candidate = entry.candidate();
    if candidate.manifest.is_some() || candidate.location.path().is_none() || !candidate.is_usable() {
        return Ok(None);
    }
    let _progress = Progress::one(format!("loading {}", list::shown(entry.name())));
    let probe = probe(entry, &Task::Load, limit.timeout)?;
    let text = probe.step("load").and_then(|loaded| loaded["manifest"].as_str().map(str::to_owned));
    Ok(text.and_then(|text| Manifest::from_json(&text).ok()))
}

//! `pjrt check`.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use device_plugin::support::{Effort, Support};
use device_plugin::{Manifest, Program};
use plugin_registry::PluginEntry;
use serde_json::json;

use crate::Report;
use crate::child::probe;
use crate::open::PluginArgs;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// A program.
    program: PathBuf,
    /// What the program is: StableHLO (text, or a portable artifact), an `HloModuleProto`, or an `HloModuleProtoWithConfig`.
    /// By default `hlo` for a file whose name ends in `.hlo`, and else `mlir`.
    #[arg(long, value_name = "mlir|hlo|hlo_with_config", value_parser = ["mlir", "hlo", "hlo_with_config"])]
    format: Option<String>,
    #[command(flatten)]
    plugin: PluginArgs,
    /// How deep to look: at the names of operations, at their attributes, at types, or at all that compiling finds out.
    #[arg(long, short, default_value = "types", value_name = "names|attributes|types|compile")]
    effort: Effort,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Ends with 0 for yes, 3 for no and 4 for maybe; 1 and 2 are those of a question that could not be answered.
pub(crate) fn run(args: &Args) -> Result<Report, String> {
    let code = fs::read(&args.program).map_err(|error| format!("{}: {error}", args.program.display()))?;
    let hlo = args.program.extension().is_some_and(|extension| extension == "hlo");
    let format = args.format.clone().unwrap_or_else(|| if hlo { "hlo" } else { "mlir" }.to_owned());
    let program = Program { format, code: code.into() };
    let entry = args.plugin.find()?;
    let (name, support) = match described(&entry)? {
        Some(manifest) => {
            let support = manifest.supports(&program, args.effort).map_err(|faults| faults.to_string())?;
            (manifest.name, support)
        }
        None => {
            let support = entry.supports(&program, args.effort).map_err(|error| error.to_string())?;
            (entry.name().to_owned(), support)
        }
    };
    let code = match support {
        Support::Yes => 0,
        Support::No(_) => 3,
        Support::Maybe(_) => 4,
    };
    let text = if args.json {
        format!("{:#}\n", json!({ "plugin": name, "effort": args.effort, "support": support }))
    } else {
        format!("{name}, by {}: {support}\n", args.effort)
    };
    Ok(Report { text, code })
}

/// How long a library may take to say what it is.
const LIMIT: Duration = Duration::from_secs(10);

/// What a library says of itself where no manifest does: asked in a process of its own, so that nothing is loaded here.
/// None where there is a manifest, or the library says nothing.
fn described(entry: &PluginEntry) -> Result<Option<Manifest>, String> {
    let candidate = entry.candidate();
    if candidate.manifest.is_some() || candidate.library.path().is_none() || !candidate.is_usable() {
        return Ok(None);
    }
    let probe = probe(entry, false, LIMIT)?;
    let text = probe.step("load").and_then(|loaded| loaded["manifest"].as_str().map(str::to_owned));
    Ok(text.and_then(|text| Manifest::from_json(&text).ok()))
}

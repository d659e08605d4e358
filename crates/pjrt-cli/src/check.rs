//! `pjrt check`.

use std::fs;
use std::path::PathBuf;

use device_plugin::Program;
use device_plugin::support::{Effort, Support};
use serde_json::json;

use crate::Report;
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
    let support = entry.supports(&program, args.effort).map_err(|error| error.to_string())?;
    let code = match support {
        Support::Yes => 0,
        Support::No(_) => 3,
        Support::Maybe(_) => 4,
    };
    let text = if args.json {
        format!("{:#}\n", json!({ "plugin": entry.name(), "effort": args.effort, "support": support }))
    } else {
        format!("{}, by {}: {support}\n", entry.name(), args.effort)
    };
    Ok(Report { text, code })
}

//! `pjrt show`: shows a program's inputs, outputs and ops.

use std::collections::BTreeMap;

use device_plugin::Program;
use serde_json::json;
use stablehlo::ir::{Func, Module, OpKind, Type, Version};

use crate::program::ProgramArgs;
use crate::signature::Signature;
use crate::table::Table;

#[derive(clap::Args)]
#[command(after_help = "Examples:
  pjrt show axpy.mlir            signature, versions and ops
  pjrt show axpy.mlirbc --text   the whole program as StableHLO text
  pjrt show model.hlo --json | jq .ops")]
pub(crate) struct Args {
    #[command(flatten)]
    program: ProgramArgs,
    /// Print the whole program as StableHLO text.
    #[arg(long, conflicts_with = "json")]
    text: bool,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

pub(crate) fn run(args: &Args) -> Result<String, String> {
    let program = args.program.read()?;
    let signature = Signature::of(&program).map_err(|reason| args.program.explained(&reason, &program))?;
    if args.text {
        return Ok(signature.module.to_string());
    }
    let Some(entry) = signature.entry() else { return Err("the program has no function named main".to_owned()) };
    let module = &signature.module;
    let ops = count(module);
    if args.json {
        let types = |types: Vec<&Type>| types.iter().map(ToString::to_string).collect::<Vec<_>>();
        let out = json!({
            "name": module.name,
            "format": format_name(&program),
            "artifact_version": artifact_version(module),
            "oldest_version": oldest(module).map(|version| version.to_string()),
            "bytes": program.code().len(),
            "functions": module.funcs.len(),
            "entry": entry.name,
            "inputs": types(signature.inputs()),
            "outputs": types(entry.results.iter().collect()),
            "donated": donated(entry),
            "ops": ops,
        });
        return Ok(format!("{out:#}\n"));
    }
    let mut out = String::new();
    line!(
        out,
        "{}",
        module.name.as_deref().map_or_else(|| "a module without a name".to_owned(), |n| format!("module {n}"))
    );
    let mut about = Table::plain();
    about.row(["format".to_owned(), format_name(&program)]);
    if let Some(version) = artifact_version(module) {
        about.row(["written for".to_owned(), format!("StableHLO {version}")]);
    }
    let needs = oldest(module).map_or_else(
        || format!("nothing that StableHLO {} can express as an artifact", Version::NEWEST),
        |version| format!("StableHLO {version} or later"),
    );
    about.row(["needs".to_owned(), needs]);
    let functions = match module.funcs.len() {
        1 => "1 function".to_owned(),
        count => format!("{count} functions"),
    };
    about.row(["size".to_owned(), format!("{} bytes, {functions}", program.code().len())]);
    let donated = donated(entry);
    for (index, ty) in signature.inputs().into_iter().enumerate() {
        let note = if donated.contains(&index) { "donated" } else { "" };
        about.row([format!("input {index}"), format!("{ty}  {note}").trim_end().to_owned()]);
    }
    for (index, ty) in entry.results.iter().enumerate() {
        about.row([format!("output {index}"), ty.to_string()]);
    }
    out.push_str(&about.text("  "));
    line!(out, "ops {}", ops.values().sum::<usize>());
    let mut table = Table::plain();
    let mut most: Vec<_> = ops.into_iter().collect();
    most.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    for (name, count) in most {
        table.row([count.to_string(), name]);
    }
    out.push_str(&table.text("  "));
    Ok(out)
}

fn format_name(program: &Program) -> String {
    match program.format() {
        "mlir" if stablehlo::is_artifact(program.code()) => "portable artifact (MLIR bytecode)".to_owned(),
        "mlir" => "StableHLO text".to_owned(),
        other => other.to_owned(),
    }
}

fn artifact_version(module: &Module) -> Option<String> {
    module.version.map(|version| version.to_string())
}

/// Returns the oldest version of StableHLO whose artifacts can express the program. Returns `None` if no version can
/// express it, because the program has ops of other dialects.
fn oldest(module: &Module) -> Option<Version> {
    let last_of_0 = 20;
    let minors = (0..=last_of_0)
        .map(|minor| Version(0, minor, 0))
        .chain((0..=Version::NEWEST.1).map(|minor| Version(1, minor, 0)));
    let versions: Vec<Version> =
        minors.filter(|version| (Version::OLDEST..=Version::NEWEST).contains(version)).collect();
    // Each version can express every program that an earlier version can express.
    let first = versions.partition_point(|version| stablehlo::write(module, *version).is_err());
    versions.get(first).copied()
}

/// Returns how often each op occurs in all functions and regions, except `stablehlo.return`.
fn count(module: &Module) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for op in module.funcs.iter().flat_map(|func| func.body.all_ops()) {
        if !matches!(op.kind, OpKind::Return) {
            *counts.entry(op.kind.name()).or_default() += 1;
        }
    }
    counts
}

/// Returns the indices of the donated inputs, whose memory the outputs may reuse.
fn donated(entry: &Func) -> Vec<usize> {
    let names = ["tf.aliasing_output", "jax.buffer_donor"];
    (0..entry.args().len())
        .filter(|index| names.iter().any(|name| entry.arg_attribute(*index, name).is_some()))
        .collect()
}

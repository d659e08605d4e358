//! `pjrt inspect`: describes a plugin without creating a client.

use device_plugin::{Capabilities, Manifest, OptionSchema};
use plugin_registry::PluginEntry;
use serde_json::Value;

use crate::full::child::{Probe, probe};
use crate::full::probe::Task;
use crate::full::progress::Progress;
use crate::full::time_limit::TimeLimit;
use crate::list;
use crate::open::PluginArgs;
use crate::table::Table;
use crate::{Report, list::status};

#[derive(clap::Args)]
#[command(after_help = "Examples:
  pjrt inspect
  pjrt inspect -p ./libacme.so --json")]
pub(crate) struct Args {
    #[command(flatten)]
    plugin: PluginArgs,
    #[command(flatten)]
    limit: TimeLimit,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

pub(crate) fn run(args: &Args) -> Result<Report, String> {
    let entry = args.plugin.find()?;
    if !entry.candidate().is_usable() {
        // Return the same message as when the plugin is opened.
        return Err(entry.load().err().map_or_else(|| "it cannot be used".to_owned(), |error| error.to_string()));
    }
    let progress = Progress::one(format!("loading {}", list::shown(entry.name())));
    let probe = probe(&entry, &Task::Load, args.limit.timeout)?;
    drop(progress);
    let loaded = probe.step("load");
    let fault = match loaded.map(|loaded| &loaded["error"]) {
        Some(Value::String(error)) => Some(error.clone()),
        _ => probe.failure(),
    };
    let code = u8::from(fault.is_some());
    let loaded = loaded.filter(|loaded| loaded["error"].is_null());
    let text = if args.json { as_json(&entry, loaded, fault) } else { as_text(&entry, loaded, fault, &probe) };
    Ok(Report::new(text, code))
}

/// Returns the plugin's manifest. If discovery found no manifest, returns the description that the loaded library
/// exports, if any.
fn manifest(entry: &PluginEntry, loaded: Option<&Value>) -> Manifest {
    let told = loaded.and_then(|loaded| loaded["manifest"].as_str());
    let told = told.filter(|_| entry.candidate().manifest.is_none());
    told.and_then(|text| Manifest::from_json(text).ok()).unwrap_or_else(|| entry.manifest().clone())
}

fn as_json(entry: &PluginEntry, loaded: Option<&Value>, fault: Option<String>) -> String {
    let mut out = list::as_json(entry);
    out["path"] = out["library"].clone();
    out["manifest"] = serde_json::from_str(&manifest(entry, loaded).to_json()).unwrap_or_default();
    for name in ["api_version", "table_size", "attributes", "extensions", "functions", "missing_functions"] {
        out[name] = loaded.map_or(Value::Null, |loaded| loaded[name].clone());
    }
    if let Some(fault) = fault {
        out["error"] = Value::String(fault);
    }
    format!("{out:#}\n")
}

fn as_text(entry: &PluginEntry, loaded: Option<&Value>, fault: Option<String>, probe: &Probe) -> String {
    let mut out = String::new();
    let manifest = manifest(entry, loaded);
    let path = entry.candidate().location.path();
    line!(out, "plugin {}", path.map_or_else(|| "embedded".to_owned(), |path| list::shown(&path.to_string_lossy())));
    let mut about = Table::plain();
    let mut say = |what: &str, found: String| {
        if !found.is_empty() {
            about.row([what.to_owned(), found]);
        }
    };
    say("name", manifest.name.clone());
    say("also", manifest.aliases.join(", "));
    for (what, found) in [
        ("display name", &manifest.display_name),
        ("vendor", &manifest.vendor),
        ("version", &manifest.version),
        ("description", &manifest.description),
        ("homepage", &manifest.homepage),
        ("support", &manifest.support),
    ] {
        say(what, found.clone());
    }
    for provenance in entry.candidate().provenances() {
        say("found", provenance.to_string());
    }
    say("priority", manifest.priority.to_string());
    say("ownership", manifest.ownership.name().to_owned());
    say("hardware", entry.hardware().to_string());
    say("status", status(entry));
    for note in &entry.candidate().notes {
        say("note", note.clone());
    }
    out.push_str(&about.text("  "));
    capabilities(&mut out, &manifest.capabilities);
    options(&mut out, &manifest.create_options);
    if let Some(error) = loaded.and_then(|loaded| loaded["manifest_error"].as_str()) {
        line!(out, "FAULT in the library's own description: {error}");
    }
    if let Some(loaded) = loaded {
        functions(&mut out, loaded);
    }
    if let Some(fault) = fault {
        line!(out, "FAULT during {}: {fault}", probe.failed_step().unwrap_or("load"));
    }
    out
}

fn capabilities(out: &mut String, capabilities: &Capabilities) {
    let json = serde_json::from_str(&capabilities.to_json()).unwrap_or_default();
    let Value::Object(fields) = json else { return };
    if fields.is_empty() {
        line!(out, "capabilities: the defaults, which frameworks assume for unknown devices");
        return;
    }
    line!(out, "capabilities");
    let mut table = Table::plain();
    for (name, value) in fields {
        table.row([name, value.as_str().map_or_else(|| value.to_string(), str::to_owned)]);
    }
    out.push_str(&table.text("  "));
}

fn options(out: &mut String, schema: &OptionSchema) {
    let others = if schema.open { "others pass unchecked" } else { "no others" };
    if schema.options.is_empty() {
        line!(out, "create options: {}", if schema.open { "all pass unchecked" } else { "none" });
        return;
    }
    line!(out, "create options ({others})");
    let mut table = Table::plain();
    for option in &schema.options {
        let default = match &option.default {
            Some(value) => format!("default {value}"),
            None if option.required => "required".to_owned(),
            None => String::new(),
        };
        table.row([option.name.clone(), option.ty.name().to_owned(), default, option.description.clone()]);
    }
    out.push_str(&table.text("  "));
}

fn functions(out: &mut String, loaded: &Value) {
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    line!(out, "API version {}, table of {} bytes", text(&loaded["api_version"]), loaded["table_size"]);
    for (name, value) in loaded["attributes"].as_object().into_iter().flatten() {
        line!(out, "attribute {name} = {}", text(value));
    }
    if let Some(error) = loaded["attributes_error"].as_str() {
        line!(out, "no attributes: {error}");
    }
    for extension in loaded["extensions"].as_array().into_iter().flatten() {
        let name = extension["name"].as_str().unwrap_or("unknown to this version of the command");
        line!(out, "extension {name} ({}), {} bytes", extension["type"], extension["struct_size"]);
    }
    let missing = loaded["missing_functions"].as_array().map(Vec::as_slice).unwrap_or_default();
    let present = loaded["functions"].as_u64().unwrap_or(0);
    let all = present + u64::try_from(missing.len()).unwrap_or(0);
    line!(out, "functions {present} of {all}");
    for name in missing {
        line!(out, "  without {}", text(name));
    }
}

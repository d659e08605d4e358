//! The worker and guard processes in which `pjrt conform` runs cases.

use std::path::Path;

use device_plugin::Manifest;
use pjrt::ClientOptions;
use pjrt_conformance::Opened;
use pjrt_conformance::process::{guard as guarding, worker as working};
use plugin_registry::discovery::check_trusted;
use plugin_registry::{PluginEntry, PluginRegistry, Policy};
use serde_json::{Value, json};

use crate::library;
use crate::open::option;

/// Name of the hidden command that runs cases.
pub(super) const WORKER: &str = "__conform_worker";
/// Name of the hidden command that watches the worker.
pub(super) const GUARD: &str = "__conform_guard";

#[derive(clap::Args)]
pub(crate) struct WorkerArgs {
    /// Id of the parent process. This process ends when its parent ends.
    parent: u32,
}

/// Describes the plugin and the options of its client as JSON for the worker. Returns an error if the path of the
/// library is not UTF-8.
pub(super) fn target(entry: &PluginEntry, options: &[String]) -> Result<Value, String> {
    let path = match entry.candidate().location.path() {
        None => Value::Null,
        Some(path) => match path.to_str() {
            Some(text) => json!(text),
            None => return Err(format!("{}: the path of the library is not UTF-8; rename it", path.display())),
        },
    };
    Ok(json!({ "name": entry.name(), "path": path, "manifest": entry.manifest().to_json(), "options": options }))
}

/// Runs the guard, which watches a worker.
pub(crate) fn guard() -> Result<String, String> {
    guarding::run(&[WORKER]).map(|()| String::new())
}

/// Runs the worker, which loads the plugin and runs cases.
pub(crate) fn worker(args: &WorkerArgs) -> Result<String, String> {
    working::run(args.parent, &open).map(|()| String::new())
}

fn open(target: &Value) -> Result<Opened, String> {
    let registry = PluginRegistry::builder().linked().build();
    let name = target["name"].as_str().unwrap_or_default();
    let entry = match target["path"].as_str() {
        None => registry.select(&Policy::named(name)).map_err(|error| error.to_string())?,
        Some(path) => {
            let manifest = Manifest::from_json(target["manifest"].as_str().unwrap_or_default());
            let manifest = manifest.map_err(|faults| faults.to_string())?;
            check_trusted(Path::new(path)).map_err(|refusal| refusal.to_string())?;
            library::register(&registry, Path::new(path), manifest).map_err(|error| error.to_string())?
        }
    };
    let loaded = entry.load().map_err(|error| error.to_string())?;
    let mut options = ClientOptions::new();
    for text in target["options"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        let (name, value) = option(text)?;
        options = options.with(name, value);
    }
    Ok(Opened { plugin: loaded.plugin().clone(), options, keep: Box::new((registry, loaded)) })
}

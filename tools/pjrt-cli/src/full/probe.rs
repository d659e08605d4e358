//! Loads a plugin in a separate process, and reports the outcome of each step. `pjrt __probe` runs in that process.
//!
//! The child reads its task from its standard input. For each step, it writes a line of JSON to its standard output. A
//! mark precedes each of these lines, because plugins write to the standard output, too.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Instant;

use device_plugin::support::Reason;
use device_plugin::{Manifest, Support};
use pjrt::extensions::ExtensionInfo;
use pjrt::{ClientOptions, CompileOptions, ErrorCode, ErrorKind, Function, TopologyDescription};
use plugin_registry::discovery::check_trusted;
use plugin_registry::{Error, LoadedPlugin, PluginEntry, PluginRegistry, Policy};
use serde_json::{Value, json};

use crate::devices::values_json;
use crate::{library, program};
use pjrt_conformance::process::guard::die_with;
use pjrt_conformance::process::lines::tell;

/// The task of a child process.
pub(crate) enum Task<'a> {
    /// Loads the plugin.
    Load,
    /// Loads the plugin and creates a client.
    Client,
    /// Loads the plugin and compiles a program for its default topology.
    Compile {
        path: &'a Path,
        format: &'a str,
        /// Whether to create a client if the plugin cannot create a topology without one.
        with_client: bool,
    },
}

/// Returns the request that a child reads from its standard input.
pub(crate) fn request(entry: &PluginEntry, task: &Task<'_>) -> String {
    let program = match task {
        Task::Compile { path, format, with_client } => {
            json!({ "path": path_to_json(path), "format": format, "client": with_client })
        }
        _ => Value::Null,
    };
    let client = matches!(task, Task::Client);
    let path = entry.candidate().location.path().map(path_to_json);
    // Write a single line, because the guard reads exactly one.
    json!({ "name": entry.name(), "path": path, "manifest": entry.manifest().to_json(), "client": client, "program": program }).to_string()
        + "\n"
}

/// Converts a path to a JSON string, or to a JSON array of bytes if the path is not UTF-8.
fn path_to_json(path: &Path) -> Value {
    path.to_str().map_or_else(|| json!(path.as_os_str().as_encoded_bytes()), |text| json!(text))
}

/// Converts the JSON of [`path_to_json`] to a path. Returns `None` if the JSON is not a path, such as `null` for a
/// plugin that is linked into the program.
fn path_from_json(json: &Value) -> Option<PathBuf> {
    if let Some(text) = json.as_str() {
        return Some(PathBuf::from(text));
    }
    let bytes = json.as_array()?.iter().map(|byte| byte.as_u64().and_then(|byte| u8::try_from(byte).ok()));
    let bytes: Vec<u8> = bytes.collect::<Option<_>>()?;
    #[cfg(unix)]
    let path = <std::ffi::OsString as std::os::unix::ffi::OsStringExt>::from_vec(bytes);
    #[cfg(not(unix))]
    let path = String::from_utf8_lossy(&bytes).into_owned();
    Some(PathBuf::from(path))
}

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Id of the parent process. This process ends when its parent ends.
    parent: u32,
}

/// Runs the task in the child process.
pub(crate) fn run(args: &Args) -> Result<String, String> {
    die_with(args.parent)?;
    let mut request = String::new();
    std::io::stdin().read_to_string(&mut request).map_err(|error| error.to_string())?;
    let request: Value =
        serde_json::from_str(&request).map_err(|error| format!("the request for the probe is not valid: {error}"))?;
    steps(&request)?;
    tell(&json!({ "step": "end" }));
    Ok(String::new())
}

fn steps(request: &Value) -> Result<(), String> {
    let registry = PluginRegistry::builder().linked().build();
    let name = request["name"].as_str().unwrap_or_default();
    let entry = match path_from_json(&request["path"]) {
        None => registry.select(&Policy::named(name)).map_err(Error::from),
        Some(path) => {
            let manifest = Manifest::from_json(request["manifest"].as_str().unwrap_or_default());
            let manifest = manifest.map_err(|faults| faults.to_string())?;
            // The request comes from the user who started this process. Check the path, because a process with elevated
            // privileges must not load the library of an ordinary user.
            check_trusted(&path).map_err(|refusal| refusal.to_string())?;
            library::register(&registry, &path, manifest)
        }
    };
    let path = request["path"].as_str();
    let Some(loaded) = step("load", || entry?.load(), |loaded| describe(loaded, path)) else { return Ok(()) };
    if let Some(path) = path_from_json(&request["program"]["path"]) {
        tell(&json!({ "begin": "compile" }));
        let support = compiles(&loaded, &path, &request["program"]);
        tell(&json!({ "step": "compile", "support": support }));
    }
    if request["client"] == true {
        let client = step(
            "client",
            || loaded.client(&ClientOptions::new()),
            |client| {
                let devices = client.devices().map(|devices| {
                    devices
                        .iter()
                        .map(|device| device.kind().unwrap_or_else(|error| error.to_string()))
                        .collect::<Vec<_>>()
                });
                match devices {
                    Ok(kinds) => json!({
                        "platform_name": client.platform_name().unwrap_or_default(),
                        "platform_version": client.platform_version().unwrap_or_default(),
                        "devices": kinds,
                    }),
                    Err(error) => json!({ "error": error.to_string() }),
                }
            },
        );
        if client.is_some() {
            step(
                "close",
                || {
                    drop(client);
                    Ok(())
                },
                |()| json!({}),
            );
        }
    }
    step(
        "shutdown",
        || {
            registry.shutdown();
            Ok(())
        },
        |()| json!({}),
    );
    Ok(())
}

/// Returns whether the plugin compiles a program.
fn compiles(loaded: &LoadedPlugin, path: &Path, request: &Value) -> Support {
    let maybe = |why: String| Support::Maybe(vec![Reason::new(why)]);
    let code = match std::fs::read(path) {
        Ok(code) => code,
        Err(error) => return maybe(format!("the program {} cannot be read: {error}", path.display())),
    };
    let format = request["format"].as_str().unwrap_or_default().to_owned();
    let (program, options) = (pjrt::Program::new(format, code), CompileOptions::default());
    let mut about_the_program = vec![ErrorCode::INVALID_ARGUMENT, ErrorCode::UNIMPLEMENTED];
    // An empty name selects the topology of this machine.
    let compiled = match TopologyDescription::create(loaded.plugin(), "", &[]) {
        Ok(topology) => {
            program::compile(loaded.plugin(), &program, |program| topology.compile(program, &options).map(drop))
        }
        Err(_) if request["client"] == true => {
            let client = match loaded.client(&ClientOptions::new()) {
                Ok(client) => client,
                Err(error) => return maybe(format!("the plugin cannot create a client to compile with: {error}")),
            };
            // Without a client, `NOT_FOUND` may mean that the compiler was not found. With a client, it means that
            // something that the program calls was not found.
            about_the_program.push(ErrorCode::NOT_FOUND);
            program::compile(loaded.plugin(), &program, |program| client.compile(program, &options).map(drop))
        }
        Err(error) => return maybe(format!("the plugin compiles only with a client (--with-client): {error}")),
    };
    let Err(error) = compiled else { return Support::Yes };
    if error.kind() != ErrorKind::Unsupported && about_the_program.contains(&error.code()) {
        return Support::No(vec![Reason::new(format!("the plugin does not compile it: {error}"))]);
    }
    maybe(format!("the plugin could not compile it here: {error}"))
}

/// Reports that a step begins, performs the step, and reports its outcome. Returns the result of a successful step.
fn step<T>(name: &str, run: impl FnOnce() -> Result<T, Error>, tell_of: impl FnOnce(&T) -> Value) -> Option<T> {
    tell(&json!({ "begin": name }));
    let start = Instant::now();
    match run() {
        Ok(value) => {
            let ms = start.elapsed().as_secs_f64() * 1e3;
            let mut told = tell_of(&value);
            told["step"] = json!(name);
            told["ms"] = json!(ms);
            tell(&told);
            Some(value)
        }
        Err(error) => {
            let held = matches!(error, Error::LeaseConflict(_));
            tell(&json!({ "step": name, "error": error.to_string(), "held": held }));
            None
        }
    }
}

fn describe(loaded: &LoadedPlugin, path: Option<&str>) -> Value {
    let plugin = loaded.plugin();
    let functions = Function::ALL.iter().filter(|function| function.extension().is_none());
    let (present, missing): (Vec<Function>, Vec<Function>) =
        functions.partition(|function| plugin.supports(**function));
    let missing: Vec<&str> = missing.iter().map(|function| function.name()).collect();
    let extensions = plugin.extensions();
    let extension =
        |found: &ExtensionInfo| json!({ "type": found.number, "name": found.name, "struct_size": found.struct_size });
    let extensions: Vec<Value> = extensions.iter().map(extension).collect();
    let unapplied: Vec<String> = loaded.missing_variables().iter().map(ToString::to_string).collect();
    let mut told = json!({
        "api_version": plugin.api_version().to_string(),
        "table_size": plugin.api().struct_size(),
        "extensions": extensions,
        "functions": present.len(),
        "missing_functions": missing,
        "unapplied": unapplied,
    });
    match plugin.attributes() {
        Ok(attributes) => told["attributes"] = Value::Object(values_json(&attributes)),
        Err(error) => told["attributes_error"] = json!(error.to_string()),
    }
    match path.map(library::describe) {
        Some(Ok(Some(descriptor))) => told["manifest"] = json!(descriptor.manifest().to_json()),
        Some(Err(error)) => told["manifest_error"] = json!(error.to_string()),
        _ => {}
    }
    told
}

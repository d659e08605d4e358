//! `pjrt with`: runs a command with layers between its framework and a plugin, or with the plugin in another process.

mod sweep;

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::Command;

use device_plugin::{Environment, ProcessTopology};
use pjrt_layers::record::Selection;
use plugin_registry::{PluginEntry, PluginRegistry, Policy};

use crate::Report;
use crate::full::env::become_command;
#[cfg(unix)]
use crate::full::isolated;
use crate::full::sdk_library::{LAYERS, REMOTE};
use crate::library;
use sweep::{SweepArgs, Target};

#[derive(clap::Args)]
#[command(after_help = "Layers:
  trace     records every call: a tally, a timeline for ui.perfetto.dev and lines of JSON
  validate  reports calls that break the rules of the interface, and objects that were never destroyed
  compat    adapts the sizes of structs, so that a framework and a plugin of different versions work together
  fault     lets calls fail or wait, by the rules in PJRT_LAYERS_FAULT
  override  saves and replaces programs, changes answers, and makes calls synchronous
  record    writes the calls and their data to a file, which `pjrt replay` runs on another plugin

Examples:
  pjrt with -p acme --layers trace -- python train.py
  pjrt with -p ./libacme.so --layers trace,compat --output calls -- python train.py
  pjrt with --layers fault --sweep -- python train.py
  PJRT_LAYERS_FAULT='memory call=10 oom' pjrt with -p acme --layers fault -- python train.py
  pjrt with -p acme --layers record --output calls -- python train.py
  pjrt with -p acme --layers record --record-run jit_step:3 -- python train.py
  pjrt trace calls
  pjrt with -p acme --isolate -- python train.py")]
pub(crate) struct Args {
    /// The name of an installed plugin, or the path of a plugin's library. The default is the only installed
    /// plugin that has a library, or the one that the environment names.
    #[arg(long, short, value_name = "NAME|PATH")]
    plugin: Option<String>,
    /// The layers, separated by commas. The first one is next to the framework.
    #[arg(long, short, value_name = "NAMES", value_delimiter = ',', required_unless_present = "isolate")]
    layers: Vec<String>,
    /// The folder for the files of the layers. Without it, the layers write to the standard error.
    #[arg(long, short, value_name = "DIR")]
    output: Option<PathBuf>,
    /// `record`: limits the recording to one run, with its program, its inputs and its outputs. N is the number of the
    /// run, and PROGRAM:N the n-th run of this program.
    #[arg(long, value_name = "N|PROGRAM|PROGRAM:N")]
    record_run: Option<Selection>,
    /// The library with the layers, if it is not beside this command. Also read from PJRT_LAYERS_LIBRARY.
    #[arg(long, value_name = "PATH")]
    library: Option<PathBuf>,
    /// Run the plugin in a process of its own, so that a crash of the plugin does not end the framework. The framework
    /// loads the plugin `remote`.
    #[arg(long)]
    isolate: bool,
    #[command(flatten)]
    pub(crate) sweep: SweepArgs,
    /// The command and its arguments.
    #[arg(last = true, value_name = "COMMAND", required = true)]
    command: Vec<OsString>,
}

pub(crate) fn run(args: &Args) -> Result<Report, String> {
    let [program, arguments @ ..] = &args.command[..] else {
        return Err("no command: pass the command to run after `--`".to_owned());
    };
    if args.sweep.sweep && !args.layers.iter().any(|layer| layer == "fault") {
        return Err("--sweep needs the layer `fault`: add it to --layers".to_owned());
    }
    if args.sweep.sweep && args.output.is_some() {
        return Err("--sweep does not keep the files of the layers: omit --output".to_owned());
    }
    if args.sweep.sweep && args.isolate {
        return Err("--sweep runs the plugin in the processes of the command: omit --isolate".to_owned());
    }
    let layers = match args.layers.is_empty() {
        true => None,
        false => Some(LAYERS.find(args.library.as_deref(), Some("--library"))?),
    };
    let entry = match &args.plugin {
        Some(name) => library::find(name)?,
        None => only_plugin(PluginRegistry::global())?,
    };
    let plugin = if args.isolate {
        REMOTE.find(None, None)?
    } else {
        let no_library = || {
            format!(
                "the plugin `{}` has no library file: pass the path of a plugin's library to --plugin",
                entry.name()
            )
        };
        absolute(entry.candidate().location.path().ok_or_else(no_library)?)?
    };
    let library = layers.as_ref().unwrap_or(&plugin).clone();
    // The plugin needs the same environment as without layers.
    let environment = Environment::of_this_process();
    let topology = ProcessTopology::detect(&environment).map_err(|faults| faults.to_string())?;
    let plan = entry.plan(&topology, &environment).map_err(|error| error.to_string())?;
    let planned: Vec<(OsString, OsString)> =
        plan.for_child().map(|(name, value)| (name.into(), value.into())).collect();
    let mut variables = planned.clone();
    if !args.layers.is_empty() {
        variables.push(("PJRT_LAYERS".into(), args.layers.join(",").into()));
        variables.push(("PJRT_LAYERS_PLUGIN".into(), plugin.into()));
    }
    if let Some(run) = &args.record_run {
        if !args.layers.iter().any(|layer| layer == "record") {
            return Err("--record-run needs the layer `record`: add it to --layers".to_owned());
        }
        variables.push((pjrt_layers::variables::RECORD_RUN.into(), run.to_string().into()));
    }
    if let Some(folder) = &args.output {
        private_files::create_folder(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        variables.push(("PJRT_LAYERS_OUTPUT".into(), absolute(folder)?.into()));
    }
    let framework = framework_variables(entry.name(), &library);
    variables.extend(framework.into_iter().map(|(name, value)| (name.into(), value)));
    if args.sweep.sweep {
        return sweep::sweep(&args.sweep, &Target { command: &args.command, variables });
    }
    let mut command = Command::new(program);
    command.args(arguments).envs(variables);
    if args.isolate {
        isolate(args, &entry, &planned, command, program)
    } else {
        become_command(command, &program.to_string_lossy())
    }
}

/// Runs a command with the plugin in a process of its own.
#[cfg(unix)]
fn isolate(
    args: &Args,
    entry: &PluginEntry,
    planned: &[(OsString, OsString)],
    command: Command,
    program: &OsStr,
) -> Result<Report, String> {
    let name = args.plugin.as_deref().unwrap_or(entry.name());
    isolated::run(name, planned, command, &program.to_string_lossy())
}

#[cfg(not(unix))]
fn isolate(_: &Args, _: &PluginEntry, _: &[(OsString, OsString)], _: Command, _: &OsStr) -> Result<Report, String> {
    Err("--isolate needs Unix sockets, which this system lacks".to_owned())
}

/// Selects the plugin if the user does not pass `--plugin`. This is the plugin that the environment names. If the
/// environment names none, it is the only installed plugin that has a library.
fn only_plugin(registry: &PluginRegistry) -> Result<PluginEntry, String> {
    if !registry.hints().is_empty() {
        return registry.select(&Policy::any().environment_first()).map_err(|error| error.to_string());
    }
    let mut found = registry.ranked(&Policy::any()).unwrap_or_default();
    found.retain(|entry| entry.candidate().location.path().is_some());
    match &found[..] {
        [only] => Ok(only.clone()),
        [] => {
            Err("no plugin with a library is installed: pass the path of a plugin's library to --plugin (`pjrt list \
                   --all` shows where the command looked)"
                .to_owned())
        }
        several => {
            let names: Vec<String> = several.iter().map(|entry| format!("`{}`", entry.name())).collect();
            Err(format!("several plugins are installed: pass one of them to --plugin: {}", names.join(", ")))
        }
    }
}

/// Returns the environment variables that make frameworks load a library as their plugin.
fn framework_variables(name: &str, library: &Path) -> Vec<(&'static str, OsString)> {
    let name: String = name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
    let mut jax = OsString::from(format!("{name}:"));
    jax.push(library);
    vec![
        // JAX reads these variables.
        ("PJRT_NAMES_AND_LIBRARY_PATHS", jax),
        ("JAX_PLATFORMS", name.into()),
        // PyTorch/XLA reads these variables.
        ("PJRT_DEVICE", "LIBRARY".into()),
        ("PJRT_LIBRARY_PATH", library.into()),
        // Frameworks that use libtpu and pypjrt read these variables.
        ("TPU_LIBRARY_PATH", library.into()),
        ("PYPJRT_PLUGIN", library.into()),
    ]
}

fn absolute(path: &Path) -> Result<PathBuf, String> {
    std::path::absolute(path).map_err(|error| format!("{}: {error}", path.display()))
}

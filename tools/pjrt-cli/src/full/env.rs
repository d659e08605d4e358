//! `pjrt env`: shows the environment variables that a plugin needs, or runs a command with them.

use std::process::Command;

use device_plugin::Environment;
use device_plugin::process::{Address, Detected, DeviceShare, Explicit, ThisHost, detect};
use serde_json::json;

use crate::Report;
use crate::library;

#[derive(clap::Args)]
#[command(after_help = "Examples:
  pjrt env -p tpu --rank 1 --world-size 4 --coordinator host0:8476
  mpirun -n 4 pjrt env -p cuda --from-env -- python train.py")]
pub(crate) struct Args {
    /// `cpu` for the embedded device, the name of an installed plugin, or the path of a plugin's library.
    #[arg(long, short, value_name = "NAME|PATH")]
    plugin: String,
    /// Read ranks and hosts from the environment of torchrun, Open MPI, Slurm, Kubernetes, TPU and other launchers.
    #[arg(long)]
    from_env: bool,
    /// Rank among all processes.
    #[arg(long, value_name = "N")]
    rank: Option<u32>,
    /// Number of processes.
    #[arg(long, value_name = "N")]
    world_size: Option<u32>,
    /// Rank among the processes of this host.
    #[arg(long, value_name = "N")]
    local_rank: Option<u32>,
    /// Number of processes of this host.
    #[arg(long, value_name = "N")]
    local_world_size: Option<u32>,
    /// Index of this host.
    #[arg(long, value_name = "N")]
    host_index: Option<u32>,
    /// Number of hosts.
    #[arg(long, value_name = "N")]
    host_count: Option<u32>,
    /// The address at which the process of rank 0 listens.
    #[arg(long, value_name = "HOST[:PORT]")]
    coordinator: Option<Address>,
    /// Use one device of the host, the one whose index is the local rank.
    #[arg(long)]
    one_device: bool,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
    /// Run a command with the variables set.
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
}

pub(crate) fn run(args: &Args) -> Result<Report, String> {
    let entry = library::find(&args.plugin)?;
    let environment = Environment::of_this_process();
    let Detected { topology, .. } = args.detect(&environment)?;
    let plan = entry.plan(&topology, &environment).map_err(|error| error.to_string())?;
    if let [program, arguments @ ..] = &args.command[..] {
        let mut command = Command::new(program);
        command.args(arguments).envs(plan.for_child());
        return become_command(command, program);
    }
    if args.json {
        let out = json!({ "plugin": entry.name(), "topology": topology, "plan": plan });
        return Ok(Report::from(format!("{out:#}\n")));
    }
    let mut out = String::new();
    line!(out, "{topology}\n\n{plan}");
    Ok(Report::from(out))
}

impl Args {
    fn detect(&self, environment: &Environment) -> Result<Detected, String> {
        let mut explicit = Explicit::default();
        (explicit.global_rank, explicit.world_size) = (self.rank, self.world_size);
        (explicit.local_rank, explicit.local_world_size) = (self.local_rank, self.local_world_size);
        (explicit.host_index, explicit.host_count) = (self.host_index, self.host_count);
        explicit.coordinator.clone_from(&self.coordinator);
        explicit.device_share = self.one_device.then_some(DeviceShare::One);
        let detected = if self.from_env {
            detect(environment, Some(&ThisHost), &explicit)
        } else {
            detect(&Environment::new(), None, &explicit)
        };
        detected.map_err(|faults| format!("the process's place: {faults}"))
    }
}

/// Replaces this process with the command, so that signals reach the command.
#[cfg(unix)]
pub(crate) fn become_command(mut command: Command, program: &str) -> Result<Report, String> {
    let error = std::os::unix::process::CommandExt::exec(&mut command);
    Err(format!("cannot run {program}: {error}"))
}

/// Runs the command as a child process, because systems other than Unix cannot replace a process. Returns the command's
/// exit code.
#[cfg(not(unix))]
pub(crate) fn become_command(mut command: Command, program: &str) -> Result<Report, String> {
    let status = command.status().map_err(|error| format!("cannot run {program}: {error}"))?;
    let code = status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1);
    Ok(Report::new(String::new(), code))
}

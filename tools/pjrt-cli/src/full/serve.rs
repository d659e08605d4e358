//! `pjrt serve`: serves the devices of a plugin to other processes.

use std::io::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use pjrt_remote::{Access, Address, ClientStatus, Identity, Limits, Server, Token};
use serde_json::{Value, json};

use crate::Report;
use crate::escape;
use crate::open::ClientArgs;
use crate::table::Table;

/// Maximum time to wait for the clients' work after a signal, and again to close the plugin.
const PATIENCE: Duration = Duration::from_secs(5);

#[derive(clap::Args)]
#[command(
    after_help = "Only your own user can connect to a Unix socket. Clients of a TCP port need the file with the \
                        token, whose path is in PJRT_REMOTE_TOKEN_FILE.

Examples:
  pjrt serve -p acme --listen unix:$XDG_RUNTIME_DIR/pjrt/acme
  pjrt serve -p acme --listen 127.0.0.1:7000 --token-file acme.token
  pjrt serve -p acme --listen 0.0.0.0:7000 --token-file acme.token --tls-cert acme.pem --tls-key acme.key
  pjrt serve -p acme --devices 0,2 --memory-limit 8000000000
  pjrt serve --status"
)]
pub(crate) struct Args {
    #[command(flatten)]
    client: ClientArgs,
    /// The address for clients. With --status, also tls://HOST:PORT?fingerprint=HEX. [default:
    /// unix:$XDG_RUNTIME_DIR/pjrt/served]
    #[arg(long, value_name = "unix:PATH|HOST:PORT")]
    listen: Option<Address>,
    /// The file with the token for clients of a TCP port. It is created if it does not exist.
    #[arg(long, value_name = "PATH")]
    token_file: Option<PathBuf>,
    /// The file with the certificate of a TCP port, in PEM form. It may be self-signed, because clients know its
    /// fingerprint. Without it, a TCP port must be on the loopback interface.
    #[arg(long, value_name = "PATH", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// The file with the key of the certificate, in PEM form.
    #[arg(long, value_name = "PATH", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// Maximum number of clients at the same time.
    #[arg(long, value_name = "COUNT", default_value_t = Limits::default().clients)]
    clients: usize,
    /// Maximum total size of the buffers of each client in bytes.
    #[arg(long, value_name = "BYTES")]
    memory_limit: Option<u64>,
    /// Ids of the devices that clients see, separated by commas. The default is all devices.
    #[arg(long, value_name = "IDS", value_delimiter = ',')]
    devices: Vec<i32>,
    /// List the clients of the server at the address, and what they hold.
    #[arg(long)]
    status: bool,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
    /// End when the standard input is closed.
    #[arg(long, hide = true)]
    while_input: bool,
    /// Be the process with the plugin, which gets connections over the standard input.
    #[arg(long, hide = true)]
    worker: bool,
}

pub(crate) fn run(args: &Args) -> Result<Report, String> {
    let address = match &args.listen {
        Some(address) => address.clone(),
        None => default_address()?,
    };
    let token = match &args.token_file {
        Some(path) => {
            let token = if args.status { Token::read(path) } else { Token::in_file(path) };
            Some(token.map_err(|error| format!("{}: {error}", path.display()))?)
        }
        None if !matches!(address, Address::Unix(_)) => {
            return Err(format!("{address} is a TCP port, whose clients need a token; add --token-file PATH"));
        }
        None => None,
    };
    if args.status {
        return status(args, &address, token.as_ref());
    }
    let access = Access::from(token);
    let access = match (&args.tls_cert, &args.tls_key) {
        (Some(certificate), Some(key)) => access.with_identity(Identity::read(certificate, key)?),
        _ => access,
    };
    serve(args, &address, access)
}

fn default_address() -> Result<Address, String> {
    match std::env::var_os("XDG_RUNTIME_DIR").filter(|folder| !folder.is_empty()) {
        Some(folder) => Ok(Address::Unix(PathBuf::from(folder).join("pjrt/served"))),
        None => Err("XDG_RUNTIME_DIR is not set; add --listen unix:PATH".to_owned()),
    }
}

/// Lists the clients of a server.
fn status(args: &Args, address: &Address, token: Option<&Token>) -> Result<Report, String> {
    let clients = ClientStatus::list(address, token)?;
    if args.json {
        let client = |client: &ClientStatus| {
            json!({
                "program": client.program,
                "process": client.process,
                "connected_seconds": client.connected.as_secs(),
                "objects": client.objects,
                "bytes": client.bytes,
            })
        };
        let clients: Vec<Value> = clients.iter().map(client).collect();
        return Ok(Report::from(format!("{:#}\n", json!({ "address": address.to_string(), "clients": clients }))));
    }
    let mut table = Table::new(["PROGRAM", "PROCESS", "CONNECTED", "OBJECTS", "BYTES"]);
    for client in &clients {
        let seconds = client.connected.as_secs();
        let connected = format!("{}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60);
        let (process, objects) = (client.process.to_string(), client.objects.to_string());
        table.row([client.program.clone(), process, connected, objects, client.bytes.to_string()]);
    }
    let mut out = String::new();
    line!(out, "{} clients at {address}", clients.len());
    if !clients.is_empty() {
        line!(out, "{}", table.text("  "));
    }
    Ok(Report::from(out))
}

/// Prints what is served. `about` contains the platform and the number of devices.
fn announce(args: &Args, address: &Address, about: &Value) -> Result<(), String> {
    let (plugin, address) = (&args.client.plugin.plugin, address.to_string());
    let (platform, devices) = (about["platform"].as_str().unwrap_or("?"), &about["devices"]);
    let text = if args.json {
        let about = json!({
            "plugin": plugin,
            "platform": platform,
            "devices": devices,
            "address": address,
            "token_file": args.token_file,
        });
        escape::json(&format!("{about}\n")).into_owned()
    } else {
        let mut text = format!("serving {devices} devices of {plugin} (platform {platform}) at {address}\n");
        text += &format!("clients set PJRT_REMOTE='{address}'");
        if let Some(path) = &args.token_file {
            text += &format!(" PJRT_REMOTE_TOKEN_FILE={}", path.display());
        }
        text.push('\n');
        escape::lines(&text).into_owned()
    };
    let mut out = anstream::stdout();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(|error| error.to_string())
}

fn limits(args: &Args) -> Limits {
    let mut limits = Limits::default();
    limits.clients = args.clients;
    limits.memory = args.memory_limit.unwrap_or(limits.memory);
    limits.devices.clone_from(&args.devices);
    limits
}

/// Creates the client of the plugin, and calls `run` with its server and a description. `run` returns when the server
/// must end.
fn with_server(args: &Args, run: impl FnOnce(&Server, Value) -> Result<(), String>) -> Result<Report, String> {
    let client = args.client.client()?;
    let server = Server::new(client.clone(), limits(args))?;
    let platform = client.platform_name().map_err(|error| error.to_string())?;
    run(&server, json!({ "platform": platform, "devices": server.devices() }))?;
    let all_ended = server.stop(PATIENCE);
    drop(server);
    match (all_ended, client.shutdown(PATIENCE)) {
        (true, Ok(())) => Ok(Report::new(String::new(), 0)),
        (false, _) => Err("the work of some clients did not end in time".to_owned()),
        (true, Err(error)) => Err(error.to_string()),
    }
}

/// Serves with the plugin in a process of its own, until Ctrl-C or SIGTERM. A second signal ends the process, also if
/// the first one has no effect.
#[cfg(unix)]
fn serve(args: &Args, address: &Address, access: Access) -> Result<Report, String> {
    use crate::full::guarded::wait_or_kill;
    use crate::interrupt;
    use pjrt_remote::{Supervisor, WorkerEvent};
    use signal_hook::consts::{SIGINT, SIGTERM};
    use std::os::fd::OwnedFd;
    use std::os::unix::process::CommandExt;
    use std::process::{Command, Stdio};
    if args.worker {
        let control = prepare_worker(&limits(args))?;
        return with_server(args, |server, about| {
            let served = server.serve_passed(control, &access, &about.to_string());
            served.map_err(|error| format!("the process that accepts clients is gone: {error}"))
        });
    }
    let failed = |error| format!("cannot listen at {address}: {error}");
    let supervisor = Supervisor::bind(address, &access).map_err(failed)?;
    let command = std::env::current_exe().map_err(|error| error.to_string())?;
    let mut signals = signal_hook::iterator::Signals::new([SIGINT, SIGTERM])
        .map_err(|error| format!("cannot handle signals: {error}"))?;
    let handle = signals.handle();
    if args.while_input {
        let handle = handle.clone();
        let read = move || {
            // The input ends, or cannot be read.
            let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
            handle.close();
        };
        std::thread::Builder::new().name("pjrt input".to_owned()).spawn(read).map_err(|error| error.to_string())?;
    }
    let start = |control: OwnedFd| {
        let mut command = Command::new(&command);
        // The signals of a terminal reach this process only.
        command.args(std::env::args_os().skip(1)).arg("--worker").process_group(0);
        command.stdin(control).stdout(Stdio::null()).spawn()
    };
    let mut announced = None;
    let event = |event: WorkerEvent<'_>| match event {
        WorkerEvent::Ready(about) if announced.is_none() => {
            let about = serde_json::from_str(about).unwrap_or_default();
            let result = announce(args, supervisor.address(), &about);
            if result.is_err() {
                supervisor.stop();
            }
            announced = Some(result);
        }
        WorkerEvent::Ready(_) => anstream::eprintln!("the plugin is ready again"),
        WorkerEvent::Ended(status) => {
            anstream::eprintln!("the process with the plugin ended ({status}); starting it again");
        }
    };
    let worker = std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut signals = signals.forever();
            signals.next();
            supervisor.stop();
            if let Some(signal) = signals.next() {
                signal_hook::low_level::exit(interrupt::code(signal).into());
            }
        });
        let worker = supervisor.run(start, event).map_err(|error| error.to_string()).and_then(|worker| match worker {
            Some(mut worker) => match wait_or_kill(&mut worker, 3 * PATIENCE) {
                Ok(Some(status)) if status.success() => Ok(()),
                Ok(Some(status)) => Err(format!("the process with the plugin ended: {status}")),
                Ok(None) => Err("the plugin did not close in time".to_owned()),
                Err(error) => Err(format!("cannot wait for the process with the plugin: {error}")),
            },
            None => Ok(()),
        });
        handle.close();
        worker
    });
    worker.and(announced.unwrap_or(Ok(()))).map(|()| Report::from(String::new()))
}

/// Prepares the process with the plugin, before the plugin is loaded. Returns the socket to the process that accepts
/// clients. Its end, and no signal, ends this process.
#[cfg(unix)]
fn prepare_worker(limits: &Limits) -> Result<std::os::fd::OwnedFd, String> {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    use std::os::fd::AsFd;
    let failed = |error: std::io::Error| format!("cannot prepare the process with the plugin: {error}");
    let control = std::io::stdin().as_fd().try_clone_to_owned().map_err(failed)?;
    // Processes that the plugin starts inherit the standard input, and must not keep the socket open.
    let nothing = std::fs::File::open("/dev/null").map_err(failed)?;
    rustix::stdio::dup2_stdin(nothing).map_err(|error| failed(error.into()))?;
    // systemd, for example, sends signals to all processes of a service.
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register(signal, std::sync::Arc::default()).map_err(failed)?;
    }
    let limit = getrlimit(Resource::Nofile);
    let needed = limits.open_files();
    // Some systems refuse an unlimited number.
    let _ = [limit.maximum, Some(needed)]
        .into_iter()
        .find(|current| setrlimit(Resource::Nofile, Rlimit { current: *current, ..limit }).is_ok());
    match getrlimit(Resource::Nofile).current {
        Some(current) if current < needed => Err(format!(
            "{} clients need up to {needed} open files, but this process may open {current}; lower --clients, or raise \
             the limit (`ulimit -Hn`)",
            limits.clients
        )),
        _ => Ok(control),
    }
}

/// Serves in this process, because this system cannot pass connections to another one.
#[cfg(not(unix))]
fn serve(args: &Args, address: &Address, access: Access) -> Result<Report, String> {
    with_server(args, |server, about| {
        let listener = server.bind(address, access).map_err(|error| format!("cannot listen at {address}: {error}"))?;
        announce(args, listener.address(), &about)?;
        listener.run();
        Ok(())
    })
}

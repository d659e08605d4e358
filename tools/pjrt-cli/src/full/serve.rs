//! `pjrt serve`: serves the devices of a plugin to other processes.

use std::io::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use pjrt::Client;
use pjrt_remote::{Address, Limits, Listener, Server, Token};
use serde_json::json;

use crate::Report;
use crate::open::ClientArgs;

/// Maximum time between a signal and the end of the process.
const PATIENCE: Duration = Duration::from_secs(5);

#[derive(clap::Args)]
#[command(
    after_help = "Only your own user can connect to a Unix socket. Clients of a TCP port need the file with the \
                        token, whose path is in PJRT_REMOTE_TOKEN_FILE.

Examples:
  pjrt serve -p acme --listen unix:$XDG_RUNTIME_DIR/pjrt/acme
  pjrt serve -p acme --listen 127.0.0.1:7000 --token-file acme.token"
)]
pub(crate) struct Args {
    #[command(flatten)]
    client: ClientArgs,
    /// The address for clients. [default: unix:$XDG_RUNTIME_DIR/pjrt/served]
    #[arg(long, value_name = "unix:PATH|HOST:PORT")]
    listen: Option<Address>,
    /// The file with the token for clients of a TCP port. It is created if it does not exist.
    #[arg(long, value_name = "PATH")]
    token_file: Option<PathBuf>,
    /// Maximum number of clients at the same time.
    #[arg(long, value_name = "COUNT", default_value_t = Limits::default().clients)]
    clients: usize,
    /// Maximum total size of the buffers of each client in bytes.
    #[arg(long, value_name = "BYTES")]
    memory_limit: Option<u64>,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

pub(crate) fn run(args: &Args) -> Result<Report, String> {
    let address = match &args.listen {
        Some(address) => address.clone(),
        None => default_address()?,
    };
    let token = match &args.token_file {
        Some(path) => Some(Token::in_file(path).map_err(|error| format!("{}: {error}", path.display()))?),
        None if matches!(address, Address::Tcp(_)) => {
            return Err(format!("{address} is a TCP port, whose clients need a token; add --token-file PATH"));
        }
        None => None,
    };
    let client = args.client.client()?;
    let mut limits = Limits::default();
    limits.clients = args.clients;
    limits.memory = args.memory_limit.unwrap_or(limits.memory);
    let server = Server::new(client.clone(), limits).map_err(|error| error.to_string())?;
    let listener = server.bind(&address, token).map_err(|error| format!("cannot listen at {address}: {error}"))?;
    let signals = signals().map_err(|error| format!("cannot handle signals: {error}"))?;
    announce(args, &client, &listener)?;
    let end = || {
        let all_ended = server.stop(PATIENCE);
        drop(server);
        match (all_ended, client.shutdown(PATIENCE)) {
            (true, Ok(())) => Ok(Report::new(String::new(), 0)),
            (false, _) => Err("the work of some clients did not end in time".to_owned()),
            (true, Err(error)) => Err(error.to_string()),
        }
    };
    run_until_signal(listener, signals, end).map_err(|error| format!("cannot handle signals: {error}"))?
}

fn default_address() -> Result<Address, String> {
    match std::env::var_os("XDG_RUNTIME_DIR").filter(|folder| !folder.is_empty()) {
        Some(folder) => Ok(Address::Unix(PathBuf::from(folder).join("pjrt/served"))),
        None => Err("XDG_RUNTIME_DIR is not set; add --listen unix:PATH".to_owned()),
    }
}

/// Prints what is served, before the first client connects.
fn announce(args: &Args, client: &Client, listener: &Listener) -> Result<(), String> {
    let text = |error: pjrt::Error| error.to_string();
    let (plugin, address) = (&args.client.plugin.plugin, listener.address().to_string());
    let platform = client.platform_name().map_err(text)?;
    let devices = client.addressable_devices().map_err(text)?.len();
    let text = if args.json {
        let about = json!({
            "plugin": plugin,
            "platform": platform,
            "devices": devices,
            "address": address,
            "token_file": args.token_file,
        });
        crate::escape::json(&format!("{about}\n")).into_owned()
    } else {
        let mut text = format!("serving {devices} devices of {plugin} (platform {platform}) at {address}\n");
        text += &format!("clients set PJRT_REMOTE={address}");
        if let Some(path) = &args.token_file {
            text += &format!(" PJRT_REMOTE_TOKEN_FILE={}", path.display());
        }
        text.push('\n');
        crate::escape::lines(&text).into_owned()
    };
    let mut out = anstream::stdout();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(|error| error.to_string())
}

#[cfg(unix)]
use signal_hook::iterator::Signals;
#[cfg(not(unix))]
type Signals = ();

/// Begins to receive Ctrl-C and SIGTERM.
#[cfg(unix)]
fn signals() -> std::io::Result<Signals> {
    Signals::new([signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM])
}

#[cfg(not(unix))]
fn signals() -> std::io::Result<Signals> {
    Ok(())
}

/// Accepts clients until Ctrl-C or SIGTERM, and then calls `end`. A second signal ends the process, also if the first
/// one has no effect.
#[cfg(unix)]
fn run_until_signal<T>(listener: Listener, mut signals: Signals, end: impl FnOnce() -> T) -> std::io::Result<T> {
    let handle = signals.handle();
    let listener = std::sync::Arc::new(listener);
    let listening = std::sync::Arc::downgrade(&listener);
    let (stopped, is_stopped) = std::sync::mpsc::channel::<()>();
    let wait = move || {
        let mut signals = signals.forever();
        if signals.next().is_some()
            && let Some(listener) = listening.upgrade()
        {
            listener.stop();
        }
        // The other thread waits for this one to drop the listener.
        drop(stopped);
        if let Some(signal) = signals.next() {
            signal_hook::low_level::exit(128 + signal);
        }
    };
    let waiting = std::thread::Builder::new().name("pjrt signals".to_owned()).spawn(wait)?;
    listener.run();
    // The listener keeps the client.
    let _ = is_stopped.recv();
    drop(listener);
    let ended = end();
    handle.close();
    // The thread does not panic.
    let _ = waiting.join();
    Ok(ended)
}

#[cfg(not(unix))]
fn run_until_signal<T>(listener: Listener, (): Signals, end: impl FnOnce() -> T) -> std::io::Result<T> {
    listener.run();
    Ok(end())
}

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
    announce(args, &client, &listener)?;
    run_until_signal(&listener).map_err(|error| format!("cannot handle signals: {error}"))?;
    let all_ended = server.stop(PATIENCE);
    drop((server, listener));
    let closed = client.shutdown(PATIENCE);
    match (all_ended, closed) {
        (true, Ok(())) => Ok(Report::new(String::new(), 0)),
        (false, _) => Err("the work of some clients did not end in time".to_owned()),
        (true, Err(error)) => Err(error.to_string()),
    }
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

/// Accepts clients until Ctrl-C or SIGTERM. A second signal ends the process.
#[cfg(unix)]
fn run_until_signal(listener: &Listener) -> std::io::Result<()> {
    use signal_hook::consts::{SIGINT, SIGTERM};
    use signal_hook::iterator::Signals;
    let mut signals = Signals::new([SIGINT, SIGTERM])?;
    std::thread::scope(|scope| {
        scope.spawn(|| listener.run());
        signals.forever().next();
        listener.stop();
    });
    std::thread::Builder::new().name("pjrt signals".to_owned()).spawn(move || {
        if let Some(signal) = signals.forever().next() {
            signal_hook::low_level::exit(128 + signal);
        }
    })?;
    Ok(())
}

#[cfg(not(unix))]
fn run_until_signal(listener: &Listener) -> std::io::Result<()> {
    listener.run();
    Ok(())
}

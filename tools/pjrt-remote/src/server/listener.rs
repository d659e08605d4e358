//! The server, and the addresses at which it accepts clients.

use std::collections::HashMap;
use std::io;
use std::net::TcpListener;
#[cfg(unix)]
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use pjrt::{Client, Error};

use crate::net::address::{Address, loopback};
use crate::net::stream::Stream;
use crate::server::limits::Limits;
use crate::server::served::Served;
use crate::server::session;
use crate::server::token::Token;

/// Time to wait after `accept` failed, for example because the process has no file descriptors left.
const PAUSE: Duration = Duration::from_millis(50);

/// Serves the devices of a client to other processes.
///
/// ```no_run
/// use pjrt_remote::{Address, Limits, Server};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// // SAFETY: this file is a PJRT plugin that keeps the interface's contract.
/// let plugin = unsafe { pjrt::Plugin::load("libexample_pjrt.so") }?;
/// let server = Server::new(plugin.client(&pjrt::ClientOptions::new())?, Limits::default())?;
/// let listener = server.bind(&"unix:/run/user/1000/pjrt/socket".parse()?, None)?;
/// listener.run();
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Server {
    served: Arc<Served>,
    sessions: Arc<Sessions>,
}

/// The connections of a server.
#[derive(Default)]
struct Sessions {
    open: Mutex<Open>,
    /// A connection ended.
    ended: Condvar,
    is_stopped: AtomicBool,
}

#[derive(Default)]
struct Open {
    /// Handles of the connections, to close them.
    streams: HashMap<u64, Stream>,
    next: u64,
}

/// An entry of [`Open::streams`]. Dropping it removes the entry.
struct Opened {
    sessions: Arc<Sessions>,
    number: u64,
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server").field("clients", &self.clients()).finish_non_exhaustive()
    }
}

enum Socket {
    Tcp(TcpListener),
    #[cfg(unix)]
    Unix(UnixListener),
}

/// An address at which a server accepts clients. Dropping it removes the file of a Unix socket.
pub struct Listener {
    server: Server,
    socket: Socket,
    address: Address,
    token: Option<Token>,
    /// The file of a Unix socket.
    file: Option<PathBuf>,
}

impl std::fmt::Debug for Listener {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Listener").field("address", &self.address).finish_non_exhaustive()
    }
}

impl Server {
    /// Creates a server for all devices of a client.
    ///
    /// # Errors
    ///
    /// Returns an error if the plugin does not describe its devices and memories.
    pub fn new(client: Client, limits: Limits) -> Result<Self, Error> {
        Ok(Self { served: Arc::new(Served::new(client, limits)?), sessions: Arc::default() })
    }

    /// Returns the number of connected clients.
    pub fn clients(&self) -> usize {
        self.sessions.lock().streams.len()
    }

    /// Opens an address. Clients of a TCP port need the token.
    ///
    /// A Unix socket is in a folder that only this user can write to, and only this user can connect. The folder is
    /// created if it does not exist. A socket that an ended server left behind is replaced.
    ///
    /// # Errors
    ///
    /// Returns an error if the address is in use, if it is beyond the loopback interface, if a TCP port has no token,
    /// or if other users can write to the folder of a Unix socket.
    pub fn bind(&self, address: &Address, token: Option<Token>) -> io::Result<Listener> {
        let invalid = |message: String| io::Error::new(io::ErrorKind::InvalidInput, message);
        let (socket, address, file) = match address {
            #[cfg(unix)]
            Address::Unix(path) => (Socket::Unix(bind_unix(path)?), address.clone(), Some(path.clone())),
            #[cfg(not(unix))]
            Address::Unix(_) => return Err(invalid("this system has no Unix sockets; use HOST:PORT".to_owned())),
            Address::Tcp(_) if token.is_none() => {
                return Err(invalid(format!("{address}: a TCP port needs a token, because every user can connect")));
            }
            Address::Tcp(name) => {
                let listener = TcpListener::bind(&loopback(name).map_err(invalid)?[..])?;
                let address = Address::Tcp(listener.local_addr()?.to_string());
                (Socket::Tcp(listener), address, None)
            }
        };
        Ok(Listener { server: self.clone(), socket, address, token, file })
    }

    /// Closes all connections, and waits at most `patience` until what their clients held is freed. Runs that have
    /// begun may continue. Returns whether all connections have ended.
    pub fn stop(&self, patience: Duration) -> bool {
        self.sessions.is_stopped.store(true, Ordering::SeqCst);
        let open = self.sessions.lock();
        open.streams.values().for_each(Stream::shutdown);
        let wait = self.sessions.ended.wait_timeout_while(open, patience, |open| !open.streams.is_empty());
        !wait.unwrap_or_else(PoisonError::into_inner).1.timed_out()
    }

    /// Starts the session of a client in a new thread.
    fn start(&self, stream: Stream, token: Option<Token>) -> io::Result<()> {
        let (served, sessions) = (Arc::clone(&self.served), Arc::clone(&self.sessions));
        let number = {
            let mut open = sessions.lock();
            if open.streams.len() >= self.served.limits.clients {
                return Err(io::Error::other(format!("{} clients are connected", open.streams.len())));
            }
            let number = open.next;
            open.next += 1;
            open.streams.insert(number, stream.try_clone()?);
            number
        };
        // Also dropped if the thread cannot be started.
        let opened = Opened { sessions, number };
        let run = move || {
            let _opened = opened;
            session::serve(served, stream, token.as_ref());
        };
        std::thread::Builder::new().name("pjrt remote client".to_owned()).spawn(run).map(drop)
    }
}

impl Sessions {
    fn lock(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        self.sessions.lock().streams.remove(&self.number);
        self.sessions.ended.notify_all();
    }
}

impl Listener {
    /// Returns the address. If the requested TCP port was 0, this is the port that the system chose.
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// Accepts clients until [`Self::stop`] is called.
    pub fn run(&self) {
        while !self.server.sessions.is_stopped.load(Ordering::SeqCst) {
            let accepted = self.accept();
            if self.server.sessions.is_stopped.load(Ordering::SeqCst) {
                return;
            }
            match accepted.and_then(|stream| self.server.start(stream, self.token.clone())) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                    tracing::info!(%error, "a client was rejected");
                }
                Err(error) => {
                    tracing::warn!(%error, "a client could not connect");
                    std::thread::sleep(PAUSE);
                }
            }
        }
    }

    fn accept(&self) -> io::Result<Stream> {
        match &self.socket {
            Socket::Tcp(listener) => Stream::tcp(listener.accept()?.0),
            #[cfg(unix)]
            Socket::Unix(listener) => Stream::unix(listener.accept()?.0),
        }
    }

    /// Makes [`Self::run`] return. The connections stay open until [`Server::stop`] closes them.
    pub fn stop(&self) {
        self.server.sessions.is_stopped.store(true, Ordering::SeqCst);
        // Wakes up the thread that waits for a client.
        drop(Stream::connect(&self.address));
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Some(file) = &self.file {
            // The file may be gone.
            let _ = std::fs::remove_file(file);
        }
    }
}

/// Binds a Unix socket in a private folder.
#[cfg(unix)]
fn bind_unix(path: &std::path::Path) -> io::Result<UnixListener> {
    use std::os::unix::fs::{FileTypeExt, PermissionsExt};
    use std::os::unix::net::UnixStream;
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder.to_owned(),
        _ => std::env::current_dir()?,
    };
    private_files::Folder::private(&folder).map_err(|error| io::Error::other(error.to_string()))?;
    let bind = || UnixListener::bind(path);
    let listener = match bind() {
        Err(error) if error.kind() == io::ErrorKind::AddrInUse && UnixStream::connect(path).is_err() => {
            // No server listens any more. Other files also make `bind` fail, and are not removed.
            if !std::fs::symlink_metadata(path)?.file_type().is_socket() {
                let message = format!("{} exists and is not a socket; choose another path", path.display());
                return Err(io::Error::new(io::ErrorKind::AlreadyExists, message));
            }
            std::fs::remove_file(path)?;
            bind()?
        }
        bound => bound?,
    };
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))?;
    Ok(listener)
}

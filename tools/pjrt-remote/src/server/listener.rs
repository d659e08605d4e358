//! The server, and the addresses at which it accepts clients.

use std::io;
use std::net::TcpListener;
#[cfg(unix)]
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
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
    /// Number of connected clients.
    count: AtomicUsize,
    /// Handles of the connections, to close them. Closed ones are removed when the next client connects.
    streams: Mutex<Vec<(Stream, Arc<AtomicBool>)>>,
    is_stopped: AtomicBool,
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
        self.sessions.count.load(Ordering::Relaxed)
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

    /// Closes all connections, and makes [`Listener::run`] return. Runs that have begun end with the client of the
    /// plugin.
    pub fn stop(&self) {
        self.sessions.is_stopped.store(true, Ordering::SeqCst);
        for (stream, _) in self.sessions.lock().drain(..) {
            stream.shutdown();
        }
    }

    /// Starts the session of a client in a new thread.
    fn start(&self, stream: Stream, token: Option<Token>) -> io::Result<()> {
        let sessions = Arc::clone(&self.sessions);
        if sessions.count.load(Ordering::Relaxed) >= self.served.limits.clients {
            return Err(io::Error::other(format!("{} clients are connected", self.clients())));
        }
        let is_closed = Arc::new(AtomicBool::new(false));
        {
            let mut streams = sessions.lock();
            streams.retain(|(_, is_closed)| !is_closed.load(Ordering::Relaxed));
            streams.push((stream.try_clone()?, Arc::clone(&is_closed)));
        }
        let served = Arc::clone(&self.served);
        sessions.count.fetch_add(1, Ordering::Relaxed);
        let theirs = Arc::clone(&sessions);
        let run = move || {
            session::serve(served, stream, token.as_ref());
            is_closed.store(true, Ordering::Relaxed);
            theirs.count.fetch_sub(1, Ordering::Relaxed);
        };
        match std::thread::Builder::new().name("pjrt remote client".to_owned()).spawn(run) {
            Ok(_) => Ok(()),
            Err(error) => {
                sessions.count.fetch_sub(1, Ordering::Relaxed);
                Err(error)
            }
        }
    }
}

impl Sessions {
    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<(Stream, Arc<AtomicBool>)>> {
        self.streams.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Listener {
    /// Returns the address. If the requested TCP port was 0, this is the port that the system chose.
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// Accepts clients until [`Server::stop`] is called.
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

    /// Stops the server, and makes [`Self::run`] return on the thread that is in it.
    pub fn stop(&self) {
        self.server.stop();
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
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::net::UnixStream;
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder.to_owned(),
        _ => std::env::current_dir()?,
    };
    private_files::Folder::private(&folder).map_err(|error| io::Error::other(error.to_string()))?;
    let bind = || UnixListener::bind(path);
    let listener = match bind() {
        Err(error) if error.kind() == io::ErrorKind::AddrInUse && UnixStream::connect(path).is_err() => {
            // No server listens any more.
            std::fs::remove_file(path)?;
            bind()?
        }
        bound => bound?,
    };
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))?;
    Ok(listener)
}

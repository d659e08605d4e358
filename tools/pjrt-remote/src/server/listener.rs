//! The server, and the addresses at which it accepts clients.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use pjrt::Client;

use crate::net::address::Address;
use crate::net::stream::Stream;
use crate::server::access::Access;
use crate::server::limits::Limits;
use crate::server::served::Served;
use crate::server::session;
use crate::server::sessions::Sessions;
use crate::server::socket::Socket;

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

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server").finish_non_exhaustive()
    }
}

/// An address at which a server accepts clients. Dropping it removes the file of a Unix socket.
pub struct Listener {
    server: Server,
    socket: Socket,
    access: Access,
}

impl std::fmt::Debug for Listener {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Listener").field("address", self.address()).finish_non_exhaustive()
    }
}

impl Server {
    /// Creates a server for the devices of a client.
    ///
    /// # Errors
    ///
    /// Returns an error if the plugin does not describe its devices and memories, or if the client lacks a device that
    /// the limits name.
    pub fn new(client: Client, limits: Limits) -> Result<Self, String> {
        let sessions = Arc::new(Sessions::new(limits.clients));
        Ok(Self { served: Arc::new(Served::new(client, limits)?), sessions })
    }

    /// Returns the number of devices that clients can use.
    pub fn devices(&self) -> usize {
        self.served.welcome.devices.iter().filter(|device| device.addressable).count()
    }

    /// Opens an address. Clients of a TCP port need a token.
    ///
    /// A Unix socket is in a folder that only this user can write to, and only this user can connect. The folder is
    /// created if it does not exist. A socket that an ended server left behind is replaced.
    ///
    /// # Errors
    ///
    /// Returns an error if the address is in use, if it is beyond the loopback interface without TLS, if a TCP port has
    /// no token, or if other users can write to the folder of a Unix socket.
    pub fn bind(&self, address: &Address, access: impl Into<Access>) -> io::Result<Listener> {
        let access = access.into();
        let socket = Socket::bind(address, &access)?;
        Ok(Listener { server: self.clone(), socket, access })
    }

    /// Closes all connections, and waits at most `patience` until what their clients held is freed. Runs that have
    /// begun may continue. Returns whether all connections have ended.
    pub fn stop(&self, patience: Duration) -> bool {
        self.sessions.close(patience)
    }

    /// Starts the session of a client in a new thread.
    pub(crate) fn start(&self, mut stream: Stream, access: &Access) -> io::Result<()> {
        let opened = match self.sessions.add(&stream) {
            Ok(opened) => opened,
            Err(failure) => {
                session::refuse(&mut stream, &failure)?;
                return Err(io::Error::other(failure.message.clone()));
            }
        };
        let (served, access) = (Arc::clone(&self.served), access.clone());
        let run = move || session::serve(served, stream, &access, &opened);
        std::thread::Builder::new().name("pjrt remote client".to_owned()).spawn(run).map(drop)
    }
}

impl Listener {
    /// Returns the address. If the requested TCP port was 0, this is the port that the system chose.
    pub fn address(&self) -> &Address {
        self.socket.address()
    }

    /// Accepts clients until [`Self::stop`] is called.
    pub fn run(&self) {
        while !self.server.sessions.is_stopped() {
            let accepted = self.socket.accept();
            if self.server.sessions.is_stopped() {
                return;
            }
            match accepted.and_then(|stream| self.server.start(stream, &self.access)) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
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

    /// Makes [`Self::run`] return. The connections stay open until [`Server::stop`] closes them.
    pub fn stop(&self) {
        self.server.sessions.stop();
        self.socket.stop();
    }
}

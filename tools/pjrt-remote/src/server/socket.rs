//! Sockets at which a server accepts clients.

use std::io;
use std::net::TcpListener;

#[cfg(unix)]
use std::os::fd::{AsFd, BorrowedFd};
#[cfg(unix)]
use std::os::unix::net::{UnixListener, UnixStream};

#[cfg(not(feature = "tls"))]
use crate::net::address::Fingerprint;
use crate::net::address::{Address, folder_of, loopback, resolve};
use crate::net::stream::Stream;
use crate::server::access::Access;

/// A socket at which a server accepts clients. Dropping it removes the file of a Unix socket.
pub(crate) struct Socket {
    kind: Kind,
    /// Readable once [`Self::stop`] was called, and the other end.
    #[cfg(unix)]
    stopped: (UnixStream, UnixStream),
    /// Where clients connect.
    address: Address,
}

enum Kind {
    Tcp(TcpListener),
    #[cfg(unix)]
    Unix(UnixListener, #[expect(dead_code, reason = "dropping it removes the file")] SocketFile),
}

impl Socket {
    /// Opens an address. Clients of a TCP port need a token.
    pub(crate) fn bind(address: &Address, access: &Access) -> io::Result<Self> {
        let invalid = |message: String| io::Error::new(io::ErrorKind::InvalidInput, message);
        if access.token.is_none() && matches!(address, Address::Tcp(_)) {
            return Err(invalid(format!("{address}: a TCP port needs a token, because every user can connect")));
        }
        let (kind, address) = match address {
            #[cfg(unix)]
            Address::Unix(path) => {
                let (listener, file) = bind_unix(path)?;
                listener.set_nonblocking(true)?;
                (Kind::Unix(listener, file), address.clone())
            }
            #[cfg(not(unix))]
            Address::Unix(_) => return Err(invalid("this system has no Unix sockets; use HOST:PORT".to_owned())),
            Address::Tcp(name) => {
                #[cfg(feature = "tls")]
                let fingerprint = access.identity.as_ref().map(|identity| identity.fingerprint().clone());
                #[cfg(not(feature = "tls"))]
                let fingerprint: Option<Fingerprint> = None;
                let resolved = if fingerprint.is_some() { resolve(name) } else { loopback(name) };
                let listener = TcpListener::bind(&resolved.map_err(invalid)?[..])?;
                #[cfg(unix)]
                listener.set_nonblocking(true)?;
                let name = listener.local_addr()?.to_string();
                let address = match fingerprint {
                    Some(fingerprint) => Address::Tls(name, fingerprint),
                    None => Address::Tcp(name),
                };
                (Kind::Tcp(listener), address)
            }
            Address::Tls(name, _) => {
                return Err(invalid(format!("listen at {name}, and give the certificate and its key")));
            }
        };
        Ok(Self {
            kind,
            #[cfg(unix)]
            stopped: UnixStream::pair()?,
            address,
        })
    }

    pub(crate) fn address(&self) -> &Address {
        &self.address
    }

    /// Waits for a connection. Fails soon after [`Self::stop`].
    pub(crate) fn accept(&self) -> io::Result<Stream> {
        #[cfg(unix)]
        poll([self.as_fd(), self.stopped.0.as_fd()], None)?;
        self.accept_waiting()
    }

    /// Accepts a connection. On Unix, fails if none is there.
    pub(crate) fn accept_waiting(&self) -> io::Result<Stream> {
        match &self.kind {
            Kind::Tcp(listener) => {
                let stream = listener.accept()?.0;
                // On some systems, the connection inherits this from the listener.
                stream.set_nonblocking(false)?;
                Stream::tcp(stream)
            }
            #[cfg(unix)]
            Kind::Unix(listener, _) => {
                let stream = listener.accept()?.0;
                stream.set_nonblocking(false)?;
                Stream::unix(stream)
            }
        }
    }

    /// Waits until one of `others` is readable, until [`Self::stop`] is called or, if `accepts`, until a connection is
    /// there. Returns whether one of `others` is readable.
    #[cfg(unix)]
    pub(crate) fn wait_for(&self, others: [BorrowedFd<'_>; 2], accepts: bool) -> io::Result<bool> {
        let [first, second] = others;
        let stopped = self.stopped.0.as_fd();
        let [is_first, is_second, ..] = match accepts {
            true => poll([first, second, stopped, self.as_fd()], None)?,
            false => poll([first, second, stopped, stopped], None)?,
        };
        Ok(is_first || is_second)
    }

    /// Waits for some time, or until [`Self::stop`] is called.
    #[cfg(unix)]
    pub(crate) fn sleep(&self, time: std::time::Duration) -> io::Result<()> {
        poll([self.stopped.0.as_fd()], Some(time)).map(drop)
    }

    #[cfg(unix)]
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.kind {
            Kind::Tcp(listener) => listener.as_fd(),
            Kind::Unix(listener, _) => listener.as_fd(),
        }
    }

    /// Wakes up the thread that waits for a connection, also if the file of the socket is gone.
    pub(crate) fn stop(&self) {
        #[cfg(unix)]
        self.stopped.1.shutdown(std::net::Shutdown::Both).unwrap_or_default();
        #[cfg(not(unix))]
        drop(Stream::connect(&self.address));
    }
}

/// Waits until a descriptor is readable, for `time` or forever. Returns which ones are.
#[cfg(unix)]
fn poll<const COUNT: usize>(
    fds: [BorrowedFd<'_>; COUNT],
    time: Option<std::time::Duration>,
) -> io::Result<[bool; COUNT]> {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let mut fds = fds.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
    let time = time.and_then(|time| Timespec::try_from(time).ok());
    match poll(&mut fds, time.as_ref()) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(fds.map(|fd| !fd.revents().is_empty())),
        Err(error) => Err(error.into()),
    }
}

/// The file of a Unix socket. Dropping it removes the file.
#[cfg(unix)]
struct SocketFile {
    path: std::path::PathBuf,
    /// Locked while this server uses the path, so that the file that is removed is not that of another server.
    _lock: std::fs::File,
}

#[cfg(unix)]
impl Drop for SocketFile {
    fn drop(&mut self) {
        // The file may be gone.
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Binds a Unix socket in a private folder.
#[cfg(unix)]
fn bind_unix(path: &std::path::Path) -> io::Result<(UnixListener, SocketFile)> {
    use std::fs::TryLockError;
    use std::os::unix::fs::{FileTypeExt, PermissionsExt};
    let Some(name) = path.file_name() else {
        let message = format!("{} does not name a file", path.display());
        return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
    };
    let folder =
        private_files::Folder::private(&folder_of(path)?).map_err(|error| io::Error::other(error.to_string()))?;
    let mut lock_name = name.to_owned();
    lock_name.push(".lock");
    let lock = folder.open_or_create(&lock_name)?;
    if let Err(TryLockError::WouldBlock) = lock.try_lock() {
        let message = format!("another server listens at {}; stop it, or choose another path", path.display());
        return Err(io::Error::new(io::ErrorKind::AddrInUse, message));
    }
    let listener = match UnixListener::bind(path) {
        // A program without the lock may listen.
        Err(error) if error.kind() == io::ErrorKind::AddrInUse && UnixStream::connect(path).is_err() => {
            // No server listens any more. Other files also make `bind` fail, and are not removed.
            if !std::fs::symlink_metadata(path)?.file_type().is_socket() {
                let message = format!("{} exists and is not a socket; choose another path", path.display());
                return Err(io::Error::new(io::ErrorKind::AlreadyExists, message));
            }
            std::fs::remove_file(path)?;
            UnixListener::bind(path)?
        }
        bound => bound?,
    };
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))?;
    Ok((listener, SocketFile { path: path.to_owned(), _lock: lock }))
}

//! Sockets between two processes: TCP connections, and on Linux also Unix sockets.
//!
//! A Unix socket transfers a large message in less time than a TCP connection of the loopback interface. The name of a
//! listening Unix socket is abstract. The system removes it when the process ends, and no file is created.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::time::Duration;

#[cfg(target_os = "linux")]
use std::os::linux::net::SocketAddrExt as _;
#[cfg(target_os = "linux")]
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};

use crate::Error;

/// A connection to another process.
#[derive(Debug)]
pub(crate) enum Socket {
    Tcp(TcpStream),
    #[cfg(target_os = "linux")]
    Unix(UnixStream),
}

/// Calls a method that both kinds of sockets have.
macro_rules! each {
    ($socket:expr, $inner:ident => $call:expr) => {
        match $socket {
            Self::Tcp($inner) => $call,
            #[cfg(target_os = "linux")]
            Self::Unix($inner) => $call,
        }
    };
}

impl Socket {
    /// Connects to the Unix socket with a name, or returns `None` if that is not possible, for example because the
    /// other process is in another network namespace.
    pub(crate) fn connect_unix(name: &str) -> Option<Self> {
        #[cfg(target_os = "linux")]
        if !name.is_empty() {
            let address = SocketAddr::from_abstract_name(name).ok()?;
            return UnixStream::connect_addr(&address).ok().map(Self::Unix);
        }
        let _ = name;
        None
    }

    /// Connects to a TCP port.
    pub(crate) fn connect_tcp(address: &std::net::SocketAddr, timeout: Duration) -> io::Result<Self> {
        Self::tcp(TcpStream::connect_timeout(address, timeout)?)
    }

    fn tcp(stream: TcpStream) -> io::Result<Self> {
        stream.set_nonblocking(false)?;
        stream.set_nodelay(true)?;
        Ok(Self::Tcp(stream))
    }

    pub(crate) fn set_read_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        each!(self, stream => stream.set_read_timeout(timeout))
    }

    pub(crate) fn set_write_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        each!(self, stream => stream.set_write_timeout(timeout))
    }

    pub(crate) fn shutdown(&self) -> io::Result<()> {
        each!(self, stream => stream.shutdown(Shutdown::Both))
    }

    pub(crate) fn try_clone(&self) -> io::Result<Self> {
        Ok(match self {
            Self::Tcp(stream) => Self::Tcp(stream.try_clone()?),
            #[cfg(target_os = "linux")]
            Self::Unix(stream) => Self::Unix(stream.try_clone()?),
        })
    }
}

impl Read for Socket {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        each!(self, stream => stream.read(to))
    }
}

impl Write for Socket {
    /// Writes to the socket. If the other end is closed, the standard library's `write` returns an error instead of
    /// raising the signal `SIGPIPE`. Its `write_vectored` raises the signal, so do not forward that method.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        each!(self, stream => stream.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The abstract Unix socket at which a process accepts connections. Systems other than Linux have no such sockets.
#[derive(Debug, Default)]
pub(crate) struct LocalSocket {
    #[cfg(target_os = "linux")]
    listener: Option<UnixListener>,
    name: String,
}

impl LocalSocket {
    /// Listens at a Unix socket with a random name. If that is not possible, returns a value with an empty name, and the
    /// processes use TCP.
    #[cfg(target_os = "linux")]
    pub(crate) fn bind() -> Result<Self, Error> {
        let name = format!("process-transport-{:016x}", u64::from_ne_bytes(random()?));
        let bound = SocketAddr::from_abstract_name(&name).and_then(|address| UnixListener::bind_addr(&address));
        let Ok(listener) = bound else { return Ok(Self::default()) };
        if listener.set_nonblocking(true).is_err() {
            return Ok(Self::default());
        }
        Ok(Self { listener: Some(listener), name })
    }

    /// Returns a value with an empty name.
    #[cfg(not(target_os = "linux"))]
    #[allow(clippy::unnecessary_wraps, reason = "the same signature as on Linux")]
    pub(crate) fn bind() -> Result<Self, Error> {
        Ok(Self::default())
    }

    /// Returns the name of the Unix socket, or an empty string if there is none.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Accepts a connection that is waiting, if there is one.
    fn accept(&self) -> io::Result<Option<Socket>> {
        #[cfg(target_os = "linux")]
        if let Some(listener) = &self.listener
            && let Some((stream, _)) = waiting(listener.accept())?
        {
            stream.set_nonblocking(false)?;
            return Ok(Some(Socket::Unix(stream)));
        }
        Ok(None)
    }
}

/// Returns random bytes.
pub(crate) fn random<const SIZE: usize>() -> Result<[u8; SIZE], Error> {
    let mut bytes = [0; SIZE];
    getrandom::fill(&mut bytes).map_err(|error| Error::System(format!("random numbers: {error}")))?;
    Ok(bytes)
}

/// Accepts a connection that is waiting at one of the two sockets, if there is one. Neither socket may block.
pub(crate) fn accept(tcp: &TcpListener, local: &LocalSocket) -> io::Result<Option<Socket>> {
    if let Some(socket) = local.accept()? {
        return Ok(Some(socket));
    }
    waiting(tcp.accept())?.map(|(stream, _)| Socket::tcp(stream)).transpose()
}

/// Returns `None` if no connection is waiting, or if the other process ended a connection before it was accepted.
fn waiting<T>(accepted: io::Result<T>) -> io::Result<Option<T>> {
    match accepted {
        Ok(accepted) => Ok(Some(accepted)),
        Err(error) => match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::ConnectionAborted | io::ErrorKind::Interrupted => Ok(None),
            _ => Err(error),
        },
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn name_is_free_after_the_end() {
        let local = LocalSocket::bind().unwrap();
        let name = local.name().to_owned();
        let mut near = Socket::connect_unix(&name).unwrap();
        let mut far = local.accept().unwrap().unwrap();
        near.write_all(b"abc").unwrap();
        let mut read = [0; 3];
        far.read_exact(&mut read).unwrap();
        assert_eq!(&read, b"abc");
        drop(far);
        let broken = near.write(b"abc").unwrap_err();
        assert_eq!(broken.kind(), io::ErrorKind::BrokenPipe);
        drop(local);
        assert!(Socket::connect_unix(&name).is_none());
        assert!(Socket::connect_unix("").is_none());
    }
}

//! Sockets of both kinds.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

#[cfg(unix)]
use std::os::unix::net::UnixStream;

use crate::net::address::{Address, loopback};

/// Size of the send buffer of a Unix socket. With the system's default, a large message wakes the receiver more often.
#[cfg(unix)]
const SEND_BUFFER: usize = 1 << 20;
/// Time to establish a TCP connection.
const CONNECT: Duration = Duration::from_secs(10);
/// Time without data after which the system checks whether the other machine is reachable, time between two checks,
/// and number of failed checks after which the connection fails.
const KEEPALIVE: (Duration, Duration, u32) = (Duration::from_secs(5), Duration::from_secs(2), 5);

/// A connection.
#[derive(Debug)]
pub(crate) enum Stream {
    Tcp(TcpStream),
    #[cfg(unix)]
    Unix(UnixStream),
}

/// Calls a method that both kinds of sockets have.
macro_rules! each {
    ($stream:expr, $inner:ident => $call:expr) => {
        match $stream {
            Self::Tcp($inner) => $call,
            #[cfg(unix)]
            Self::Unix($inner) => $call,
        }
    };
}

impl Stream {
    /// Connects to a server.
    ///
    /// # Errors
    ///
    /// Returns a message that names the address.
    pub(crate) fn connect(address: &Address) -> Result<Self, String> {
        let fail = |error: io::Error| format!("cannot connect to {address}: {error}; start `pjrt serve` there");
        match address {
            #[cfg(unix)]
            Address::Unix(path) => Self::unix(UnixStream::connect(path).map_err(fail)?).map_err(fail),
            #[cfg(not(unix))]
            Address::Unix(_) => Err(format!("{address}: this system has no Unix sockets; use HOST:PORT")),
            Address::Tcp(name) => {
                let mut failed = io::Error::from(io::ErrorKind::NotFound);
                for address in loopback(name)? {
                    match TcpStream::connect_timeout(&address, CONNECT) {
                        Ok(stream) => return Self::tcp(stream).map_err(fail),
                        Err(error) => failed = error,
                    }
                }
                Err(fail(failed))
            }
        }
    }

    /// Prepares a Unix socket. Rejects a process of another user at the other end, where the system names it.
    #[cfg(unix)]
    pub(crate) fn unix(stream: UnixStream) -> io::Result<Self> {
        #[cfg(target_os = "linux")]
        {
            let peer = rustix::net::sockopt::socket_peercred(&stream)?.uid;
            if peer != rustix::process::geteuid() {
                let message = format!("the process at the other end belongs to user {}", peer.as_raw());
                return Err(io::Error::new(io::ErrorKind::PermissionDenied, message));
            }
        }
        // The system limits the size to its maximum.
        rustix::net::sockopt::set_socket_send_buffer_size(&stream, SEND_BUFFER)?;
        Ok(Self::Unix(stream))
    }

    pub(crate) fn tcp(stream: TcpStream) -> io::Result<Self> {
        use rustix::net::sockopt;
        stream.set_nodelay(true)?;
        sockopt::set_socket_keepalive(&stream, true)?;
        let (idle, interval, count) = KEEPALIVE;
        sockopt::set_tcp_keepidle(&stream, idle)?;
        sockopt::set_tcp_keepintvl(&stream, interval)?;
        sockopt::set_tcp_keepcnt(&stream, count)?;
        Ok(Self::Tcp(stream))
    }

    pub(crate) fn set_read_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        each!(self, stream => stream.set_read_timeout(timeout))
    }

    pub(crate) fn set_write_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        each!(self, stream => stream.set_write_timeout(timeout))
    }

    /// Closes both directions, which ends all reads and writes of all clones.
    pub(crate) fn shutdown(&self) {
        // The other side may have closed the connection already.
        let _ = each!(self, stream => stream.shutdown(Shutdown::Both));
    }

    pub(crate) fn try_clone(&self) -> io::Result<Self> {
        Ok(match self {
            Self::Tcp(stream) => Self::Tcp(stream.try_clone()?),
            #[cfg(unix)]
            Self::Unix(stream) => Self::Unix(stream.try_clone()?),
        })
    }
}

impl Read for Stream {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        each!(self, stream => stream.read(to))
    }
}

impl Write for Stream {
    /// Writes to the socket. If the other end is closed, the standard library's `write` returns an error instead of
    /// raising the signal `SIGPIPE`. Its `write_vectored` raises the signal, so do not forward that method.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        each!(self, stream => stream.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

//! Sockets between two processes: TCP connections, and on Linux also Unix sockets.
//!
//! A Unix socket transfers a large message in less time than a TCP connection of the loopback interface. The name of a
//! listening Unix socket is abstract. The system removes it when the process ends, and no file is created.

use std::io::{self, Read, Write};
use std::net::{IpAddr, Shutdown, TcpListener, TcpStream};
use std::time::{Duration, Instant};

#[cfg(target_os = "linux")]
use std::os::fd::AsFd;
#[cfg(target_os = "linux")]
use std::os::linux::net::SocketAddrExt as _;
#[cfg(target_os = "linux")]
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};

use crate::Error;

/// Time to sleep between two attempts to connect or to accept a connection.
pub(crate) const PAUSE: Duration = Duration::from_millis(1);
/// Size in bytes of the send buffer of a Unix socket. With the system's default, a large message wakes the receiver
/// more often.
#[cfg(target_os = "linux")]
const SEND_BUFFER: usize = 1 << 20;

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
    /// Connects to the Unix socket with a name. Returns `None` if that is not possible, for example because the other
    /// process is in another network namespace or belongs to another user.
    ///
    /// # Errors
    ///
    /// Returns an error of the kind [`TimedOut`](io::ErrorKind::TimedOut) if the other process does not accept enough
    /// connections before the deadline.
    #[cfg(target_os = "linux")]
    pub(crate) fn connect_unix(name: &str, deadline: Instant) -> io::Result<Option<Self>> {
        use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
        if name.is_empty() {
            return Ok(None);
        }
        // The standard library's `connect_addr` has no timeout. It blocks while the queue of the listening socket is
        // full.
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let Ok(address) = SocketAddrUnix::new_abstract_name(name.as_bytes()) else { return Ok(None) };
        let Ok(socket) = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None) else { return Ok(None) };
        loop {
            match connect(&socket, &address) {
                // Another user may have bound the name after the process ended. Do not send a secret to it.
                Ok(()) => return is_own(&socket).then(|| Self::unix(UnixStream::from(socket))).transpose(),
                Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => {}
                Err(_) => return Ok(None),
            }
            if Instant::now() >= deadline {
                return Err(io::ErrorKind::TimedOut.into());
            }
            std::thread::sleep(PAUSE);
        }
    }

    /// Returns `None`, because this system has no abstract Unix sockets.
    #[cfg(not(target_os = "linux"))]
    #[allow(clippy::unnecessary_wraps, reason = "the same signature as on Linux")]
    pub(crate) fn connect_unix(_: &str, _: Instant) -> io::Result<Option<Self>> {
        Ok(None)
    }

    #[cfg(target_os = "linux")]
    fn unix(stream: UnixStream) -> io::Result<Self> {
        stream.set_nonblocking(false)?;
        // The system limits the size to its maximum.
        rustix::net::sockopt::set_socket_send_buffer_size(&stream, SEND_BUFFER)?;
        Ok(Self::Unix(stream))
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

    pub(crate) fn set_nonblocking(&self, is_nonblocking: bool) -> io::Result<()> {
        each!(self, stream => stream.set_nonblocking(is_nonblocking))
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
pub(crate) struct UnixSocketListener {
    #[cfg(target_os = "linux")]
    listener: Option<UnixListener>,
    name: String,
}

impl UnixSocketListener {
    /// Listens at a Unix socket with a random name. If that is not possible, returns a value with an empty name, and
    /// the processes use TCP.
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

    /// Accepts a connection that is waiting, if there is one. Returns a socket that does not block, or an error if the
    /// other process belongs to another user.
    #[cfg(target_os = "linux")]
    pub(crate) fn accept(&self) -> io::Result<Option<io::Result<Socket>>> {
        let Some(listener) = &self.listener else { return Ok(None) };
        Ok(waiting(listener.accept())?.map(|(stream, _)| {
            if !is_own(&stream) {
                return Err(io::ErrorKind::PermissionDenied.into());
            }
            let socket = Socket::unix(stream)?;
            socket.set_nonblocking(true)?;
            Ok(socket)
        }))
    }

    /// Returns `None`, because this system has no abstract Unix sockets.
    #[cfg(not(target_os = "linux"))]
    #[allow(clippy::unnecessary_wraps, reason = "the same signature as on Linux")]
    pub(crate) fn accept(&self) -> io::Result<Option<io::Result<Socket>>> {
        Ok(None)
    }
}

/// Returns whether the process at the other end of a Unix socket has the effective user ID of this process. The system
/// recorded that ID when the other process began to listen or to connect.
#[cfg(target_os = "linux")]
fn is_own(socket: &impl AsFd) -> bool {
    rustix::net::sockopt::socket_peercred(socket).is_ok_and(|peer| peer.uid == rustix::process::geteuid())
}

/// Returns random bytes.
pub(crate) fn random<const SIZE: usize>() -> Result<[u8; SIZE], Error> {
    let mut bytes = [0; SIZE];
    getrandom::fill(&mut bytes).map_err(|error| Error::System(format!("random numbers: {error}")))?;
    Ok(bytes)
}

/// Accepts a TCP connection that is waiting, if there is one. Returns a socket that does not block, and the address of
/// the other end. The listener may not block either.
pub(crate) fn accept_tcp(listener: &TcpListener) -> io::Result<Option<(io::Result<Socket>, IpAddr)>> {
    Ok(waiting(listener.accept())?.map(|(stream, from)| {
        let socket = Socket::tcp(stream).and_then(|socket| socket.set_nonblocking(true).map(|()| socket));
        (socket, from.ip())
    }))
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
        let listener = UnixSocketListener::bind().unwrap();
        let name = listener.name().to_owned();
        let mut near = Socket::connect_unix(&name, Instant::now()).unwrap().unwrap();
        let mut far = listener.accept().unwrap().unwrap().unwrap();
        far.set_nonblocking(false).unwrap();
        near.write_all(b"abc").unwrap();
        let mut read = [0; 3];
        far.read_exact(&mut read).unwrap();
        assert_eq!(&read, b"abc");
        drop(far);
        let broken = near.write(b"abc").unwrap_err();
        assert_eq!(broken.kind(), io::ErrorKind::BrokenPipe);
        drop(listener);
        assert!(Socket::connect_unix(&name, Instant::now()).unwrap().is_none());
        assert!(Socket::connect_unix("", Instant::now()).unwrap().is_none());
    }

    #[test]
    fn full_queues_time_out() {
        let name = format!("process-transport-{:016x}", u64::from_ne_bytes(random().unwrap()));
        let address = rustix::net::SocketAddrUnix::new_abstract_name(name.as_bytes()).unwrap();
        let kind = rustix::net::SocketType::STREAM;
        let listener = rustix::net::socket(rustix::net::AddressFamily::UNIX, kind, None).unwrap();
        rustix::net::bind(&listener, &address).unwrap();
        rustix::net::listen(&listener, 0).unwrap();
        let _waiting = Socket::connect_unix(&name, Instant::now()).unwrap().unwrap();
        let start = Instant::now();
        let error = Socket::connect_unix(&name, start + Duration::from_millis(50)).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert!(start.elapsed() >= Duration::from_millis(50));
        // As soon as the listener accepts a connection, the next one succeeds.
        std::thread::scope(|scope| {
            let next = scope.spawn(|| Socket::connect_unix(&name, Instant::now() + Duration::from_secs(60)));
            rustix::net::accept(&listener).unwrap();
            assert!(next.join().unwrap().unwrap().is_some());
        });
    }
}

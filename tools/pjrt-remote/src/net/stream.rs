//! Sockets of both kinds.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

#[cfg(unix)]
use std::os::unix::net::UnixStream;

/// A file descriptor that is sent over a Unix socket. Other systems have none.
#[cfg(unix)]
pub(crate) type Descriptor = std::os::fd::OwnedFd;
#[cfg(not(unix))]
#[derive(Debug)]
pub(crate) enum Descriptor {}

#[cfg(feature = "tls")]
use crate::net::address::resolve;
use crate::net::address::{Address, loopback};
#[cfg(feature = "tls")]
use crate::net::tls::{Identity, TlsStream};

/// Size of the send buffer of a Unix socket. With the system's default, a large message wakes the receiver more often.
#[cfg(unix)]
const SEND_BUFFER: usize = 1 << 20;
/// Time to establish a TCP connection.
const CONNECT: Duration = Duration::from_secs(10);
/// Time in which a TLS server must answer.
#[cfg(feature = "tls")]
const HANDSHAKE: Duration = Duration::from_secs(30);
/// Time without data after which the system checks whether the other machine is reachable, time between two checks,
/// and number of failed checks after which the connection fails.
const KEEPALIVE: (Duration, Duration, u32) = (Duration::from_secs(5), Duration::from_secs(2), 5);

/// Maximum number of descriptors that are sent together, or wait for the message that uses them.
const DESCRIPTORS: usize = 4;

/// The bytes that come with connections of each kind that are passed to another process.
#[cfg(unix)]
const TCP: u8 = b't';
#[cfg(unix)]
const UNIX: u8 = b'u';

/// A connection.
#[derive(Debug)]
pub(crate) enum Stream {
    Tcp(TcpStream),
    #[cfg(feature = "tls")]
    Tls(TlsStream),
    #[cfg(unix)]
    Unix(UnixStream),
}

/// Calls a method that all kinds of sockets have.
macro_rules! each {
    ($stream:expr, $inner:ident => $call:expr) => {
        match $stream {
            Self::Tcp($inner) => $call,
            #[cfg(feature = "tls")]
            Self::Tls(tls) => {
                let $inner = tls.tcp();
                $call
            }
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
            Address::Tcp(name) => connect_tcp(loopback(name)?).and_then(Self::tcp).map_err(fail),
            #[cfg(feature = "tls")]
            Address::Tls(name, fingerprint) => {
                let tcp = connect_tcp(resolve(name)?).and_then(prepare_tcp).map_err(fail)?;
                TlsStream::client(tcp, fingerprint, HANDSHAKE).map(Self::Tls).map_err(fail)
            }
            #[cfg(not(feature = "tls"))]
            Address::Tls(..) => Err(format!("{address}: build the package pjrt-remote with its feature `tls`")),
        }
    }

    /// Becomes the server's side of a TLS connection within `time`, if this is a TCP connection.
    #[cfg(feature = "tls")]
    pub(crate) fn encrypt(self, identity: &Identity, time: Duration) -> io::Result<Self> {
        match self {
            Self::Tcp(tcp) => TlsStream::server(tcp, identity, time).map(Self::Tls),
            other => Ok(other),
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

    /// Returns a connection within this process, and a descriptor of its other end.
    #[cfg(unix)]
    pub(crate) fn pair() -> io::Result<(Self, Descriptor)> {
        let (own, theirs) = UnixStream::pair()?;
        Ok((Self::Unix(own), theirs.into()))
    }

    #[cfg(not(unix))]
    pub(crate) fn pair() -> io::Result<(Self, Descriptor)> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Returns the connection of a descriptor that was sent.
    #[cfg(unix)]
    pub(crate) fn from_descriptor(descriptor: Descriptor) -> io::Result<Self> {
        // Closing other kinds of sockets may not end a wait for them.
        #[cfg(target_os = "linux")]
        {
            use rustix::net::{AddressFamily, SocketType, sockopt};
            let kind = (sockopt::socket_domain(&descriptor)?, sockopt::socket_type(&descriptor)?);
            if kind != (AddressFamily::UNIX, SocketType::STREAM) {
                return Err(io::Error::new(io::ErrorKind::InvalidInput, "the descriptor is not a Unix socket"));
            }
        }
        Ok(Self::Unix(descriptor.into()))
    }

    #[cfg(not(unix))]
    pub(crate) fn from_descriptor(descriptor: Descriptor) -> io::Result<Self> {
        match descriptor {}
    }

    /// Passes a connection to the process at the other end.
    #[cfg(unix)]
    pub(crate) fn pass(&mut self, stream: Self) -> io::Result<()> {
        match stream {
            Self::Tcp(stream) => self.write_with(&[TCP], &[stream.into()]),
            #[cfg(feature = "tls")]
            Self::Tls(_) => Err(io::ErrorKind::Unsupported.into()),
            Self::Unix(stream) => self.write_with(&[UNIX], &[stream.into()]),
        }
    }

    /// Receives a connection that [`Self::pass`] sent. Returns `None` if the other end is closed.
    #[cfg(unix)]
    pub(crate) fn receive_passed(&mut self) -> io::Result<Option<Self>> {
        let (mut kind, mut descriptors) = ([0], VecDeque::new());
        loop {
            match self.read_with(&mut kind, &mut descriptors) {
                Ok(0) => return Ok(None),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            }
            match descriptors.pop_front() {
                Some(descriptor) if kind == [TCP] => return Ok(Some(Self::Tcp(descriptor.into()))),
                Some(descriptor) => return Ok(Some(Self::Unix(descriptor.into()))),
                // The system dropped the descriptor, and with it the connection.
                None => tracing::warn!("a client could not connect, because this process has too many open files"),
            }
        }
    }

    /// Writes bytes. On a Unix socket, descriptors arrive with the first byte.
    pub(crate) fn write_with(&mut self, mut bytes: &[u8], descriptors: &[Descriptor]) -> io::Result<()> {
        #[cfg(unix)]
        if let Self::Unix(stream) = self
            && !descriptors.is_empty()
        {
            use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
            use std::os::fd::AsFd as _;
            let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS))];
            let mut control = SendAncillaryBuffer::new(&mut space);
            let borrowed: Vec<_> = descriptors.iter().map(|descriptor| descriptor.as_fd()).collect();
            if !control.push(SendAncillaryMessage::ScmRights(&borrowed)) {
                return Err(io::ErrorKind::InvalidInput.into());
            }
            let first = [io::IoSlice::new(bytes)];
            let send = || sendmsg(&*stream, &first, &mut control, SendFlags::NOSIGNAL);
            let sent = rustix::io::retry_on_intr(send)?;
            bytes = bytes.get(sent..).unwrap_or_default();
        }
        #[cfg(not(unix))]
        let _ = descriptors;
        self.write_all(bytes)
    }

    /// Reads bytes, and descriptors that arrive with them.
    fn read_with(&mut self, to: &mut [u8], descriptors: &mut VecDeque<Descriptor>) -> io::Result<usize> {
        #[cfg(unix)]
        if let Self::Unix(stream) = self {
            use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
            let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS))];
            let mut control = RecvAncillaryBuffer::new(&mut space);
            let received = recvmsg(&*stream, &mut [io::IoSliceMut::new(to)], &mut control, RecvFlags::CMSG_CLOEXEC)?;
            for message in control.drain() {
                if let RecvAncillaryMessage::ScmRights(rights) = message {
                    descriptors.extend(rights);
                }
            }
            // Close those for which no message asks.
            descriptors.truncate(DESCRIPTORS);
            return Ok(received.bytes);
        }
        #[cfg(not(unix))]
        let _ = descriptors;
        self.read(to)
    }

    pub(crate) fn tcp(stream: TcpStream) -> io::Result<Self> {
        prepare_tcp(stream).map(Self::Tcp)
    }

    pub(crate) fn is_unix(&self) -> bool {
        #[cfg(unix)]
        return matches!(self, Self::Unix(_));
        #[cfg(not(unix))]
        false
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
            #[cfg(feature = "tls")]
            Self::Tls(stream) => Self::Tls(stream.try_clone()?),
            #[cfg(unix)]
            Self::Unix(stream) => Self::Unix(stream.try_clone()?),
        })
    }
}

/// Connects to the first of some addresses that answers.
fn connect_tcp(addresses: Vec<SocketAddr>) -> io::Result<TcpStream> {
    let mut failed = io::Error::from(io::ErrorKind::NotFound);
    for address in addresses {
        match TcpStream::connect_timeout(&address, CONNECT) {
            Ok(stream) => return Ok(stream),
            Err(error) => failed = error,
        }
    }
    Err(failed)
}

fn prepare_tcp(stream: TcpStream) -> io::Result<TcpStream> {
    use rustix::net::sockopt;
    stream.set_nodelay(true)?;
    sockopt::set_socket_keepalive(&stream, true)?;
    let (idle, interval, count) = KEEPALIVE;
    sockopt::set_tcp_keepidle(&stream, idle)?;
    sockopt::set_tcp_keepintvl(&stream, interval)?;
    sockopt::set_tcp_keepcnt(&stream, count)?;
    Ok(stream)
}

impl Read for Stream {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.read(to),
            #[cfg(feature = "tls")]
            Self::Tls(stream) => stream.read(to),
            #[cfg(unix)]
            Self::Unix(stream) => stream.read(to),
        }
    }
}

impl Write for Stream {
    /// Writes to the socket. If the other end is closed, the standard library's `write` returns an error instead of
    /// raising the signal `SIGPIPE`. Its `write_vectored` raises the signal, so do not forward that method.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.write(bytes),
            #[cfg(feature = "tls")]
            Self::Tls(stream) => stream.write(bytes),
            #[cfg(unix)]
            Self::Unix(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The receiving half of a connection. While it has a deadline, reads fail after it, however many bytes have arrived.
#[derive(Debug)]
pub(crate) struct Receiving {
    stream: Stream,
    deadline: Option<Instant>,
    descriptors: VecDeque<Descriptor>,
}

impl Receiving {
    /// Receives the first message of the other side within `time`.
    pub(crate) fn within(stream: Stream, time: Duration) -> Self {
        Self { stream, deadline: Some(Instant::now() + time), descriptors: VecDeque::new() }
    }

    /// Returns the first descriptor that has arrived and was not taken.
    pub(crate) fn take_descriptor(&mut self) -> Option<Descriptor> {
        self.descriptors.pop_front()
    }

    /// Closes the descriptors that were not taken.
    pub(crate) fn close_descriptors(&mut self) {
        self.descriptors.clear();
    }

    /// Removes the deadline.
    pub(crate) fn wait_forever(&mut self) -> io::Result<()> {
        self.deadline = None;
        self.stream.set_read_timeout(None)
    }
}

impl Read for Receiving {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        if let Some(deadline) = self.deadline {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(io::Error::new(io::ErrorKind::TimedOut, "the first message did not arrive in time"));
            }
            self.stream.set_read_timeout(Some(left))?;
        }
        self.stream.read_with(to, &mut self.descriptors)
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn missing_descriptor_is_one_lost_connection() {
        let (mut supervisor, control) = Stream::pair().unwrap();
        let mut worker = Stream::from_descriptor(control).unwrap();
        // A descriptor that the system dropped.
        supervisor.write_all(&[UNIX]).unwrap();
        let (mut client, passed) = Stream::pair().unwrap();
        supervisor.pass(Stream::from_descriptor(passed).unwrap()).unwrap();
        worker.receive_passed().unwrap().unwrap().write_all(b"x").unwrap();
        let mut byte = [0];
        client.read_exact(&mut byte).unwrap();
        assert_eq!(&byte, b"x");
        drop(supervisor);
        assert!(worker.receive_passed().unwrap().is_none());
    }
}

//! Sockets between all pairs of processes, by default of one machine.

use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, TcpListener};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use crate::Error;
use crate::address::Address;
use crate::frame::{Header, Kind};
use crate::inbox::Inbox;
use crate::meeting::Meeting;
use crate::socket::{Socket, UnixSocketListener};
use crate::transport::{Stream, Transport};

/// Default for the maximum time that a process may leave its messages unread before it counts as lost.
const STALL: Duration = Duration::from_secs(60);

/// Accepts the connections of the other processes. On Linux, processes of this user, machine and network namespace
/// connect to an abstract Unix socket. All others use TCP.
///
/// Until it has sent the secret of this process, a program that connects can only occupy a connection. At the Unix
/// socket, connections of other users are closed at once. The listener keeps a limited number of unfinished
/// connections, and all end at the deadline of [`connect`](Self::connect).
#[derive(Debug)]
pub struct LocalListener {
    tcp: TcpListener,
    unix: UnixSocketListener,
    own: Address,
    address: String,
    stall: Duration,
}

impl LocalListener {
    /// Listens on the loopback interface. Processes on other machines cannot connect.
    ///
    /// # Errors
    ///
    /// Returns [`Error::System`] if the socket cannot be opened.
    pub fn bind() -> Result<Self, Error> {
        Self::bind_to(Ipv4Addr::LOCALHOST.into())
    }

    /// Listens on an address of a network that connects several machines. Messages are neither encrypted nor protected
    /// against modification, so use only a network that you trust.
    ///
    /// # Errors
    ///
    /// Returns [`Error::System`] if the socket cannot be opened, for example because this machine does not have the
    /// address. Returns [`Error::Invalid`] if the address means all interfaces, such as `0.0.0.0`, because other
    /// processes cannot connect to it.
    pub fn bind_to(ip: IpAddr) -> Result<Self, Error> {
        if ip.is_unspecified() {
            return Err(Error::Invalid(format!("{ip} is not the address of one interface; name one")));
        }
        let failed = |error: io::Error| Error::System(format!("cannot listen on {ip}: {error}"));
        let tcp = TcpListener::bind((ip, 0)).map_err(failed)?;
        tcp.set_nonblocking(true).map_err(failed)?;
        let unix = UnixSocketListener::bind()?;
        let own = Address::new(tcp.local_addr().map_err(failed)?, unix.name())?;
        Ok(Self { tcp, unix, address: own.to_string(), own, stall: STALL })
    }

    /// Sets how long a process may leave its messages unread before it counts as lost. The default is 60 s.
    #[must_use]
    pub fn with_stall_timeout(mut self, timeout: Duration) -> Self {
        self.stall = timeout;
        self
    }

    /// Returns the address for the other processes. The address contains a secret, so do not print it.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Connects this process to all other processes. `addresses` contains the addresses of all processes, in the order
    /// of their ranks. Every process must call this method, because each process waits for the processes of higher
    /// rank.
    ///
    /// # Errors
    ///
    /// Returns [`Error::OtherMachine`], [`Error::Unreachable`] or [`Error::Timeout`] with the rank of a process that
    /// could not be connected. Returns [`Error::Invalid`] if an address is malformed, or if the ranks and addresses
    /// contradict each other. Returns [`Error::System`] if this machine cannot provide a socket or a thread.
    pub fn connect(self, rank: usize, addresses: &[String], timeout: Duration) -> Result<LocalTransport, Error> {
        let deadline = Instant::now() + timeout;
        let size = addresses.len();
        if addresses.get(rank) != Some(&self.address) {
            return Err(Error::Invalid(format!(
                "the address of process {rank} is not that of this process; two processes have this rank, or the \
                 addresses are not in the order of ranks"
            )));
        }
        let all = (0..).zip(addresses).map(|(rank, text)| Address::parse(text, rank)).collect::<Result<Vec<_>, _>>()?;
        if let Some(far) = all.iter().position(|other| !self.own.can_reach(other)) {
            return Err(Error::OtherMachine { rank: far });
        }
        let meeting = Meeting { tcp: &self.tcp, unix: &self.unix, own: &self.own, rank, all: &all, deadline };
        let mut sockets = (0..rank).map(|peer| meeting.dial(peer).map(Some)).collect::<Result<Vec<_>, _>>()?;
        sockets.resize_with(size, || None);
        meeting.accept(&mut sockets)?;
        LocalTransport::start(rank, sockets, self.stall)
    }
}

/// A [`Transport`] over Unix sockets and TCP, with one connection for each pair of processes.
///
/// A thread for each connection reads all messages as they arrive, so that no sender waits until the other process
/// calls [`Transport::receive`]. When the transport is dropped, the other processes are notified.
pub struct LocalTransport {
    rank: usize,
    inbox: Arc<Inbox>,
    peers: Vec<Option<Peer>>,
}

struct Peer {
    /// Socket for writing. The reading thread has a clone of the socket.
    socket: Mutex<Socket>,
    /// Whether a write failed. The connection then ends in the middle of a frame.
    is_broken: AtomicBool,
    thread: Option<JoinHandle<()>>,
}

impl Peer {
    fn lock(&self) -> MutexGuard<'_, Socket> {
        self.socket.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self, header: Header, parts: &[&[u8]]) -> io::Result<()> {
        let mut socket = self.lock();
        if self.is_broken.load(Ordering::Relaxed) {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        header.write(&mut *socket, parts).inspect_err(|_| {
            self.is_broken.store(true, Ordering::Relaxed);
            // This makes the reading threads of both processes notice the failure.
            let _ = socket.shutdown();
        })
    }
}

impl LocalTransport {
    fn start(rank: usize, sockets: Vec<Option<Socket>>, stall: Duration) -> Result<Self, Error> {
        let inbox = Arc::new(Inbox::new(sockets.len()));
        let mut transport = Self { rank, inbox, peers: Vec::new() };
        for (peer, socket) in sockets.into_iter().enumerate() {
            let peer = socket.map(|socket| transport.open(peer, socket, stall)).transpose();
            let peer = peer.map_err(|error| Error::System(format!("a thread or socket for messages: {error}")))?;
            transport.peers.push(peer);
        }
        Ok(transport)
    }

    fn open(&self, peer: usize, socket: Socket, stall: Duration) -> io::Result<Peer> {
        socket.set_write_timeout(Some(stall))?;
        let mut read = socket.try_clone()?;
        let inbox = Arc::clone(&self.inbox);
        let thread =
            Builder::new().name(format!("from process {peer}")).spawn(move || read_all(&mut read, peer, &inbox))?;
        Ok(Peer { socket: Mutex::new(socket), is_broken: AtomicBool::new(false), thread: Some(thread) })
    }

    fn peer(&self, rank: usize) -> Result<&Peer, Error> {
        self.peers.get(rank).and_then(Option::as_ref).ok_or_else(|| {
            Error::Invalid(format!("process {} has no connection to process {rank} of {}", self.rank, self.peers.len()))
        })
    }
}

/// Delivers all messages of a connection to the inbox until the connection ends.
fn read_all(socket: &mut Socket, from: usize, inbox: &Inbox) {
    let why = loop {
        match Header::read(socket, |len| inbox.memory(len)) {
            Ok(Some((header, body))) => {
                if !inbox.accept(from, header, body) {
                    return;
                }
            }
            Ok(None) => break "its connection was closed; it ended or was killed".to_owned(),
            Err(error) => break format!("its connection broke: {error}; it ended or was killed"),
        }
    };
    inbox.lose(from, &why);
}

impl Transport for LocalTransport {
    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.peers.len()
    }

    fn send(&self, to: usize, stream: Stream, tag: u64, parts: &[&[u8]]) -> Result<(), Error> {
        let peer = self.peer(to)?;
        self.inbox.expect_present(to)?;
        peer.write(Header { kind: Kind::Message, stream, tag }, parts).map_err(|error| {
            let why = match error.kind() {
                io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => "it does not read its messages".to_owned(),
                _ => format!("its connection broke: {error}; it ended or was killed"),
            };
            self.inbox.lose(to, &why);
            // The reading thread may already have recorded another reason.
            self.inbox.expect_present(to).err().unwrap_or(Error::Lost { rank: to, why })
        })
    }

    fn receive(&self, from: usize, stream: Stream, tag: u64, deadline: Instant) -> Result<Vec<u8>, Error> {
        self.inbox.receive(from, stream, tag, deadline)
    }

    fn recycle(&self, message: Vec<u8>) {
        self.inbox.recycle(message);
    }

    fn fail(&self, stream: Stream, peers: &[usize], why: &str) {
        self.inbox.fail(stream, Error::Stopped(why.to_owned()));
        for peer in peers.iter().filter_map(|rank| self.peer(*rank).ok()) {
            // A failed write also breaks the connection, so the other process detects the failure, too.
            let _ = peer.write(Header { kind: Kind::Failure, stream, tag: 0 }, &[why.as_bytes()]);
        }
    }

    fn close(&self, stream: Stream) {
        self.inbox.close(stream);
    }

    fn lose(&self, rank: usize, why: &str) {
        self.inbox.lose(rank, why);
    }
}

impl Drop for LocalTransport {
    fn drop(&mut self) {
        let goodbye = Header { kind: Kind::Goodbye, stream: Stream::default(), tag: 0 };
        for peer in self.peers.iter().flatten() {
            let _ = peer.write(goodbye, &[]);
            let _ = peer.lock().shutdown();
        }
        for thread in self.peers.iter_mut().flatten().filter_map(|peer| peer.thread.take()) {
            let _ = thread.join();
        }
    }
}

impl fmt::Debug for LocalTransport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocalTransport").field("rank", &self.rank).field("size", &self.peers.len()).finish()
    }
}

#[cfg(test)]
mod tests;

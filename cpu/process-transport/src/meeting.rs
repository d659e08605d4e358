//! Connects the processes, and recognizes them by their greetings.
//!
//! Every program of the machine, or of the network, may connect to the sockets of a process. Only the peers know the
//! secret of the process, so a connection of another program never ends with a right greeting. Such connections must
//! not delay the peers. Therefore a process reads all greetings at the same time, keeps few unfinished connections, and
//! measures all times to one deadline.

use std::collections::HashMap;
use std::io::{self, Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, TcpListener};
use std::time::{Duration, Instant};

use crate::Error;
use crate::address::{Address, SECRET};
use crate::socket::{PAUSE, Socket, UnixSocketListener, accept_tcp};

/// The first bytes of a connection. The digit is the version of the protocol.
pub(crate) const MAGIC: &[u8; 8] = b"pjrtmsg1";
/// Number of bytes of a greeting, which consists of the magic, the secret, the rank and the number of processes.
pub(crate) const GREETING: usize = 8 + SECRET + 8;
/// Number of unfinished connections that a process keeps in addition to one for each peer.
const SPARE: usize = 64;
/// Number of connections that a process accepts from each socket before it reads the greetings. Far fewer than
/// [`SPARE`], so that each connection is read before newer connections displace it.
const BATCH: usize = 16;

/// Returns the greeting that the process with this rank sends to the process with this secret.
pub(crate) fn greeting(secret: &[u8; SECRET], rank: usize, size: usize) -> [u8; GREETING] {
    let mut bytes = [0; GREETING];
    let number = |number: usize| u32::try_from(number).unwrap_or(u32::MAX).to_le_bytes();
    bytes[..8].copy_from_slice(MAGIC);
    bytes[8..8 + SECRET].copy_from_slice(secret);
    bytes[8 + SECRET..12 + SECRET].copy_from_slice(&number(rank));
    bytes[12 + SECRET..].copy_from_slice(&number(size));
    bytes
}

/// Compares all bytes in any case, so that the duration of the comparison reveals nothing about a secret.
fn is_equal(one: &[u8; GREETING], other: &[u8; GREETING]) -> bool {
    one.iter().zip(other).fold(0, |differences, (one, other)| differences | (one ^ other)) == 0
}

/// The time in which a process connects to all others.
pub(crate) struct Meeting<'a> {
    pub(crate) tcp: &'a TcpListener,
    pub(crate) unix: &'a UnixSocketListener,
    /// The address of this process.
    pub(crate) own: &'a Address,
    pub(crate) rank: usize,
    /// The addresses of all processes.
    pub(crate) all: &'a [Address],
    pub(crate) deadline: Instant,
}

/// The result of an attempt to connect to a process.
enum Attempt {
    Connected(Socket),
    /// The process, or another program, closed the connection before it answered.
    Closed,
}

/// A connection whose greeting has not arrived completely.
struct HalfOpen {
    socket: Socket,
    /// The network of the other end. `None` for a Unix socket.
    source: Option<IpAddr>,
    read: [u8; GREETING],
    filled: usize,
}

impl Meeting<'_> {
    /// Returns the time until the deadline, or an error if the deadline has passed.
    fn left(&self) -> io::Result<Duration> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        if left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(left) }
    }

    /// Connects to a process of lower rank. Tries again if the connection is closed without an answer, because a
    /// process to which very many programs connect also closes connections of its peers.
    pub(crate) fn dial(&self, peer: usize) -> Result<Socket, Error> {
        let Some(address) = self.all.get(peer) else {
            return Err(Error::Invalid(format!("there is no process {peer} among {}", self.all.len())));
        };
        let failed =
            |why: &str| Error::Unreachable { rank: peer, address: address.socket.to_string(), why: why.to_owned() };
        let mut use_unix = self.own.shares_machine(address);
        let mut pause = PAUSE;
        loop {
            match self.attempt(peer, address, use_unix) {
                Ok(Attempt::Connected(socket)) => return Ok(socket),
                Ok(Attempt::Closed) if self.left().is_ok_and(|left| left > pause) => {}
                Ok(Attempt::Closed) => return Err(failed("it closed the connection")),
                Err(error) => {
                    return Err(failed(&match error.kind() {
                        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => "it did not answer in time".to_owned(),
                        _ => error.to_string(),
                    }));
                }
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(100 * PAUSE);
            // If the process sees another user at this end, it closes each connection of the Unix socket.
            use_unix = !use_unix && self.own.shares_machine(address);
        }
    }

    fn attempt(&self, peer: usize, address: &Address, use_unix: bool) -> io::Result<Attempt> {
        let near = if use_unix { Socket::connect_unix(&address.unix_name, self.deadline)? } else { None };
        let mut socket = near.map_or_else(|| Socket::connect_tcp(&address.socket, self.left()?), Ok)?;
        let mut answer = [0; GREETING];
        match self.talk(&mut socket, &greeting(&address.secret, self.rank, self.all.len()), &mut answer) {
            Ok(()) => {}
            Err(error) => match error.kind() {
                io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => {
                    return Ok(Attempt::Closed);
                }
                _ => return Err(error),
            },
        }
        if !is_equal(&answer, &greeting(&self.own.secret, peer, self.all.len())) {
            return Err(io::Error::other("another program, or a process of another rank, listens there"));
        }
        socket.set_read_timeout(None)?;
        Ok(Attempt::Connected(socket))
    }

    /// Writes the greeting and reads the answer before the deadline, also if the bytes arrive one by one.
    fn talk(&self, socket: &mut Socket, greeting: &[u8; GREETING], answer: &mut [u8; GREETING]) -> io::Result<()> {
        socket.set_write_timeout(Some(self.left()?))?;
        socket.write_all(greeting)?;
        let mut rest = &mut answer[..];
        while !rest.is_empty() {
            socket.set_read_timeout(Some(self.left()?))?;
            match socket.read(rest) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(count) => rest = rest.get_mut(count..).unwrap_or_default(),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Waits for the connections of all processes of higher rank.
    pub(crate) fn accept(&self, sockets: &mut [Option<Socket>]) -> Result<(), Error> {
        let start = Instant::now();
        let mut waiting = Vec::new();
        while let Some(missing) = (self.rank + 1..self.all.len()).find(|peer| sockets[*peer].is_none()) {
            if self.left().is_err() {
                return Err(Error::Timeout { rank: missing, waited: start.elapsed() });
            }
            let has_accepted = match self.accept_batch(&mut waiting) {
                Ok(has_accepted) => has_accepted,
                // The process may have too many open files. Close the unfinished connections, whose peers try again.
                Err(_) if !waiting.is_empty() => {
                    waiting.clear();
                    continue;
                }
                Err(error) => return Err(Error::System(format!("waiting for connections: {error}"))),
            };
            // Any program may connect, but only a peer knows the secret. Close other connections and continue to wait.
            for half in waiting.extract_if(.., HalfOpen::is_over) {
                // The first connection of a rank counts. A later one may replay its greeting.
                let peer = self.sender_of(&half).filter(|peer| sockets.get(*peer).is_some_and(Option::is_none));
                if let Some(peer) = peer
                    && let Ok(socket) = self.answer(peer, half.socket)
                {
                    sockets[peer] = Some(socket);
                }
            }
            if !has_accepted {
                std::thread::sleep(PAUSE);
            }
        }
        Ok(())
    }

    /// Accepts up to [`BATCH`] connections from each socket. Returns whether there were any.
    fn accept_batch(&self, waiting: &mut Vec<HalfOpen>) -> io::Result<bool> {
        let mut has_accepted = false;
        for _ in 0..BATCH {
            let unix = self.unix.accept()?.map(|socket| (socket, None));
            let tcp = accept_tcp(self.tcp)?.map(|(socket, from)| (socket, Some(network_of(from))));
            for (socket, source) in [unix, tcp].into_iter().flatten() {
                has_accepted = true;
                // The other end may belong to another user, or may have closed the connection.
                let Ok(socket) = socket else { continue };
                waiting.push(HalfOpen { socket, source, read: [0; GREETING], filled: 0 });
                if waiting.len() > self.all.len() + SPARE {
                    displace(waiting);
                }
            }
        }
        Ok(has_accepted)
    }

    /// Returns the rank of the process that sent a greeting, or `None` if the greeting is incomplete or wrong.
    fn sender_of(&self, half: &HalfOpen) -> Option<usize> {
        let size = self.all.len();
        let is_from = |peer: &usize| is_equal(&half.read, &greeting(&self.own.secret, *peer, size));
        (self.rank + 1..size).find(is_from).filter(|_| half.filled == GREETING)
    }

    fn answer(&self, peer: usize, mut socket: Socket) -> io::Result<Socket> {
        // The buffer of a new socket has space for the answer, so this does not wait.
        socket.write_all(&greeting(&self.all[peer].secret, self.rank, self.all.len()))?;
        socket.set_nonblocking(false)?;
        Ok(socket)
    }
}

impl HalfOpen {
    /// Reads the bytes that have arrived. Returns whether the greeting is complete or the connection has ended.
    fn is_over(&mut self) -> bool {
        while let Some(rest @ [_, ..]) = self.read.get_mut(self.filled..) {
            match self.socket.read(rest) {
                Ok(0) => return true,
                Ok(count) => self.filled += count,
                Err(error) => match error.kind() {
                    io::ErrorKind::WouldBlock => return false,
                    io::ErrorKind::Interrupted => {}
                    _ => return true,
                },
            }
        }
        true
    }
}

/// Closes the oldest connection of the source with the most connections.
fn displace(waiting: &mut Vec<HalfOpen>) {
    let mut counts = HashMap::new();
    for half in waiting.iter() {
        *counts.entry(half.source).or_insert(0) += 1;
    }
    let most = counts.values().max();
    if let Some(at) = waiting.iter().position(|half| counts.get(&half.source) == most) {
        waiting.remove(at);
    }
}

/// Returns the part of an address that one computer cannot choose freely.
fn network_of(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(_) if address.is_loopback() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V4(_) => address,
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() >> 64 << 64).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_are_networks() {
        let networks =
            ["127.0.0.1", "127.9.8.7", "10.0.0.1", "10.0.0.2", "2001:db8::1", "2001:db8::2:0:0:1", "2001:db8:0:1::1"]
                .map(|address| network_of(address.parse().unwrap()).to_string());
        assert_eq!(
            networks,
            ["127.0.0.1", "127.0.0.1", "10.0.0.1", "10.0.0.2", "2001:db8::", "2001:db8::", "2001:db8:0:1::"]
        );
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn largest_source_loses_its_oldest_connection() {
        let half = |source: Option<IpAddr>, filled| {
            let socket = Socket::Unix(std::os::unix::net::UnixStream::pair().unwrap().0);
            HalfOpen { socket, source, read: [0; GREETING], filled }
        };
        let near = Some(Ipv4Addr::LOCALHOST.into());
        let mut waiting = vec![half(None, 0), half(near, 1), half(near, 2), half(None, 3), half(near, 4)];
        let mut left = Vec::new();
        while !waiting.is_empty() {
            displace(&mut waiting);
            left.push(waiting.iter().map(|half| half.filled).collect::<Vec<_>>());
        }
        assert_eq!(left, [vec![0, 2, 3, 4], vec![2, 3, 4], vec![3, 4], vec![4], vec![]]);
    }
}

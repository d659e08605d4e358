//! The address of a process: its machine, its sockets, and a secret that only its peers know.

use std::fmt;
use std::net::SocketAddr;

use crate::Error;
use crate::socket::random;

/// Number of bytes of a secret.
pub(crate) const SECRET: usize = 16;

/// The location and the secret that the other processes need to connect to a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Address {
    /// Boot ID of the machine's operating system. Empty if it is unknown.
    pub(crate) machine: String,
    pub(crate) socket: SocketAddr,
    /// Name of the abstract Unix socket. Empty if there is none.
    pub(crate) unix_name: String,
    /// Secret of the process. The process closes connections that do not present the secret.
    pub(crate) secret: [u8; SECRET],
}

impl Address {
    /// Creates an address with a new secret.
    pub(crate) fn new(socket: SocketAddr, unix_name: &str) -> Result<Self, Error> {
        Ok(Self { machine: machine(), socket, unix_name: unix_name.to_owned(), secret: random()? })
    }

    /// Parses the address of the process with this rank.
    pub(crate) fn parse(text: &str, rank: usize) -> Result<Self, Error> {
        // The text may contain a secret, so the message does not.
        let fault = || Error::Invalid(format!("the address of process {rank} is not one of this transport"));
        let mut parts = text.strip_prefix("local2 ").ok_or_else(fault)?.split(' ');
        let (Some(machine), Some(socket), Some(unix_name), Some(secret), None) =
            (parts.next(), parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err(fault());
        };
        let number = u128::from_str_radix(secret, 16).ok().filter(|_| secret.len() == 2 * SECRET);
        Ok(Self {
            machine: machine.to_owned(),
            socket: socket.parse().map_err(|_| fault())?,
            unix_name: unix_name.to_owned(),
            secret: number.ok_or_else(fault)?.to_be_bytes(),
        })
    }

    /// Returns whether two processes can connect to each other. Processes on different machines cannot connect if one
    /// of them listens on the loopback interface.
    pub(crate) fn can_reach(&self, other: &Self) -> bool {
        let is_loopback = self.socket.ip().is_loopback() || other.socket.ip().is_loopback();
        !is_loopback || self.machine == other.machine
    }

    /// Returns whether both processes are known to run on the same machine.
    pub(crate) fn shares_machine(&self, other: &Self) -> bool {
        !self.machine.is_empty() && self.machine == other.machine
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let secret = u128::from_be_bytes(self.secret);
        write!(f, "local2 {} {} {} {secret:032x}", self.machine, self.socket, self.unix_name)
    }
}

/// Returns the system's boot ID, which differs between machines, or an empty string if it is unknown.
fn machine() -> String {
    let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    id.trim().chars().filter(|c| c.is_ascii_alphanumeric() || *c == '-').collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trips() {
        for unix_name in ["", "name"] {
            let address = Address::new("127.0.0.1:80".parse().unwrap(), unix_name).unwrap();
            assert_eq!(Address::parse(&address.to_string(), 0), Ok(address));
        }
    }

    #[test]
    fn rejects_other_text() {
        for text in
            ["", "local2 m 127.0.0.1:1 n 00", "local2 m here n 00112233445566778899aabbccddeeff", "local1 a b c d"]
        {
            let Err(Error::Invalid(message)) = Address::parse(text, 3) else { panic!("{text}") };
            assert_eq!(message, "the address of process 3 is not one of this transport");
        }
    }

    #[test]
    fn loopback_stays_on_one_machine() {
        let at = |machine: &str, socket: &str| Address {
            machine: machine.to_owned(),
            socket: socket.parse().unwrap(),
            unix_name: String::new(),
            secret: [0; SECRET],
        };
        let here = at("a", "127.0.0.1:1");
        assert!(here.can_reach(&at("a", "127.0.0.1:2")));
        assert!(!here.can_reach(&at("b", "127.0.0.1:2")));
        assert!(!here.can_reach(&at("b", "10.0.0.2:2")), "the other one cannot answer");
        assert!(at("a", "10.0.0.1:1").can_reach(&at("b", "10.0.0.2:2")));
    }
}

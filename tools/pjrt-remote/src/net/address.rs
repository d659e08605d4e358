//! The address of a server.

use std::fmt;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// The address of a server: `unix:PATH` or `HOST:PORT`.
///
/// ```
/// use pjrt_remote::Address;
///
/// assert_eq!("unix:/run/user/1000/pjrt/socket".parse(), Ok(Address::Unix("/run/user/1000/pjrt/socket".into())));
/// assert_eq!("localhost:7000".parse(), Ok(Address::Tcp("localhost:7000".into())));
/// assert!("localhost".parse::<Address>().is_err());
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Address {
    /// The path of a Unix socket.
    Unix(PathBuf),
    /// A host and a TCP port, such as `127.0.0.1:7000` or `[::1]:7000`.
    Tcp(String),
}

impl FromStr for Address {
    type Err = String;

    /// Parses an address.
    ///
    /// # Errors
    ///
    /// Returns a message if the text has neither form.
    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(path) = text.strip_prefix("unix:") {
            return match path {
                "" => Err(format!("the address {text:?} has no path; write unix:PATH")),
                path => Ok(Self::Unix(path.into())),
            };
        }
        match text.rsplit_once(':') {
            Some((host, port)) if !host.is_empty() && port.parse::<u16>().is_ok() => Ok(Self::Tcp(text.to_owned())),
            _ => Err(format!("the address {text:?} is not valid; write unix:PATH or HOST:PORT")),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
            Self::Tcp(address) => f.write_str(address),
        }
    }
}

/// Returns the socket addresses of a host and port, all of which are on the loopback interface.
///
/// # Errors
///
/// Returns a message if the name cannot be resolved, or if an address is beyond the loopback interface.
pub(crate) fn loopback(address: &str) -> Result<Vec<SocketAddr>, String> {
    let resolved = address.to_socket_addrs().map_err(|error| format!("cannot resolve {address}: {error}"))?;
    let resolved: Vec<_> = resolved.collect();
    let is_loopback = |ip: IpAddr| ip.to_canonical().is_loopback();
    match resolved.iter().find(|address| !is_loopback(address.ip())) {
        Some(beyond) => Err(format!(
            "{beyond} is beyond the loopback interface, and this version does not encrypt connections; use 127.0.0.1 \
             and forward the port through SSH (`ssh -L`)"
        )),
        None if resolved.is_empty() => Err(format!("{address} has no address")),
        None => Ok(resolved),
    }
}

/// Returns the folder of a file.
pub(crate) fn folder_of(path: &Path) -> std::io::Result<PathBuf> {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => Ok(folder.to_owned()),
        _ => std::env::current_dir(),
    }
}

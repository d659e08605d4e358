//! The address of a server.

use std::fmt;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// The address of a server: `unix:PATH`, `HOST:PORT` or `tls://HOST:PORT?fingerprint=HEX`.
///
/// ```
/// use pjrt_remote::Address;
///
/// assert_eq!("unix:/run/user/1000/pjrt/socket".parse(), Ok(Address::Unix("/run/user/1000/pjrt/socket".into())));
/// assert_eq!("localhost:7000".parse(), Ok(Address::Tcp("localhost:7000".into())));
/// assert!("localhost".parse::<Address>().is_err());
/// let tls = format!("tls://example.org:7000?fingerprint={}", "0f".repeat(32));
/// assert_eq!(tls.parse::<Address>().unwrap().to_string(), tls);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Address {
    /// The path of a Unix socket.
    Unix(PathBuf),
    /// A host and a TCP port, such as `127.0.0.1:7000` or `[::1]:7000`.
    Tcp(String),
    /// A host and a TCP port with TLS, and the fingerprint of the server's certificate.
    Tls(String, Fingerprint),
}

/// The SHA-256 of a certificate. Its text form is hexadecimal.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Fingerprint(pub(crate) [u8; 32]);

impl FromStr for Fingerprint {
    type Err = String;

    /// Parses 64 hexadecimal digits, with or without colons between the bytes.
    ///
    /// # Errors
    ///
    /// Returns a message if the text has another form.
    fn from_str(text: &str) -> Result<Self, String> {
        let invalid = || format!("the fingerprint {text:?} is not 64 hexadecimal digits");
        let digits: Vec<u8> = text.bytes().filter(|byte| *byte != b':').collect();
        let mut bytes = [0; 32];
        if digits.len() != 2 * bytes.len() {
            return Err(invalid());
        }
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks(2)) {
            let pair = std::str::from_utf8(pair).map_err(|_| invalid())?;
            *byte = u8::from_str_radix(pair, 16).map_err(|_| invalid())?;
        }
        Ok(Self(bytes))
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl FromStr for Address {
    type Err = String;

    /// Parses an address.
    ///
    /// # Errors
    ///
    /// Returns a message if the text has none of these forms.
    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(path) = text.strip_prefix("unix:") {
            return match path {
                "" => Err(format!("the address {text:?} has no path; write unix:PATH")),
                path => Ok(Self::Unix(path.into())),
            };
        }
        let port = |text: &str| match text.rsplit_once(':') {
            Some((host, port)) if !host.is_empty() && port.parse::<u16>().is_ok() => Ok(text.to_owned()),
            _ => Err(format!(
                "the address {text:?} is not valid; write unix:PATH, HOST:PORT or tls://HOST:PORT?fingerprint=HEX"
            )),
        };
        match text.strip_prefix("tls://") {
            None => port(text).map(Self::Tcp),
            Some(rest) => match rest.split_once("?fingerprint=") {
                Some((name, fingerprint)) => Ok(Self::Tls(port(name)?, fingerprint.parse()?)),
                None => Err(format!(
                    "the address {text:?} has no fingerprint; use the address that `pjrt serve` prints, \
                     tls://HOST:PORT?fingerprint=HEX"
                )),
            },
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
            Self::Tcp(address) => f.write_str(address),
            Self::Tls(address, fingerprint) => write!(f, "tls://{address}?fingerprint={fingerprint}"),
        }
    }
}

/// Returns the socket addresses of a host and port.
///
/// # Errors
///
/// Returns a message if the name cannot be resolved.
pub(crate) fn resolve(address: &str) -> Result<Vec<SocketAddr>, String> {
    let resolved = address.to_socket_addrs().map_err(|error| format!("cannot resolve {address}: {error}"))?;
    let resolved: Vec<_> = resolved.collect();
    if resolved.is_empty() { Err(format!("{address} has no address")) } else { Ok(resolved) }
}

/// Returns the socket addresses of a host and port, all of which are on the loopback interface.
///
/// # Errors
///
/// Returns a message if the name cannot be resolved, or if an address is beyond the loopback interface.
pub(crate) fn loopback(address: &str) -> Result<Vec<SocketAddr>, String> {
    let resolved = resolve(address)?;
    match resolved.iter().find(|address| !address.ip().to_canonical().is_loopback()) {
        Some(beyond) => Err(format!(
            "{beyond} is beyond the loopback interface, and the connection would not be encrypted; start the server with \
             --tls-cert and --tls-key, or use 127.0.0.1 and forward the port through SSH (`ssh -L`)"
        )),
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

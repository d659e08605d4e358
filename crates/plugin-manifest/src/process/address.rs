//! Addresses of hosts, such as the address of the coordinator.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::{Fault, Faults};

/// A host name or IP address, with an optional port.
///
/// The text form is `host`, `host:port`, `[v6]` or `[v6]:port`. A bare IPv6 address such as `fe80::1` is a host without
/// a port.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Address {
    host: String,
    port: Option<u16>,
}

impl Address {
    /// Creates the address of a host, with the port if it is known.
    ///
    /// # Errors
    ///
    /// Returns an error if the host is empty or contains invalid characters, or if the port is 0.
    pub fn new(host: impl Into<String>, port: Option<u16>) -> Result<Self, Faults> {
        let mut host = host.into();
        if let Some(bare) = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            host = bare.to_owned();
        }
        let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | ':' | '%');
        if host.is_empty() || !host.chars().all(fits) {
            return Err(fault(format!(
                "{host:?} is not a valid host; write a name such as node01, or an address such as 10.0.0.1 or [fe80::1]"
            )));
        }
        if port == Some(0) {
            return Err(fault(format!("port 0 of {host} is not valid; write a port from 1 to 65535")));
        }
        Ok(Self { host, port })
    }

    /// Returns the host. An IPv6 address has no brackets.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Returns the port, if it is known.
    pub(super) fn port(&self) -> Option<u16> {
        self.port
    }

    /// Returns the address with this port, unless the address already has a port.
    #[must_use]
    pub(crate) fn or_port(mut self, port: u16) -> Self {
        self.port = self.port.or(Some(port));
        self
    }

    /// Returns the address with this port, which replaces any earlier port.
    #[must_use]
    pub(crate) fn with_port(mut self, port: u16) -> Self {
        self.port = Some(port);
        self
    }

    /// Returns the host in the form that can precede a port. An IPv6 address gets brackets.
    pub(crate) fn url_host(&self) -> String {
        if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() }
    }
}

fn fault(message: String) -> Faults {
    Fault::new("address", message).into()
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.url_host())?;
        match self.port {
            Some(port) => write!(f, ":{port}"),
            None => Ok(()),
        }
    }
}

impl FromStr for Address {
    type Err = Faults;

    fn from_str(text: &str) -> Result<Self, Faults> {
        let text = text.trim();
        let (host, port) = if let Some(rest) = text.strip_prefix('[') {
            let (host, after) = rest.split_once(']').ok_or_else(|| {
                fault(format!("{text:?} lacks its closing bracket; write an address such as [fe80::1]:1234"))
            })?;
            match after.strip_prefix(':') {
                Some(port) => (host, Some(port)),
                None if after.is_empty() => (host, None),
                None => {
                    let message = format!(
                        "{after:?} follows the closing bracket in {text:?}; write an address such as [fe80::1]:1234"
                    );
                    return Err(fault(message));
                }
            }
        } else if text.matches(':').count() > 1 {
            (text, None)
        } else {
            text.split_once(':').map_or((text, None), |(host, port)| (host, Some(port)))
        };
        let port = port.map(|port| {
            port.parse::<u16>().ok().filter(|port| *port > 0).ok_or_else(|| {
                fault(format!("{port:?} is not a valid port; write host:port with a port from 1 to 65535"))
            })
        });
        Self::new(host, port.transpose()?)
    }
}

impl TryFrom<String> for Address {
    type Error = Faults;

    fn try_from(text: String) -> Result<Self, Faults> {
        text.parse()
    }
}

impl From<Address> for String {
    fn from(address: Address) -> Self {
        address.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_round_trip() {
        for (text, host, port, shown) in [
            ("node01", "node01", None, "node01"),
            ("node01:1234", "node01", Some(1234), "node01:1234"),
            (" 10.0.0.1:1 ", "10.0.0.1", Some(1), "10.0.0.1:1"),
            ("fe80::1", "fe80::1", None, "[fe80::1]"),
            ("[fe80::1]", "fe80::1", None, "[fe80::1]"),
            ("[fe80::1]:8547", "fe80::1", Some(8547), "[fe80::1]:8547"),
        ] {
            let address: Address = text.parse().unwrap();
            assert_eq!((address.host(), address.port()), (host, port), "{text}");
            assert_eq!(address.to_string(), shown);
            assert_eq!(shown.parse::<Address>().unwrap(), address);
        }
        for text in ["", ":1", "a:", "a:0", "a:65536", "a:x", "[fe80::1", "[fe80::1]1", "a b", "a/b:1"] {
            assert!(text.parse::<Address>().is_err(), "{text:?}");
        }
    }
}

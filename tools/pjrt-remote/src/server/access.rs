//! What clients of a TCP port need, and how their connections are encrypted.

#[cfg(feature = "tls")]
use crate::net::tls::Identity;
use crate::server::token::Token;

/// The secret that clients need, and the certificate of the server.
#[derive(Clone, Debug, Default)]
pub struct Access {
    pub(crate) token: Option<Token>,
    #[cfg(feature = "tls")]
    pub(crate) identity: Option<Identity>,
}

impl From<Option<Token>> for Access {
    fn from(token: Option<Token>) -> Self {
        Self {
            token,
            #[cfg(feature = "tls")]
            identity: None,
        }
    }
}

#[cfg(feature = "tls")]
impl Access {
    /// Encrypts the connections of TCP ports. Only such ports may be beyond the loopback interface.
    #[must_use]
    pub fn with_identity(mut self, identity: Identity) -> Self {
        self.identity = Some(identity);
        self
    }
}

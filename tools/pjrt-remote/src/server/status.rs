//! The list of a server's clients.

use std::time::Duration;

use crate::net::address::Address;
use crate::net::greeting;
use crate::net::stream::Stream;
use crate::server::token::Token;
use crate::wire::messages as wire;

/// A client of a server, and what it holds.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ClientStatus {
    /// Name of the client's program, as the client reports it.
    pub program: String,
    /// Process id of the client, as the client reports it.
    pub process: u32,
    /// Time since the client connected.
    pub connected: Duration,
    /// Number of buffers and executables.
    pub objects: u64,
    /// Total size of the buffers in bytes, as the sizes of their shapes on the host.
    pub bytes: u64,
}

impl ClientStatus {
    /// Asks the server at an address for its clients.
    ///
    /// # Errors
    ///
    /// Returns a message if no server answers, or if the server needs another token.
    pub fn list(address: &Address, token: Option<&Token>) -> Result<Vec<Self>, String> {
        let mut stream = Stream::connect(address)?;
        let hello = wire::Hello { is_status: true, ..greeting::hello(token.map(Token::bytes).unwrap_or_default()) };
        let greeted = greeting::greet(&mut stream, &hello, &[]);
        let (_, welcome) = greeted.map_err(|broken| format!("{address} did not answer: {broken}"))?;
        if let Some(refusal) = welcome.refusal {
            return Err(format!("the server {address} refused the connection: {}", refusal.message));
        }
        let status = |client: wire::ClientStatus| Self {
            program: client.program,
            process: client.process,
            connected: Duration::from_millis(client.connected_ms),
            objects: client.objects,
            bytes: client.bytes,
        };
        Ok(welcome.clients.into_iter().map(status).collect())
    }
}

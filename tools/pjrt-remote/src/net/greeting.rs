//! The first messages, on the side that connects.

use std::sync::Arc;
use std::time::Duration;

use crate::net::stream::{Descriptor, Receiving, Stream};
use crate::wire::frame::{self, Broken, Incoming, Spare};
use crate::wire::messages::{self as wire, Hello, Welcome};

/// Time in which a server must send its first message. A server that starts its plugin again answers late.
const HANDSHAKE: Duration = Duration::from_secs(30);
/// Maximum length of the program's name in the first message, in bytes.
const MAX_NAME: usize = 256;

/// Maximum size of the memory that a client keeps for the next payloads.
const SPARE: usize = 64 << 20;

/// Returns the first message of this process.
pub(crate) fn hello(token: &[u8]) -> Hello {
    let program = std::env::current_exe().ok();
    let program = program.as_ref().and_then(|path| path.file_name()?.to_str()).unwrap_or_default();
    Hello {
        magic: wire::MAGIC.to_owned(),
        oldest: wire::OLDEST,
        newest: wire::NEWEST,
        token: token.to_owned(),
        program: program.get(..program.floor_char_boundary(MAX_NAME)).unwrap_or_default().to_owned(),
        process: std::process::id(),
        ..Hello::default()
    }
}

/// Sends the first message with descriptors, and returns the answer.
pub(crate) fn greet(
    stream: &mut Stream,
    hello: &Hello,
    descriptors: &[Descriptor],
) -> Result<(Incoming<Receiving>, Welcome), Broken> {
    let mut bytes = Vec::new();
    frame::append(hello, &mut bytes);
    // A server that refuses the connection may have closed it, but its answer can still be read.
    let sent = stream.write_with(&bytes, descriptors);
    let (receiving, spare) = (Receiving::within(stream.try_clone()?, HANDSHAKE), Arc::new(Spare::new(SPARE)));
    let mut incoming = Incoming::new(receiving, frame::MAX_REPLY, spare);
    let welcome = match (incoming.next(), sent) {
        (Err(_), Err(error)) => return Err(error.into()),
        (received, _) => received?,
    };
    incoming.after_first(frame::MAX_REPLY).wait_forever()?;
    Ok((incoming, welcome))
}

//! Large arrays, on the side that sends them.

use std::io;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use prost::Message;

use crate::net::outbox::Outbox;
use crate::net::stream::Descriptor;
use crate::shared::limits::LARGE;
use crate::shared::ring::Sender;

/// Sends large arrays in shared memory.
pub(crate) struct Outgoing {
    /// Whether both sides share memory.
    shares_memory: bool,
    /// Maximum time to wait for the other side.
    patience: Option<Duration>,
    /// The ring, after the first large array. Locked until the bytes are in the ring, so that they have the order of
    /// their messages.
    ring: Mutex<Option<Sender>>,
}

impl Outgoing {
    pub(crate) fn new(shares_memory: bool, patience: Option<Duration>) -> Self {
        Self { shares_memory, patience, ring: Mutex::default() }
    }

    /// Writes a message, and passes the bytes through the ring if they are many. Calls `message` with whether the ring
    /// is new. Returns `false`, and writes nothing, if the bytes must follow their message.
    pub(crate) fn send<M: Message>(&self, outbox: &Outbox, bytes: &[u8], message: impl FnOnce(bool) -> M) -> bool {
        if !self.shares_memory || bytes.len() < LARGE {
            return false;
        }
        let mut ring = self.ring.lock().unwrap_or_else(PoisonError::into_inner);
        let ring = match &mut *ring {
            Some(ring) => {
                outbox.write(&message(false), &[]);
                ring
            }
            none => match self.create(outbox) {
                Ok((new, descriptors)) => {
                    outbox.write_with(&message(true), &descriptors, &[]);
                    none.insert(new)
                }
                Err(error) => {
                    tracing::debug!(%error, "cannot create a ring of shared memory");
                    return false;
                }
            },
        };
        if let Err(error) = ring.send(bytes) {
            tracing::debug!(%error, "the other side did not receive an array");
            outbox.close();
        }
        true
    }

    /// Creates the ring, which ends with the connection. Also returns the descriptors for the other side.
    fn create(&self, outbox: &Outbox) -> io::Result<(Sender, [Descriptor; 2])> {
        let (ring, descriptors) = Sender::create(self.patience)?;
        outbox.closer().add(ring.signals()?);
        Ok((ring, descriptors))
    }
}

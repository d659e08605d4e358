//! Arrays, on the side that receives them.

use crate::net::closer::Closer;
use crate::net::stream::Receiving;
use crate::shared::ring::Receiver;
use crate::wire::frame::{Broken, Incoming};

/// Receives arrays, which follow their messages or come through a ring.
#[derive(Default)]
pub(crate) struct Arriving {
    ring: Option<Receiver>,
}

impl Arriving {
    /// Opens the ring whose descriptors came with a message. It ends with the connection.
    pub(crate) fn open(&mut self, incoming: &mut Incoming<Receiving>, closer: &Closer) -> Result<(), Broken> {
        let invalid = |reason: &str| Broken::Protocol(format!("the ring of shared memory {reason}"));
        if self.ring.is_some() {
            return Err(invalid("is the second one of the other side"));
        }
        let mut take = || incoming.source().take_descriptor().ok_or_else(|| invalid("came without a descriptor"));
        let (memory, signals) = (take()?, take()?);
        let ring = Receiver::open(&memory, signals).map_err(|error| invalid(&format!("cannot be used: {error}")))?;
        closer.add(ring.signals()?);
        self.ring = Some(ring);
        Ok(())
    }

    fn ring(&mut self, in_ring: bool) -> Result<Option<&mut Receiver>, Broken> {
        match (&mut self.ring, in_ring) {
            (Some(ring), true) => Ok(Some(ring)),
            (None, true) => Err(Broken::Protocol("the other side uses a ring that it has not opened".to_owned())),
            (_, false) => Ok(None),
        }
    }

    /// Receives an array.
    pub(crate) fn receive(
        &mut self,
        incoming: &mut Incoming<Receiving>,
        in_ring: bool,
        to: &mut [u8],
    ) -> Result<(), Broken> {
        match self.ring(in_ring)? {
            Some(ring) => Ok(ring.receive(to)?),
            None => incoming.payload_into(to),
        }
    }

    /// Drops an array of `len` bytes.
    pub(crate) fn skip(&mut self, incoming: &mut Incoming<Receiving>, in_ring: bool, len: u64) -> Result<(), Broken> {
        match self.ring(in_ring)? {
            Some(ring) => Ok(ring.skip(len)?),
            None => incoming.skip(len),
        }
    }
}

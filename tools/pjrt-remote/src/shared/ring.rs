//! A ring of shared memory, through which a server sends the contents of buffers.
//!
//! The server copies a part of the bytes to a slot of the ring and sends a byte over a socket of its own. The client
//! copies the part to its destination and sends the byte back. Both copy at the same time, and the ring fits into the
//! cache of the processor.

use std::io::{self, Read, Write};
use std::time::Duration;

use crate::net::stream::{Descriptor, Stream};
use crate::shared::memory::{Readable, Writable};

/// Size of a slot, and number of slots.
const SLOT: usize = 512 << 10;
const SLOTS: usize = 4;
const SIZE: usize = SLOT * SLOTS;

/// The server's side of a ring.
pub(crate) struct Sender {
    memory: Writable,
    signals: Stream,
}

impl Sender {
    /// Creates a ring. Also returns the descriptors for the client. A wait for the client fails after `patience`.
    pub(crate) fn create(patience: Duration) -> io::Result<(Self, [Descriptor; 2])> {
        let (memory, file) = Writable::create(SIZE)?;
        let (signals, theirs) = Stream::pair()?;
        signals.set_read_timeout(Some(patience))?;
        signals.set_write_timeout(Some(patience))?;
        Ok((Self { memory, signals }, [file, theirs]))
    }

    /// Sends bytes, and waits until the client has copied them.
    pub(crate) fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut signal = [0];
        let mut in_flight = 0;
        for (index, part) in bytes.chunks(SLOT).enumerate() {
            if in_flight == SLOTS {
                self.signals.read_exact(&mut signal)?;
                in_flight -= 1;
            }
            self.memory.write(index % SLOTS * SLOT, part);
            self.signals.write_all(&signal)?;
            in_flight += 1;
        }
        for _ in 0..in_flight {
            self.signals.read_exact(&mut signal)?;
        }
        Ok(())
    }
}

/// The client's side of a ring.
pub(crate) struct Receiver {
    memory: Readable,
    signals: Stream,
}

impl Receiver {
    /// Opens a ring with the descriptors that a server sent.
    pub(crate) fn open(memory: &Descriptor, signals: Descriptor) -> io::Result<Self> {
        Ok(Self { memory: Readable::open(memory, SIZE)?, signals: Stream::from_descriptor(signals)? })
    }

    /// Returns another handle of the socket, to end a wait of [`Self::receive`].
    pub(crate) fn signals(&self) -> io::Result<Stream> {
        self.signals.try_clone()
    }

    /// Receives `to.len()` bytes.
    pub(crate) fn receive(&mut self, to: &mut [u8]) -> io::Result<()> {
        let mut signal = [0];
        for (index, part) in to.chunks_mut(SLOT).enumerate() {
            self.signals.read_exact(&mut signal)?;
            let start = index % SLOTS * SLOT;
            part.copy_from_slice(self.memory.bytes().get(start..start + part.len()).unwrap_or_default());
            self.signals.write_all(&signal)?;
        }
        Ok(())
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn arrays_pass_one_after_the_other() {
        let (mut sender, [memory, signals]) = Sender::create(Duration::from_secs(10)).unwrap();
        let mut receiver = Receiver::open(&memory, signals).unwrap();
        let data: Vec<u8> = (0..=250).cycle().take(SIZE * 2 + 12345).collect();
        std::thread::scope(|scope| {
            scope.spawn(|| [data.len(), 0, 1, SLOT].into_iter().for_each(|len| sender.send(&data[..len]).unwrap()));
            for len in [data.len(), 0, 1, SLOT] {
                let mut to = vec![0; len];
                receiver.receive(&mut to).unwrap();
                assert!(to == data[..len], "{len} bytes");
            }
        });
    }

    #[test]
    fn absent_client_is_an_error() {
        let (mut sender, descriptors) = Sender::create(Duration::from_millis(10)).unwrap();
        assert!(sender.send(&[1; SLOT]).is_err());
        drop(descriptors);
        assert!(sender.send(&[1; SLOT]).is_err());
    }
}

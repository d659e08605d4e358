//! A ring of shared memory, through which large arrays pass.
//!
//! The sender copies a part of the bytes to a slot of the ring and sends a byte over a socket of its own. The receiver
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

/// The side of a ring that sends.
pub(crate) struct Sender {
    memory: Writable,
    signals: Stream,
    /// The slot for the next part.
    next: usize,
    /// Number of slots that the other side has not read.
    in_flight: usize,
}

impl Sender {
    /// Creates a ring. Also returns the descriptors for the other side. A wait for the other side fails after
    /// `patience`.
    pub(crate) fn create(patience: Option<Duration>) -> io::Result<(Self, [Descriptor; 2])> {
        let (memory, file) = Writable::create(SIZE)?;
        let (signals, theirs) = Stream::pair()?;
        signals.set_read_timeout(patience)?;
        signals.set_write_timeout(patience)?;
        Ok((Self { memory, signals, next: 0, in_flight: 0 }, [file, theirs]))
    }

    /// Returns another handle of the socket, to end a wait of [`Self::send`].
    pub(crate) fn signals(&self) -> io::Result<Stream> {
        self.signals.try_clone()
    }

    /// Sends bytes. The last ones may still be in the ring afterwards.
    pub(crate) fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut signal = [0];
        for part in bytes.chunks(SLOT) {
            if self.in_flight == SLOTS {
                self.signals.read_exact(&mut signal)?;
                self.in_flight -= 1;
            }
            self.memory.write(self.next * SLOT, part);
            self.next = (self.next + 1) % SLOTS;
            self.signals.write_all(&signal)?;
            self.in_flight += 1;
        }
        Ok(())
    }
}

/// The side of a ring that receives.
pub(crate) struct Receiver {
    memory: Readable,
    signals: Stream,
    /// The slot with the next part.
    next: usize,
}

impl Receiver {
    /// Opens a ring with the descriptors that the other side sent.
    pub(crate) fn open(memory: &Descriptor, signals: Descriptor) -> io::Result<Self> {
        Ok(Self { memory: Readable::open(memory, SIZE)?, signals: Stream::from_descriptor(signals)?, next: 0 })
    }

    /// Returns another handle of the socket, to end a wait of [`Self::receive`].
    pub(crate) fn signals(&self) -> io::Result<Stream> {
        self.signals.try_clone()
    }

    /// Receives `to.len()` bytes.
    pub(crate) fn receive(&mut self, to: &mut [u8]) -> io::Result<()> {
        to.chunks_mut(SLOT).try_for_each(|part| self.take(part))
    }

    /// Receives `len` bytes, and drops them.
    pub(crate) fn skip(&mut self, len: u64) -> io::Result<()> {
        (0..len.div_ceil(SLOT as u64)).try_for_each(|_| self.take(&mut []))
    }

    /// Waits for the next slot, copies its first bytes, and gives it back.
    fn take(&mut self, to: &mut [u8]) -> io::Result<()> {
        let mut signal = [0];
        self.signals.read_exact(&mut signal)?;
        self.memory.copy_to(self.next * SLOT, to);
        self.next = (self.next + 1) % SLOTS;
        self.signals.write_all(&signal)
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn arrays_pass_one_after_the_other() {
        let (mut sender, [memory, signals]) = Sender::create(Some(Duration::from_secs(10))).unwrap();
        let mut receiver = Receiver::open(&memory, signals).unwrap();
        let data: Vec<u8> = (0..=250).cycle().take(SIZE * 2 + 12345).collect();
        let lengths = [data.len(), 0, 1, SLOT, SIZE, data.len() - SLOT];
        std::thread::scope(|scope| {
            scope.spawn(|| lengths.into_iter().for_each(|len| sender.send(&data[..len]).unwrap()));
            for (index, len) in lengths.into_iter().enumerate() {
                if index == 4 {
                    receiver.skip(len as u64).unwrap();
                    continue;
                }
                let mut to = vec![0; len];
                receiver.receive(&mut to).unwrap();
                assert!(to == data[..len], "{len} bytes");
            }
        });
    }

    #[test]
    fn absent_receiver_is_an_error() {
        let (mut sender, descriptors) = Sender::create(Some(Duration::from_millis(10))).unwrap();
        sender.send(&[1; SIZE]).unwrap();
        assert!(sender.send(&[1]).is_err());
        drop(descriptors);
        assert!(sender.send(&[1]).is_err());
    }
}

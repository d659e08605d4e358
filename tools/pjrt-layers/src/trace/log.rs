//! A ring buffer with the records of one thread. Only this thread writes to the buffer.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use super::tally::Counters;
use crate::core::thread_id;

/// Maximum number of arguments that a record contains. A call with more arguments is recorded without the others.
pub(super) const ARGS: usize = 6;
const WORDS: usize = ARGS + 2;
/// Number of records in one block of memory. A block is allocated when the thread writes its first record to the block.
const BLOCK: usize = 1024;
/// The value of [`Record::id`] for an event that became ready.
pub(super) const READY: u16 = 0x7fff;
/// The value of [`Record::id`] for a record that contains handles of a run's outputs and events. The record has the
/// same start time as the run.
pub(super) const RUN: u16 = 0x7ffe;

/// Record of a call, of an event that became ready, or of a run's outputs and events. Times are in ticks of the clock.
#[derive(Clone, Copy, Debug)]
pub(super) struct Record {
    pub(super) start: u64,
    pub(super) duration: u64,
    /// The index of the function in `FUNCTIONS`, or `READY` or `RUN`.
    pub(super) id: u16,
    pub(super) failed: bool,
    pub(super) args: [u64; ARGS],
}

impl Record {
    #[inline]
    fn pack(&self) -> [u64; WORDS] {
        let mut words = [0; WORDS];
        words[0] = self.start;
        words[1] = self.duration << 16 | u64::from(self.id) << 1 | u64::from(self.failed);
        words[2..].copy_from_slice(&self.args);
        words
    }

    fn unpack(words: [u64; WORDS]) -> Self {
        let mut args = [0; ARGS];
        args.copy_from_slice(&words[2..]);
        let id = u16::try_from(words[1] >> 1 & 0x7fff).unwrap_or(READY);
        Self { start: words[0], duration: words[1] >> 16, id, failed: words[1] & 1 != 0, args }
    }
}

/// The records of one thread. Only this thread writes the records, and other threads read them for reports. If the
/// thread overwrites a record while another thread reads it, the report may contain a mixture of the old and the new
/// record.
#[derive(Debug)]
pub(super) struct Log {
    pub(super) thread: u64,
    pub(super) name: String,
    pub(super) counters: Counters,
    blocks: Box<[OnceLock<Box<[AtomicU64]>>]>,
    /// Number of records that the thread has written, including overwritten ones.
    written: AtomicU64,
}

impl Log {
    /// Creates the log of this thread, which keeps at least the newest `capacity` records.
    pub(super) fn new(capacity: usize) -> Self {
        // The number of blocks is a power of two, so that a bit mask computes the index of a record.
        let blocks = capacity.div_ceil(BLOCK).next_power_of_two();
        Self {
            thread: thread_id(),
            name: std::thread::current().name().unwrap_or_default().to_owned(),
            counters: Counters::new(),
            blocks: (0..blocks).map(|_| OnceLock::new()).collect(),
            written: AtomicU64::new(0),
        }
    }

    #[inline]
    pub(super) fn push(&self, record: &Record) {
        let number = self.written.load(Ordering::Relaxed);
        let at = self.place(number);
        let block = self.blocks[at / BLOCK].get_or_init(|| (0..BLOCK * WORDS).map(|_| AtomicU64::new(0)).collect());
        let from = at % BLOCK * WORDS;
        for (place, word) in block[from..from + WORDS].iter().zip(record.pack()) {
            place.store(word, Ordering::Relaxed);
        }
        self.written.store(number + 1, Ordering::Release);
    }

    /// Returns the index in the ring of the record with this number.
    #[inline]
    fn place(&self, number: u64) -> usize {
        usize::try_from(number).unwrap_or(0) & (self.blocks.len() * BLOCK - 1)
    }

    /// Returns the newest records in the order in which the thread wrote them, and the number of older records that
    /// were overwritten.
    pub(super) fn records(&self) -> (Vec<Record>, u64) {
        let written = self.written.load(Ordering::Acquire);
        let lost = written.saturating_sub((self.blocks.len() * BLOCK) as u64);
        let mut records = Vec::new();
        for number in lost..written {
            let at = self.place(number);
            let Some(block) = self.blocks[at / BLOCK].get() else { continue };
            let mut words = [0; WORDS];
            for (word, place) in words.iter_mut().zip(&block[at % BLOCK * WORDS..]) {
                *word = place.load(Ordering::Relaxed);
            }
            records.push(Record::unpack(words));
        }
        (records, lost)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(start: u64) -> Record {
        Record { start, duration: 7, id: 5, failed: start % 2 == 1, args: [1, 2, 3, 4, 5, start] }
    }

    #[test]
    fn full_ring_keeps_newest() {
        let log = Log::new(BLOCK);
        for start in 0..BLOCK as u64 + 10 {
            log.push(&record(start));
        }
        let (records, lost) = log.records();
        assert_eq!((records.len(), lost), (BLOCK, 10));
        let (first, last) = (records[0], records[BLOCK - 1]);
        assert_eq!((first.start, first.failed, last.start, last.failed), (10, false, BLOCK as u64 + 9, true));
        assert_eq!((last.duration, last.id, last.args[5]), (7, 5, last.start));
    }
}

//! Reads short ranges of a large file. One read of the file covers ranges that are close to each other.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};

use object::read::ReadCacheOps;

/// Size in bytes of the window, which is the part of the file that is kept in memory. The window is large enough for
/// most headers, and for the bytes of a table that one look-up reads.
const WINDOW: u64 = 4096;

/// A file and a window with the bytes that were read last.
#[derive(Debug)]
pub(super) struct Reader {
    file: File,
    size: u64,
    position: u64,
    window: Vec<u8>,
    window_at: u64,
}

impl Reader {
    pub(super) fn new(file: File, size: u64) -> Self {
        Self { file, size, position: 0, window: Vec::new(), window_at: 0 }
    }

    /// Returns the bytes of the window from the current position to the window's end.
    fn buffered(&self) -> &[u8] {
        let within = self.position.checked_sub(self.window_at).and_then(|at| usize::try_from(at).ok());
        within.and_then(|at| self.window.get(at..)).unwrap_or_default()
    }

    /// Fills the window with the bytes at the current position. If the window stays empty, the position is at or after
    /// the end of the file.
    fn refill(&mut self) -> Result<(), ()> {
        self.window.clear();
        self.window_at = self.position;
        Seek::seek(&mut self.file, SeekFrom::Start(self.position)).map_err(drop)?;
        (&mut self.file).take(WINDOW).read_to_end(&mut self.window).map(drop).map_err(drop)
    }

    fn advance(&mut self, count: usize) {
        self.position = self.position.saturating_add(u64::try_from(count).unwrap_or(u64::MAX));
    }
}

impl ReadCacheOps for Reader {
    fn len(&mut self) -> Result<u64, ()> {
        Ok(self.size)
    }

    fn seek(&mut self, position: u64) -> Result<u64, ()> {
        self.position = position;
        Ok(position)
    }

    fn read(&mut self, buffer: &mut [u8]) -> Result<usize, ()> {
        if self.buffered().is_empty() {
            self.refill()?;
        }
        let available = self.buffered();
        let count = available.len().min(buffer.len());
        buffer[..count].copy_from_slice(&available[..count]);
        self.advance(count);
        Ok(count)
    }

    fn read_exact(&mut self, buffer: &mut [u8]) -> Result<(), ()> {
        let mut filled = 0;
        // A range that is longer than the window does not fit in it, so read the range directly into the buffer.
        if u64::try_from(buffer.len()).is_ok_and(|length| length > WINDOW) {
            Seek::seek(&mut self.file, SeekFrom::Start(self.position)).map_err(drop)?;
            Read::read_exact(&mut self.file, buffer).map_err(drop)?;
            self.advance(buffer.len());
            return Ok(());
        }
        // If only the start of the range is in the window, fill the window again from the current position.
        if self.buffered().len() < buffer.len() {
            self.refill()?;
        }
        while filled < buffer.len() {
            match self.read(&mut buffer[filled..])? {
                0 => return Err(()),
                count => filled += count,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_the_file_holds() {
        let path = std::env::temp_dir().join(format!("pjrt-discovery-reader-{}", std::process::id()));
        let content: Vec<u8> = (0..10_000u32).flat_map(u32::to_le_bytes).collect();
        std::fs::write(&path, &content).unwrap();
        let mut reader = Reader::new(File::open(&path).unwrap(), 40_000);
        for (at, count) in [(0, 4), (4, 4096), (100, 8), (4090, 12), (0, 40_000), (39_996, 4), (8, 5000), (20_000, 1)] {
            let mut buffer = vec![0; count];
            reader.seek(at as u64).unwrap();
            reader.read_exact(&mut buffer).unwrap();
            assert_eq!(buffer, content[at..at + count], "{count} at {at}");
        }
        reader.seek(39_998).unwrap();
        assert!(reader.read_exact(&mut [0; 4]).is_err());
        reader.seek(40_000).unwrap();
        assert_eq!(reader.read(&mut [0; 4]), Ok(0));
        std::fs::remove_file(&path).unwrap();
    }
}

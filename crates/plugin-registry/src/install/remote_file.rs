//! A file on a server, of which only the parts that are needed are received.

use std::io::{self, Read, Seek, SeekFrom};

use ureq::http::StatusCode;

use super::http::{Address, Http};

/// Number of bytes that are requested at once. The directory of most wheels is shorter.
const PART: u64 = 64 << 10;
/// Maximum number of bytes that are received.
const MOST: u64 = 64 << 20;

/// A file on a server, for reading at any position.
pub(super) struct RemoteFile<'a> {
    http: &'a Http,
    address: &'a Address,
    size: u64,
    position: u64,
    /// The part that was received last, and its position in the file.
    part: (u64, Vec<u8>),
    received: u64,
}

impl<'a> RemoteFile<'a> {
    /// Requests the end of the file. Returns `None` if the server does not send parts of files.
    pub(super) fn open(http: &'a Http, address: &'a Address, size: Option<u64>) -> Option<Self> {
        let size = match size {
            Some(size) => size,
            None => {
                let answer = http.range(address, 0, Some(1)).ok()?;
                let range = answer.headers().get("content-range")?.to_str().ok()?;
                range.rsplit_once('/')?.1.parse().ok()?
            }
        };
        let mut file = Self { http, address, size, position: 0, part: (0, Vec::new()), received: 0 };
        file.receive(size.saturating_sub(PART)).ok()?;
        Some(file)
    }

    fn receive(&mut self, start: u64) -> io::Result<()> {
        let end = start.saturating_add(PART).min(self.size);
        let answer = self.http.range(self.address, start, Some(end)).map_err(io::Error::other)?;
        if answer.status() != StatusCode::PARTIAL_CONTENT {
            return Err(io::Error::other("the server does not send parts of files"));
        }
        let mut bytes = Vec::new();
        answer.into_body().into_reader().take(end - start).read_to_end(&mut bytes)?;
        self.received += bytes.len() as u64;
        if bytes.len() as u64 != end - start || self.received > MOST {
            return Err(io::Error::other("the server sent another part of the file"));
        }
        self.part = (start, bytes);
        Ok(())
    }
}

impl Read for RemoteFile<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.position >= self.size {
            return Ok(0);
        }
        let within = |(start, bytes): &(u64, Vec<u8>)| {
            let at = usize::try_from(self.position.checked_sub(*start)?).ok()?;
            (at < bytes.len()).then_some(at)
        };
        let at = match within(&self.part) {
            Some(at) => at,
            None => {
                self.receive(self.position)?;
                0
            }
        };
        let available = &self.part.1[at..];
        let count = available.len().min(buffer.len());
        buffer[..count].copy_from_slice(&available[..count]);
        self.position += count as u64;
        Ok(count)
    }
}

impl Seek for RemoteFile<'_> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let (base, offset) = match to {
            SeekFrom::Start(position) => (position, 0),
            SeekFrom::End(offset) => (self.size, offset),
            SeekFrom::Current(offset) => (self.position, offset),
        };
        self.position = base.checked_add_signed(offset).ok_or(io::ErrorKind::InvalidInput)?;
        Ok(self.position)
    }
}

//! Downloads wheels into the cache, continues partial downloads, and verifies hashes.

use std::fs::{self, File};
use std::io::{self, Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::Duration;

use sha2::{Digest, Sha256};
use ureq::Body;
use ureq::http::{Response, StatusCode};

use super::cache::Cache;
use super::error::InstallError;
use super::http::{Http, network};
use super::index::IndexFile;
use super::lock::lock;
use super::watch::{Event, Watch};
use crate::discovery::hex;

/// Number of attempts in a row that do not get further than an earlier one, after which a download fails.
const ATTEMPTS: u32 = 4;
/// Pause after such an attempt.
const PAUSE: Duration = Duration::from_millis(500);
/// Maximum size in bytes of a wheel whose size the index does not state.
const LARGEST: u64 = 64 << 30;

/// Downloads files into a cache.
#[derive(Debug)]
pub(super) struct Downloader {
    http: Http,
    cache: Cache,
}

/// The end of a request for the rest of a file.
enum End {
    /// The file is complete, as far as its size is known.
    Complete,
    /// The connection broke. The error is `None` if the server closed it without an error.
    Broken(Option<InstallError>),
}

impl Downloader {
    pub(super) fn new(http: Http, cache: Cache) -> Self {
        Self { http, cache }
    }

    pub(super) fn http(&self) -> &Http {
        &self.http
    }

    /// Returns the path of a file in the cache. Downloads the file if the cache does not have it, or has another
    /// content under its name.
    pub(super) fn fetch(&self, file: &IndexFile, watch: Watch<'_>) -> Result<PathBuf, InstallError> {
        let sha256 = file.sha256.as_deref().ok_or_else(|| InstallError::NoHash { file: file.file.clone() })?;
        if let Some(path) = self.cached(sha256)? {
            return Ok(path);
        }
        let path = self.cache.partial(sha256);
        let partial = loop {
            let partial = self.cache.open_partial(sha256)?;
            // Another process may download the same file.
            lock(&partial, &path, watch)?;
            if let Some(complete) = self.cached(sha256)? {
                let _ = fs::remove_file(path);
                return Ok(complete);
            }
            // The other process may have deleted the file after a failure.
            if is_at(&partial, &path) {
                break partial;
            }
        };
        let download = Download { downloader: self, file, sha256, path: &path, partial, done: 0, hash: Sha256::new() };
        let result = download.run(watch);
        if let Err(InstallError::Io { error, .. }) = &result
            && matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
        {
            // The part would keep the disk full.
            let _ = fs::remove_file(&path);
        }
        result
    }

    /// Removes a file from the cache, also if it is not complete.
    pub(super) fn discard(&self, sha256: &str) {
        let _ = fs::remove_file(self.cache.complete(sha256));
        let _ = fs::remove_file(self.cache.partial(sha256));
    }

    /// Returns the path of a complete file. Deletes a file whose content does not match its name.
    fn cached(&self, sha256: &str) -> Result<Option<PathBuf>, InstallError> {
        let path = self.cache.complete(sha256);
        let mut file = match File::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(InstallError::Io { path, error }),
        };
        let mut hash = Sha256::new();
        io::copy(&mut file, &mut hash).map_err(InstallError::io(&path))?;
        if hex(hash) == sha256 {
            return Ok(Some(path));
        }
        fs::remove_file(&path).map_err(InstallError::io(&path))?;
        Ok(None)
    }
}

/// A running download.
struct Download<'a> {
    downloader: &'a Downloader,
    file: &'a IndexFile,
    sha256: &'a str,
    /// The partial file.
    path: &'a Path,
    partial: File,
    /// Bytes that the partial file contains.
    done: u64,
    /// Hash of these bytes.
    hash: Sha256,
}

impl Download<'_> {
    fn run(mut self, watch: Watch<'_>) -> Result<PathBuf, InstallError> {
        self.partial.rewind().map_err(InstallError::io(self.path))?;
        self.done = io::copy(&mut self.partial, &mut self.hash).map_err(InstallError::io(self.path))?;
        watch(Event::Download { file: &self.file.file, done: self.done });
        let (mut continued, mut repeated) = (self.done > 0, false);
        // A server without parts sends the beginning again and again, which is no progress.
        let (mut furthest, mut failures) = (self.done, 0);
        loop {
            match self.request(watch)? {
                End::Complete => {
                    let actual = hex(std::mem::take(&mut self.hash));
                    if actual == self.sha256 {
                        break;
                    }
                    self.restart(watch)?;
                    if repeated || !continued {
                        // Nothing of a file with a wrong hash is of use.
                        let _ = fs::remove_file(self.path);
                        let url = self.file.address.url.to_string();
                        return Err(InstallError::WrongHash { url, expected: self.sha256.to_owned(), actual });
                    }
                    // The beginning of the file may be of another download.
                    (repeated, furthest) = (true, 0);
                }
                End::Broken(error) => {
                    continued |= self.done > 0;
                    if self.done > furthest {
                        (furthest, failures) = (self.done, 0);
                        continue;
                    }
                    failures += 1;
                    if failures >= ATTEMPTS {
                        return Err(error.unwrap_or_else(|| self.incomplete()));
                    }
                    sleep(PAUSE);
                }
            }
        }
        self.partial.sync_all().map_err(InstallError::io(self.path))?;
        let complete = self.downloader.cache.complete(self.sha256);
        fs::rename(self.path, &complete).map_err(InstallError::io(&complete))?;
        Ok(complete)
    }

    fn incomplete(&self) -> InstallError {
        let url = self.file.address.url.to_string();
        InstallError::Incomplete { url, have: self.done, total: self.file.size.unwrap_or(0) }
    }

    /// Requests the rest of the file and appends it to the partial file.
    fn request(&mut self, watch: Watch<'_>) -> Result<End, InstallError> {
        if self.file.size.is_some_and(|size| self.done == size && size > 0) {
            return Ok(End::Complete);
        }
        let answer = self.downloader.http.range(&self.file.address, self.done, None)?;
        if self.done > 0 && !continues(&answer, self.done) {
            // The server sends the whole file, or the partial file is longer than the file.
            let whole = answer.status() == StatusCode::OK;
            self.restart(watch)?;
            if !whole {
                return Ok(End::Broken(None));
            }
        }
        let total = self.file.size.or_else(|| self.done.checked_add(answer.body().content_length()?));
        let limit = total.unwrap_or(LARGEST);
        let mut body = answer.into_body().into_reader();
        let mut buffer = vec![0; 1 << 18];
        let error = loop {
            match body.read(&mut buffer) {
                Ok(0) => break None,
                Ok(count) => {
                    self.partial.write_all(&buffer[..count]).map_err(InstallError::io(self.path))?;
                    self.hash.update(&buffer[..count]);
                    self.done += count as u64;
                    watch(Event::Received(count as u64));
                    if self.done > limit {
                        // The hash will not match.
                        return Ok(End::Complete);
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => break Some(network(&self.file.address, &error)),
            }
        };
        let is_complete = total.map_or(error.is_none(), |total| self.done >= total);
        Ok(if is_complete { End::Complete } else { End::Broken(error) })
    }

    /// Discards the received bytes.
    fn restart(&mut self, watch: Watch<'_>) -> Result<(), InstallError> {
        self.partial.set_len(0).map_err(InstallError::io(self.path))?;
        self.partial.rewind().map_err(InstallError::io(self.path))?;
        watch(Event::Discarded(self.done));
        self.done = 0;
        self.hash = Sha256::new();
        Ok(())
    }
}

/// Returns whether an open file is the file at a path.
#[cfg(unix)]
fn is_at(file: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let id = |metadata: &fs::Metadata| (metadata.dev(), metadata.ino());
    matches!((&file.metadata(), &fs::metadata(path)), (Ok(file), Ok(path)) if id(file) == id(path))
}

/// Returns `true`, because other systems do not delete an open file.
#[cfg(not(unix))]
fn is_at(_: &File, _: &Path) -> bool {
    true
}

/// Returns whether an answer is the part of a file that starts at `start`.
fn continues(answer: &Response<Body>, start: u64) -> bool {
    let range = answer.headers().get("content-range").and_then(|range| range.to_str().ok());
    answer.status() == StatusCode::PARTIAL_CONTENT
        && range.is_some_and(|range| {
            range.strip_prefix("bytes ").is_some_and(|rest| rest.starts_with(&format!("{start}-")))
        })
}

//! Reports of a running installation.

use std::path::Path;

/// A step of a running installation, for a progress display.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Event<'a> {
    /// The installer reads the index or the metadata of a package.
    Lookup {
        /// Name of the package.
        package: &'a str,
    },
    /// The installer waits for another installation.
    Waiting {
        /// The lock file.
        lock: &'a Path,
    },
    /// The installer begins or continues the download of a file.
    Download {
        /// Name of the file.
        file: &'a str,
        /// Bytes that the cache already contains.
        done: u64,
    },
    /// The installer received bytes of the current download.
    Received(u64),
    /// A download is repeated from the beginning. Bytes that were reported as received are discarded.
    Discarded(u64),
    /// The installer unpacks a file.
    Unpack {
        /// Name of the file.
        file: &'a str,
    },
}

/// The function that receives the reports.
pub(super) type Watch<'a> = &'a mut dyn FnMut(Event<'_>);

//! The folder of downloaded wheels. A wheel's hash is the name of its file.

use std::fs::{File, OpenOptions};
use std::io::Read;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use super::error::InstallError;

/// The folder of downloads.
#[derive(Clone, Debug)]
pub(super) struct Cache {
    folder: PathBuf,
}

impl Cache {
    /// Creates the folder if it does not exist.
    pub(super) fn open(folder: &Path) -> Result<Self, InstallError> {
        private_files::create_folder(folder).map_err(InstallError::io(folder))?;
        Ok(Self { folder: folder.to_owned() })
    }

    /// Returns the path of a complete wheel.
    pub(super) fn complete(&self, sha256: &str) -> PathBuf {
        self.folder.join(format!("{sha256}.whl"))
    }

    /// Returns the path of a wheel that is being downloaded.
    pub(super) fn partial(&self, sha256: &str) -> PathBuf {
        self.folder.join(format!("{sha256}.part"))
    }

    /// Opens the file of a wheel that is being downloaded, and creates it if it does not exist.
    pub(super) fn open_partial(&self, sha256: &str) -> Result<File, InstallError> {
        let path = self.partial(sha256);
        let options = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path);
        options.map_err(InstallError::io(path))
    }
}

/// Computes the hash of a file, from its current position to its end, and returns the number of bytes, too.
pub(super) fn hash_rest(file: &mut File, hash: &mut Sha256) -> std::io::Result<u64> {
    let mut buffer = vec![0; 1 << 18];
    let mut total = 0;
    loop {
        let count = file.read(&mut buffer)?;
        if count == 0 {
            return Ok(total);
        }
        hash.update(&buffer[..count]);
        total += count as u64;
    }
}

/// Returns a hash in lowercase hexadecimal.
pub(super) fn hex(hash: Sha256) -> String {
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

//! The folder of downloaded wheels. A wheel's hash is the name of its file.

use std::fs::{File, OpenOptions};
use std::path::PathBuf;

use super::error::InstallError;

/// The folder of downloads.
#[derive(Clone, Debug)]
pub(super) struct Cache {
    pub(super) folder: PathBuf,
}

impl Cache {
    /// Returns the path of a complete wheel.
    pub(super) fn complete(&self, sha256: &str) -> PathBuf {
        self.folder.join(format!("{sha256}.whl"))
    }

    /// Returns the path of a wheel that is being downloaded.
    pub(super) fn partial(&self, sha256: &str) -> PathBuf {
        self.folder.join(format!("{sha256}.part"))
    }

    /// Opens the file of a wheel that is being downloaded, and creates it and the folder if they do not exist.
    pub(super) fn open_partial(&self, sha256: &str) -> Result<File, InstallError> {
        private_files::create_folder(&self.folder).map_err(InstallError::io(&self.folder))?;
        let path = self.partial(sha256);
        let options = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path);
        options.map_err(InstallError::io(path))
    }
}

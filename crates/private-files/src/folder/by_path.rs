//! A folder on systems whose access rights this crate does not read. Functions use the folder's path.

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use super::entry::Entry;
use crate::path_error::PathError;

#[derive(Debug)]
pub(super) struct Handle(PathBuf);

impl Handle {
    pub(super) fn shared(path: &Path) -> io::Result<Self> {
        Ok(Self(path.to_owned()))
    }

    pub(super) fn private(path: &Path) -> Result<(PathBuf, Self), PathError> {
        let opened = fs::create_dir_all(path).and_then(|()| fs::canonicalize(path));
        let path = opened.map_err(|error| PathError::Io { path: path.to_owned(), error })?;
        Ok((path.clone(), Self(path)))
    }

    pub(super) fn read(&self, name: &OsStr) -> io::Result<File> {
        File::open(self.file(name)?)
    }

    pub(super) fn write(&self, name: &OsStr) -> io::Result<File> {
        OpenOptions::new().read(true).write(true).open(self.file(name)?)
    }

    pub(super) fn create_new(&self, name: &OsStr) -> io::Result<File> {
        OpenOptions::new().read(true).write(true).create_new(true).open(self.file(name)?)
    }

    pub(super) fn rename(&self, from: &OsStr, to: &OsStr) -> io::Result<()> {
        fs::rename(self.file(from)?, self.file(to)?)
    }

    pub(super) fn remove(&self, name: &OsStr) -> io::Result<()> {
        fs::remove_file(self.file(name)?)
    }

    pub(super) fn entries(&self) -> io::Result<Vec<Entry>> {
        let mut entries = Vec::new();
        for entry in fs::read_dir(&self.0)? {
            let entry = entry?;
            // Another process may have removed the file.
            let Ok(metadata) = entry.metadata() else { continue };
            if metadata.is_file() {
                entries.push(Entry { name: entry.file_name(), bytes: metadata.len(), modified: metadata.modified()? });
            }
        }
        Ok(entries)
    }

    /// Returns the path of a file. Rejects names that lead out of the folder.
    fn file(&self, name: &OsStr) -> io::Result<PathBuf> {
        let path = self.0.join(name);
        match path.file_name() == Some(name) && path.parent() == Some(&self.0) {
            true => Ok(path),
            false => Err(io::Error::new(io::ErrorKind::InvalidInput, format!("{name:?} is not the name of a file"))),
        }
    }
}

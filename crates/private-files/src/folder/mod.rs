//! An open folder, with functions for its files.

mod entry;
#[cfg(not(unix))]
#[path = "by_path.rs"]
mod handle;
#[cfg(unix)]
#[path = "by_descriptor.rs"]
mod handle;
#[cfg(unix)]
mod users;

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

pub use self::entry::Entry;
use self::handle::Handle;
use crate::path_error::PathError;

/// File extension of the files that [`Folder::replace`] has not finished.
pub const UNFINISHED: &str = "unfinished";

/// An open folder: a private one, which only this user controls, or a shared one.
///
/// On Unix, the folder stays the same if another folder gets its path: all functions work relative to the open folder.
/// They do not follow links, and reject files that have several names. In a private folder, they also reject files that
/// belong to another user or that other users may write to. On other systems, the functions use the folder's path, and
/// do not check the owner.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    handle: Handle,
}

impl Folder {
    /// Opens a folder that only this user controls. Creates the folder and missing folders above it for this user only.
    ///
    /// # Errors
    ///
    /// On Unix, returns an error if the folder does not belong to this user, or if other users may write to it. Also
    /// returns an error if a folder or link on the way belongs to a user other than this user and root, or if other
    /// users may write to a folder on the way without the sticky bit. On Linux, the user's own group is not another
    /// user: a group with the user's name and no other member, if the folder has no access control list. On all
    /// systems, returns an error if the folder cannot be created or opened.
    pub fn private(path: &Path) -> Result<Self, PathError> {
        let (path, handle) = Handle::private(path)?;
        Ok(Self { path, handle })
    }

    /// Opens a folder that several users may share, and does not check who controls it. Creates the folder and missing
    /// folders above it for this user only.
    ///
    /// Other users may read the files that this user creates, and may prepare, replace and remove files.
    ///
    /// # Errors
    ///
    /// Returns an error if the folder cannot be created or opened.
    pub fn shared(path: &Path) -> Result<Self, PathError> {
        let fail = |error| PathError::Io { path: path.to_owned(), error };
        crate::create_folder(path).map_err(fail)?;
        Ok(Self { path: path.to_owned(), handle: Handle::shared(path).map_err(fail)? })
    }

    /// Returns the path that the folder had when it was opened. The path of a private folder contains no links.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Opens a file for reading.
    ///
    /// # Errors
    ///
    /// Returns an error with [`NotFound`](io::ErrorKind::NotFound) if the file does not exist, or with
    /// [`PermissionDenied`](io::ErrorKind::PermissionDenied) if it is not a regular file with one name. In a private
    /// folder, it must also belong to this user, and only this user may have the right to write to it.
    pub fn read(&self, name: impl AsRef<OsStr>) -> io::Result<File> {
        self.handle.read(name.as_ref())
    }

    /// Opens a file for reading that only this user may read.
    ///
    /// # Errors
    ///
    /// The errors of [`Self::read`] apply. On Unix, also returns an error with
    /// [`PermissionDenied`](io::ErrorKind::PermissionDenied) if other users may read the file.
    pub fn read_secret(&self, name: impl AsRef<OsStr>) -> io::Result<File> {
        let file = self.read(name)?;
        #[cfg(unix)]
        {
            let mode = std::os::unix::fs::MetadataExt::mode(&file.metadata()?) & 0o777;
            if mode & 0o077 != 0 {
                let message = format!("other users can read it (mode {mode:o}); make a new one, or use `chmod 600`");
                return Err(io::Error::new(io::ErrorKind::PermissionDenied, message));
            }
        }
        Ok(file)
    }

    /// Creates a file. In a private folder, only this user may read and write it. In a shared folder, others may read
    /// it.
    ///
    /// # Errors
    ///
    /// Returns an error with [`AlreadyExists`](io::ErrorKind::AlreadyExists) if the name exists.
    pub fn create_new(&self, name: impl AsRef<OsStr>) -> io::Result<File> {
        self.handle.create_new(name.as_ref())
    }

    /// Opens a file for reading and writing, and creates it if it does not exist.
    ///
    /// # Errors
    ///
    /// The errors of [`Self::read`] and [`Self::create_new`] apply.
    pub fn open_or_create(&self, name: impl AsRef<OsStr>) -> io::Result<File> {
        match self.create_new(name.as_ref()) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => self.handle.write(name.as_ref()),
            created => created,
        }
    }

    /// Writes a file, and then gives it its name. Replaces a file of the same name. Other processes see the old file or
    /// the complete new one.
    ///
    /// Until then, the file has a random name with the extension [`UNFINISHED`]. It remains if the process ends early.
    ///
    /// # Errors
    ///
    /// Returns the error of `write`, or an error if the file cannot be created or renamed.
    pub fn replace(&self, name: impl AsRef<OsStr>, write: impl FnOnce(&mut File) -> io::Result<()>) -> io::Result<()> {
        let unfinished = OsString::from(format!("{}.{UNFINISHED}", random_name()?));
        let mut file = self.create_new(&unfinished)?;
        let result = write(&mut file);
        drop(file);
        let result = result.and_then(|()| self.handle.rename(&unfinished, name.as_ref()));
        if result.is_err() {
            let _ = self.handle.remove(&unfinished);
        }
        result
    }

    /// Removes a file, or a link without its target.
    ///
    /// # Errors
    ///
    /// Returns an error if the name does not exist or is the name of a folder.
    pub fn remove(&self, name: impl AsRef<OsStr>) -> io::Result<()> {
        self.handle.remove(name.as_ref())
    }

    /// Sets the modification time of a file to now.
    ///
    /// # Errors
    ///
    /// The errors of [`Self::read`] apply.
    pub fn touch(&self, name: impl AsRef<OsStr>) -> io::Result<()> {
        self.handle.write(name.as_ref())?.set_modified(SystemTime::now())
    }

    /// Returns the regular files in the folder.
    ///
    /// # Errors
    ///
    /// Returns an error if the system cannot list the folder.
    pub fn entries(&self) -> io::Result<Vec<Entry>> {
        self.handle.entries()
    }
}

/// Returns 128 random bits in hexadecimal.
fn random_name() -> io::Result<String> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(io::Error::other)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

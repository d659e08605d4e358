//! An open folder on Unix.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, Stat, fstat, open, openat, renameat, statat, unlinkat};
use rustix::process::geteuid;

use super::entry::Entry;
use super::users::Users;
use crate::path_error::PathError;
use crate::walk::{Missing, Owners, walk};
use crate::writers::{mode, others_can_write};

#[derive(Debug)]
pub(super) struct Handle {
    folder: OwnedFd,
    users: Users,
}

impl Handle {
    pub(super) fn shared(path: &Path) -> io::Result<Self> {
        let folder = open(path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        Ok(Self { folder, users: Users::Several })
    }

    pub(super) fn private(path: &Path) -> Result<(PathBuf, Self), PathError> {
        let place = walk(path, Owners::RootAndThisUser, Missing::Create)?;
        let path = place.path;
        let fail = |error: io::Error| PathError::Io { path: path.clone(), error };
        if place.is_file {
            return Err(fail(io::ErrorKind::NotADirectory.into()));
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = openat(&place.folder, ".", flags, Mode::empty()).map_err(|error| fail(error.into()))?;
        let found = fstat(&folder).map_err(|error| fail(error.into()))?;
        let user = geteuid().as_raw();
        if found.st_uid != user {
            return Err(PathError::Owner { path, owner: found.st_uid, allowed: format!("user {user}") });
        }
        // The sticky bit keeps other users from replacing files, but not from preparing them.
        if others_can_write(&folder, &found) {
            return Err(PathError::NotPrivate { path, mode: mode(&found) });
        }
        Ok((path, Self { folder, users: Users::One }))
    }

    pub(super) fn read(&self, name: &OsStr) -> io::Result<File> {
        self.existing(name, OFlags::RDONLY)
    }

    pub(super) fn write(&self, name: &OsStr) -> io::Result<File> {
        self.existing(name, OFlags::RDWR)
    }

    fn existing(&self, name: &OsStr, access: OFlags) -> io::Result<File> {
        // Opening a pipe blocks without `NONBLOCK`.
        let flags = access | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let file = openat(&self.folder, one_name(name)?, flags, Mode::empty()).map_err(|error| match error {
            rustix::io::Errno::LOOP | rustix::io::Errno::MLINK => refused("it is a link"),
            // A folder opened for writing, and a socket.
            rustix::io::Errno::ISDIR | rustix::io::Errno::NXIO => refused("it is not a regular file"),
            error => error.into(),
        })?;
        let found = fstat(&file)?;
        check(&found, self.users).map_err(|reason| refused(&reason))?;
        Ok(File::from(file))
    }

    pub(super) fn create_new(&self, name: &OsStr) -> io::Result<File> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mode = match self.users {
            Users::One => Mode::from_raw_mode(0o600),
            Users::Several => Mode::from_raw_mode(0o644),
        };
        Ok(File::from(openat(&self.folder, one_name(name)?, flags, mode)?))
    }

    pub(super) fn rename(&self, from: &OsStr, to: &OsStr) -> io::Result<()> {
        Ok(renameat(&self.folder, one_name(from)?, &self.folder, one_name(to)?)?)
    }

    pub(super) fn remove(&self, name: &OsStr) -> io::Result<()> {
        Ok(unlinkat(&self.folder, one_name(name)?, AtFlags::empty())?)
    }

    pub(super) fn entries(&self) -> io::Result<Vec<Entry>> {
        let mut entries = Vec::new();
        for name in Dir::read_from(&self.folder)? {
            let name = name?;
            let name = name.file_name();
            // Another process may have removed the file.
            let Ok(found) = statat(&self.folder, name, AtFlags::SYMLINK_NOFOLLOW) else { continue };
            if FileType::from_raw_mode(found.st_mode) != FileType::RegularFile {
                continue;
            }
            entries.push(Entry {
                name: OsStr::from_bytes(name.to_bytes()).to_owned(),
                bytes: u64::try_from(found.st_size).unwrap_or(0),
                modified: modified(&found),
            });
        }
        Ok(entries)
    }
}

/// Returns the modification time of a file. Times before 1970 count as 1970.
fn modified(found: &Stat) -> SystemTime {
    // The types of the fields differ between systems.
    let seconds = u64::try_from(found.st_mtime).unwrap_or(0);
    let nanoseconds = u32::try_from(found.st_mtime_nsec).unwrap_or(0);
    SystemTime::UNIX_EPOCH + Duration::new(seconds, nanoseconds.min(999_999_999))
}

/// Returns why an open file may be one that another user prepared.
fn check(found: &Stat, users: Users) -> Result<(), String> {
    if FileType::from_raw_mode(found.st_mode) != FileType::RegularFile {
        return Err("it is not a regular file".to_owned());
    }
    if found.st_nlink > 1 {
        return Err("it has another name, through which it may be changed".to_owned());
    }
    if users == Users::Several {
        return Ok(());
    }
    let user = geteuid().as_raw();
    if found.st_uid != user {
        return Err(format!("it belongs to user {}, and this process is user {user}", found.st_uid));
    }
    if mode(found) & 0o022 != 0 {
        return Err(format!("other users can write to it (mode {:o})", mode(found)));
    }
    Ok(())
}

fn refused(reason: &str) -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, format!("{reason}; delete the file"))
}

/// Rejects names that lead out of the folder.
fn one_name(name: &OsStr) -> io::Result<&OsStr> {
    if name.is_empty() || name == "." || name == ".." || name.as_bytes().contains(&b'/') {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, format!("{name:?} is not the name of a file")));
    }
    Ok(name)
}
